//! A chain of dependent multiplications, each of the same number of cycles. Its time gives the clock.
//!
//! Dependent additions, one a cycle, calibrate the cycles of a multiplication. Additions alone do not measure the clock, because another
//! thread of the core delays some of them: on a Zen 4 with busy sibling threads, by a hundredth to a twentieth of the time, three times as
//! much as a chain with steps of three cycles.
//!
//! A clock that wide vectors lower rises again some tens of microseconds after the last of them (18 to 50 observed on an Intel server of
//! 2024, 670 on one of 2017), and falls as fast when they begin. A short chain right after the kernel therefore measures its clock, and
//! every kernel of wide vectors warms up before it is timed (`timing.rs`).

use std::time::Instant;

use super::rate::OTHER_CLOCK;
use crate::kernels::{Arguments, Kernel};

/// Cycles of a short chain: some two microseconds. Up to [`LONGEST`] if the timer is coarse or slow to read.
const SHORT: u64 = 8_192;
const LONGEST: u64 = 16 * SHORT;

/// Share of a short chain that reading the timer may take.
const OVERHEAD: f64 = 0.05;

/// Share of a short chain that one timer step may be. The timers of some CPUs advance in steps of ten nanoseconds (Zen 4).
const STEP: f64 = 0.00125;

/// Shares of a piece of work that a timer step and reading the timer may be.
const PIECE_STEP: f64 = 0.002;
const PIECE_OVERHEAD: f64 = 0.01;

/// Short chains in one clock measurement. An interruption can only lengthen a chain, so the shorter one is right.
const LOOKS: usize = 2;

/// Attempts to find the cost of reading the timer.
const ATTEMPTS: usize = 60;

/// Pairs of chains that give the cycles of a multiplication, and the cycles of each.
const PAIRS: usize = 25;
const PAIR: u64 = 4 * SHORT;

/// Largest accepted distance of the measured cycles from a whole number.
const WHOLE: f64 = 0.25;

/// The chain that measures the clock.
#[derive(Debug)]
pub struct ClockChain {
    kernel: Kernel,
    /// Cycles of one iteration of the kernel.
    cycles: u64,
    /// Seconds that any chain takes beyond its steps.
    overhead_s: f64,
    /// Cycles of a short chain.
    short: u64,
    /// Seconds of the shortest piece of work that can be timed by itself.
    least_piece_s: f64,
}

impl ClockChain {
    /// The chain of `multiplications`, calibrated by `additions`; the chain of `additions` if a multiplication takes no whole number of
    /// cycles. Runs a few chains of both.
    pub fn new(additions: Kernel, multiplications: Kernel) -> Self {
        let of = |kernel: Kernel, latency: u64| {
            let cycles = (kernel.work.payload * latency).max(1);
            ClockChain { kernel, cycles, overhead_s: 0.0, short: SHORT, least_piece_s: f64::INFINITY }
        };
        let mut scratch = Arguments::new();
        let (additions, steps) = (of(additions, 1), of(multiplications, 1));
        // Take the fastest of each: another thread of the core delays some additions of most chains (on a Zen 1 with a busy neighbour the
        // median of the ratios was 1.9 to 2.8, the ratio of the fastest 2.8 to 3.0).
        let (mut fastest, mut step) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..PAIRS {
            step = step.min(steps.seconds(PAIR, &mut scratch));
            fastest = fastest.min(additions.seconds(PAIR, &mut scratch));
        }
        let latency = step / fastest;
        let is_whole = latency > 1.0 && (latency - latency.round()).abs() < WHOLE;
        if is_whole { of(steps.kernel, latency.round() as u64) } else { additions }.calibrated(&mut scratch)
    }

    /// The chain with the cost of reading the timer. It is long enough for that cost and for the timer steps.
    fn calibrated(mut self, scratch: &mut Arguments) -> Self {
        let step = step();
        loop {
            let (overhead, short) = self.calibrate(scratch);
            if (overhead <= OVERHEAD * short && step <= STEP * short) || self.short >= LONGEST {
                let least_piece_s = (step / PIECE_STEP).max(overhead / PIECE_OVERHEAD);
                return ClockChain { overhead_s: overhead, least_piece_s, ..self };
            }
            self.short *= 2;
        }
    }

