//! Times repetitions of a kernel on the team and judges them.
//!
//! ```text
//! each thread, each repetition:  barrier │ probe │ clock │ chain │ warm-up │ barrier │ kernel in pieces │ clock │ chain
//! at the end:                    barrier │ probe
//! ```
//!
//! For in-core kernels, the time is that of the faster pieces (`slices.rs`).
//!
//! A short chain of dependent multiplications right after the kernel measures the clock while it ran. A kernel of wide vectors has warmed
//! up by then: wide vectors lower the clock of many CPUs, and run slowly until it is lowered. Two kinds of repetitions do not count if
//! there are enough others: those in which a thread lost its CPU to another task (or to the hypervisor, as far as the kernel knows), and
//! those with a shared core according to the probes before and after them (`smt_interference.rs`).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Team;
use super::barrier::Barrier;
use super::clock_chain::ClockChain;
use super::preemption::Presence;
use super::rate::Stamp;
use super::rate::{FIRST, WARM_UP};
pub use super::rate::{Plan, Rate, Repetition, SAME_CLOCK, usual_clock};
use super::rolling_window::{self, Windows};
use super::slices::{self, Timed};
use super::smt_interference::CoreShare;
use crate::error::MachineError;
use crate::kernels::{Arguments, Kernel};

/// A kernel with the arguments of each thread.
#[derive(Clone)]
pub struct Work {
    /// The code that runs.
    pub kernel: Arc<Kernel>,
    /// One set of arguments for each thread.
    pub arguments: Arc<Vec<Mutex<Box<Arguments>>>>,
    /// The windows, if each iteration walks one.
    windows: Option<Windows>,
}

impl Work {
    /// The kernel on `threads` threads without arrays.
    pub fn on_registers(kernel: Kernel, threads: usize) -> Self {
        Work::new(kernel, (0..threads).map(|_| Arguments::new()).collect())
    }

    /// The kernel with one set of arguments for each thread. They must hold the arrays that it needs.
    pub fn new(kernel: Kernel, arguments: Vec<Box<Arguments>>) -> Self {
        let arguments = Arc::new(arguments.into_iter().map(Mutex::new).collect());
        Work { kernel: Arc::new(kernel), arguments, windows: None }
    }

    /// The work with iterations that each walk the next window; the arguments point to the first.
    pub fn through(self, windows: Windows) -> Self {
        Work { windows: Some(windows), ..self }
    }

    /// Iterations that take `seconds` or at most [`FIRST`], assuming a nanosecond for one instruction. That is slow in the core, so one
    /// step of calibration remains, and a hundred times too fast for a miss of all caches.
    fn guess(&self, seconds: f64) -> u64 {
        let inner = self.arguments.first().and_then(|a| a.lock().ok().map(|a| a.inner)).unwrap_or(0).max(1);
        let instructions = self.kernel.work.instructions.max(1).saturating_mul(inner);
        ((seconds.min(FIRST) * 1e9 / instructions as f64) as u64).max(1)
    }

    /// Identifies the work as far as its duration depends on it.
    fn key(&self, seconds: f64) -> u64 {
        let mut hasher = DefaultHasher::new();
        let inner = self.arguments.first().and_then(|a| a.lock().ok().map(|a| a.inner));
        let windows = self.windows.as_ref().map(|w| w.bytes);
        (self.kernel.bytes(), inner, windows, self.threads(), seconds.to_bits()).hash(&mut hasher);
        hasher.finish()
    }

    /// Number of threads that it is for.
    pub fn threads(&self) -> usize {
        self.arguments.len()
    }
}

/// Attempts at the two runs of a calibration until one is undisturbed.
const ATTEMPTS: usize = 3;

/// Planned seconds of a job of the team, and of a byte that is written for the first time.
const PLANNED_JOB: f64 = 100e-6;
const PLANNED_BYTE: f64 = 0.3e-9;

/// Additions of one probe (some ten microseconds), and cycles of the chains that are compared with it (some thirty).
pub const PROBE_ADDITIONS: u64 = 131_072;

/// Kernels with vectors of at least this number of bits run for [`WARM_UP`] before they are timed.
const WIDE: u32 = 256;
/// Parts of a timed repetition that make up the warm-up.
const WARM_UP_PART: u64 = 16;

/// Times kernels on a team.
pub struct Stopwatch {
    team: Team,
    clock: Arc<ClockChain>,
    share: Arc<CoreShare>,
    /// Iterations that take long enough, by work.
    calibrated: Mutex<HashMap<u64, u64>>,
    /// Planned seconds of all work so far; `None`: the work is really done.
    planned_s: Option<Mutex<f64>>,
}

impl Stopwatch {
    /// A stopwatch with the chain that measures the clock and the independent additions that show whether a core is shared. `cores`:
    /// threads that get a core each; `patience`: time for moving them apart.
    pub fn new(team: Team, clock: ClockChain, probe: Kernel, cores: usize, patience: Duration) -> Self {
        let share = Arc::new(CoreShare::new(probe, PROBE_ADDITIONS, cores, patience));
        Stopwatch { team, clock: Arc::new(clock), share, calibrated: Mutex::default(), planned_s: None }
    }

