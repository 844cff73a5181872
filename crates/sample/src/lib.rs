//! The timed pass: the program runs natively, as the user's own run, and is sampled.
//!
//! ```text
//!                 ┌─ perf/    ring buffers: samples, mappings, forks, context switches ─┐
//!  Gated child ──▶┤                                                                     ├─▶ recorder ─▶ TimedEvidence
//!                 └─ ptrace/  stops of running threads, /proc                          ─┘   │
//!                                                             process ─ modules ─ image   unwind
//! ```
//!
//! # Meaning of the evidence, and how samples of several threads combine
//!
//! Each thread is sampled by its own CPU time, so Σ `weight_s` over the samples of a function is its CPU time, and a
//! thread's weights sum to the CPU time that the scheduler accounted to it ([`weights`]). For *elapsed* time three cases
//! occur:
//!
//! - One thread at a time (the `on_cpu` intervals of all threads do not overlap): elapsed = CPU time.
//! - Several threads, `on_cpu` present: sample `i` of thread `t` at time `τ` says that `t` was in its function around `τ`.
//!   The function that each *other* thread was in at `τ` is that of its sample nearest to `τ`, if `τ` is in one of its
//!   `on_cpu` intervals, else none. With `k` threads in the function at `τ`, a sample contributes `weight_s / k` to the
//!   function's elapsed time and to its time with exactly `k` threads at work: a moment with `k` threads is hit by samples
//!   at `k` times the rate. A neighbour's function is known to within the distance of its nearest sample, at most half a
//!   period. The clocks of different CPUs drift against each other on purpose, so some samples of every function have a
//!   neighbour's sample very near: those give `k` for code that changes faster than the period.
//! - The ptrace sampler (`on_cpu` is empty): all running threads are stopped together, so the samples of one tick carry the
//!   same `t_s`, and `k` is the number of samples with that `t_s` in the function.
//!
//! Samples that are `off_cpu` weigh elapsed seconds of waiting and belong in no CPU time. The standard error of a
//! function's share `p` from `n` samples is √(p(1−p)/n); successive samples of a long loop are not independent in time, but
//! the phase of the sampling clock is; this formula needs no more than that.

mod context;
mod cut_stacks;
mod error;
mod gate;
mod marks;
mod modules;
mod on_cpu;
mod perf;
pub mod perf_data;
mod process;
mod ptrace;
mod reap;
mod recorder;
mod store;
mod survivors;
mod thread_files;
mod threads;
mod unsampled;
mod unwind;
mod weights;
mod x86_64;

use std::process::ExitStatus;

use nix::unistd::Pid;

use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::run::Warning;
use rprof_tracee::foreground::Foreground;
use rprof_tracee::launch::Gated;

pub use error::SampleError;
pub use gate::{Gate, Reaping, Turn};

/// Samples per second, unless they cost too much or the user asks for another rate.
pub const USUAL_HZ: f64 = 1000.0;

/// How to sample.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    /// Samples per second of each thread's CPU time; `None`: [`USUAL_HZ`], or fewer (at least 100) if they would take more than
    /// 1 % of the program's time.
    pub frequency_hz: Option<f64>,
    /// Bytes of each sample's stack copy that unwinding by CFI works on, a multiple of 8 below 64 KiB; 0 follows frame
    /// pointers alone.
    pub stack_bytes: u32,
    /// The sampler.
    pub sampler: Sampler,
    /// Share of the program's time that the stops of a sampler by ptrace may take.
    pub most_share: f64,
}

impl SampleOptions {
    /// The rate that the user asks for, or the usual one: none is higher.
    fn highest_hz(&self) -> f64 {
        self.frequency_hz.unwrap_or(USUAL_HZ)
    }
}

impl Default for SampleOptions {
    fn default() -> Self {
        SampleOptions { frequency_hz: None, stack_bytes: 8192, sampler: Sampler::Best, most_share: USUAL_SHARE }
    }
}

/// Share of the program's time that stops by ptrace may take. Their after-effects (cold caches, a moved thread) are not measured, so it
/// stays below the promise of 5 %.
pub const USUAL_SHARE: f64 = 0.025;

