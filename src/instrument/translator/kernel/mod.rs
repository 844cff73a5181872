//! The program and Linux: signals, system calls, executable memory, marker calls, a fresh program image.

pub mod allocations;
pub mod call_rules;
pub mod crash;
pub mod dispositions;
pub mod filters;
pub mod marks;
pub mod own_maps;
pub mod prepare_image;
pub mod restarts;
pub mod rlimit_as;
pub mod signals;
pub mod syscall_emit;
pub mod syscall_handle;
pub mod syscall_table;
pub mod text_ranges;