    /// A stopwatch that runs nothing and adds up the planned time.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn of_plan(clock: ClockChain, probe: Kernel) -> Result<Self, MachineError> {
        let watch = Stopwatch::new(Team::new(&[])?, clock, probe, 1, Duration::ZERO);
        Ok(Stopwatch { planned_s: Some(Mutex::default()), ..watch })
    }

    /// Planned duration of all work; `None` if it is really done.
    pub fn planned(&self) -> Option<Duration> {
        let planned_s = self.planned_s.as_ref()?.lock().map_or(0.0, |s| *s);
        Some(Duration::from_secs_f64(planned_s))
    }

    /// Adds `seconds` to a plan; returns whether this is a plan.
    pub fn plan(&self, seconds: f64) -> bool {
        if let Some(mut planned_s) = self.planned_s.as_ref().and_then(|s| s.lock().ok()) {
            *planned_s += seconds;
        }
        self.planned_s.is_some()
    }

    /// Adds the time of touching `bytes`, at most `most`, to a plan; returns whether this is a plan and would take longer.
    pub fn plans_longer(&self, bytes: u64, most: Duration) -> bool {
        let (takes, most) = (PLANNED_BYTE * bytes as f64, most.as_secs_f64());
        self.plan(takes.min(most)) && takes > most
    }

    /// Adds the time of touching `bytes` to a plan.
    pub fn plan_bytes(&self, bytes: u64) {
        self.plan(PLANNED_BYTE * bytes as f64);
    }

    /// The threads.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// The chain that measures the clock.
    pub fn clock(&self) -> Arc<ClockChain> {
        self.clock.clone()
    }

    /// Times `repetitions` runs of `iterations`.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn time(&self, work: &Work, iterations: u64, repetitions: usize) -> Result<Vec<Repetition>, MachineError> {
        self.plan(repetitions as f64 * PLANNED_JOB);
        Ok(repetitions_of(&self.stamps(work, iterations, repetitions, 1)?))
    }

    /// Times like [`time`](Self::time), but returns each thread's stamps of each repetition. A thread times its own part in `pieces`
    /// pieces.
    fn stamps(
        &self,
        work: &Work,
        iterations: u64,
        repetitions: usize,
        pieces: u64,
    ) -> Result<Vec<Vec<Stamp>>, MachineError> {
        let threads = work.threads();
        let barrier = Barrier::new(threads);
        let stamps: Arc<Mutex<Vec<Vec<Stamp>>>> = Arc::new(Mutex::new(vec![Vec::new(); repetitions]));
        let (shared, job_work) = (stamps.clone(), work.clone());
        let (clock, share) = (self.clock.clone(), self.share.clone());
        let job = move |rank: usize| {
            let mut mine: Vec<Stamp> = Vec::with_capacity(repetitions);
            let mut scratch = Arguments::new();
            let Ok(mut arguments) = job_work.arguments[rank].lock() else { return };
            let mut clocks = (0.0, 0.0);
            let mut step = rolling_window::next(job_work.windows.as_ref());
            for _ in 0..repetitions {
                barrier.wait();
                let presence = Presence::now();
                let probe = share.probe(&mut scratch);
                let idle_clock_hz = clock.hz(&mut scratch);
                let before = clock.seconds(PROBE_ADDITIONS, &mut scratch);
                warm_up(&job_work, iterations, &mut arguments);
                barrier.wait();
                let windows = job_work.windows.as_ref();
                let timed = slices::timed(iterations, pieces, clock.overhead_s(), |iterations| {
                    // SAFETY: `Work` was built with the arrays of this kernel, from instruction sets that were detected.
                    step = unsafe { rolling_window::walk(&job_work.kernel, iterations, &mut arguments, windows, step) };
                });
                let clock_hz = clock.hz(&mut scratch);
                let after = clock.seconds(PROBE_ADDITIONS, &mut scratch);
                let shared = share.is_shared(threads, probe, before, after);
                // The probe after the last kernel is the one before this kernel.
                if let Some(last) = mine.last_mut() {
                    last.shared |= shared;
                }
                let Timed { start, end, seconds } = timed;
                let disturbed = presence.was_disturbed();
                mine.push(Stamp { start, end, seconds, clock_hz, idle_clock_hz, disturbed, shared });
                clocks = (before, after);
            }
            barrier.wait();
            rolling_window::note(job_work.windows.as_ref(), step);
            let probe = share.probe(&mut scratch);
            if let Some(last) = mine.last_mut() {
                last.shared |= share.is_shared(threads, probe, clocks.0, clocks.1);
            }
            if let Ok(mut all) = shared.lock() {
                for (slot, stamp) in all.iter_mut().zip(mine) {
                    slot.push(stamp);
                }
            }
        };
        self.team.run(threads, Arc::new(job))?;
        let mut stamps = stamps.lock().map_err(|_| MachineError::Thread { cpu: 0, reason: "panicked".into() })?;
        Ok(std::mem::take(&mut *stamps))
    }

    /// Finds how many iterations take at least as long as a repetition of `plan`; also returns the runs that already did.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    fn calibrate(&self, work: &Work, plan: Plan) -> Result<(u64, Vec<Vec<Stamp>>), MachineError> {
        let key = work.key(plan.seconds);
        if let Some(known) = self.calibrated.lock().ok().and_then(|all| all.get(&key).copied()) {
            return Ok((known, Vec::new()));
        }
        let (iterations, runs) = self.search(work, plan)?;
        if let Ok(mut all) = self.calibrated.lock() {
            all.insert(key, iterations);
        }
        Ok((iterations, runs))
    }

    fn search(&self, work: &Work, plan: Plan) -> Result<(u64, Vec<Vec<Stamp>>), MachineError> {
        let seconds = plan.seconds;
        let mut iterations = work.guess(seconds);
        loop {
            let runs = self.undisturbed(work, iterations, plan.pieces)?;
            let took = repetitions_of(&runs).iter().map(|r| r.seconds).fold(f64::INFINITY, f64::min);
            if took >= seconds || iterations > 1 << 40 {
                return Ok((iterations, runs));
            }
            // Below a few microseconds the figure is mostly overhead: grow boldly, then aim.
            let factor = if took < 4e-6 { 16.0 } else { (1.05 * seconds / took).clamp(1.05, 64.0) };
            iterations = ((iterations as f64 * factor) as u64).max(iterations + 1);
            if took >= 4e-6 && factor < 64.0 {
                return Ok((iterations, Vec::new()));
            }
        }
    }

    /// Calibrates and times; returns the rate of `amount` (of all threads together, in one iteration) per second. Moves threads that share
    /// a core apart and times once more, if there is time for that.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn rate(&self, work: &Work, amount: f64, plan: Plan) -> Result<Rate, MachineError> {
        let threads = work.threads();
        if self.planned_s.is_some() {
            let is_first = self.calibrated.lock().is_ok_and(|mut all| all.insert(work.key(plan.seconds), 1).is_none());
            self.plan(plan.planned_s(work.kernel.vector_bits >= WIDE, is_first));
            return Ok(Rate::planned(amount / plan.seconds));
        }
        // Several threads together take as long as the slowest, unless they share nothing.
        let apart = self.share.apart_by_design(threads);
        let pieces = if threads == 1 || apart { self.clock.pieces(plan.seconds).min(plan.pieces) } else { 1 };
        let plan = Plan { pieces, ..plan };
        let (iterations, mut runs) = self.calibrate(work, plan)?;
        let judge = |runs: &[Vec<Stamp>]| match plan.is_shared() || !apart {
            true => Rate::judge(&repetitions_of(runs), amount * iterations as f64, plan.fastest),
            false => Rate::judge_threads(runs, amount * iterations as f64, plan.fastest),
        };
        runs.extend(self.stamps(work, iterations, plan.repetitions, plan.pieces)?);
        let mut rate = judge(&runs);
        if rate.shared && threads > 1 && self.move_apart(threads)? {
            runs.extend(self.stamps(work, iterations, plan.repetitions, plan.pieces)?);
            rate = judge(&runs);
        }
        Ok(Rate { by_itself: !plan.is_shared(), ..rate })
    }

    /// Makes the hypervisor move the CPUs of `threads` threads to cores of their own, as long as there is time for it.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn move_apart(&self, threads: usize) -> Result<bool, MachineError> {
        let clock = self.clock.clone();
        self.share.move_apart(&self.team, threads, move |scratch| clock.seconds(PROBE_ADDITIONS, scratch))
    }

    /// Whether several threads shared cores in every measurement.
    pub fn shares_cores(&self) -> bool {
        self.share.always_together()
    }

    /// Times two runs, at most [`ATTEMPTS`] times while all of them are disturbed; returns the undisturbed ones, else all.
    fn undisturbed(&self, work: &Work, iterations: u64, pieces: u64) -> Result<Vec<Vec<Stamp>>, MachineError> {
        let mut runs = Vec::new();
        for _ in 0..ATTEMPTS {
            runs.extend(self.stamps(work, iterations, 2, pieces)?);
            let is_quiet = |r: Repetition| !r.disturbed && !r.shared;
            let is_kept = |stamps: &&Vec<Stamp>| Repetition::from_stamps(stamps).is_some_and(is_quiet);
            let kept: Vec<Vec<Stamp>> = runs.iter().filter(is_kept).cloned().collect();
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        Ok(runs)
    }
}

fn repetitions_of(stamps: &[Vec<Stamp>]) -> Vec<Repetition> {
    stamps.iter().filter_map(|s| Repetition::from_stamps(s)).collect()
}

/// Runs a kernel of wide vectors for [`WARM_UP`].
fn warm_up(work: &Work, iterations: u64, arguments: &mut Arguments) {
    // Streams from windows of memory take milliseconds and mostly wait for memory.
    if work.kernel.vector_bits < WIDE || work.windows.is_some() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        // SAFETY: `Work` was built with the arrays of this kernel, from instruction sets that were detected.
        unsafe { work.kernel.call(iterations.div_ceil(WARM_UP_PART), arguments) };
    }
}
