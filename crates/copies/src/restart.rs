//! Calls of a copy that a stop of ours has interrupted: the copy makes them again.

use rprof_tracee::restarts::{repeat_ended_call, restart_call};
use rprof_tracee::thread::Stopped;

use crate::error::CopyError;

/// Makes a stopped thread of a copy repeat the call that the stop has interrupted, so that other calls can be made in between.
///
/// # Errors
/// It is gone.
pub fn repeat_call(stopped: &Stopped) -> Result<(), CopyError> {
    let mut registers = stopped.registers()?;
    if (registers.orig_rax as i64) < 0 {
        return Ok(());
    }
    restart_call(&mut registers);
    repeat_ended_call(&mut registers);
    registers.orig_rax = u64::MAX;
    stopped.set_registers(&registers)?;
    Ok(())
}
