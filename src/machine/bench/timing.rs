//! Repetitions of a kernel on the team, and what they say.
//!
//! ```text
//! each thread, each repetition:  barrier │ chain │ barrier │ t0 kernel t1 │ chain
//! ```
//!
//! The chain of dependent additions before and behind the kernel tells the clock while it ran. A repetition in which a
//! thread lost its CPU to another task, or to the hypervisor as far as the kernel knows, is discarded and made up for.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::Team;
use super::barrier::Barrier;
use super::presence::{Presence, Steal};
use crate::machine::error::MachineError;
use crate::machine::kernels::{Arguments, Kernel};

/// A kernel with the arguments of each thread.
#[derive(Clone)]
pub struct Work {
    /// What runs.
    pub kernel: Arc<Kernel>,
    /// One set of arguments a thread.
    pub arguments: Arc<Vec<Mutex<Box<Arguments>>>>,
}

impl Work {
    /// The kernel on `threads` threads without arrays.
    pub fn on_registers(kernel: Kernel, threads: usize) -> Self {
        Work::new(kernel, (0..threads).map(|_| Arguments::new()).collect())
    }

    /// The kernel with one set of arguments a thread. They must hold the arrays that it needs.
    pub fn new(kernel: Kernel, arguments: Vec<Box<Arguments>>) -> Self {
        let arguments = Arc::new(arguments.into_iter().map(Mutex::new).collect());
        Work { kernel: Arc::new(kernel), arguments }
    }

    /// Threads that it is for.
    pub fn threads(&self) -> usize {
        self.arguments.len()
    }
}

/// One repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repetition {
    /// From the first thread's start to the last one's end, in seconds.
    pub seconds: f64,
    /// Mean clock of the threads, in hertz.
    pub clock_hz: f64,
    /// A thread lost its CPU meanwhile.
    pub disturbed: bool,
}

/// Repetitions, as a multiple of what a quiet host needs, after which disturbed ones are no longer made up for.
const PATIENCE: usize = 3;

/// How long and how often a kernel is timed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Seconds that one repetition should take, at least.
    pub seconds: f64,
    /// Repetitions of one round.
    pub repetitions: usize,
    /// Spread below which no further round is run.
    pub steady: f64,
    /// Most rounds.
    pub rounds: usize,
    /// The spread is taken over the fastest one in so many repetitions (at least three): 8 where what disturbs is not
    /// the kernel's own (registers, near caches), 2 where neighbours are part of the figure.
    pub fastest: usize,
}

/// Times kernels on a team.
pub struct Stopwatch {
    team: Team,
    clock: Arc<Kernel>,
    clock_iterations: u64,
    clock_cycles: f64,
    steal: Steal,
}

impl Stopwatch {
    /// A stopwatch with the chain that tells the clock: `cycles` in one iteration.
    pub fn new(team: Team, clock: Kernel, cycles: u64) -> Self {
        let clock_iterations = 131_072 / cycles.max(1);
        let clock_cycles = (clock_iterations * cycles) as f64;
        Stopwatch { team, clock: Arc::new(clock), clock_iterations, clock_cycles, steal: Steal::open() }
    }

