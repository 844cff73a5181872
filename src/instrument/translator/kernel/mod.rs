//! The kernel interface of a translated program: signals, system calls, executable memory.

pub mod allocations;
pub mod crash;
pub mod dispositions;
pub mod inject;
pub mod marks;
pub mod rlimit_as;
pub mod signals;
pub mod syscall_emit;
pub mod syscall_handle;
pub mod syscall_table;
pub mod text_ranges;
