//! Evidence: the result of each producer. Facts keyed by process, thread and module + offset; merging is concatenation.

pub mod blas;
pub mod blocks;
pub mod bursts;
pub mod counted;
pub mod counters;
pub mod data;
pub mod estimate;
pub mod marks;
pub mod memory;
pub mod mpi;
pub mod pages;
pub mod replayed;
pub mod timed;
pub mod windows;

use serde::{Deserialize, Serialize};

/// A thread as a pass saw it. Passes are matched by `ordinal` (creation order within the run), not by tid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// Creation order within the run, 0 = the program's first thread.
    pub ordinal: u32,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// `comm`, if it could be read.
    pub name: Option<String>,
    /// Seconds after the start of the pass at which it was first seen.
    pub start_s: f64,
    /// Seconds after the start of the pass at which it ended.
    pub end_s: f64,
    /// CPU seconds it used.
    pub cpu_s: f64,
    /// How many CPUs its affinity mask allowed, if known.
    pub allowed_cpus: Option<u32>,
}
