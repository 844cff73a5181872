//! The processes lent to a visit.

use std::collections::HashMap;
use std::time::Instant;

/// The processes that are lent.
#[derive(Debug, Default)]
pub(super) struct Loans {
    /// Their auxiliary vectors, by which it is seen that they executed another program meanwhile.
    pub programs: HashMap<u32, Vec<u8>>,
    /// The same of processes of which another thread of ours still traces a part.
    pub owed: HashMap<u32, Vec<u8>>,
    /// Threads are on their way out.
    pub is_lending: bool,
    /// When the last one left.
    pub left: Option<Instant>,
}

/// A thread's way to a visit and back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Loan {
    /// We trace it.
    None,
    /// We trace it, and it was asked to stop so that we can let it go.
    Asked,
    /// We do not trace it.
    Away(Left),
}

/// The time at which we ceased to trace a thread, and the CPU seconds that it had used, if known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Left {
    /// In nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Of its life.
    pub cpu_s: Option<f64>,
}
