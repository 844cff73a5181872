//! The joined data model, versioned, with provenance; and the plain types that evidence is made of.
//!
//! ```text
//!  TimedEvidence ─┐
//!  CountedEvidence┼─▶ join ─▶ Profile { facts } ─▶ roofline ─▶ Profile { facts + analysis } ─▶ report
//!  MemoryEvidence ┘
//! ```
//!
//! Everything here is serde data in base SI units. A value that was not measured is `null`, never 0.

pub mod account;
pub mod blas;
pub mod ceiling;
pub mod clock;
pub mod code;
pub mod communication;
pub mod confidence;
pub mod core_to_core;
pub mod counters;
pub mod data;
pub mod device;
pub mod disassembly;
pub mod evidence;
pub mod flops;
pub mod function;
pub mod gpu;
mod grouped;
pub mod last_level;
pub mod machine;
pub mod mpi;
pub mod mpi_name;
pub mod names;
pub mod network;
pub mod number;
pub mod pages;
pub mod pairs;
pub mod peer;
pub mod prefetch;
pub mod region;
pub mod run;
pub mod site_key;
pub mod source;
pub mod sweep;
pub mod system;
pub mod trial;
pub mod vocabulary;

use serde::{Deserialize, Serialize};

pub use code::{CodeRef, ModuleInfo};
pub use function::Function;
pub use machine::{Ceiling, Machine};
pub use region::Region;
pub use run::Run;

/// The schema name that a profile of this version carries.
pub const SCHEMA: &str = "rprof-profile/2";

/// Older schemas that are read, too: 1 has no `quality` of ceilings.
pub const OLDER_SCHEMAS: [&str; 1] = ["rprof-profile/1"];

/// `profile.json` (docs/conventions.md, Files).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the roofline model that filled the analysis fields.
    pub model_version: u32,
    /// The program and its passes.
    pub run: Run,
    /// The host and its ceilings.
    pub machine: Machine,
    /// Frames that stacks refer to: one per distinct (function, module).
    pub frames: Vec<Frame>,
    /// Call stacks: prefix-shared, each a frame on top of a parent stack.
    pub stacks: Vec<Stack>,
    /// Timed samples.
    pub samples: Vec<ProfileSample>,
    /// Functions by descending share.
    pub functions: Vec<Function>,
    /// The program and the regions that it marks; empty if it marks nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<region::Region>,
    /// What GPUs did; `None` if the program used none or nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<device::Devices>,
    /// Calls of MPI; `None` if there was none or nothing is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<mpi::Mpi>,
    /// Matrix products that were called; `None` if there was none or nothing is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blas: Option<blas::Blas>,
    /// Ceilings of the network between the job's ranks; `None` if they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<network::Network>,
    /// Changes that were tried in copies of the program; `None` where nothing was to be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<trial::Trials>,
    /// Single calls of MPI, which are no part of `profile.json`.
    #[serde(skip)]
    pub mpi_calls: Option<mpi::RankCalls>,
}

/// A frame of a call stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled name.
    pub name: String,
    /// Module file name.
    pub module: String,
    /// Source file, if known.
    pub file: Option<String>,
    /// Source line, if known.
    pub line: Option<u32>,
    /// Inlined into the frame below it on the stack.
    #[serde(default)]
    pub inlined: bool,
}

/// A call stack: `frame` called from `parent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Index into `stacks`; `null` at the root.
    pub parent: Option<u32>,
    /// Index into `frames`.
    pub frame: u32,
}

/// One timed sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSample {
    /// Seconds since the start of the pass.
    pub t_s: f64,
    /// CPU seconds it represents.
    pub weight_s: f64,
    /// Index into `run.threads`.
    pub thread: u32,
    /// Index into `stacks`; `null` if no stack was taken.
    #[serde(deserialize_with = "Option::deserialize")]
    pub stack: Option<u32>,
    /// The thread was waiting (spinning) rather than working.
    #[serde(default)]
    pub waiting: bool,
}
