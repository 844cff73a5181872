//! Calls and returns: the program's stack holds the program's own return addresses, and yet the processor predicts where
//! a translated return goes, because it executed a `call` and executes a `ret`.
//!
//! ```text
//!  call:  push the program's return address; call ─▶ lea rsp, [rsp + 8]; callee
//!  land:  [rsp] = the return address? ─no─▶ …         ⋮
//!         lea rsp, [rsp + 8]; RCX back if needed      rcx = the entry of [rsp]
//!         the block behind the call  ◀── as predicted ── push table[rcx]; ret
//! ```
//!
//! A landing that does not belong to the return address leads on to the next one whose address has the same entry, and
//! the last to rprof. A return to any but the first of them is predicted wrong, and a large program has some 70,000 landings:
//! there are 262,144 entries, found by bits of the address from the fourth on, so that calls which are close together have
//! theirs in the same cache line (measured on cc1, Zen 5: 6 to 9 % less time than with 65,536 entries by the low 16 bits).
//! Indirect jumps and calls are looked up alike, in 65,536 entries: what compares it stands apart from the
//! block, until the block is hot and placed anew; then right before it.
//!
//! No jump may lie between the call and the callee: it would take a place in the processor's table of branches, which large
//! programs fill (measured: 2,000 functions, 4,000 calls of them in turn, Zen 4: 3.5 ns a call natively, 5.3 so, 18 with a
//! jump on the way to the callee, 25 with returns by an indirect jump).
//!
//! Where a `loop` is slow (Intel's), the comparison of a landing behind which no flags are needed is a `cmp` whose branch is not
//! taken, with the flags below the return address for the way to another landing: `jrcxz` would be a taken branch at each
//! landing, and those of a large program are more than the processor remembers (measured: 12,000 functions that call two
//! others each, Intel with AVX-512: 4.0 ns a call natively, 15.4 with `jrcxz`, 9.8 so).
//!
//! Where code is the bottleneck, hot returns share what looks their addresses up: a `ret` is predicted wherever it stands.
//!
//! ```text
//!  push [rsp]; jmp ─▶ rcx = the entry of [rsp]; [rsp] = table[rcx]; ret
//! ```
//!
//! The word is read where it is known whose return that is, should it not be readable. (Measured: 6,000 functions that call two
//! others each, Intel with AVX-512: 8.5 ns a call natively, 17.5 with all of it in line, 13.5 so; 2,000 of them: 2.7, 2.9, 3.0.)
//!
//! The word below the program's return address holds the cache's when the callee begins, and that or flags when it has
//! returned. The ABI leaves what lies below the stack pointer to chance at a call and at a return; a program whose callees read
//! there what their callers left, or the other way round, is not served. Where that word cannot be written, the fault is ours,
//! and rprof goes on for the program ([`CodeCache::transfer_at`], [`CodeCache::return_at`]).
//!
//! A return needs no register but RCX: one that is saved and loaded again return after return makes whoever needs it wait for
//! all of them (measured on CPython, Zen 4).

use std::sync::atomic::Ordering;

use crate::instrument::translator::code_cache::arena::Part;
use crate::instrument::translator::code_cache::block::{BlockId, Landing, Moved, SiteId, Tag};
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::hash::AddressMap;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::stubs::{CALLEE, RETURN};
use crate::instrument::translator::code_cache::version::{Place, Version};
use crate::instrument::translator::relayout::lookup_order::PendingHead;
use crate::instrument::translator::translate::block_emitter::Writer;
use crate::instrument::translator::translate::superblock::Superblock;
use crate::instrument::x86_64::compare::{Comparison, PUSHFQ};
use crate::instrument::x86_64::emit::{Code, PUSH_TOP, RCX, RDX, RSP, reached, relative};
use crate::instrument::x86_64::lookup_index::{RETURN_ENTRIES, TARGET_ENTRIES, lookup_index, mask};
use crate::tracee::address::{Address, CacheAddress};

