//! What the kernel does with a translated program: signals, system calls, memory that is executable.

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
