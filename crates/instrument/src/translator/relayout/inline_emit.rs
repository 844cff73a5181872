//! Inlining of leaves: a hot block that calls one continues in a copy of the leaf's hot blocks
//! ([`inline_analysis`](crate::translator::relayout::inline_analysis)).
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
//! (Measured: a quicksort of 2.3 s that calls its comparison through a pointer, Intel with AVX-512: 1.98 times native with
//! calls, 1.09 with inlining.)
//!
//! The blocks of an inlined body are ordinary blocks, except that no lookup finds them: a thread that is interrupted there
//! continues in the original callee.

use crate::translator::code_cache::block::{BlockId, ReturnPoint};
use crate::translator::code_cache::unsettled::{Due, Unsettled};
use crate::translator::relayout::chain_writer::ChainWriter;
use crate::translator::relayout::inline_analysis::Leaf;
use crate::translator::translate::inlined::tag_in_landing;
use crate::translator::translate::inlined_body::InlinedBody;
use crate::translator::translate::returns::CALL;
use crate::translator::translate::superblock::Superblock;
use crate::x86_64::emit::relative;
use rprof_tracee::address::{Address, CacheAddress};

impl ChainWriter<'_, '_> {
    /// Inlines `leaf` behind the block that calls it and has pushed the return address. `aside` is the landing of an indirect call
    /// that misses it.
    pub(crate) fn copy_leaf(
        &mut self,
        unit: &mut Superblock,
        (call, leaf): (Address, Leaf),
        aside: Option<(ReturnPoint, CacheAddress)>,
    ) {
        let (Some(caller), Some(entry)) = (unit.last(), leaf.main.first()) else { return };
        let (next, behind) = (self.cache.block(caller).next(), unit.hot.here());
        // A loop may be counted by its induction register.
        let repeats = self.source.block(entry.at).is_none_or(|b| b.repeats());
        unit.handed.flow = unit.handed.flow.filter(|_| !repeats);
        let jumps = aside.iter().map(|&(_, patch)| (patch, next)).collect();
        unit.copy = Some(InlinedBody { call, caller, next, behind, entries: vec![], jumps, lands: aside.is_some() });
        if let Some((landing, _)) = aside {
            self.land_behind(unit, caller, landing);
        }
        let runs_into = self.write_chain(unit, &leaf.main, None);
        unit.handed.flow = None;
        self.note_unsettled_copy(caller);
        let Some(mut copy) = unit.copy.take() else { return };
        if let Some(to) = runs_into.filter(|&to| to != next) {
            copy.jumps.push((unit.hot.jump(unit.hot.here()), to));
        }
        copy.behind = unit.hot.here();
        self.bodies.push((copy, leaf.apart));
    }

    /// Notes the range of the target comparison of an indirect call: a thread that ends there has executed the call, but not the
    /// inlined body that derives its count from the caller.
    fn note_unsettled_copy(&mut self, caller: BlockId) {
        let (from, Some(landing)) = (self.cache.block(caller), self.cache.block(caller).landing) else { return };
        let first = caller + 1;
        if first as usize >= self.cache.blocks.len() || self.cache.block(first).flow.is_none() {
            return;
        }
        let first = self.cache.block(first);
        let counted = from.entry + u64::from(from.counted_at);
        let (from, until, slot) = (landing.call.max(counted), first.entry, first.slot);
        self.cache.counters.unsettled.push(Unsettled { from, until, slot, due: Due::Executions(-1) });
    }

    /// Writes the remaining chains of the superblock's inlined bodies, and their ways out.
    pub(crate) fn finish_copies(&mut self, unit: &mut Superblock) {
        for (mut copy, apart) in std::mem::take(&mut self.bodies) {
            let (next, caller) = (copy.next, copy.caller);
            for chain in apart {
                unit.handed.flow = None;
                unit.copy = Some(copy);
                // If these blocks are invalidated, the caller must not continue in the inlined body.
                let runs_into = self.write_chain(unit, &chain, Some(caller));
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
    fn lead_on(&mut self, unit: &mut Superblock, copy: InlinedBody) {
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
    fn land_behind(&mut self, unit: &Superblock, caller: BlockId, landing: ReturnPoint) {
        self.cache.lookups.callers.insert(unit.version.place(self.cache.block(caller).next()), caller);
        self.cache.blocks[caller as usize].landing = Some(landing);
    }

    /// Writes a way out of an inlined body, with a landing behind it if `lands`; returns its address.
    fn way_out(&mut self, unit: &mut Superblock, copy: &InlinedBody, to: Address, lands: bool) -> CacheAddress {
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
            self.land_behind(unit, copy.caller, ReturnPoint { from: copy.call, call: way, own: true, tag });
        }
        let site = self.cache.new_site(patch, unit.version, to);
        self.cache.sites[site as usize].calls = true;
        unit.sites.push(site);
        way
    }
}
