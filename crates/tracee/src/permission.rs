//! Whether a process may be traced, found out by trying.

use nix::unistd::Pid;

use super::thread::{Running, TraceError};
use super::wait::{Event, Stop, wait_for};

/// Traces the first thread of `pid` and lets it go again: it is stopped for a moment.
///
/// # Errors
/// As [`Running::visit`].
pub fn try_to_trace(pid: Pid) -> Result<(), TraceError> {
    let running = Running::visit(pid)?;
    running.interrupt()?;
    match wait_for(pid, true) {
        Some(Event::Stopped(stopped, Stop::Signal(signal))) => stopped.detach(signal),
        Some(Event::Stopped(stopped, _)) => stopped.detach(0),
        Some(Event::Ended(..)) | None => Ok(()),
    }
}
