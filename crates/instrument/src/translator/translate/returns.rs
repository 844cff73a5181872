//! Calls and returns: the program's stack holds the program's own return addresses, and yet the processor predicts the targets of
//! translated returns, because it executes a `call` and a `ret` for each.
//!
//! ```text
//!  call:  push the program's return address; call ─▶ lea rsp, [rsp + 8]; callee
//!  land:  [rsp] = the return address? ─no─▶ …         ⋮
//!         lea rsp, [rsp + 8]; RCX back if needed      rcx = the entry of [rsp]
//!         the block behind the call  ◀── as predicted ── push table[rcx]; ret
//! ```
//!
//! A landing that does not match the return address continues at the next landing with the same entry, and the last continues in
//! rprof. The processor mispredicts a return to any but the first of them, and a large program has some 70,000 landings. The
//! table therefore has 262,144 entries, indexed by bits of the address from the fourth on, so that neighboring calls share a
//! cache line (measured on cc1, Zen 5: 6 to 9 % less time than with 65,536 entries by the low 16 bits). Indirect jumps and calls
//! use the same scheme, with 65,536 entries. The comparison is in the cold part until relayout writes the block again; then it
//! directly precedes the block.
//!
//! No jump may lie between the call and the callee: it would occupy an entry of the processor's branch target buffer, which large
//! programs fill (measured: 2,000 functions, 4,000 calls of them in turn, Zen 4: 3.5 ns per call natively, 5.3 with this scheme,
//! 18 with a jump on the way to the callee, 25 with returns by an indirect jump).
//!
//! If `loop` is slow (Intel), a landing behind which the flags are dead compares with `cmp` and a branch that is not taken; the
//! flags are saved below the return address for the way to another landing. `jrcxz` would be a taken branch at each landing, and
//! a large program has more landings than the branch target buffer has entries (measured: 12,000 functions that call two others
//! each, Intel with AVX-512: 4.0 ns per call natively, 15.4 with `jrcxz`, 9.8 with this scheme).
//!
//! If instruction fetch is the bottleneck, hot returns share one lookup stub: the processor predicts a `ret` at any address.
//!
//! ```text
//!  push [rsp]; jmp ─▶ rcx = the entry of [rsp]; [rsp] = table[rcx]; ret
//! ```
//!
//! The block itself reads the word, so that rprof knows which return faulted if the word is not readable. (Measured: 6,000
//! functions that call two others each, Intel with AVX-512: 8.5 ns per call natively, 17.5 with the whole lookup in line, 13.5
//! with the stub; 2,000 of them: 2.7, 2.9, 3.0.)
//!
//! The word below the program's return address holds the cache's return address when the callee begins, and that address or flags
//! when it has returned. By the ABI, data below the stack pointer does not survive a call or a return; rprof does not support
//! programs with callees that read data there left by their callers, or the other way round. If that word is not writable, the
//! fault is rprof's, and rprof completes the transfer for the program ([`CodeCache::transfer_at`], [`CodeCache::return_at`]).
//!
//! A return needs no register but RCX: saving and reloading a register at each return would make a chain through all of them, for
//! which the next use of the register waits (measured on CPython, Zen 4).

use std::sync::atomic::Ordering;

use crate::translator::code_cache::arena::Part;
use crate::translator::code_cache::block::{CompareImmediate, ReturnPoint, SiteId, SpillState};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::{Place, Version};
use crate::translator::translate::arrival::{Arrival, Transfer};
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::superblock::{PendingBucket, Superblock};
use crate::x86_64::compare::{Comparison, PUSHFQ};
use crate::x86_64::emit::{Code, PUSH_TOP, RCX, RDX, RSP, reached, relative};
use crate::x86_64::lookup_index::{RETURN_ENTRIES, TARGET_ENTRIES, lookup_index, mask};
use rprof_tracee::address::{Address, CacheAddress};

/// Bytes of a direct `call`.
pub(crate) const CALL: u64 = 5;
/// Bytes of a `call` through a table.
pub(crate) const CALL_TABLE: u64 = 8;

/// The target of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    /// The block at this address.
    At(Address),
    /// The address in RDX; RCX and RDX are saved.
    InRdx,
}

/// Writes a comparison that falls through if RDX (for a return: the word on top of the stack) is `at`, with all registers
/// restored. RCX is saved, and so is RDX, except for a return.
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

/// Calls the address in RDX, at the end of `code`; RCX and RDX are saved.
pub(crate) fn call_looked_up_in(code: &mut Code, version: Version) {
    code.lookup_index_to_rcx(RDX, layout::TABLES_AT + layout::TARGET_MASK);
    code.call_table(layout::TABLES_AT + version.callees());
}