/// The sampler to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampler {
    /// perf if allowed, else ptrace, else none; a warning names the missing right.
    #[default]
    Best,
    /// perf or failure.
    Perf,
    /// ptrace or failure.
    Ptrace,
}

/// The result of a timed pass.
#[derive(Debug)]
pub struct Timed {
    /// Where the time went.
    pub evidence: TimedEvidence,
    /// How the program's first process ended.
    pub status: ExitStatus,
}

/// A sampler that is armed on a child at the gate.
pub struct Armed {
    child: Gated,
    how: How,
    options: SampleOptions,
    /// While the program runs, the terminal's signals are its alone.
    _foreground: Foreground,
}

enum How {
    Perf(perf::Armed),
    /// With the error that perf failed with, if it was tried.
    Ptrace(Option<std::io::Error>),
}

/// Arms the sampler on `child`. Timers that others arm on it afterwards expire after the sampler's.
///
/// # Errors
/// See [`SampleError`]; the child has been reaped.
pub fn arm(child: Gated, options: &SampleOptions) -> Result<Armed, SampleError> {
    let foreground = match Foreground::hold(child.pid()) {
        Ok(foreground) => foreground,
        Err(source) => {
            child.abandon();
            return Err(SampleError::Prepare { operation: "sigaction", source });
        }
    };
    let how = match options.sampler {
        Sampler::Ptrace => How::Ptrace(None),
        wanted => match perf::arm(&child, options) {
            Ok(armed) => How::Perf(armed),
            Err(source) if wanted == Sampler::Perf => {
                child.abandon();
                return Err(SampleError::Refused { sampler: "perf", source });
            }
            Err(refusal) => How::Ptrace(Some(refusal)),
        },
    };
    Ok(Armed { child, how, options: options.clone(), _foreground: foreground })
}

impl Armed {
    /// Samples per second of each thread's CPU time; of the ptrace sampler: at most.
    pub fn frequency_hz(&self) -> f64 {
        match &self.how {
            How::Perf(armed) => armed.frequency_hz(),
            How::Ptrace(_) => self.options.highest_hz(),
        }
    }

    /// Whether the clocks of the program's CPUs follow from the samples, so that nothing else needs to measure them.
    pub fn tells_clocks(&self) -> bool {
        match &self.how {
            How::Perf(armed) => armed.tells_clocks(),
            How::Ptrace(_) => false,
        }
    }

    /// Releases the child and samples it and all it creates until its first process has exited.
    ///
    /// If the calling process is killed, the program runs on.
    ///
    /// # Errors
    /// See [`SampleError`]; if the program was never executed, the child has been reaped.
    pub fn run(self) -> Result<Timed, SampleError> {
        self.run_beside(&Gate::default())
    }

    /// As [`run`](Self::run), while others visit the program through `gate`.
    ///
    /// # Errors
    /// As its.
    pub fn run_beside(self, gate: &Gate) -> Result<Timed, SampleError> {
        let refusal = match self.how {
            How::Perf(armed) => return perf::run(self.child, armed, gate),
            How::Ptrace(refusal) => refusal,
        };
        let mut timed = ptrace::run(self.child, &self.options, gate)?;
        if let Some(refusal) = refusal {
            timed.evidence.warnings.insert(0, perf_refused(&refusal));
        }
        Ok(timed)
    }
}

/// Samples all threads of the running process `pid`, and all that they create, until `gate` is over or the process has ended.
///
/// # Errors
/// `perf_event_open` is refused.
pub fn attach(pid: Pid, options: &SampleOptions, gate: &Gate) -> Result<Timed, SampleError> {
    perf::attach(pid, options, gate)
}

/// [`arm`], then [`Armed::run`].
///
/// # Errors
/// As theirs.
pub fn run(child: Gated, options: &SampleOptions) -> Result<Timed, SampleError> {
    arm(child, options)?.run()
}

fn perf_refused(refusal: &std::io::Error) -> Warning {
    Warning::new(
        "perf-refused",
        format!("perf_event_open is refused here ({refusal}); the program was sampled through ptrace."),
        "Fewer samples, and no intervals on a CPU: wider intervals on every time.",
        "Allow perf_event_open (kernel.perf_event_paranoid, CAP_PERFMON, the container's seccomp profile).",
    )
}
