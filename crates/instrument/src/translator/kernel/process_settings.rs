//! The state that rprof keeps of a process beside its memory. A process that was forked has its parent's.

use crate::translator::kernel::dispositions::Dispositions;
use crate::translator::kernel::filters::Filters;
use crate::translator::kernel::rlimit_as::Allowance;

/// The rules that a process has set for itself.
#[derive(Debug, Clone, Default)]
pub struct ProcessSettings {
    /// Its actions for the signals of rprof's traps, if they are known.
    pub dispositions: Option<Dispositions>,
    /// If it has set a limit on its address space.
    pub allowance: Option<Allowance>,
    /// If it has filtered its system calls, or an ancestor has.
    pub filters: Option<Filters>,
    /// If it has taken a SIGTRAP that was not of rprof's making.
    pub traps: bool,
}