    /// Seconds of reading the timer and of a short chain. Short chains alternate with chains of twice their length; of both, the faster
    /// third at the usual clock counts, which nothing interrupted. Several chains give a finer result than the timer steps.
    fn calibrate(&self, scratch: &mut Arguments) -> (f64, f64) {
        let short = self.iterations(self.short);
        let by_turns: Vec<[f64; 2]> =
            (0..ATTEMPTS).map(|_| [1, 2].map(|times| self.elapsed(times * short, scratch))).collect();
        let [once, twice] = at_one_clock(&by_turns).map(|mut all| {
            all.sort_unstable_by(f64::total_cmp);
            let faster = &all[..all.len().div_ceil(3)];
            faster.iter().sum::<f64>() / faster.len().max(1) as f64
        });
        ((2.0 * once - twice).max(0.0), once)
    }

    /// Iterations of at least `cycles` cycles.
    fn iterations(&self, cycles: u64) -> u64 {
        cycles.div_ceil(self.cycles)
    }

    /// Seconds of `iterations`, including the cost of reading the timer.
    fn elapsed(&self, iterations: u64, scratch: &mut Arguments) -> f64 {
        let start = Instant::now();
        // SAFETY: the clock kernel touches no memory.
        unsafe { self.kernel.call(iterations, scratch) };
        start.elapsed().as_secs_f64()
    }

    /// Seconds that `cycles` take, from a chain that takes about as many.
    pub fn seconds(&self, cycles: u64, scratch: &mut Arguments) -> f64 {
        let iterations = self.iterations(cycles);
        let net = (self.elapsed(iterations, scratch) - self.overhead_s).max(1e-9);
        net * cycles as f64 / (iterations * self.cycles) as f64
    }

    /// Number of pieces of `seconds` of work that can be timed one by one.
    pub fn pieces(&self, seconds: f64) -> u64 {
        ((seconds / self.least_piece_s) as u64).max(1)
    }

    /// Seconds that reading the timer and calling a kernel cost.
    pub fn overhead_s(&self) -> f64 {
        self.overhead_s
    }

    /// The clock now, in hertz.
    pub fn hz(&self, scratch: &mut Arguments) -> f64 {
        let shortest = (0..LOOKS).map(|_| self.seconds(self.short, scratch)).fold(f64::INFINITY, f64::min);
        self.short as f64 / shortest
    }
}

/// Times of short and of double-length chains, measured at the usual clock of the short ones; all of them if too few qualify.
fn at_one_clock(by_turns: &[[f64; 2]]) -> [Vec<f64>; 2] {
    let mut all: Vec<f64> = by_turns.iter().map(|pair| pair[0]).collect();
    all.sort_unstable_by(f64::total_cmp);
    let usual = all.get(all.len() / 2).copied().unwrap_or(0.0);
    let is_alike = |seconds: f64, usual: f64| (seconds / usual - 1.0).abs() <= OTHER_CLOCK;
    let at_it = |pair: &&[f64; 2]| is_alike(pair[0], usual) && is_alike(pair[1], 2.0 * usual);
    let alike: Vec<[f64; 2]> = by_turns.iter().filter(at_it).copied().collect();
    let counted = if alike.len() >= by_turns.len() / 4 { &alike } else { by_turns };
    [0, 1].map(|n| counted.iter().map(|pair| pair[n]).collect())
}

/// The step of the timer, in seconds, from readings at growing distances of a few cycles.
fn step() -> f64 {
    let mut apart: Vec<u64> = (0..READINGS)
        .map(|n| {
            let start = Instant::now();
            (0..n % LONGEST_WAIT).for_each(|round| _ = std::hint::black_box(round));
            start.elapsed().as_nanos() as u64
        })
        .collect();
    apart.sort_unstable();
    step_of(&apart[..READINGS / 2])
}

