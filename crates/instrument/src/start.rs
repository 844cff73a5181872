//! The start of both engines: rprof seizes the child at the gate, which then executes the program.

use nix::unistd::Pid;

use super::CountError;
use rprof_tracee::launch::Gated;
use rprof_tracee::thread::Running;

/// Seizes the child and lets it execute the program; its first stop is that of `execve`.
///
/// # Errors
/// It cannot be traced, or not executed; it has then been reaped.
pub fn start_traced(child: Gated) -> Result<Pid, CountError> {
    if let Err(error) = Running::seize(child.pid()) {
        child.abandon();
        return Err(error.into());
    }
    Ok(child.release()?)
}
