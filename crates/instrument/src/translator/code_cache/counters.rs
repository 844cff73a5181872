//! The counters of a code cache: the block of each, and their counts so far.

use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::execution_deltas::ExecutionDeltas;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::probe_site::ProbeSite;
use crate::translator::code_cache::totals::Totals;
use crate::translator::code_cache::unsettled::Unsettled;

/// A run-time sum that a counter holds.
#[derive(Debug, Clone, Copy)]
pub struct DynamicSlot {
    /// Its counter.
    pub slot: u32,
    /// The instruction's block.
    pub block: BlockId,
    /// Byte offset of the instruction in the block.
    pub offset: u32,
    /// The quantity that it sums.
    pub sum: Sum,
    /// Bytes from the block's entry behind which active lanes have been added.
    pub added_at: u32,
}

/// The quantity of a run-time sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// Iterations of a `rep` instruction.
    Iterations,
    /// Active lanes.
    Lanes,
}

/// Counters by number, the same in all contexts.
#[derive(Debug, Default)]
pub struct Counters {
    /// Their number.
    pub(crate) slots: u32,
    /// Those of run-time sums.
    pub(crate) dynamic: Vec<DynamicSlot>,
    /// System calls counted by number: the block, and the first of [`layout::CALL_NUMBERS`] counters.
    pub(crate) numbered_calls: Vec<(BlockId, u32)>,
    /// The instructions that buffer entries refer to; also those of versions that record nothing.
    pub(crate) probe_sites: Vec<ProbeSite>,
    /// Counted so far.
    pub(crate) totals: Totals,
    /// Executions in marked regions: counters by path instead of by thread.
    pub(crate) marked: Totals,
    /// The counter values last reported to the access sink.
    pub(crate) deltas: ExecutionDeltas,
    /// Cache ranges in which a thread that ends leaves a counter wrong.
    pub(crate) unsettled: Vec<Unsettled>,
}

impl Counters {
    /// The first of `n` new counters that follow one another; `None` if a context has no room for them.
    pub(crate) fn new_slots(&mut self, n: u32) -> Option<u32> {
        (self.slots + n <= layout::MAX_SLOTS).then(|| {
            self.slots += n;
            self.slots - n
        })
    }
}
