//! Inlining of leaves: a hot block that calls one continues in a copy of the leaf's hot blocks
//! ([`inline_analysis`](crate::instrument::translator::relayout::inline_analysis)).
//!
//! ```text
//!  hot:  push the return address         cold:  way out: call ─▶ what is rare of the callee
//!        the callee, but for rare ways ──────▶  land:    [rsp] = the return address? RCX back; jmp behind
//!        lea rsp, [rsp + 8]
//!  behind: the block behind the call
//! ```
//!
//! The program's stack holds its own return address all along, as in the original callee. The CPU's return stack sees no call and
//! no return. Leaving the inlined body therefore goes through a real call, so that the later return is predicted. Only one
//! landing can receive the returns to an address: that behind the first way out.
//!
//! That call writes below the stack pointer, as all calls in the cache do. rprof therefore also does not support a leaf that
//! reads data there that it popped itself.
//!
//! (Measured: a quicksort of 2.3 s whose comparison is called by a pointer, Intel with AVX-512: 1.98 times native with calls,
//! 1.09 with inlining.)
//!
//! The blocks of an inlined body are ordinary blocks, except that no lookup finds them: a thread that is interrupted there
//! continues in the original callee.

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

/// An inlined body: the hot blocks of a callee in place of a call.
pub(crate) struct Copy {
    /// The call, and the block that ends in it.
    call: Address,
    caller: BlockId,
    /// The return address.
    pub(crate) next: Address,
    /// Where the code at the return address begins in the cache.
    behind: CacheAddress,
    /// Entries of the body's blocks.
    entries: Vec<(Address, CacheAddress)>,
    /// Rel32s to fill in, and their targets.
    jumps: Vec<(CacheAddress, Address)>,
    /// Chains still to be written.
    apart: Vec<Vec<Placed>>,
    /// There is a landing for returns to it.
    lands: bool,
}

impl Copy {
    /// Records that the block at `start` is entered at `entry`.
    pub(crate) fn enter(&mut self, start: Address, entry: CacheAddress) {
        self.entries.push((start, entry));
    }
}

/// Offset of the tag in a landing.
fn tag_in_landing(next: Address) -> u64 {
    let mut landing = Code::new(CacheAddress::new(0));
    unless_equal(&mut landing, next, Arrival::Return).tag.0.get()
}

impl Writer<'_> {
    /// Links the rel32 at `patch` to `target`, which may be in the same inlined body.
    pub(crate) fn lead(&mut self, patch: CacheAddress, target: Address) {
        match &mut self.unit.copy {
            Some(copy) => copy.jumps.push((patch, target)),
            None => _ = self.exit(patch, target),
        }
    }

    /// Writes a call of the address in RDX, which is not the inlined callee, and its landing to the cold part. The hot part
    /// continues with the call at `call`, behind the push.
    pub(crate) fn call_aside(&mut self, call: CacheAddress) {
        let next = self.block.next();
        let cold = &mut self.unit.cold;
        cold.pad_for(&[Self::lookup_length() + CALL_TABLE + tag_in_landing(next)]);
        call_looked_up_in(cold, self.space.tables_at(), self.unit.version);
        let (tag, patch) = self.unit.land_in_cold(next);
        let from = self.call_of_block();
        // Another block with the same call cannot continue here.
        self.unit.landing_aside = Some((Landing { from, call, own: true, tag }, patch));
    }

    /// Writes the return of an inlined body; returns the address at which the chain continues.
    pub(crate) fn return_from_copy(&mut self, next: Address) -> Option<Address> {
        self.unit.hot.add_small(RSP, 8);
        Some(next)
    }
}

impl Superblock {
    /// Writes a landing for returns to `next` at the end of the cold part. Returns its comparison's tag, and the rel32 of the
    /// jump behind the call.
    fn land_in_cold(&mut self, next: Address) -> (Tag, CacheAddress) {
        let head = self.cold.here();
        let Comparison { tag, other } = unless_equal(&mut self.cold, next, Arrival::Return);
        self.heads.push(PendingHead { arrival: Arrival::Return, at: next, head, other });
        let here = self.cold.here();
        (tag, self.cold.jump(here))
    }
}

impl CodeCache {
    /// Inlines `leaf` behind the block that calls it and has pushed the return address.
    pub(crate) fn copy_leaf(
        &mut self,
        source: &mut Source<'_>,
        unit: &mut Superblock,
        (call, leaf): (Address, Leaf),
        exits: &mut Exits,
    ) {
        let (Some(caller), Some(entry)) = (unit.last(), leaf.main.first()) else { return };
        let (next, behind) = (self.block(caller).next(), unit.hot.here());
        // A loop may be counted by its induction register.
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

    /// Notes the range of the target comparison of an indirect call: a thread that ends there has executed the call, but not the
    /// inlined body that derives its count from the caller.
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

    /// Writes the remaining chains of the superblock's inlined bodies, and their ways out.
    pub(crate) fn finish_copies(&mut self, source: &mut Source<'_>, unit: &mut Superblock, exits: &mut Exits) {
        for mut copy in std::mem::take(&mut unit.copies) {
            let next = copy.next;
            for chain in std::mem::take(&mut copy.apart) {
                // If these blocks are invalidated, the caller must not continue in the inlined body.
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

    /// Links each jump of an inlined body to its target, inside or outside of it.
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

    /// Registers `landing` for returns from the call of `caller`.
    fn land_behind(&mut self, unit: &Superblock, caller: BlockId, landing: Landing) {
        self.callers.insert(unit.version.place(self.block(caller).next()), caller);
        self.blocks[caller as usize].landing = Some(landing);
    }

    /// Writes a way out of an inlined body, with a landing behind it if `lands`; returns its address.
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
