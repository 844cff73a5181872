//! What a run was asked to do.

use std::ffi::OsString;
use std::path::PathBuf;

/// Options of one profiling run (DESIGN section 9).
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Program and arguments.
    pub program: Vec<OsString>,
    /// Output folder; `None` is `rprof.out` (under MPI `rprof.out/rank-N`).
    pub output: Option<PathBuf>,
    /// Which passes; `None` lets the host decide (both without a trusted PMU).
    pub passes: Option<Passes>,
    /// Memory model of the counted pass.
    pub memory: Memory,
    /// Samples per second and thread; `None` is the sampler's default.
    pub frequency_hz: Option<u32>,
    /// Shell command between the passes.
    pub between: Option<OsString>,
    /// Keep names at full length.
    pub full_names: bool,
    /// No progress and no notices.
    pub quiet: bool,
    /// Counting engine.
    pub engine: Engine,
}

/// Which passes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// Native, sampled.
    Timed,
    /// Under the counting engine; it has the streams.
    Counted,
    /// Timed, then counted.
    Both,
}

/// Memory model of the counted pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// None: bytes are `null`.
    Off,
    /// Sampled cache sets.
    Sampled,
    /// Every access.
    Exact,
}

impl Memory {
    /// The name in `run.passes[].memory`.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Off => "off",
            Memory::Sampled => "sampled",
            Memory::Exact => "exact",
        }
    }
}

/// Counting engine of the counted pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The translator.
    Translator,
    /// The oracle: slow.
    SingleStep,
}