/// A return address that can be pushed as it is.
fn small(next: Address) -> Option<u32> {
    u32::try_from(next.get()).ok().filter(|&n| n < 1 << 31)
}

/// As [`unless_equal`] for a return, except that RCX stays in its slot. No flag changes.
fn unless_returned(code: &mut Code, to: Address) -> Comparison {
    code.load_at(RCX, RSP, 0);
    let comparison = code.unless_rcx_is(to.get());
    code.add_small(RSP, 8);
    comparison
}

/// The same if the flags are dead at `to`; they are restored if control goes elsewhere.
fn unless_returned_without_flags(code: &mut Code, to: Address) -> Comparison {
    code.unless_top_is(to.get())
}

impl Writer<'_> {
    /// Writes the block's call; returns the address at which the chain continues.
    pub(crate) fn call(&mut self, callee: Callee) -> Option<Address> {
        let next = self.block.next();
        let moved = if callee == Callee::InRdx { SpillState::RcxAndRdx } else { self.plain() };
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
        // A thread that faults in the push is in its own block.
        let call = self.unit.hot.here();
        match callee {
            Callee::At(to) => self.call_at(to),
            Callee::InRdx => {
                call_looked_up_in(&mut self.unit.hot, self.unit.version);
            }
        }
        self.land_at(next, call, false);
        Some(next)
    }

    /// Address of the call in the program.
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
        self.cache.sites[site as usize].calls = true;
    }

    /// Writes the landing of the return to `next` from the call that continues behind the push at `call`; see [`ReturnPoint`] for
    /// `own`. Returns the landing's address.
    pub(crate) fn land_at(&mut self, next: Address, call: CacheAddress, own: bool) -> CacheAddress {
        let from = self.call_of_block();
        let head = self.unit.hot.here();
        let Comparison { tag, other } = self.land(next);
        self.load_rcx_unless_parked();
        self.unit.heads.push(PendingBucket { arrival: Arrival::Return, at: next, head, other });
        self.landing = Some(ReturnPoint { from, call, own, tag });
        head
    }

    /// Writes a landing, which falls through with all registers but RCX restored if the program returns to `next`.
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

    /// Pads so that neither the call's rel32 nor the landing's tag crosses a cache line. `push` bytes precede the call.
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

    /// Whether another block that ends in the same call executes it.
    pub(crate) fn is_called_elsewhere(&self) -> bool {
        self.same_call(self.call_of_block(), self.block.next()).is_some()
    }

    /// Address at which another block that ends in the same call executes it: the processor can predict only one landing.
    fn same_call(&self, from: Address, next: Address) -> Option<CacheAddress> {
        let id = *self.cache.lookups.callers.get(&self.unit.version.place(next))?;
        let block = self.cache.block(id);
        // A hot block must not continue in an older copy.
        let landing = block.landing.filter(|l| l.from == from && !l.own && block.placed >= self.unit.places)?;
        let near = landing.call.get().abs_diff(self.unit.hot.here().get()) < 1 << 30;
        near.then_some(landing.call)
    }

    pub(crate) fn return_to_caller(&mut self, drop: u32, counted: bool) {
        if drop > 0 {
            self.unit.hot.save(layout::SAVE_RDX, RDX);
            self.point(self.last_offset(), self.plain());
            self.unit.hot.pop(RDX);
            // The word below the stack pointer is then an argument, and must be kept.
            self.unit.hot.drop_stack(drop);
            self.save_rcx(counted);
            self.look_up();
            return;
        }
        if self.unit.places > 0 && self.cache.is_to_be_short() {
            self.return_by_stub(counted);
            return;
        }
        self.save_rcx(counted);
        self.point(self.last_offset(), if counted { self.plain() } else { SpillState::Rcx });
        let hot = &mut self.unit.hot;
        hot.load_at(RCX, RSP, 0);
        hot.lookup_index_to_rcx(RCX, layout::TABLES_AT + layout::RETURN_MASK);
        hot.return_table(layout::TABLES_AT + self.unit.version.returns());
    }

    /// The same in a relaid-out block, by the stub that all of them share.
    fn return_by_stub(&mut self, counted: bool) {
        let [saves_rcx, finds_it_saved] = self.cache.arenas[self.unit.arena].stubs.returns;
        let is_saved = !counted || self.rcx_spilled;
        let (stub, moved) = if is_saved { (finds_it_saved, SpillState::Rcx) } else { (saves_rcx, SpillState::Nothing) };
        if !counted {
            self.save_rcx(counted);
        }
        self.point(self.last_offset(), moved);
        self.unit.hot.push_top();
        self.unit.hot.jump_for_good(stub);
    }
}