/// The step, from sorted distances in nanoseconds. They lie at multiples of the step or, after the conversion to nanoseconds, next to them.
/// If the multiples are not apart, the step is a nanosecond or two.
fn step_of(apart: &[u64]) -> f64 {
    let Some(&first) = apart.first() else { return 0.0 };
    let starts: Vec<u64> = apart.windows(2).filter(|w| w[1] - w[0] > 2).map(|w| w[1]).collect();
    match starts[..] {
        [.., last] if starts.len() > 2 => (last - first) as f64 / starts.len() as f64 * 1e-9,
        _ => 1e-9,
    }
}

/// Readings that give the step, and rounds of waiting between two readings.
const READINGS: usize = 4_096;
const LONGEST_WAIT: usize = 256;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::host::features::Features;
    use crate::kernels::x86_64::integer;

    #[test]
    fn the_step_of_the_time_is_told_by_what_lies_between_readings() {
        let of_ten: Vec<u64> = (2..9).flat_map(|n| [10 * n; 5].into_iter().chain([10 * n + 1; 3])).collect();
        assert!((step_of(&of_ten) - 10e-9).abs() < 1e-15, "{}", step_of(&of_ten));
        assert_eq!(step_of(&(18..90).collect::<Vec<_>>()), 1e-9);
        assert_eq!(step_of(&[18, 19, 20, 20, 90]), 1e-9, "an interruption is no step");
        assert_eq!(step_of(&[]), 0.0);
        assert!((1e-10..1e-5).contains(&step()), "{}", step());
    }

    #[test]
    fn chains_are_compared_at_one_clock() {
        // A third at a higher clock, one interrupted, one while the clock changed.
        let mut pairs = vec![[3.2, 6.35]; 12];
        pairs.extend([[2.7, 5.35]; 8]);
        pairs.extend([[4.1, 6.35], [2.7, 6.0]]);
        let [once, twice] = at_one_clock(&pairs);
        assert!(once.len() == 12 && once.iter().all(|t| *t == 3.2) && twice.iter().all(|t| *t == 6.35));
        // If reading the timer takes long, nothing is known of the double-length chains.
        assert_eq!(at_one_clock(&[[5.0, 8.0]; 4])[1].len(), 4);
        assert!(at_one_clock(&[]).iter().all(Vec::is_empty));
    }

    /// A neighbour may take the core during a calibration, or a tenth of it for seconds, a microsecond at a time. As with the repetitions
    /// of a ceiling, one of many attempts is right.
    #[test]
    fn a_short_chain_tells_the_clock_that_a_long_one_tells() {
        let mut found = Vec::new();
        while found.len() < 10 && !found.iter().any(|ratio| SAME.contains(ratio)) {
            found.push(long_over_short());
        }
        assert!(found.iter().any(|ratio| SAME.contains(ratio)), "{found:?}");
    }

    const SAME: std::ops::Range<f64> = 0.98..1.02;

    /// Factor by which a long chain is longer than a short one. On a host that loses its cores for a microsecond tens of thousands of times
    /// a second, an interruption hits every chain of fifty microseconds.
    const LONGER: u64 = 4;

    /// Ratio of the clock by long chains to the clock by a new short chain.
    fn long_over_short() -> f64 {
        let features = Features::detect();
        let kernels = [integer::additions(features), integer::multiplications(features)].map(|k| k.expect("encodes"));
        let [additions, multiplications] = kernels;
        let chain = ClockChain::new(additions, multiplications);
        assert!((2..9).contains(&(chain.cycles / chain.kernel.work.payload)), "{chain:?}");
        let mut scratch = Arguments::new();
        // A busy host interrupts long chains more often than short ones, and may change its clock in between.
        let ratio = |scratch: &mut Arguments| {
            let before = chain.hz(scratch);
            let long = (LONGER * chain.short) as f64 / chain.seconds(LONGER * chain.short, scratch);
            let after = chain.hz(scratch);
            long / before.max(after)
        };
        let mut ratios: Vec<f64> = (0..401).map(|_| ratio(&mut scratch)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        assert!((1e8..1e10).contains(&chain.hz(&mut scratch)), "{chain:?}");
        // Interruptions lengthen long chains more often, so the upper ratios are the undisturbed ones.
        ratios[360]
    }
}
