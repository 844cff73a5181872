//! A chain of dependent additions, one a cycle, whose time tells the clock.
//!
//! A clock that wide vectors lower rises again some tens of microseconds behind the last of them (18 to 50 seen on an Intel server
//! of 2024, 670 on one of 2017), and falls as fast when they begin. What tells the clock of a kernel is therefore a short chain
//! right behind it, and no kernel of wide vectors is timed from its first instruction on (`timing.rs`).

use std::time::Instant;

use crate::machine::kernels::{Arguments, Kernel};

/// Additions of a short chain: some two microseconds; where reading the time takes long, up to [`LONGEST`].
const SHORT: u64 = 8_192;
const LONGEST: u64 = 16 * SHORT;

/// Share of a short chain that reading the time may take.
const OVERHEAD: f64 = 0.05;

/// Short chains in one look. An interruption only lengthens one: the shorter is right.
const LOOKS: usize = 2;

/// Attempts to find what reading the time costs.
const ATTEMPTS: usize = 41;

/// The chain.
#[derive(Debug)]
pub struct ClockChain {
    kernel: Kernel,
    /// Cycles of one iteration of the kernel.
    cycles: u64,
    /// Seconds that any chain takes beyond its additions.
    overhead_s: f64,
    /// Additions of a short chain.
    short: u64,
}

impl ClockChain {
    /// The chain of `kernel`, an iteration of which takes `cycles`. Runs a few of them.
    pub fn new(kernel: Kernel, cycles: u64) -> Self {
        let mut chain = ClockChain { kernel, cycles: cycles.max(1), overhead_s: 0.0, short: SHORT };
        let mut scratch = Arguments::new();
        loop {
            let (overhead, short) = chain.calibrate(&mut scratch);
            if overhead <= OVERHEAD * short || chain.short >= LONGEST {
                return ClockChain { overhead_s: overhead, ..chain };
            }
            chain.short *= 2;
        }
    }

    /// Seconds that reading the time costs, and those of a short chain, from short chains around one of twice their length: at the
    /// same clock but for a few attempts.
    fn calibrate(&self, scratch: &mut Arguments) -> (f64, f64) {
        let mut attempts: Vec<(f64, f64)> = (0..ATTEMPTS)
            .map(|_| {
                let [before, twice, after] = [1, 2, 1].map(|times| self.seconds(times * self.short, scratch));
                ((before + after - twice).max(0.0), before)
            })
            .collect();
        attempts.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        attempts[ATTEMPTS / 2]
    }

    /// Seconds of about so many `additions`.
    pub fn seconds(&self, additions: u64, scratch: &mut Arguments) -> f64 {
        let start = Instant::now();
        // SAFETY: the clock kernel touches no memory.
        unsafe { self.kernel.call(additions.div_ceil(self.cycles), scratch) };
        (start.elapsed().as_secs_f64() - self.overhead_s).max(1e-9)
    }

    /// The clock now, in hertz.
    pub fn hz(&self, scratch: &mut Arguments) -> f64 {
        let shortest = (0..LOOKS).map(|_| self.seconds(self.short, scratch)).fold(f64::INFINITY, f64::min);
        (self.short.div_ceil(self.cycles) * self.cycles) as f64 / shortest
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::machine::features::Features;
    use crate::machine::kernels::x86_64::integer;

    #[test]
    fn a_short_chain_tells_the_clock_that_a_long_one_tells() {
        let kernel = integer::clock(Features::detect()).expect("encodes");
        let chain = ClockChain::new(kernel, integer::CLOCK_ADDS);
        let mut scratch = Arguments::new();
        // A busy host interrupts long chains more often than short ones, and may change its clock in between.
        let ratio = |scratch: &mut Arguments| {
            let before = chain.hz(scratch);
            let long = (64 * SHORT) as f64 / chain.seconds(64 * SHORT, scratch);
            let after = chain.hz(scratch);
            long / before.max(after)
        };
        let mut ratios: Vec<f64> = (0..401).map(|_| ratio(&mut scratch)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        // Interruptions lengthen long chains alone: those that met none are the upper ones.
        assert!((0.98..1.02).contains(&ratios[300]), "{} to {}, {chain:?}", ratios[0], ratios[400]);
        assert!((1e8..1e10).contains(&chain.hz(&mut scratch)), "{chain:?}");
    }
}
