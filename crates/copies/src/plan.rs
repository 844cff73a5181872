//! How a loop is timed in copies, and why one of them has no time.

use std::fmt;
use std::ops::Range;

use nix::unistd::Pid;

use rprof_tracee::address::Address;

use crate::error::CopyError;
use crate::loops::LoopCode;

/// How progress is counted.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// By passings of an instruction: the first of a loop, or the one behind it.
    Passings {
        /// The loop.
        code: LoopCode,
        /// The instruction's address.
        at: u64,
        /// Passings a second.
        rate: f64,
    },
    /// By a register that changes by `step` in each iteration.
    Register {
        /// The loop.
        code: LoopCode,
        /// Its place in [`counting_registers`].
        register: usize,
        /// By how much it changes.
        step: i64,
    },
}

impl Progress {
    /// The loop whose passings are timed.
    pub fn code(&self) -> &LoopCode {
        match self {
            Progress::Passings { code, .. } | Progress::Register { code, .. } => code,
        }
    }
}

/// What a pilot has found out.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// How progress is counted.
    pub progress: Progress,
    /// Addresses that the program writes within some ten milliseconds.
    pub written: Vec<(u64, u64)>,
    /// Bytes of its private memory.
    pub private_bytes: u64,
}

/// What is timed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How it is timed.
    pub findings: Findings,
    /// The program's thread.
    pub tid: Pid,
    /// The hot loop itself, which changes of code rewrite.
    pub code: Option<LoopCode>,
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

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Copy(CopyError::Ended(ended)) => write!(f, "its copies end too early: {ended}"),
            Failed::Copy(error) => error.fmt(f),
            Failed::Change(why) => f.write_str(why),
            Failed::Late => f.write_str("its copies do not come to the place in time"),
        }
    }
}
