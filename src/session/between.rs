//! `--between CMD`: restores state between the passes.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::SessionError;
use crate::tracee::own_limits;

/// Runs the command with `/bin/sh`, its output on our standard error.
///
/// # Errors
/// It could not be started, or ended with anything but 0.
pub fn restore(command: &OsStr) -> Result<(), SessionError> {
    let fail = |how: String| SessionError::Between { command: command.to_string_lossy().into_owned(), how };
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(std::io::stderr());
    // SAFETY: async-signal-safe, as code between fork and exec must be.
    let shell = unsafe {
        shell.pre_exec(|| {
            own_limits::restore();
            Ok(())
        })
    };
    let status = shell.status().map_err(|e| fail(format!("could not be started: {e}")))?;
    if status.success() { Ok(()) } else { Err(fail(format!("ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_reported() {
        assert!(restore(OsStr::new("true")).is_ok());
        let error = restore(OsStr::new("exit 3")).unwrap_err().to_string();
        assert!(error.contains("exit 3") && error.contains("exit status: 3"), "{error}");
    }
}