    /// The threads.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Times `repetitions` runs of `iterations`.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn time(&self, work: &Work, iterations: u64, repetitions: usize) -> Result<Vec<Repetition>, MachineError> {
        let threads = work.threads();
        let barrier = Barrier::new(threads);
        let stamps: Arc<Mutex<Vec<Vec<Stamp>>>> = Arc::new(Mutex::new(vec![Vec::new(); repetitions]));
        let (shared, job_work) = (stamps.clone(), work.clone());
        let (clock, clock_iterations, cycles) = (self.clock.clone(), self.clock_iterations, self.clock_cycles);
        let job = move |rank: usize| {
            let mut mine = Vec::with_capacity(repetitions);
            let mut scratch = Arguments::new();
            let Ok(mut arguments) = job_work.arguments[rank].lock() else { return };
            for _ in 0..repetitions {
                barrier.wait();
                let presence = Presence::now();
                let before = chain(&clock, clock_iterations, &mut scratch);
                barrier.wait();
                let start = Instant::now();
                // SAFETY: `Work` was built with the arrays of this kernel, from instruction sets that were detected.
                unsafe { job_work.kernel.call(iterations, &mut arguments) };
                let end = Instant::now();
                let after = chain(&clock, clock_iterations, &mut scratch);
                // An interruption only lengthens a chain: the shorter one is right.
                let clock_hz = cycles / before.min(after);
                mine.push(Stamp { start, end, clock_hz, disturbed: presence.was_disturbed() });
            }
            if let Ok(mut all) = shared.lock() {
                for (slot, stamp) in all.iter_mut().zip(mine) {
                    slot.push(stamp);
                }
            }
        };
        self.team.run(threads, Arc::new(job))?;
        let stamps = stamps.lock().map_err(|_| MachineError::Thread { cpu: 0, reason: "panicked".into() })?;
        Ok(stamps.iter().filter_map(|s| Repetition::from_stamps(s)).collect())
    }

    /// Finds how many iterations take at least `seconds`.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn calibrate(&self, work: &Work, seconds: f64) -> Result<u64, MachineError> {
        let mut iterations = 1_u64;
        loop {
            let runs = self.undisturbed(work, iterations, 2, PATIENCE)?;
            let took = runs.iter().map(|r| r.seconds).fold(f64::INFINITY, f64::min);
            if took >= seconds || iterations > 1 << 40 {
                return Ok(iterations);
            }
            // Below a few microseconds the figure is mostly overhead: grow boldly, then aim.
            let factor = if took < 4e-6 { 16.0 } else { (1.05 * seconds / took).clamp(1.05, 64.0) };
            iterations = ((iterations as f64 * factor) as u64).max(iterations + 1);
            if took >= 4e-6 && factor < 64.0 {
                return Ok(iterations);
            }
        }
    }

    /// Calibrates and times; the rate of `amount` (of all threads together, in one iteration) a second.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn rate(&self, work: &Work, amount: f64, plan: Plan) -> Result<Rate, MachineError> {
        let iterations = self.calibrate(work, plan.seconds)?;
        let stolen = self.steal.seconds();
        let (mut runs, mut round) = (Vec::new(), 0);
        loop {
            round += 1;
            runs.extend(self.time(work, iterations, plan.repetitions)?);
            let rate = Rate::judge(&runs, amount * iterations as f64, plan.fastest);
            let enough = !rate.disturbed && (rate.spread < plan.steady || round >= plan.rounds);
            // Disturbed repetitions are outvoted by more of them, up to a limit; what still differs is unsettled.
            if enough || round >= PATIENCE * plan.rounds {
                return Ok(Rate { stolen_s: self.steal.seconds() - stolen, ..rate });
            }
        }
    }

    /// Times `repetitions` runs, again while all were disturbed, at most `attempts` times; the undisturbed ones, else all.
    fn undisturbed(
        &self,
        work: &Work,
        iterations: u64,
        repetitions: usize,
        attempts: usize,
    ) -> Result<Vec<Repetition>, MachineError> {
        let mut runs = Vec::new();
        for _ in 0..attempts {
            runs.extend(self.time(work, iterations, repetitions)?);
            let kept: Vec<Repetition> = runs.iter().copied().filter(|r| !r.disturbed).collect();
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        Ok(runs)
    }
}

#[derive(Debug, Clone, Copy)]
struct Stamp {
    start: Instant,
    end: Instant,
    clock_hz: f64,
    disturbed: bool,
}

