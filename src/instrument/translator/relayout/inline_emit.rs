//! Calls of leaves that are no calls: a hot block that calls one goes on in a copy of what is hot of it ([`leaves`](crate::instrument::translator::relayout::inline_analysis)).
//!
//! ```text
//!  hot:  push the return address         cold:  way out: call ─▶ what is rare of the callee
//!        the callee, but for rare ways ──────▶  land:    [rsp] = the return address? RCX back; jmp behind
//!        lea rsp, [rsp + 8]
//!  behind: the block behind the call
//! ```
//!
//! The program's stack holds its own return address all along, as in the callee proper. The processor has seen neither call nor
//! return; whoever leaves the copy calls what he goes to, so that the return from there has its call. Only one landing can be
//! the one that returns to an address come to: that behind the first way out.
//!
//! That call writes below the stack pointer, as all of ours do: here a function that reads there itself what it popped is not
//! served, either.
//!
//! (Measured: a quicksort of 2.3 s whose comparison is called by a pointer, Intel with AVX-512: 1.98 times native with calls,
//! 1.09 so.)
//!
//! A copy's blocks are blocks like others, but nobody finds them: who is interrupted there goes on in the callee proper.

use crate::instrument::translator::code_cache::block::{BlockId, Landing, Tag};
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::counts::flush_on_exit::{Due, Unsettled};
use crate::instrument::translator::relayout::inline_analysis::Leaf;
use crate::instrument::translator::relayout::lookup_order::PendingHead;
use crate::instrument::translator::relayout::pettis_hansen::Placed;
use crate::instrument::translator::translate::ahead::Exits;
use crate::instrument::translator::translate::block_emitter::Writer;
use crate::instrument::translator::translate::returns::{Arrival, CALL, CALL_TABLE, call_looked_up_in, unless_equal};
use crate::instrument::translator::translate::superblock::Superblock;
use crate::instrument::translator::translate::text_reader::Source;
use crate::instrument::x86_64::compare::Comparison;
use crate::instrument::x86_64::emit::{Code, RSP, relative};
use crate::tracee::address::{Address, CacheAddress};

/// The hot blocks of a callee in place of a call.
pub(crate) struct Copy {
    /// The call, and the block that ends in it.
    call: Address,
    caller: BlockId,
    /// Where it would return to.
    pub(crate) next: Address,
    /// Where that goes on in the cache.
    behind: CacheAddress,
    /// Where the blocks of the copy are entered.
    entries: Vec<(Address, CacheAddress)>,
    /// Rel32s that lead on, and where.
    jumps: Vec<(CacheAddress, Address)>,
    /// What is still to be written.
    apart: Vec<Vec<Placed>>,
    /// Somewhere returns to it land.
    lands: bool,
}

impl Copy {
    /// A block that starts at `start` is entered at `entry`.
    pub(crate) fn enter(&mut self, start: Address, entry: CacheAddress) {
        self.entries.push((start, entry));
    }
}

/// Where in a landing what it compares stands.
fn tag_in_landing(next: Address) -> u64 {
    let mut landing = Code::new(CacheAddress::new(0));
    unless_equal(&mut landing, next, Arrival::Return).tag.0.get()
}

impl Writer<'_> {
    /// The rel32 at `patch` is to lead to `target`, which may be in the same copy.
    pub(crate) fn lead(&mut self, patch: CacheAddress, target: Address) {
        match &mut self.unit.copy {
            Some(copy) => copy.jumps.push((patch, target)),
            None => _ = self.exit(patch, target),
        }
    }

    /// In the cold part: calls what RDX says, which is not what is copied, and lands there. The hot part goes on with the call at
    /// `call`, behind the push.
    pub(crate) fn call_aside(&mut self, call: CacheAddress) {
        let next = self.block.next();
        let cold = &mut self.unit.cold;
        cold.pad_for(&[Self::lookup_length() + CALL_TABLE + tag_in_landing(next)]);
        call_looked_up_in(cold, self.space.tables_at(), self.unit.version);
        let (tag, patch) = self.unit.land_in_cold(next);
        let from = self.call_of_block();
        // Another block with the same call has nothing to go on with here.
        self.unit.landing_aside = Some((Landing { from, call, own: true, tag }, patch));
    }

    /// The return of a copy; returns where the chain goes on.
    pub(crate) fn return_from_copy(&mut self, next: Address) -> Option<Address> {
        self.unit.hot.add_small(RSP, 8);
        Some(next)
    }
}

impl Superblock {
    /// At the end of the cold part: what a return to `next` comes to. Returns its comparison's tag, and the rel32 that is to lead
    /// behind the call.
    fn land_in_cold(&mut self, next: Address) -> (Tag, CacheAddress) {
        let head = self.cold.here();
        let Comparison { tag, other } = unless_equal(&mut self.cold, next, Arrival::Return);
        self.heads.push(PendingHead { arrival: Arrival::Return, at: next, head, other });
        let here = self.cold.here();
        (tag, self.cold.jump(here))
    }
}

