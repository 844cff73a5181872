//! Ranges of the cache in which a change of a counter is pending.

use crate::x86_64::emit::Gpr;
use rprof_tracee::address::CacheAddress;

/// A range of the cache in which a counter differs from the executions.
#[derive(Debug)]
pub struct Unsettled {
    /// Its first instruction.
    pub from: CacheAddress,
    /// One past its last.
    pub until: CacheAddress,
    /// The counter.
    pub slot: u32,
    /// The change that corrects it.
    pub due: Due,
}

/// A pending change of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Add this number.
    Executions(i64),
    /// Set it to this register.
    Register(Gpr),
    /// Add the distance that a loop's induction register has moved.
    Way(Gpr),
}