/// Bytes of a direct `call`.
pub(crate) const CALL: u64 = 5;
/// Bytes of a `call` through a table.
pub(crate) const CALL_TABLE: u64 = 7;

/// How control gets to a place that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// By an indirect jump, or a return that drops arguments.
    Jump,
    /// By an indirect call, which left the cache's return address on the stack.
    Call,
    /// By a return, whose slot on the stack held the cache's address for a moment.
    Return,
}

impl Arrival {
    /// How control got to the lookup that asks as `site`; `None` if that is an exit.
    pub fn of(site: SiteId) -> Option<Arrival> {
        match site {
            0 => Some(Arrival::Jump),
            CALLEE => Some(Arrival::Call),
            RETURN => Some(Arrival::Return),
            _ => None,
        }
    }
}

/// A transfer of control of the program, of which only the cache's own part is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// A call of this address.
    Call(Address),
    /// A call of what RDX says; RCX and RDX are saved.
    CallOfRdx,
    /// A return: the stack pointer is still at the return address.
    Return {
        /// RCX is saved.
        rcx_is_saved: bool,
    },
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    /// The block at this address.
    At(Address),
    /// What RDX says; RCX and RDX are saved.
    InRdx,
}

/// Goes on behind it if RDX (of a return: the word on top of the stack) is `at`, with everything where the program has
/// it. RCX is saved, and RDX but of a return.
pub(crate) fn unless_equal(code: &mut Code, at: Address, arrival: Arrival) -> Comparison {
    if arrival == Arrival::Return {
        let comparison = unless_returned(code, at);
        code.load(RCX, layout::SAVE_RCX);
        return comparison;
    }
    let comparison = code.unless_equal(RDX, at.get());
    if arrival == Arrival::Call {
        code.add_small(RSP, 8);
    }
    code.load(RCX, layout::SAVE_RCX);
    code.load(RDX, layout::SAVE_RDX);
    comparison
}

/// Calls what RDX says, at the end of `code`; RCX and RDX are saved.
pub(crate) fn call_looked_up_in(code: &mut Code, tables: u32, version: Version) {
    code.lookup_index_to_rcx(RDX, tables + layout::TARGET_MASK);
    code.call_table(tables + version.callees());
}

/// A return address that can be pushed as it is.
fn small(next: Address) -> Option<u32> {
    u32::try_from(next.get()).ok().filter(|&n| n < 1 << 31)
}

/// As [`unless_equal`] of a return, but for RCX, which stays in its slot. Not a flag changes.
fn unless_returned(code: &mut Code, to: Address) -> Comparison {
    code.load_at(RCX, RSP, 0);
    let comparison = code.unless_rcx_is(to.get());
    code.add_small(RSP, 8);
    comparison
}

/// The same where `to` needs no flags, and with them where control goes elsewhere.
fn unless_returned_without_flags(code: &mut Code, to: Address) -> Comparison {
    code.unless_top_is(to.get())
}

