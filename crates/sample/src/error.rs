//! Why a timed pass could not be made.

use std::io;

use rprof_tracee::launch::LaunchError;

/// Failure of the timed pass. A refused `perf_event_open` is not one: the ptrace sampler takes over.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The program could not be executed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The program's end could not be awaited.
    #[error("cannot wait for process {pid}: {source}")]
    Wait {
        /// The program's first process.
        pid: i32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The source that was asked for is refused here.
    #[error("cannot sample with {sampler}: {source}; leave the choice of the sampler to rprof")]
    Refused {
        /// `perf` or `ptrace`.
        sampler: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A signal handler or thread of ours could not be set up.
    #[error("cannot prepare to sample ({operation}): {source}")]
    Prepare {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl SampleError {
    /// Whether the process was not there any more.
    pub fn is_of_no_process(&self) -> bool {
        matches!(self, SampleError::Refused { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
    }
}
