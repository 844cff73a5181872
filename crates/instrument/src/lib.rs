//! The counting engine: runs the program and counts how often each basic block was executed.
//!
//! ```text
//!  single_step   step ─▶ decode ─▶ instruction's record + 1 ─────────────────────────────────┐
//!  translator    miss ─▶ decode ─▶ block ─▶ rules ─▶ emit ─▶ link ─▶ (runs) ─▶ counters ─▶ tally ─▶ CountedEvidence
//!                        both: operands' addresses ─▶ AccessSink ─▶ MemoryEvidence
//!                translator: now and then all that threads do ─▶ BurstSink ─▶ BurstEvidence
//! ```

pub mod cpuid;
mod fair_wait;
pub mod merge;
pub mod modules;
pub mod roster;
pub mod single_step;
mod start;
mod strings;
pub mod tally;
pub mod translator;
pub mod x86_64;

use nix::errno::Errno;

use rprof_profile::evidence::bursts::{BurstEvidence, BurstSink};
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::memory::{AccessSink, MemoryEvidence};
use rprof_tracee::launch::Gated;
use rprof_tracee::remote::RemoteError;

pub use single_step::SingleStep;
pub use translator::effects::Unrepeatable;
pub use translator::{PlacingSettings, Translator};

/// A way to count the blocks that a program executes. Two implementations: single-step (slow, the oracle) and translator.
pub trait CountingEngine {
    /// Runs the gated child and its descendants to their end. The child's exit status is returned, not imitated.
    /// An engine that records no bursts ends their sink at once.
    fn run(
        &mut self,
        child: Gated,
        sink: Option<Box<dyn AccessSink>>,
        bursts: Option<Box<dyn BurstSink>>,
    ) -> Result<Counted, CountError>;
}

/// The result of an engine.
#[derive(Debug)]
pub struct Counted {
    /// How the first process ended, as `waitpid` reports it.
    pub status: i32,
    /// The counts.
    pub evidence: CountedEvidence,
    /// The access sink's evidence, if there was a sink.
    pub memory: Option<MemoryEvidence>,
    /// The evidence of the sink of bursts, if there was one.
    pub bursts: Option<BurstEvidence>,
    /// Why a run that repeats another one was ended before the program did so.
    pub ended_before: Option<Unrepeatable>,
    /// A run that repeats another one changed files, which were put back.
    pub changed_files: bool,
}

/// Why a program could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] rprof_tracee::launch::LaunchError),
    /// The kernel refuses to trace it.
    #[error("cannot trace the program: {0}")]
    Trace(#[source] std::io::Error),
    /// The engine cannot follow it.
    #[error("cannot follow the program: {0}")]
    Unsupported(String),
    /// The engine cannot get the mappings that it needs in the program's address space.
    #[error("cannot follow the program: {0}")]
    Remote(#[source] RemoteError),
}

impl CountError {
    /// Advice for the user.
    pub fn hint(&self) -> String {
        let first = match self {
            CountError::Trace(_) => "`rprof doctor` shows how to allow it; ",
            CountError::Remote(error) => match error.errno() {
                Some(Errno::ENOMEM) => {
                    "raise the limit on address space (`ulimit -v`) or on mappings (sysctl vm.max_map_count); "
                }
                Some(Errno::EFBIG) => "raise the limit on the size of files (`ulimit -f`); ",
                _ => "",
            },
            CountError::Launch(_) | CountError::Unsupported(_) => "",
        };
        format!("{first}--passes timed leaves the counted pass out")
    }
}

impl From<rprof_tracee::thread::TraceError> for CountError {
    fn from(error: rprof_tracee::thread::TraceError) -> Self {
        CountError::Trace(error.io())
    }
}
