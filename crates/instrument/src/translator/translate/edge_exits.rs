//! The counted ways into and out of blocks ([`edge_counters`](crate::translator::translate::edge_counters)).

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::unsettled::{Due, Unsettled};
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::edge_counters::{ExitCounter, count, count_with};
use crate::translator::translate::superblock::Superblock;
use crate::x86_64::emit::{RCX, relative};
use crate::x86_64::liveness::Dead;
use rprof_tracee::address::{Address, CacheAddress};

impl Writer<'_> {
    /// Links the branch with its rel32 at `patch` to `to`, and counts it if the block behind has no counter.
    pub(crate) fn branch_away(&mut self, patch: CacheAddress, to: Address) {
        let Some(ExitCounter { slot, dead }) = self.leave else {
            self.lead(patch, to);
            return;
        };
        let cold = &mut self.unit.cold;
        let stub = cold.here();
        let counted = count(cold, slot, dead, self.rcx_spilled);
        if self.rcx_spilled {
            cold.load(RCX, layout::SAVE_RCX);
        }
        let jump = cold.jump(cold.here());
        self.unit.hot.set_word(patch, relative(patch, stub));
        self.note_unsettled(slot, stub, counted);
        self.lead(jump, to);
    }

    /// Counts an exit in the cold part, at `from`, with RCX saved.
    pub(crate) fn count_aside_with_rcx(&mut self, slot: u32, from: CacheAddress) {
        let cold = &mut self.unit.cold;
        count_with(cold, RCX, slot);
        let counted = cold.here();
        self.note_unsettled(slot, from, counted);
    }

    fn note_unsettled(&mut self, slot: u32, from: CacheAddress, until: CacheAddress) {
        self.cache.counters.unsettled.push(Unsettled { from, until, slot, due: Due::Executions(1) });
    }
}

impl CodeCache {
    /// Writes the side entry of the block at `entry`, for jumps from elsewhere: it counts in `slot` if the block has no counter
    /// in line, and saves RCX to its slot if the block expects it there.
    pub(crate) fn write_side(
        &mut self,
        unit: &mut Superblock,
        slot: Option<(u32, Dead)>,
        rcx_spilled: bool,
        entry: CacheAddress,
    ) -> CacheAddress {
        let cold = &mut unit.cold;
        let side = cold.here();
        if rcx_spilled {
            cold.save(layout::SAVE_RCX, RCX);
        }
        let counted = slot.map(|(slot, dead)| (slot, count(cold, slot, dead, rcx_spilled)));
        cold.jump(entry);
        if let Some((slot, from)) = counted {
            self.counters.unsettled.push(Unsettled { from, until: cold.here(), slot, due: Due::Executions(-1) });
        }
        side
    }
}