impl CodeCache {
    /// Fills the lookup tables of `version` once, with misses only.
    pub(crate) fn prepare_lookups(&mut self, version: Version) {
        if std::mem::replace(&mut self.lookups.prepared[version as usize], true) {
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

    /// Writes the code before the block at `start`, which is about to be written: the entry for calls, if the block is known to
    /// be called, and the comparison for lookups, if it is hot and looked up. Returns the entry for calls and the comparison's
    /// tag.
    pub(crate) fn write_entries(
        &self,
        unit: &mut Superblock,
        start: Address,
    ) -> (Option<CacheAddress>, Option<CompareImmediate>) {
        if !unit.is_empty() {
            return (None, None);
        }
        let place = unit.version.place(start);
        let called = self.lookups.callees.contains(&place);
        let looked_up = match unit.places {
            0 => None,
            _ if self.lookups.callee_entries.contains_key(&place) => Some(Arrival::Call),
            _ if !called && self.lookups.entries.contains_key(&place) => Some(Arrival::Jump),
            _ => None,
        };
        let head = looked_up.map(|arrival| {
            let head = unit.hot.here();
            // The rest of the code for a call follows, at the entry for direct calls.
            let Comparison { tag, other } = unless_equal(&mut unit.hot, start, Arrival::Jump);
            unit.heads.push(PendingBucket { arrival, at: start, head, other });
            tag
        });
        if !called && looked_up != Some(Arrival::Call) {
            return (None, head);
        }
        let entry = unit.hot.here();
        unit.hot.add_small(RSP, 8);
        (Some(entry), head)
    }

    pub(crate) fn entry_of(version: Version, at: Address, arrival: Arrival) -> u64 {
        let (table, entries) = match arrival {
            Arrival::Jump => (version.lookup(), TARGET_ENTRIES),
            Arrival::Call => (version.callees(), TARGET_ENTRIES),
            Arrival::Return => (version.returns(), RETURN_ENTRIES),
        };
        u64::from(table) + 8 * lookup_index(at.get(), entries)
    }

    /// Makes `at`, which has a translated block, reachable by lookups of `version`.
    pub fn publish(&mut self, version: Version, at: Address, arrival: Arrival) {
        let place = version.place(at);
        if self.entries_for(arrival).contains_key(&place) {
            return;
        }
        let Some(id) = self.find(version, at) else { return };
        let arena = self.arena_of(self.blocks[id as usize].entry);
        // Without an entry, a thread asks at each arrival.
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
            Arrival::Jump => &mut self.lookups.entries,
            Arrival::Call => &mut self.lookups.callee_entries,
            Arrival::Return => &mut self.lookups.return_entries,
        }
    }

    /// The transfer of control that is nearly complete if the instruction at `at` is the cache's own `call`, the push before its
    /// own `ret`, or the start of a landing that writes below the stack pointer.
    pub fn transfer_at(&self, at: CacheAddress) -> Option<Transfer> {
        let code: [u8; 4] = self.code_at(at)?;
        if code == [0x65, 0xff, 0x14, 0xcd] {
            return Some(Transfer::CallOfRdx); // call gs:[rcx*8 + table], also aside from its block
        }
        if code[0] == 0xe8 {
            // Also on the way out of an inlined body.
            let site = self.sites.iter().find(|s| s.calls && s.patch == at + 1)?;
            return Some(Transfer::Call(site.target));
        }
        let block = self.block(self.block_at(at)?);
        let returns = Transfer::Return { rcx_is_saved: true };
        match code {
            // Behind its call, a block has no instruction of the program.
            [PUSHFQ, ..] => block.landing.filter(|l| at > l.call).map(|_| returns),
            [0x65, 0xff, 0x34, 0xcd] => Some(returns), // push gs:[rcx*8 + table]
            _ => None,
        }
    }

    /// The return that is about to execute if the second push of its word begins at `at`.
    pub fn return_at(&self, at: CacheAddress) -> Option<Transfer> {
        let [a, b, c, 0xe9, way @ ..]: [u8; 8] = self.code_at(at)? else { return None };
        let to = reached(at + 4, u32::from_le_bytes(way));
        let returns = self.arenas[self.arena_of(at)?].stubs.returns;
        // Its first byte differs if the block was invalidated since.
        let pushes = [b, c] == PUSH_TOP[1..] && (a == PUSH_TOP[0] || self.expels_at(at));
        let stub = returns.iter().position(|&stub| stub == to && pushes)?;
        Some(Transfer::Return { rcx_is_saved: stub == 1 })
    }
}
