//! How both engines begin: the child at the gate is seized, then executes the program.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::CountError;
use crate::target::launch::Gated;
use crate::target::tracee::Running;
use crate::target::wait::{Event, wait_for};

/// Seizes the child and lets it execute the program; its first stop is that of `execve`.
///
/// # Errors
/// It cannot be traced, or not executed; it has then been reaped.
pub fn start_traced(child: Gated) -> Result<Pid, CountError> {
    let first = child.pid();
    if let Err(error) = Running::seize(first) {
        child.abandon();
        return Err(error.into());
    }
    if let Err(error) = child.release() {
        end_child(first);
        return Err(error.into());
    }
    Ok(first)
}

/// Kills a traced child and waits for its end.
fn end_child(pid: Pid) {
    // It may be gone already.
    let _ = kill(pid, Signal::SIGKILL);
    while let Some(event) = wait_for(pid, true) {
        if let Event::Ended(..) = event {
            break;
        }
    }
}