impl Repetition {
    fn from_stamps(stamps: &[Stamp]) -> Option<Self> {
        let start = stamps.iter().map(|s| s.start).min()?;
        let end = stamps.iter().map(|s| s.end).max()?;
        let clock_hz = stamps.iter().map(|s| s.clock_hz).sum::<f64>() / stamps.len() as f64;
        let disturbed = stamps.iter().any(|s| s.disturbed);
        Some(Repetition { seconds: (end - start).as_secs_f64().max(1e-9), clock_hz, disturbed })
    }
}

fn chain(clock: &Kernel, iterations: u64, scratch: &mut Arguments) -> f64 {
    let start = Instant::now();
    // SAFETY: the clock kernel touches no memory.
    unsafe { clock.call(iterations, scratch) };
    start.elapsed().as_secs_f64().max(1e-9)
}

/// What the repetitions of one kernel say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The best rate, per second.
    pub best: f64,
    /// The median rate.
    pub median: f64,
    /// (max − min) / median over the fastest repetitions.
    pub spread: f64,
    /// Clock of the best repetition, in hertz.
    pub clock_hz: f64,
    /// Fewer than [`FEWEST`] repetitions had the CPUs to themselves, so that disturbed ones count, too.
    pub disturbed: bool,
    /// Seconds that the hypervisor took from this host meanwhile, in steps of 10 ms.
    pub stolen_s: f64,
}

/// Undisturbed repetitions that a figure needs.
const FEWEST: usize = 3;

impl Rate {
    /// Judges `runs`, in each of which `amount` was done, by the fastest one in `fastest` of them. Disturbed ones count only
    /// where there are not enough others.
    pub fn judge(runs: &[Repetition], amount: f64, fastest: usize) -> Rate {
        let disturbed = runs.iter().filter(|r| !r.disturbed).count() < FEWEST;
        let counted = runs.iter().filter(|r| disturbed || !r.disturbed);
        let mut order: Vec<(f64, f64)> = counted.map(|r| (amount / r.seconds, r.clock_hz)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some(&(best, clock_hz)) = order.first() else {
            return Rate { best: 0.0, median: 0.0, spread: 1.0, clock_hz: 0.0, disturbed: true, stolen_s: 0.0 };
        };
        let faster = &order[..order.len().div_ceil(fastest.max(1)).max(3).min(order.len())];
        let middle = faster[faster.len() / 2].0;
        let slowest = faster.last().map_or(best, |r| r.0);
        let (median, spread) = (order[order.len() / 2].0, (best - slowest) / middle);
        Rate { best, median, spread, clock_hz, disturbed, stolen_s: 0.0 }
    }

    /// The better of two ways to do the same.
    pub fn better(self, other: Rate) -> Rate {
        if other.best > self.best { other } else { self }
    }

    /// The rate in another unit: `factor` of it for one of this.
    pub fn scaled(self, factor: f64) -> Rate {
        Rate { best: self.best * factor, median: self.median * factor, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64) -> Repetition {
        Repetition { seconds, clock_hz: 1e9, disturbed: false }
    }

    #[test]
    fn an_interrupted_repetition_does_not_widen_the_spread() {
        let rate = Rate::judge(&[run(1.0), run(1.01), run(5.0), run(1.02), run(9.0), run(1.0)], 100.0, 2);
        assert_eq!(rate.best, 100.0);
        assert!(rate.spread < 0.011, "{rate:?}");
    }

    #[test]
    fn disturbed_repetitions_count_only_where_there_are_no_others() {
        let lost = |seconds| Repetition { disturbed: true, ..run(seconds) };
        let few = Rate::judge(&[lost(1.0), run(2.0), lost(1.5)], 100.0, 2);
        assert!(few.disturbed && few.best == 100.0, "{few:?}");
        let enough = Rate::judge(&[lost(1.0), run(2.0), run(2.1), run(2.0)], 100.0, 2);
        assert!(!enough.disturbed && enough.best == 50.0, "{enough:?}");
    }

    #[test]
    fn no_repetition_is_not_settled() {
        let none = Rate::judge(&[], 1.0, 2);
        assert!(none.spread == 1.0 && none.disturbed);
    }
}
