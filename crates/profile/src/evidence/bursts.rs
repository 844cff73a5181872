//! Bursts: short stretches of a counted run, recorded instruction by instruction, from which the core model computes where the time
//! goes.
//!
//! ```text
//!  engine ─▶ BurstSink::begin, record …, end ─▶ BurstEvidence ─▶ replay ─▶ ReplayedEvidence
//! ```

use crate::code::CodeRef;
use rprof_isa::facts::AccessKind;

/// A basic block of the program as the engine traced it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedBlock {
    /// Its first instruction.
    pub at: CodeRef,
    /// The run-time address of its first instruction.
    pub start: u64,
    /// The program's own bytes of the block.
    pub code: Vec<u8>,
}

/// One event of a traced thread, in program order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEntry {
    /// The block of this number begins. The block before it was executed to its end: whether its last branch was taken
    /// follows from where this one starts.
    Block(u32),
    /// An access of the block that began last.
    Access(TracedAccess),
}

/// A memory access of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedAccess {
    /// Run-time virtual address.
    pub address: u64,
    /// Bytes; of one lane for gathers and scatters, of the whole run for `rep`.
    pub bytes: u32,
    /// Byte offset of the instruction in its block. An instruction has as many entries as accesses: operands in the order
    /// read before written, a gather's active lanes in order, none if all lanes are masked off.
    pub offset: u16,
    /// Kind.
    pub kind: AccessKind,
}

/// The interface of the burst recorder to the counting engine. `session` connects the two.
///
/// The engine moves threads into its tracing version now and then, and back as soon as none of their bursts
/// [goes on](Self::goes_on).
pub trait BurstSink: Send {
    /// Assigns `number` to `block` for the entries that follow. Numbers count up from 0; each is introduced once.
    fn block(&mut self, number: u32, block: TracedBlock);

    /// A burst of `thread` (index into the counted evidence's threads) begins.
    fn begin(&mut self, thread: u32);

    /// The thread's next entries; the first entry of a burst is a block.
    fn record(&mut self, thread: u32, entries: &[TraceEntry]);

    /// The burst of `thread` is not long enough yet.
    fn goes_on(&self, thread: u32) -> bool;

    /// The burst of `thread` is over, perhaps before it was long enough.
    fn end(&mut self, thread: u32);

    /// Whether it takes everything that threads do. The engine then keeps them in its tracing version from their start to their end;
    /// it calls [`begin`](Self::begin) with a thread's first entries, and [`end`](Self::end) where its next entries do not follow
    /// the last ones. When that happens must not depend on time.
    fn is_continuous(&self) -> bool {
        false
    }

    /// Whether the recorder has enough bursts.
    fn is_full(&self) -> bool {
        false
    }

    /// Ends the run.
    fn finish(self: Box<Self>) -> BurstEvidence;
}

/// The result of the burst recorder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BurstEvidence {
    /// Blocks that steps refer to.
    pub blocks: Vec<TracedBlock>,
    /// Bursts in the order in which they were recorded.
    pub bursts: Vec<Burst>,
}

/// The measured part of one burst: the instructions before it warmed up predictors and caches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Burst {
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// Instructions at its start that fill the pipeline and are not counted.
    pub lead_in: u32,
    /// Blocks in the order of their execution.
    pub steps: Vec<BurstStep>,
    /// Accesses of all steps in program order.
    pub accesses: Vec<BurstAccess>,
}

/// One execution of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstStep {
    /// Index into [`BurstEvidence::blocks`].
    pub block: u32,
    /// Index of its first access in [`Burst::accesses`]; the next step's is one past its last.
    pub first_access: u32,
    /// How the branch at its end was predicted.
    pub branch: Prediction,
}

/// The modelled branch predictor's result for the branch at a block's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prediction {
    /// No branch, or rightly predicted.
    #[default]
    Right,
    /// The direction of a conditional branch was predicted wrongly.
    WrongDirection,
    /// The target of an indirect jump, call or return was predicted wrongly.
    WrongTarget,
}

/// An access with its result in the recorder's caches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstAccess {
    /// The access.
    pub access: TracedAccess,
    /// The level its line was in (of two lines, the farther).
    pub found: Found,
    /// Whether its page's translation was in the modelled first-level TLB, in the second, or nowhere.
    pub translation: Translation,
}

/// The level a line was in when a burst accessed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Found {
    /// In L1.
    #[default]
    L1,
    /// Not in L1, but used so little before that it is in L2.
    L2,
    /// Not in L1, and in L2 no more, as far as the burst's own accesses tell: used by it before, or never. The memory model's share
    /// of levels for that instruction decides.
    Beyond {
        /// The burst had used the line before.
        again: bool,
    },
    /// In the last level. Known only if the recorder saw all accesses before the burst, too.
    L3,
    /// In memory alone. The same.
    Memory,
}

/// The level the translation of a page was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Translation {
    /// First-level TLB.
    #[default]
    First,
    /// Second-level TLB.
    Second,
    /// The page tables have to be walked.
    Walk,
}