impl CodeCache {
    /// Goes on in a copy of `leaf`, behind the block that calls it and has pushed the return address.
    pub(crate) fn copy_leaf(
        &mut self,
        source: &mut Source<'_>,
        unit: &mut Superblock,
        (call, leaf): (Address, Leaf),
        exits: &mut Exits,
    ) {
        let (Some(caller), Some(entry)) = (unit.last(), leaf.main.first()) else { return };
        let (next, behind) = (self.block(caller).next(), unit.hot.here());
        // A loop may be counted by what it changes.
        let repeats = source.block(entry.at).is_none_or(|b| b.repeats());
        unit.flow = unit.flow.filter(|_| !repeats);
        let aside = unit.landing_aside.take();
        let jumps = aside.iter().map(|&(_, patch)| (patch, next)).collect();
        unit.copy = Some(Copy {
            call,
            caller,
            next,
            behind,
            entries: vec![],
            jumps,
            apart: leaf.apart,
            lands: aside.is_some(),
        });
        if let Some((landing, _)) = aside {
            self.land_behind(unit, caller, landing);
        }
        let runs_into = self.write_placed(source, unit, &leaf.main, exits);
        unit.flow = None;
        self.note_unsettled_copy(caller);
        let Some(mut copy) = unit.copy.take() else { return };
        if let Some(to) = runs_into.filter(|&to| to != next) {
            copy.jumps.push((unit.hot.jump(unit.hot.here()), to));
        }
        copy.behind = unit.hot.here();
        unit.copies.push(copy);
    }

    /// Who ends while the target of an indirect call is compared has executed the call, but not the copy that flows from it.
    fn note_unsettled_copy(&mut self, caller: BlockId) {
        let (from, Some(landing)) = (self.block(caller), self.block(caller).landing) else { return };
        let first = caller + 1;
        if first as usize >= self.blocks.len() || self.block(first).flow.is_none() {
            return;
        }
        let first = self.block(first);
        let counted = from.entry + u64::from(from.counted_at);
        let (from, until, slot) = (landing.call.max(counted), first.entry, first.slot);
        self.unsettled.push(Unsettled { from, until, slot, due: Due::Executions(-1) });
    }

    /// Writes what stands apart of the unit's copies, and their ways out.
    pub(crate) fn finish_copies(&mut self, source: &mut Source<'_>, unit: &mut Superblock, exits: &mut Exits) {
        for mut copy in std::mem::take(&mut unit.copies) {
            let next = copy.next;
            for chain in std::mem::take(&mut copy.apart) {
                // Without it the caller does not go on in the copy.
                unit.runs_in = Some(copy.caller);
                unit.flow = None;
                unit.copy = Some(copy);
                let runs_into = self.write_placed(source, unit, &chain, exits);
                unit.runs_in = None;
                let Some(written) = unit.copy.take() else { return };
                copy = written;
                if let Some(to) = runs_into {
                    let patch = unit.hot.jump(unit.hot.here());
                    copy.jumps.push((patch, to));
                }
            }
            copy.entries.push((next, copy.behind));
            self.lead_on(unit, copy);
        }
    }

    /// Leads each jump of a copy to where it goes, in the copy or out of it.
    fn lead_on(&mut self, unit: &mut Superblock, copy: Copy) {
        let mut ways_out: Vec<(Address, CacheAddress)> = Vec::new();
        for &(patch, to) in &copy.jumps {
            let known = copy.entries.iter().chain(&ways_out).find(|(at, _)| *at == to).map(|(_, entry)| *entry);
            let entry = known.unwrap_or_else(|| {
                let way = self.way_out(unit, &copy, to, !copy.lands && ways_out.is_empty());
                ways_out.push((to, way));
                way
            });
            unit.set_word(patch, relative(patch, entry));
        }
    }

    /// The call of `caller` returns to `landing`.
    fn land_behind(&mut self, unit: &Superblock, caller: BlockId, landing: Landing) {
        self.callers.insert(unit.version.place(self.block(caller).next()), caller);
        self.blocks[caller as usize].landing = Some(landing);
    }

    /// Writes a way out of a copy, behind which returns land if `lands`; returns where it begins.
    fn way_out(&mut self, unit: &mut Superblock, copy: &Copy, to: Address, lands: bool) -> CacheAddress {
        let cold = &mut unit.cold;
        if lands {
            cold.pad_for(&[1, CALL + tag_in_landing(copy.next)]);
        } else {
            cold.align_patch(1);
        }
        let way = cold.here();
        let patch = cold.call(way);
        if lands {
            let (tag, on) = unit.land_in_cold(copy.next);
            unit.set_word(on, relative(on, copy.behind));
            self.land_behind(unit, copy.caller, Landing { from: copy.call, call: way, own: true, tag });
        }
        let site = self.new_site(patch, unit.version, to);
        self.sites[site as usize].calls = true;
        unit.sites.push(site);
        way
    }
}
