//! The plan for one block, and its result. Relayout plans; a block that is translated for the first time has no plan.

use std::collections::VecDeque;

use crate::translator::code_cache::block::{BlockId, ReturnPoint};
use crate::x86_64::liveness::Dead;
use rprof_tracee::address::{Address, CacheAddress};

/// How a block is to be written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockPlan {
    /// The block that follows it in the cache.
    pub(crate) next: Option<Address>,
    /// That block has no counter in line.
    pub(crate) next_flows: bool,
    /// That block begins with RCX in its slot, as the end of this one leaves it.
    pub(crate) spill_rcx: bool,
    /// The usual target of the indirect jump or call that ends it.
    pub(crate) usual: Option<InlineCache>,
    /// Its callee is inlined behind it.
    pub(crate) copies_callee: bool,
    /// The block that leads to it, if that is not the block before it in the cache.
    pub(crate) runs_in: Option<BlockId>,
}

/// The usual target of the jump at the end of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InlineCache {
    pub(crate) at: Address,
    /// The flags that are dead there.
    pub(crate) dead: Dead,
}

/// The ways of control behind a block that was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    /// The address that it runs into.
    pub(crate) next: Option<Address>,
    /// The landing of an indirect call that misses its inlined usual callee, and the rel32 of the jump behind it.
    pub(crate) landing_aside: Option<(ReturnPoint, CacheAddress)>,
}

/// Targets of the blocks that were written.
#[derive(Debug, Default)]
pub struct Exits {
    /// Their callees, in the order of the calls: certainly executed soon if the blocks are.
    pub calls: VecDeque<Address>,
    /// Their branch targets, and the blocks behind a chain.
    pub others: VecDeque<Address>,
}

impl Exits {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.others.is_empty()
    }

    /// Adds the exits of a callee: its calls come before those already here.
    pub fn prepend(&mut self, mut called: Exits) {
        called.calls.append(&mut self.calls);
        self.calls = called.calls;
        self.others.append(&mut called.others);
    }
}
