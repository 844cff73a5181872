//! Whose an access is: thread, core, instruction; and in which order accesses are simulated.

pub mod backlog;
pub mod cores;
pub mod data;
pub mod interleave;
pub mod owners;
pub mod pages;
pub mod tallies;
pub mod tally;
pub mod weights;
