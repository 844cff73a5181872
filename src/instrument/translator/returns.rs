//! Calls and returns: the program's stack holds the program's own return addresses, and yet the processor predicts where
//! a translated return goes, because it executed a `call` and executes a `ret`.
//!
//! ```text
//!  call:  call way                             return:  pop rdx
//!  land:  rdx = the return address? ─no─▶ …             movzx ecx, dx; push table[rcx]; ret ─▶ land (as predicted)
//!         mov [rsp − 8], rdx; registers back
//!         the block behind the call
//!  way:   lea rsp, [rsp + 8]; push the program's return address; jmp callee
//! ```
//!
//! A landing that does not belong to the return address leads on to the next one whose address has the same low 16 bits,
//! and the last to rprof.

use std::sync::atomic::Ordering;

use super::arena::Part;
use super::block::{BlockId, Landing, SiteId};
use super::layout;
use super::space::CodeSpace;
use super::unit::Unit;
use super::version::Version;
use super::writer::Writer;
use crate::instrument::x86_64::emit::{Code, RCX, RDX, RSP, relative};
use crate::target::address::{Address, CacheAddress};

/// How control gets to a place that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// By an indirect jump or call.
    Jump,
    /// By a return, whose slot on the stack held the cache's address for a moment.
    Return,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callee {
    /// The block at this address.
    At(Address),
    /// What RDX says; RCX and RDX are saved.
    InRdx,
}

/// A `call` whose way to the callee is still to be written.
#[derive(Debug)]
pub(super) struct PendingCall {
    /// Its rel32.
    patch: CacheAddress,
    back: Address,
    callee: Callee,
}

/// A landing that is not reachable yet.
#[derive(Debug)]
pub(super) struct PendingLanding {
    at: Address,
    head: CacheAddress,
    /// The rel32 that leads on if the address is another one.
    other: CacheAddress,
}

/// Ends a comparison that leaves 0 in RCX for the address looked for; returns the rel32 of the way for all others.
fn unless_equal(code: &mut Code, arrival: Arrival) -> CacheAddress {
    let hit = code.jump_if_rcx_zero();
    code.raw(&[0xe9]); // jmp
    let other = code.relative(code.here());
    code.land(hit);
    if arrival == Arrival::Return {
        code.store_at(RSP, -8, RDX);
    }
    code.load(RCX, layout::SAVE_RCX);
    code.load(RDX, layout::SAVE_RDX);
    other
}

impl Writer<'_> {
    /// The block's call; returns the address that the chain goes on with.
    pub(super) fn call(&mut self, callee: Callee) -> Option<Address> {
        let next = self.block.next();
        let from = self.block.start + u64::from(self.last_offset());
        if let Some(there) = self.same_call(from, next) {
            self.unit.hot.jump(there);
            return None;
        }
        let hot = &mut self.unit.hot;
        // The tag, in one form of the comparison or the other, must not stand across a cache line.
        hot.align_patch(if i32::try_from(next.get()).is_ok() { 5 + 3 } else { 5 + 6 });
        let call = hot.here();
        let patch = hot.call(call);
        let head = hot.here();
        let tag = hot.compare_to_rcx(RDX, next.get());
        let other = unless_equal(hot, Arrival::Return);
        self.unit.calls.push(PendingCall { patch, back: next, callee });
        self.unit.landings.push(PendingLanding { at: next, head, other });
        self.landing = Some(Landing { from, call, tag });
        Some(next)
    }

    /// Where another block that ends in the same call executes it: only one landing can be the predicted one.
    fn same_call(&self, from: Address, next: Address) -> Option<CacheAddress> {
        let id = *self.space.callers.get(&self.unit.version.place(next))?;
        let landing = self.space.block(id).landing.filter(|l| l.from == from)?;
        let near = landing.call.get().abs_diff(self.unit.hot.here().get()) < 1 << 30;
        near.then_some(landing.call)
    }

    pub(super) fn return_to_caller(&mut self, drop: u32, counted: bool) {
        self.unit.hot.save(layout::SAVE_RDX, RDX);
        self.point(self.last_offset(), super::block::Moved::Nothing);
        self.unit.hot.pop(RDX);
        if drop > 0 {
            // What lies below the stack then is an argument, and stays one.
            self.unit.hot.drop_stack(drop);
        }
        self.save_rcx(counted);
        if drop > 0 {
            self.look_up();
            return;
        }
        self.unit.hot.low_16_to_ecx(RDX);
        self.unit.hot.return_table(self.space.tables_at() + self.unit.version.returns());
    }
}

