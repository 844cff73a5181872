//! Classes of misses, and patterns of memory accesses.

pub mod access_pattern;
pub mod compulsory;
pub mod fully_associative;
pub mod overwriting;
