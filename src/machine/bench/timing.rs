//! Repetitions of a kernel on the team, and what they say.
//!
//! ```text
//! each thread, each repetition:  barrier │ probe │ clock │ chain │ warm-up │ barrier │ kernel in pieces │ clock │ chain
//! at the end:                    barrier │ probe
//! ```
//!
//! The time of a kernel that a core does by itself is that of its faster pieces (`pieces.rs`).
//!
//! A short chain of dependent multiplications right behind the kernel tells the clock while it ran. A kernel of wide vectors has run for a
//! while by then: these lower the clock of many CPUs, and slow down what executes them until it is lowered. A repetition in which a
//! thread lost its CPU to another task, or to the hypervisor as far as the kernel knows, is discarded and made up for; so is
//! one that the probes before and behind it find on a shared core (`core_share.rs`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Team;
use super::barrier::Barrier;
use super::clock_chain::ClockChain;
use super::core_share::CoreShare;
use super::core_to_core;
use super::pieces::{self, Timed};
use super::presence::{Presence, Steal};
use super::rate::Stamp;
pub use super::rate::{Plan, Rate, Repetition, SAME_CLOCK, is_at_clock, usual_clock};
use super::windows::{self, Windows};
use crate::machine::error::MachineError;
use crate::machine::kernels::{Arguments, Kernel};
use crate::profile::placement::CoreToCore;

/// A kernel with the arguments of each thread.
#[derive(Clone)]
pub struct Work {
    /// What runs.
    pub kernel: Arc<Kernel>,
    /// One set of arguments a thread.
    pub arguments: Arc<Vec<Mutex<Box<Arguments>>>>,
    /// Where an iteration walks one window: which.
    windows: Option<Windows>,
}

impl Work {
    /// The kernel on `threads` threads without arrays.
    pub fn on_registers(kernel: Kernel, threads: usize) -> Self {
        Work::new(kernel, (0..threads).map(|_| Arguments::new()).collect())
    }

    /// The kernel with one set of arguments a thread. They must hold the arrays that it needs.
    pub fn new(kernel: Kernel, arguments: Vec<Box<Arguments>>) -> Self {
        let arguments = Arc::new(arguments.into_iter().map(Mutex::new).collect());
        Work { kernel: Arc::new(kernel), arguments, windows: None }
    }

    /// The same, but each iteration walks the next window; the arguments point to the first.
    pub fn through(self, windows: Windows) -> Self {
        Work { windows: Some(windows), ..self }
    }

    /// Iterations that take `seconds`, or at most [`FIRST`], where one instruction takes a nanosecond: slow in the core, so
    /// that one step of calibration remains, and a hundred times too fast for a miss of all caches.
    fn guess(&self, seconds: f64) -> u64 {
        let inner = self.arguments.first().and_then(|a| a.lock().ok().map(|a| a.inner)).unwrap_or(0).max(1);
        let instructions = self.kernel.work.instructions.max(1).saturating_mul(inner);
        ((seconds.min(FIRST) * 1e9 / instructions as f64) as u64).max(1)
    }

    /// Threads that it is for.
    pub fn threads(&self) -> usize {
        self.arguments.len()
    }
}

/// Repetitions, as a multiple of what a quiet host needs, after which disturbed ones are no longer made up for.
const PATIENCE: usize = 3;

/// Doubt about the clock of the repetitions below which nothing took the core in between.
const STEADY_CLOCK: f64 = 0.003;

/// Seconds that the first run of a calibration aims at.
const FIRST: f64 = 40e-6;

/// Attempts to tell where the CPUs are, and the time that two threads wait for each other.
const READINGS: usize = 3;
const TOGETHER: Duration = Duration::from_millis(20);

/// Additions of one probe (some ten microseconds), and cycles of the chains that it is compared with (some thirty).
pub const PROBE_ADDITIONS: u64 = 131_072;

/// How long a kernel of vectors of at least [`WIDE`] bits runs before it is timed. Seen: 20 to 100 microseconds until the clock was
/// the one that it keeps.
const WARM_UP: Duration = Duration::from_micros(150);
const WIDE: u32 = 256;
/// Parts of a timed repetition that the warm-up consists of.
const WARM_UP_PART: u64 = 16;

