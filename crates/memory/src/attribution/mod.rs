//! Owners of accesses (thread, core, instruction), and the order in which accesses are simulated.

pub mod backlog;
pub mod cores;
pub mod data;
pub mod interleave;
pub mod owners;
pub mod pages;
pub mod tallies;
pub mod tally;
pub mod weights;
