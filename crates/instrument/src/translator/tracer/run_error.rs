//! Why following a thread went wrong.

use nix::errno::Errno;

use crate::CountError;
use crate::translator::code_cache::contexts::NoContext;
use crate::translator::effects::Unrepeatable;
use rprof_tracee::remote::RemoteError;
use rprof_tracee::thread::TraceError;

/// Why following a thread went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The thread ended meanwhile: nothing is wrong.
    #[error("a thread ended")]
    Gone,
    /// Tracing failed.
    #[error(transparent)]
    Trace(TraceError),
    /// A system call on the program's behalf failed.
    #[error(transparent)]
    Remote(RemoteError),
    /// The engine cannot follow the program.
    #[error("{0}")]
    Unsupported(String),
    /// The run repeats another one, and may not go on.
    #[error("the run may not be repeated beyond {0}")]
    Unrepeatable(Unrepeatable),
}

/// The value; `None` if the thread ended meanwhile.
pub(crate) fn unless_gone<T>(result: Result<T, RunError>) -> Result<Option<T>, RunError> {
    match result {
        Err(RunError::Gone) => Ok(None),
        other => other.map(Some),
    }
}

impl From<TraceError> for RunError {
    fn from(error: TraceError) -> Self {
        if error.is_gone() { RunError::Gone } else { RunError::Trace(error) }
    }
}

impl From<RemoteError> for RunError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Trace(error) => error.into(),
            RemoteError::Ended(_) => RunError::Gone,
            other => RunError::Remote(other),
        }
    }
}

impl From<NoContext> for RunError {
    fn from(error: NoContext) -> Self {
        match error {
            NoContext::TooManyThreads => RunError::Unsupported(error.to_string()),
            NoContext::NoRoom => {
                let call = "finding room for the counters of one more thread";
                RunError::Remote(RemoteError::Refused { call, source: Errno::ENOMEM })
            }
        }
    }
}

impl From<RunError> for CountError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Trace(error) => error.into(),
            RunError::Remote(error) => CountError::Remote(error),
            other => CountError::Unsupported(other.to_string()),
        }
    }
}