/// Times kernels on a team.
pub struct Stopwatch {
    team: Team,
    clock: Arc<ClockChain>,
    steal: Steal,
    share: Arc<CoreShare>,
    /// Placements of the CPUs that were met.
    placements: Mutex<Vec<CoreToCore>>,
}

impl Stopwatch {
    /// A stopwatch with the chain that tells the clock and the independent additions that tell whether a core is shared. `cores`: threads that get a core each; `patience`: time for having them moved apart.
    pub fn new(team: Team, clock: ClockChain, probe: Kernel, cores: usize, patience: Duration) -> Self {
        let share = Arc::new(CoreShare::new(probe, PROBE_ADDITIONS, cores, patience));
        Stopwatch { team, clock: Arc::new(clock), steal: Steal::open(), share, placements: Mutex::default() }
    }

    /// The threads.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// The chain that tells the clock.
    pub fn clock(&self) -> Arc<ClockChain> {
        self.clock.clone()
    }

    /// Times `repetitions` runs of `iterations`.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn time(&self, work: &Work, iterations: u64, repetitions: usize) -> Result<Vec<Repetition>, MachineError> {
        Ok(repetitions_of(&self.stamps(work, iterations, repetitions, 1)?))
    }

    /// The same with what each thread saw, of each repetition, whose own time is taken in so many `pieces`.
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
            let mut step = windows::next(job_work.windows.as_ref());
            for _ in 0..repetitions {
                barrier.wait();
                let presence = Presence::now();
                let probe = share.probe(&mut scratch);
                let resting_hz = clock.hz(&mut scratch);
                let before = clock.seconds(PROBE_ADDITIONS, &mut scratch);
                warm_up(&job_work, iterations, &mut arguments);
                barrier.wait();
                let windows = job_work.windows.as_ref();
                let timed = pieces::timed(iterations, pieces, clock.overhead_s(), |iterations| {
                    // SAFETY: `Work` was built with the arrays of this kernel, from instruction sets that were detected.
                    step = unsafe { windows::walk(&job_work.kernel, iterations, &mut arguments, windows, step) };
                });
                let clock_hz = clock.hz(&mut scratch);
                let after = clock.seconds(PROBE_ADDITIONS, &mut scratch);
                let shared = share.is_shared(threads, probe, before, after);
                // The probe before this kernel is the one behind the last.
                if let Some(last) = mine.last_mut() {
                    last.shared |= shared;
                }
                let Timed { start, end, seconds } = timed;
                let disturbed = presence.was_disturbed();
                mine.push(Stamp { start, end, seconds, clock_hz, resting_hz, disturbed, shared });
                clocks = (before, after);
            }
            barrier.wait();
            windows::note(job_work.windows.as_ref(), step);
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

    /// Finds how many iterations take at least as long as a repetition of `plan`; with the runs that already did.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    fn calibrate(&self, work: &Work, plan: Plan) -> Result<(u64, Vec<Vec<Stamp>>), MachineError> {
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

    /// Calibrates and times; the rate of `amount` (of all threads together, in one iteration) a second.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn rate(&self, work: &Work, amount: f64, plan: Plan) -> Result<Rate, MachineError> {
        self.rate_until(work, amount, plan, None)
    }

    /// As [`rate`](Self::rate), but no further round begins after `end`, and threads on one core are not moved apart before.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn rate_until(&self, work: &Work, amount: f64, plan: Plan, end: Option<Instant>) -> Result<Rate, MachineError> {
        let threads = work.threads();
        // What several threads do together takes as long as all of them, where they have something in common.
        let apart = self.share.apart_by_design(threads);
        let pieces = if threads == 1 || apart { self.clock.pieces(plan.seconds).min(plan.pieces) } else { 1 };
        let plan = Plan { pieces, ..plan };
        let (iterations, mut runs) = self.calibrate(work, plan)?;
        let stolen = self.steal.seconds();
        let placed = plan.is_shared() && threads > 1;
        let mut placement = if placed { self.placement()? } else { None };
        let mut round = 0;
        loop {
            round += 1;
            runs.extend(self.stamps(work, iterations, plan.repetitions, plan.pieces)?);
            let amount = amount * iterations as f64;
            let rate = match plan.is_shared() || !apart {
                true => Rate::judge(&repetitions_of(&runs), amount, plan.fastest),
                false => Rate::judge_threads(&runs, amount, plan.fastest),
            };
            // Of what neighbours are part of anyway, more repetitions tell less than another moment.
            let unsteady = !plan.is_shared() && rate.clock_doubt > STEADY_CLOCK;
            let undisturbed = !rate.disturbed && !rate.shared && !unsteady;
            let enough = undisturbed && (rate.spread < plan.steady || round >= plan.rounds);
            // Disturbed repetitions are outvoted by more of them, up to a limit; what still differs is unsettled.
            let late = end.is_some_and(|end| Instant::now() >= end);
            let last = late || round >= PATIENCE * plan.rounds;
            if placed && (enough || last) {
                let now = self.placement()?;
                let moved = now != placement;
                placement = now;
                if moved && !last {
                    // What was timed while the CPUs were moved is of no placement.
                    runs.clear();
                    continue;
                }
                placement = placement.filter(|_| !moved);
            }
            if enough || last {
                let by_itself = !plan.is_shared();
                return Ok(Rate { stolen_s: self.steal.seconds() - stolen, placement, by_itself, ..rate });
            }
            if rate.shared && threads > 1 && end.is_none() {
                self.move_apart(threads)?;
            }
        }
    }

    /// Where the CPUs are now, as an index into [`placements`](Self::placements); `None` where there is but one, or where they
    /// are just being moved.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn placement(&self) -> Result<Option<usize>, MachineError> {
        for _ in 0..READINGS {
            let first = core_to_core::measure(&self.team, TOGETHER)?;
            let Some(first) = first else { return Ok(None) };
            if let Some(known) = self.known(&first) {
                return Ok(Some(known));
            }
            // A new one is believed when it is seen twice.
            let second = core_to_core::measure(&self.team, TOGETHER)?.filter(|s| s.is_same(&first));
            let Some(second) = second else { continue };
            let Ok(mut all) = self.placements.lock() else { return Ok(None) };
            all.push(first.least(&second));
            return Ok(Some(all.len() - 1));
        }
        Ok(None)
    }

    fn known(&self, reading: &CoreToCore) -> Option<usize> {
        self.placements.lock().ok()?.iter().position(|p| p.is_same(reading))
    }

    /// The index of a placement that an earlier run met.
    pub fn know(&self, placement: &CoreToCore) -> usize {
        if let Some(known) = self.known(placement) {
            return known;
        }
        let Ok(mut all) = self.placements.lock() else { return 0 };
        all.push(placement.clone());
        all.len() - 1
    }

    /// Whether it was ever told where the CPUs are.
    pub fn knows_placements(&self) -> bool {
        self.placements.lock().is_ok_and(|p| !p.is_empty())
    }

    /// The placements of the CPUs that were met.
    pub fn placements(&self) -> Vec<CoreToCore> {
        self.placements.lock().map(|p| p.clone()).unwrap_or_default()
    }

    /// Has the hypervisor move the CPUs of `threads` threads to cores of their own, as far as time is left for it.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn move_apart(&self, threads: usize) -> Result<bool, MachineError> {
        let clock = self.clock.clone();
        self.share.move_apart(&self.team, threads, move |scratch| clock.seconds(PROBE_ADDITIONS, scratch))
    }

    /// Whether several threads ever had a core each while something was timed.
    pub fn ever_apart(&self) -> bool {
        self.share.ever_apart()
    }

    /// Times two runs, again while all were disturbed, at most [`PATIENCE`] times; the undisturbed ones, else all.
    fn undisturbed(&self, work: &Work, iterations: u64, pieces: u64) -> Result<Vec<Vec<Stamp>>, MachineError> {
        let mut runs = Vec::new();
        for _ in 0..PATIENCE {
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
    // Streams from windows of memory take milliseconds, and wait for most of them.
    if work.kernel.vector_bits < WIDE || work.windows.is_some() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        // SAFETY: `Work` was built with the arrays of this kernel, from instruction sets that were detected.
        unsafe { work.kernel.call(iterations.div_ceil(WARM_UP_PART), arguments) };
    }
}
