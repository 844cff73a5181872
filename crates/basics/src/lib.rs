//! Small pieces that several layers use: independent work on all CPUs, pseudo-random numbers, intervals of few values.

pub mod on_all_cpus;
pub mod random;
pub mod student;