impl Writer<'_> {
    /// The block's call; returns the address that the chain goes on with.
    pub(crate) fn call(&mut self, callee: Callee) -> Option<Address> {
        let next = self.block.next();
        let moved = if callee == Callee::InRdx { Moved::RcxAndRdx } else { self.plain() };
        if let Some(there) = self.same_call(self.call_of_block(), next) {
            self.point(self.last_offset(), moved);
            self.push_next();
            self.unit.hot.jump(there);
            return None;
        }
        let push = if small(next).is_some() { 5 } else { 6 };
        self.align_call(push, callee, next);
        self.point(self.last_offset(), moved);
        self.push_next();
        // Whoever faults in the push is in its own block.
        let call = self.unit.hot.here();
        match callee {
            Callee::At(to) => self.call_at(to),
            Callee::InRdx => {
                call_looked_up_in(&mut self.unit.hot, self.space.tables_at(), self.unit.version);
            }
        }
        self.land_at(next, call, false);
        Some(next)
    }

    /// The call in the program.
    pub(crate) fn call_of_block(&self) -> Address {
        self.block.start + u64::from(self.last_offset())
    }

    /// Pushes the program's return address.
    pub(crate) fn push_next(&mut self) {
        match small(self.block.next()) {
            Some(address) => self.unit.hot.push_constant(address),
            None => self.push_return_address(),
        }
    }

    /// The cache's `call` of the block at `to`.
    pub(crate) fn call_at(&mut self, to: Address) {
        let patch = self.unit.hot.call(self.unit.hot.here());
        let site = self.exit(patch, to);
        self.space.sites[site as usize].calls = true;
    }

    /// Where the return to `next` lands, for which the cache goes on behind the push at `call`; see [`Landing`] for `own`.
    /// Returns where the landing is.
    pub(crate) fn land_at(&mut self, next: Address, call: CacheAddress, own: bool) -> CacheAddress {
        let from = self.call_of_block();
        let head = self.unit.hot.here();
        let Comparison { tag, other } = self.land(next);
        self.load_rcx_unless_parked();
        self.unit.heads.push(PendingHead { arrival: Arrival::Return, at: next, head, other });
        self.landing = Some(Landing { from, call, own, tag });
        head
    }

    /// What a return comes to: goes on behind it with everything but RCX where the program has it if it returns to `next`.
    fn land(&mut self, next: Address) -> Comparison {
        let compare = self.landing_comparison();
        let (hot, cold) = (&mut self.unit.hot, &mut self.unit.cold);
        let Comparison { tag, other } = compare(hot, next);
        if !self.lands_without_flags {
            return Comparison { tag, other };
        }
        hot.set_word(other, relative(other, cold.here()));
        cold.flags_back();
        Comparison { tag, other: cold.jump(cold.here()) }
    }

    fn landing_comparison(&self) -> fn(&mut Code, Address) -> Comparison {
        if self.lands_without_flags { unless_returned_without_flags } else { unless_returned }
    }

    /// Pads so that neither the call's rel32 nor the landing's tag will stand across a cache line. Before the call stand `push`
    /// bytes.
    pub(crate) fn align_call(&mut self, push: u64, callee: Callee, next: Address) {
        let call = if let Callee::At(_) = callee { CALL } else { Self::lookup_length() + CALL_TABLE };
        let mut landing = Code::new(CacheAddress::new(0));
        let tag = push + call + self.landing_comparison()(&mut landing, next).tag.0.get();
        self.unit.hot.pad_for(&[push + 1, tag]);
    }

    /// Bytes of the code that finds an entry.
    pub(crate) fn lookup_length() -> u64 {
        let mut code = Code::new(CacheAddress::new(0));
        code.lookup_index_to_rcx(RDX, 0);
        code.len() as u64
    }

    /// Another block that ends in the same call executes it, too.
    pub(crate) fn is_called_elsewhere(&self) -> bool {
        self.same_call(self.call_of_block(), self.block.next()).is_some()
    }

    /// Where another block that ends in the same call executes it: only one landing can be the predicted one.
    fn same_call(&self, from: Address, next: Address) -> Option<CacheAddress> {
        let id = *self.space.callers.get(&self.unit.version.place(next))?;
        let block = self.space.block(id);
        // What is hot is not to go back to where it was.
        let landing = block.landing.filter(|l| l.from == from && !l.own && block.placed >= self.unit.places)?;
        let near = landing.call.get().abs_diff(self.unit.hot.here().get()) < 1 << 30;
        near.then_some(landing.call)
    }

    pub(crate) fn return_to_caller(&mut self, drop: u32, counted: bool) {
        if drop > 0 {
            self.unit.hot.save(layout::SAVE_RDX, RDX);
            self.point(self.last_offset(), self.plain());
            self.unit.hot.pop(RDX);
            // What lies below the stack then is an argument, and stays one.
            self.unit.hot.drop_stack(drop);
            self.save_rcx(counted);
            self.look_up();
            return;
        }
        if self.unit.places > 0 && self.space.is_to_be_short() {
            self.return_by_stub(counted);
            return;
        }
        self.save_rcx(counted);
        self.point(self.last_offset(), if counted { self.plain() } else { Moved::Rcx });
        let (hot, tables) = (&mut self.unit.hot, self.space.tables_at());
        hot.load_at(RCX, RSP, 0);
        hot.lookup_index_to_rcx(RCX, tables + layout::RETURN_MASK);
        hot.return_table(tables + self.unit.version.returns());
    }

    /// The same of a placed block by what all of them share.
    fn return_by_stub(&mut self, counted: bool) {
        let [saves_rcx, finds_it_saved] = self.space.arenas[self.unit.arena].stubs.returns;
        let is_saved = !counted || self.parked;
        let (stub, moved) = if is_saved { (finds_it_saved, Moved::Rcx) } else { (saves_rcx, Moved::Nothing) };
        if !counted {
            self.save_rcx(counted);
        }
        self.point(self.last_offset(), moved);
        self.unit.hot.push_top();
        self.unit.hot.jump_for_good(stub);
    }
}

