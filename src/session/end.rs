//! How a program ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// Exit status.
    Exited(i32),
    /// Signal.
    Signalled(i32),
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramEnd::Exited(status) => write!(f, "with exit status {status}"),
            ProgramEnd::Signalled(signal) => write!(f, "by signal {signal}"),
        }
    }
}

impl ProgramEnd {
    /// From the standard library's form of a wait status.
    pub fn of(status: ExitStatus) -> ProgramEnd {
        ProgramEnd::from_wait_status(status.into_raw())
    }

    /// From `waitpid`'s status word.
    pub fn from_wait_status(status: i32) -> ProgramEnd {
        if libc::WIFSIGNALED(status) {
            ProgramEnd::Signalled(libc::WTERMSIG(status))
        } else {
            ProgramEnd::Exited(libc::WEXITSTATUS(status))
        }
    }

    /// The exit status that represents it: the program's own, or 128 + N.
    pub fn exit_code(self) -> u8 {
        match self {
            ProgramEnd::Exited(status) => status as u8,
            ProgramEnd::Signalled(signal) => 128u8.wrapping_add(signal as u8),
        }
    }
}
