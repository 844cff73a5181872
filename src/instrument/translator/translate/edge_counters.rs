//! Hot blocks without a counter in line: rprof computes their executions from the counter of the block before, which falls
//! through into them, and from counters on the edges in and out.
//!
//! ```text
//!  hot:   A, counted; jcc ─▶ leave       B, not counted …     cold:  leave: what leaves A + 1; jmp to where it went
//!                                                                     side:  what enters B + 1; jmp B   ◀─ whoever else goes to B
//!  executions of B = what enters B + executions of A − what leaves A
//! ```
//!
//! A thread that is interrupted in B has not executed it: rprof then subtracts one from the counter of entries to B.

use crate::instrument::translator::code_cache::block::BlockId;
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::counts::flush_on_exit::{Due, Unsettled};
use crate::instrument::translator::translate::block_emitter::Writer;
use crate::instrument::translator::translate::superblock::Superblock;
use crate::instrument::x86_64::decode::{Decoded, End};
use crate::instrument::x86_64::emit::{Code, Gpr, RCX, relative};
use crate::instrument::x86_64::liveness::Dead;
use crate::tracee::address::{Address, CacheAddress};

/// How a block without a counter in line is counted. Its own counter counts entries from elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// The block before it.
    pub from: BlockId,
    /// The counter of that block's exits to elsewhere, if it has one.
    pub left: Option<u32>,
}

/// A counted exit of a block, needed because the block behind has no counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    /// Its counter.
    pub slot: u32,
    /// The flags that are dead at its target.
    pub dead: Dead,
}

/// Whether every execution of `block` either takes a counted exit or falls through to the next block in the chain. (The successor
/// of an indirect jump is its usual target.)
pub(crate) fn runs_on(block: &Decoded, usual: Option<Address>) -> bool {
    match block.end {
        End::JumpIndirect => usual.is_some_and(|to| to != block.start),
        End::Next | End::Jump(_) => true,
        // A loop may be counted by its induction register.
        End::Branch(..) => !block.repeats(),
        _ => false,
    }
}

/// Writes an increment at the end of `code`, where the `dead` flags are free and RCX is in its slot if `parked`; returns the
/// address at which the count is complete.
fn count(code: &mut Code, slot: u32, dead: Dead, parked: bool) -> CacheAddress {
    let counter = layout::counter(slot);
    if dead != Dead::None {
        code.increment(counter, dead);
        return code.here();
    }
    if parked {
        count_with(code, RCX, slot);
        return code.here();
    }
    code.save(layout::SAVE_LENT, RCX);
    count_with(code, RCX, slot);
    let counted = code.here();
    code.load(RCX, layout::SAVE_LENT);
    counted
}

/// Writes an increment that uses a free register.
pub(crate) fn count_with(code: &mut Code, free: Gpr, slot: u32) {
    let counter = layout::counter(slot);
    code.load(free, counter);
    code.add_small(free, 1);
    code.save(counter, free);
}

impl Writer<'_> {
    /// Links the branch whose rel32 is at `patch` to `to`, and counts it if the block behind has no counter.
    pub(crate) fn branch_away(&mut self, patch: CacheAddress, to: Address) {
        let Some(Leave { slot, dead }) = self.leave else {
            self.lead(patch, to);
            return;
        };
        let cold = &mut self.unit.cold;
        let stub = cold.here();
        let counted = count(cold, slot, dead, self.parked);
        if self.parked {
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
        self.space.unsettled.push(Unsettled { from, until, slot, due: Due::Executions(1) });
    }
}

impl CodeCache {
    /// Writes the side entry of the block at `entry`, for jumps from elsewhere: it counts in `slot` if the block has no counter
    /// in line, and saves RCX to its slot if the block expects it there.
    pub(crate) fn write_side(
        &mut self,
        unit: &mut Superblock,
        slot: Option<(u32, Dead)>,
        parked: bool,
        entry: CacheAddress,
    ) -> CacheAddress {
        let cold = &mut unit.cold;
        let side = cold.here();
        if parked {
            cold.save(layout::SAVE_RCX, RCX);
        }
        let counted = slot.map(|(slot, dead)| (slot, count(cold, slot, dead, parked)));
        cold.jump(entry);
        if let Some((slot, from)) = counted {
            self.unsettled.push(Unsettled { from, until: cold.here(), slot, due: Due::Executions(-1) });
        }
        side
    }

    /// Adds the executions that fell through from the blocks before to the counters, by slot. The counters are of running
    /// threads: they were read one after the other.
    pub fn add_flows(&self, counts: &mut [u64]) {
        let get = |counts: &[u64], slot: u32| counts.get(slot as usize).map_or(0, |&n| n as i64);
        for block in self.blocks.iter() {
            let Some(Flow { from, left, .. }) = block.flow else { continue };
            let from = get(counts, self.block(from).slot) - left.map_or(0, |slot| get(counts, slot));
            if let Some(count) = counts.get_mut(block.slot as usize) {
                *count = (*count as i64 + from).max(0) as u64;
            }
        }
    }
}