impl CodeCache {
    /// Fills the lookup tables of `version` once: nothing is found in them yet.
    pub(crate) fn prepare_lookups(&mut self, version: Version) {
        if std::mem::replace(&mut self.prepared[version as usize], true) {
            return;
        }
        let Some(stubs) = self.arenas.first().map(|a| a.stubs) else { return };
        let lookups = [
            (version.lookup(), stubs.indirect, TARGET_ENTRIES),
            (version.returns(), stubs.returned, RETURN_ENTRIES),
            (version.callees(), stubs.called, TARGET_ENTRIES),
        ];
        for (table, miss, entries) in lookups {
            self.tables.write(u64::from(table), &miss.get().to_le_bytes().repeat(entries as usize));
        }
        self.tables.word(u64::from(layout::RETURN_MASK)).store(mask(RETURN_ENTRIES), Ordering::Relaxed);
        self.tables.word(u64::from(layout::TARGET_MASK)).store(mask(TARGET_ENTRIES), Ordering::Relaxed);
    }

    /// Writes what stands before the block at `start`, which is about to be written: where calls enter it, if it is known to be
    /// called, and if it is hot and looked up, the comparison that a lookup leads to. Returns the entry of calls and what
    /// the comparison's tag is.
    pub(crate) fn write_entries(&self, unit: &mut Superblock, start: Address) -> (Option<CacheAddress>, Option<Tag>) {
        if !unit.is_empty() {
            return (None, None);
        }
        let place = unit.version.place(start);
        let called = self.callees.contains(&place);
        let looked_up = match unit.places {
            0 => None,
            _ if self.callee_entries.contains_key(&place) => Some(Arrival::Call),
            _ if !called && self.entries.contains_key(&place) => Some(Arrival::Jump),
            _ => None,
        };
        let head = looked_up.map(|arrival| {
            let head = unit.hot.here();
            // What a call needs besides stands behind, where direct calls enter.
            let Comparison { tag, other } = unless_equal(&mut unit.hot, start, Arrival::Jump);
            unit.heads.push(PendingHead { arrival, at: start, head, other });
            tag
        });
        if !called && looked_up != Some(Arrival::Call) {
            return (None, head);
        }
        let entry = unit.hot.here();
        unit.hot.add_small(RSP, 8);
        (Some(entry), head)
    }

