//! Evidence of the counted pass: how often each basic block was executed, by which thread.

use serde::{Deserialize, Serialize};

use super::ThreadInfo;
use super::blas::BlasEvidence;
use super::blocks::BlockCount;
use super::estimate::Estimate;
use super::marks::CountedMarks;
use super::mpi::MpiEvidence;
use crate::code::ModuleInfo;
use crate::run::Warning;

/// The part that the counts lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Missing {
    /// At most code of its own that was never counted: the counts of all other code are complete.
    #[default]
    OtherCode,
    /// Executions of any code: a process was not counted to its end, or not at all. Every count is a lower bound.
    Executions,
    /// Work: the program works until a time, and the counted run, which is slower, did less than the native one. Every count is a lower
    /// bound.
    Work,
}

impl Missing {
    /// Whether every count is a lower bound.
    pub fn is_of_all(self) -> bool {
        self != Missing::OtherCode
    }
}

/// The result of a counting engine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CountedEvidence {
    /// `translator` or `single-step`.
    pub source: String,
    /// From exec to the exit of the last process, translation included, in seconds.
    pub wall_s: f64,
    /// User + system CPU seconds of the program and its descendants in this pass.
    pub cpu_s: f64,
    /// Share of this pass's CPU time in code that was not counted.
    pub uncounted_share: f64,
    /// The part that these counts lack.
    pub missing: Missing,
    /// Modules that `CodeRef::module` indexes.
    pub modules: Vec<ModuleInfo>,
    /// Threads that `thread` indexes.
    pub threads: Vec<ThreadInfo>,
    /// Blocks; the same instruction may be in several, and its count is their sum.
    pub blocks: Vec<BlockCount>,
    /// Marker calls; `None`: the engine does not look for them.
    pub marks: Option<CountedMarks>,
    /// Calls of MPI; `None`: there was none.
    pub mpi: Option<MpiEvidence>,
    /// Calls of matrix products; `None`: there was none.
    pub blas: Option<BlasEvidence>,
    /// Whether a thread worked with denormal numbers, as the flags of the CPU say; `None`: not examined.
    #[serde(default)]
    pub denormals: Option<bool>,
    /// The counts were extended from windows to the whole run; `None`: all of it was counted.
    pub estimate: Option<Estimate>,
    /// Doubts about these figures.
    pub warnings: Vec<Warning>,
}
