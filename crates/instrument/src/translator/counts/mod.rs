//! From counters in the cache to counts of blocks.

pub mod execution_deltas;
pub mod extra_work;
pub mod flush_on_exit;
pub mod read_counters;