    /// Where `site` is to enter block `id`; what that needs is written to `cold`.
    pub(crate) fn entry_for(&mut self, site: SiteId, id: BlockId, cold: &mut Code) -> CacheAddress {
        let block = &self.blocks[id as usize];
        let entry = block.way_in();
        if !self.sites[site as usize].calls {
            return entry;
        }
        if let Some(called) = block.called {
            return called;
        }
        // It was not known to be called when it was written.
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

    pub(crate) fn entry_of(version: Version, at: Address, arrival: Arrival) -> u64 {
        let (table, entries) = match arrival {
            Arrival::Jump => (version.lookup(), TARGET_ENTRIES),
            Arrival::Call => (version.callees(), TARGET_ENTRIES),
            Arrival::Return => (version.returns(), RETURN_ENTRIES),
        };
        u64::from(table) + 8 * lookup_index(at.get(), entries)
    }

    /// Makes `at`, whose block is translated, reachable by lookups of `version`.
    pub fn publish(&mut self, version: Version, at: Address, arrival: Arrival) {
        let place = version.place(at);
        if self.entries_for(arrival).contains_key(&place) {
            return;
        }
        let Some(id) = self.find(version, at) else { return };
        let arena = self.arena_of(self.blocks[id as usize].entry);
        // Without an entry whoever gets there asks each time.
        let Some(arena) = arena.filter(|&a| self.arenas[a].has_room_for_a_link()) else { return };
        let index = Self::entry_of(version, at, arrival);
        let mut code = Code::new(self.arenas[arena].next(Part::Cold));
        code.align(32);
        let head = code.here();
        let (next, link) = self.head_link(index, 0, head, &[], None);
        let Comparison { other, .. } = unless_equal(&mut code, at, arrival);
        let entry = self.blocks[id as usize].way_in();
        let patch = code.jump(entry);
        let way = code.reach(other, next);
        code.set_word(other, way);
        let site = self.new_site(patch, version, at);
        self.arenas[arena].append(Part::Cold, code.bytes());
        self.note_link(site, id);
        self.entries_for(arrival).insert(place, site);
        self.follow_links(&[link]);
    }

    fn entries_for(&mut self, arrival: Arrival) -> &mut AddressMap<Place, SiteId> {
        match arrival {
            Arrival::Jump => &mut self.entries,
            Arrival::Call => &mut self.callee_entries,
            Arrival::Return => &mut self.return_entries,
        }
    }

    /// The transfer of control that is nearly done if the cache's own `call`, the way to its own `ret`, or a landing that
    /// writes below the stack pointer begins at `at`.
    pub fn transfer_at(&self, at: CacheAddress) -> Option<Transfer> {
        let code: [u8; 3] = self.code_at(at)?;
        if code == [0xff, 0x14, 0xcd] {
            return Some(Transfer::CallOfRdx); // call [rcx*8 + table], also aside from its block
        }
        if code[0] == 0xe8 {
            // Also on the way out of a copy.
            let site = self.sites.iter().find(|s| s.calls && s.patch == at + 1)?;
            return Some(Transfer::Call(site.target));
        }
        let block = self.block(self.block_at(at)?);
        let returns = Transfer::Return { rcx_is_saved: true };
        match code {
            // Behind its call a block has nothing of the program.
            [PUSHFQ, ..] => block.landing.filter(|l| at > l.call).map(|_| returns),
            [0xff, 0x34, 0xcd] => Some(returns), // push [rcx*8 + table]
            _ => None,
        }
    }

    /// The return that is about to be done if what pushes its word once more begins at `at`.
    pub fn return_at(&self, at: CacheAddress) -> Option<Transfer> {
        let [a, b, c, 0xe9, way @ ..]: [u8; 8] = self.code_at(at)? else { return None };
        let to = reached(at + 4, u32::from_le_bytes(way));
        let returns = self.arenas[self.arena_of(at)?].stubs.returns;
        // Its first byte is another one if the block was dropped since.
        let pushes = [b, c] == PUSH_TOP[1..] && (a == PUSH_TOP[0] || self.expels_at(at));
        let stub = returns.iter().position(|&stub| stub == to && pushes)?;
        Some(Transfer::Return { rcx_is_saved: stub == 1 })
    }

    /// The block that the landing of `caller` runs into is dropped: no return may land there any more.
    pub(crate) fn close_landing(&mut self, caller: Option<BlockId>) {
        if let Some(landing) = caller.and_then(|id| self.block(id).landing) {
            self.close_tag(landing.tag);
        }
    }

    /// What is compared there equals no address any more.
    pub(crate) fn close_tag(&mut self, (at, never): Tag) {
        if let Some(arena) = self.arena_of(at) {
            self.arenas[arena].patch(at, never);
        }
    }
}
