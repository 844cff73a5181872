//! The program and Linux: signals, filters, limits, marker calls, the preparation of a program image, the program's own state.

pub mod address_budget;
pub mod allocations;
pub mod context_tables;
pub mod correct_counters;
pub mod crash;
pub mod dispositions;
pub mod filters;
pub mod fold;
pub mod marks;
pub mod memory_limit;
pub mod memory_locks;
pub mod own_maps;
pub mod prepare_image;
pub mod proc_path;
pub mod process_settings;
pub mod program_state;
pub mod rlimit_as;
pub mod signal_bits;