impl CodeSpace {
    /// Fills the lookup tables of `version` once: nothing is found in them yet.
    pub(super) fn prepare_lookups(&mut self, version: Version) {
        if std::mem::replace(&mut self.prepared[version as usize], true) {
            return;
        }
        let Some(stubs) = self.arenas.first().map(|a| a.stubs) else { return };
        for (table, miss) in [(version.lookup(), stubs.indirect), (version.returns(), stubs.returned)] {
            let entries: Vec<u8> = (0..layout::LOOKUP_ENTRIES).flat_map(|_| miss.get().to_le_bytes()).collect();
            self.tables.write(u64::from(table), &entries);
        }
    }

    /// Writes the ways of a unit's calls to their callees, behind its blocks.
    pub(super) fn write_calls(&mut self, unit: &mut Unit) {
        for PendingCall { patch, back, callee } in std::mem::take(&mut unit.calls) {
            let hot = &mut unit.hot;
            let small = i32::try_from(back.get()).is_ok();
            if !small {
                hot.align(8);
                hot.raw(&back.get().to_le_bytes());
            }
            let way = hot.here();
            hot.set_word(patch, relative(patch, way));
            if small {
                hot.store_wide_at_stack(back.get() as u32);
            } else {
                hot.add_small(RSP, 8);
                hot.push_word_at(way - 8);
            }
            match callee {
                Callee::At(to) => {
                    let patch = hot.jump(hot.here());
                    let site = self.new_site(patch, unit.version, to);
                    unit.sites.push(site);
                }
                Callee::InRdx => {
                    hot.low_16_to_ecx(RDX);
                    hot.jump_table(self.tables_at() + unit.version.lookup());
                }
            }
        }
    }

    fn entry_of(version: Version, at: Address, arrival: Arrival) -> u64 {
        let table = if arrival == Arrival::Return { version.returns() } else { version.lookup() };
        u64::from(at.get() as u16) * 8 + u64::from(table)
    }

    /// Puts a unit's landings before those found so far; returns which entries of the tables are to lead to them, in
    /// order, once the unit's code is in place.
    pub(super) fn chain_landings(&mut self, unit: &mut Unit) -> Vec<(u64, CacheAddress)> {
        let mut heads: Vec<(u64, CacheAddress)> = Vec::new();
        for PendingLanding { at, head, other } in std::mem::take(&mut unit.landings) {
            let entry = Self::entry_of(unit.version, at, Arrival::Return);
            let before = heads.iter().rev().find(|(e, _)| *e == entry).map(|(_, head)| *head);
            let next = before.unwrap_or_else(|| CacheAddress::new(self.tables.word(entry).load(Ordering::Relaxed)));
            let way = reachable(&mut unit.cold, other, next);
            unit.hot.set_word(other, way);
            heads.push((entry, head));
        }
        heads
    }

    /// Makes `at`, whose block is translated, reachable by lookups of `version`.
    pub fn publish(&mut self, version: Version, at: Address, arrival: Arrival) {
        let place = version.place(at);
        let known = if arrival == Arrival::Return { &self.return_entries } else { &self.entries };
        if known.contains_key(&place) {
            return;
        }
        let Some(id) = self.find(version, at) else { return };
        let Some(arena) = self.arena_of(self.blocks[id as usize].entry) else { return };
        let index = Self::entry_of(version, at, arrival);
        let next = CacheAddress::new(self.tables.word(index).load(Ordering::Relaxed));
        let mut code = Code::new(self.arenas[arena].next(Part::Cold));
        code.align(32);
        let head = code.here();
        code.compare_to_rcx(RDX, at.get());
        let other = unless_equal(&mut code, arrival);
        let entry = self.blocks[id as usize].entry;
        let patch = code.jump(entry);
        let way = reachable(&mut code, other, next);
        code.set_word(other, way);
        let site = self.new_site(patch, version, at);
        self.arenas[arena].append(Part::Cold, code.bytes());
        self.lead(site, id);
        let known = if arrival == Arrival::Return { &mut self.return_entries } else { &mut self.entries };
        known.insert(place, site);
        self.tables.word(index).store(head.get(), Ordering::Release);
    }

    fn lead(&mut self, site: SiteId, id: BlockId) {
        self.sites[site as usize].linked = Some(id);
        self.blocks[id as usize].incoming.push(site);
    }

    /// The block that the landing of `caller` runs into is dropped: no return may land there any more.
    pub(super) fn close_landing(&mut self, caller: Option<BlockId>) {
        let Some(Landing { tag: (at, never), .. }) = caller.and_then(|id| self.block(id).landing) else { return };
        if let Some(arena) = self.arena_of(at) {
            self.arenas[arena].patch(at, never);
        }
    }
}

/// What the rel32 at `from` must be to reach `to`, by way of a far jump at `code`'s end if need be.
fn reachable(code: &mut Code, from: CacheAddress, to: CacheAddress) -> u32 {
    if from.get().abs_diff(to.get()) < 1 << 30 {
        return relative(from, to);
    }
    let jump = code.here();
    code.jump_far(to.get());
    relative(from, jump)
}
