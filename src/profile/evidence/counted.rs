//! Evidence of the counted pass: how often each basic block was executed, by which thread.

use super::ThreadInfo;
use super::marks::CountedMarks;
use crate::profile::code::{CodeRef, ModuleInfo};
use crate::profile::run::Warning;

/// What a counting engine yields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedEvidence {
    /// `translator` or `single-step`.
    pub source: String,
    /// From exec to the exit of the last process, translation included, in seconds.
    pub wall_s: f64,
    /// User + system CPU seconds of the program and its descendants in this pass.
    pub cpu_s: f64,
    /// Share of this pass's CPU time in code that was not counted.
    pub uncounted_share: f64,
    /// Modules that `CodeRef::module` indexes.
    pub modules: Vec<ModuleInfo>,
    /// Threads that `thread` indexes.
    pub threads: Vec<ThreadInfo>,
    /// Blocks; the same instruction may stand in several, its count is their sum.
    pub blocks: Vec<BlockCount>,
    /// Marker calls; `None`: the engine does not look for them.
    pub marks: Option<CountedMarks>,
    /// Doubts about these figures.
    pub warnings: Vec<Warning>,
}

/// A straight run of instructions and how often it was executed from its first to its last instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockCount {
    /// Its first instruction.
    pub at: CodeRef,
    /// The program's own bytes of the block.
    pub code: Vec<u8>,
    /// (index into `threads`, executions), threads without executions left out.
    pub executions: Vec<(u32, u64)>,
    /// Run-time sums for instructions whose text does not tell everything; a sum of 0 is stated, one that is missing was not counted.
    pub dynamic: Vec<DynamicCount>,
    /// Where it ends in a `syscall` whose number its text does not tell: how often each number was called.
    pub calls: Vec<CallCount>,
}

/// Executions of a `syscall` with one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCount {
    /// Its number.
    pub number: u32,
    /// Executions, of all threads.
    pub count: u64,
}

/// A run-time sum of one instruction in one thread: active lanes, or `rep` iterations, over all executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicCount {
    /// Byte offset of the instruction in the block.
    pub offset: u32,
    /// Index into `threads`.
    pub thread: u32,
    /// Sum over all executions.
    pub sum: u64,
}
