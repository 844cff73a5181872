//! How a loop is timed in copies, and why one of them has no time.

use std::ops::Range;

use nix::unistd::Pid;

use rprof_tracee::address::Address;

use crate::error::CopyError;
use crate::loops::LoopCode;
use crate::pilot::Findings;

/// What is timed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How it is timed.
    pub findings: Findings,
    /// The program's thread.
    pub tid: Pid,
    /// The hot loop itself, which changes of code rewrite.
    pub code: Option<LoopCode>,
    /// More than one thread is at work: elapsed time counts, not CPU time.
    pub elapsed: bool,
    /// Ranges that are on huge pages in the program.
    pub huge: Vec<Range<Address>>,
}

/// Why a copy has no time.
#[derive(Debug)]
pub enum Failed {
    /// The copy ended, or something of rprof failed.
    Copy(CopyError),
    /// The change cannot be made in it.
    Change(String),
    /// Its thread did not come to the place in time.
    Late,
}

impl From<CopyError> for Failed {
    fn from(error: CopyError) -> Failed {
        Failed::Copy(error)
    }
}
