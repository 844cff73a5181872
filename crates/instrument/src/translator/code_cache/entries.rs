//! The ways into blocks: where exits enter them, and the comparisons by which lookups and returns come.

use crate::translator::code_cache::block::{BlockId, CompareImmediate, SiteId};
use crate::translator::code_cache::cache::CodeCache;
use crate::x86_64::emit::{Code, RSP};
use rprof_tracee::address::CacheAddress;

impl CodeCache {
    /// Address at which `site` enters block `id`; code that it needs is written to `cold`.
    pub(crate) fn entry_for(&mut self, site: SiteId, id: BlockId, cold: &mut Code) -> CacheAddress {
        let block = &self.blocks[id as usize];
        let entry = block.way_in();
        if !self.sites[site as usize].calls {
            return entry;
        }
        if let Some(called) = block.called {
            return called;
        }
        // The block was not known to be called when it was written.
        cold.align(16);
        let called = cold.here();
        cold.add_small(RSP, 8);
        if called.get().abs_diff(entry.get()) < 1 << 30 {
            cold.jump(entry);
        } else {
            cold.jump_far(entry.get());
        }
        self.blocks[id as usize].called = Some(called);
        called
    }

    /// Closes the landing of `caller`: its next block is invalidated, and no return may land there any more.
    pub(crate) fn close_landing(&mut self, caller: Option<BlockId>) {
        if let Some(landing) = caller.and_then(|id| self.block(id).landing) {
            self.close_tag(landing.tag);
        }
    }

    /// Overwrites the tag, so that the comparison fails for every address.
    pub(crate) fn close_tag(&mut self, (at, never): CompareImmediate) {
        if let Some(arena) = self.arena_of(at) {
            self.arenas[arena].patch(at, never);
        }
    }
}
