//! Evidence of the core model: cycles of each instruction in each burst, by cause.

use serde::{Deserialize, Serialize};

use crate::account::{Cause, Changes};
use crate::code::CodeRef;

/// The result of replaying the bursts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReplayedEvidence {
    /// One for each burst that could be replayed.
    pub bursts: Vec<ReplayedBurst>,
    /// Changes that the bursts were replayed with, alone and two at once; others were not.
    pub what_ifs: Vec<Changes>,
    /// Parameters of the core that this host's measurement lacks, each with the value assumed instead.
    pub assumed: Vec<String>,
}

/// One burst, its lead-in left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReplayedBurst {
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// Its instructions, each once.
    pub instructions: Vec<ReplayedInstruction>,
}

/// One instruction's part in one burst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayedInstruction {
    /// The instruction.
    pub at: CodeRef,
    /// Executions.
    pub executed: u32,
    /// Executions after which the wrong instructions were fetched.
    pub mispredicted: u32,
    /// Cycles by [`Cause`], in the order of [`Cause::ALL`].
    pub cycles: [f32; Cause::ALL.len()],
    /// Cycles in all with a change, in the order of [`ReplayedEvidence::what_ifs`].
    pub changed: Vec<f32>,
}
