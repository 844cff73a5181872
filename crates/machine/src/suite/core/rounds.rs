//! Times many short kernels in rounds that interleave all of them: the time of one event, in cycles of the clock measured beside it.
//!
//! ```text
//! each round:  clock │ kernel │ clock │ next kernel │ clock │ …
//! ```
//!
//! Each clock measurement is a short dependent chain (`harness/clock_chain.rs`). A run between two different clocks counts only if there
//! are no better ones. The second-best run of a kernel counts: the best one may be wrong because something delayed a clock measurement.

use std::time::Instant;

use crate::error::MachineError;
use crate::harness::ClockChain;
use crate::kernels::{Arguments, Kernel};

/// Seconds of one run.
const RUN: f64 = 8e-6;

/// Seconds that kernels of wide vectors run before they are timed, until the clock is steady.
const WARM_UP: f64 = 150e-6;
const WIDE: u32 = 256;

/// Largest difference between the clocks before and after a run.
const SAME_CLOCK: f64 = 0.01;

/// This number of runs at a steady clock is enough to leave out the others.
const ENOUGH: usize = 3;

/// Factor by which runs of random branches are longer: in a short one chance would count.
const LONGER: f64 = 8.0;

/// Runs that determine the length of a run.
const TRIALS: usize = 3;

/// A kernel to be timed, with a copy elsewhere in memory, because the position of code may cost a few per cent. Rounds alternate between
/// them.
pub struct Piece {
    kernels: [Kernel; 2],
    arguments: Box<Arguments>,
    iterations: u64,
    runs: Vec<Run>,
    /// Its work differs from iteration to iteration.
    is_random: bool,
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    /// Cycles of one event.
    cycles: f64,
    clock_hz: f64,
    /// The clock was the same before and after it.
    steady: bool,
}

/// The time of a kernel, from all its runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Cycles of one event.
    pub cycles: f64,
    /// The clock of the run, in hertz.
    pub clock_hz: f64,
    /// How far the median run lies above the value, as a share of it.
    pub spread: f64,
}

impl Piece {
    /// A piece for `kernel`, which touches nothing but its arguments.
    ///
    /// # Errors
    /// As [`Kernel::copied`].
    pub fn new(kernel: Kernel) -> Result<Self, MachineError> {
        let kernels = [kernel.copied()?, kernel];
        Ok(Piece { kernels, arguments: Arguments::new(), iterations: 1, runs: Vec::new(), is_random: false })
    }

    /// Like [`new`](Self::new), for work that differs from iteration to iteration: the median of its faster half counts.
    ///
    /// # Errors
    /// As [`Kernel::copied`].
    pub fn of_random(kernel: Kernel) -> Result<Self, MachineError> {
        Ok(Piece { is_random: true, ..Piece::new(kernel)? })
    }

    fn kernel(&self) -> &Kernel {
        &self.kernels[0]
    }

    fn call(&mut self) {
        // SAFETY: kernels of this folder touch nothing but their arguments and the stack, and were emitted for the instruction sets
        // that were detected.
        unsafe { self.kernels[0].call(self.iterations, &mut self.arguments) };
    }

    fn seconds(&mut self) -> f64 {
        let start = Instant::now();
        self.call();
        start.elapsed().as_secs_f64()
    }

    /// Finds how many iterations take as long as a run.
    fn calibrate(&mut self, overhead_s: f64) {
        let run = if self.is_random { LONGER * RUN } else { RUN };
        self.iterations = 1;
        self.call();
        loop {
            let seconds = (0..TRIALS).map(|_| self.seconds()).fold(f64::INFINITY, f64::min) - overhead_s;
            let factor = run / seconds.max(run / 64.0);
            self.iterations = ((self.iterations as f64 * factor) as u64).max(1);
            if factor < 16.0 {
                return;
            }
        }
    }

    fn run(&mut self, clock: &ClockChain, before: f64, scratch: &mut Arguments) -> f64 {
        let seconds = self.seconds() - clock.overhead_s();
        let after = clock.hz(scratch);
        let clock_hz = before.max(after);
        let events = self.iterations * self.kernel().work.payload.max(1);
        let cycles = seconds * clock_hz / events as f64;
        self.runs.push(Run { cycles, clock_hz, steady: (before / after - 1.0).abs() <= SAME_CLOCK });
        after
    }
}

/// Times all of `pieces` in at most `rounds` rounds, until `end`; the results are in their order. `None`: there was no time for two rounds.
pub fn time(clock: &ClockChain, mut pieces: Vec<Piece>, rounds: usize, end: Instant) -> Vec<Option<Timed>> {
    let mut scratch = Arguments::new();
    // Kernels of wide vectors follow one another.
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|n| pieces[*n].kernel().vector_bits);
    for n in &order {
        if Instant::now() >= end {
            break;
        }
        pieces[*n].calibrate(clock.overhead_s());
    }
    for _ in 0..rounds {
        if Instant::now() >= end {
            break;
        }
        let mut width = 0;
        let mut before = clock.hz(&mut scratch);
        for n in &order {
            let piece = &mut pieces[*n];
            let bits = piece.kernel().vector_bits;
            if bits > width && bits >= WIDE {
                (0..(WARM_UP / RUN) as u64).for_each(|_| piece.call());
                before = clock.hz(&mut scratch);
            }
            width = bits;
            before = piece.run(clock, before, &mut scratch);
            piece.kernels.swap(0, 1);
        }
    }
    pieces.iter().map(|piece| judge(&piece.runs, piece.is_random)).collect()
}

/// The second-best run, among those at a steady clock if there are enough; for random work, the median of the faster half.
fn judge(runs: &[Run], is_random: bool) -> Option<Timed> {
    let steady: Vec<Run> = runs.iter().filter(|run| run.steady).copied().collect();
    let mut counted = if steady.len() >= ENOUGH { steady } else { runs.to_vec() };
    counted.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    let Run { cycles, clock_hz, .. } = *counted.get(if is_random { counted.len() / 4 } else { 1 })?;
    let median = counted[counted.len() / 2].cycles;
    Some(Timed { cycles, clock_hz, spread: (median / cycles - 1.0).max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cycles: f64, steady: bool) -> Run {
        Run { cycles, clock_hz: 3e9, steady }
    }

    #[test]
    fn the_second_best_run_counts() {
        let runs = [4.0, 3.0, 5.0, 2.0, 4.0].map(|cycles| run(cycles, true));
        let timed = judge(&runs, false).expect("five runs");
        assert_eq!(timed.cycles, 3.0);
        assert!((timed.spread - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(judge(&runs[..1], false), None);
    }

    #[test]
    fn a_clock_that_moved_does_not_count() {
        let runs = [run(1.0, false), run(1.1, false), run(4.0, true), run(4.1, true), run(4.2, true)];
        assert_eq!(judge(&runs, false).map(|t| t.cycles), Some(4.1));
        assert_eq!(judge(&runs[..4], false).map(|t| t.cycles), Some(1.1), "too few at one clock");
    }
}
