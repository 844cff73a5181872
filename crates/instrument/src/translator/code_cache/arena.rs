//! A stretch of the code cache: translated blocks in its first part, exits and entries for lookups in its second.

use crate::translator::code_cache::shared::Shared;
use crate::translator::code_cache::stubs::{Stubs, gadget};
use rprof_tracee::address::{Address, CacheAddress};

/// Bytes of an arena, unless there is little room.
pub const ARENA: u64 = 64 << 20;
/// Bytes that it has at least.
pub const LEAST: u64 = 8 << 20;
/// An arena farther away from text than this is not near it: jumps between the two need an intermediate jump.
pub const REACH: u64 = (1 << 30) + (1 << 29);
/// Addresses below this one are displacements.
pub const LOW: u64 = 1 << 31;
/// Room that certainly holds a superblock and the code to link it later.
const MARGIN: u64 = 1 << 20;
/// Room that is kept for exits with invalidated targets.
const LAST: u64 = MARGIN / 4;
/// Upper bound on the size of an exit's stub.
const STUB: u64 = 64;

/// A trap.
pub const INT3: u8 = 0xcc;

/// Which part of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Translated code.
    Hot,
    /// Rarely executed code.
    Cold,
}

/// An arena.
#[derive(Debug)]
pub struct Arena {
    shared: Shared,
    hot: u64,
    cold: u64,
    /// Its common stubs.
    pub stubs: Stubs,
}

impl Arena {
    /// Takes over a fresh shared mapping of [`LEAST`] to [`ARENA`] bytes and writes the gadget, with which its hot part starts, and the
    /// common stubs, with which its cold part starts.
    pub fn new(shared: Shared) -> Self {
        let middle = shared.size() / 2;
        let base = CacheAddress::new(shared.base.get() + middle);
        // In the first page, which stays mapped between visits.
        let gadget = gadget(CacheAddress::new(shared.base.get()));
        shared.write(0, gadget.bytes());
        let hot = (gadget.len() as u64).next_multiple_of(64);
        let (stubs, code) = Stubs::write(base, CacheAddress::new(shared.base.get()));
        shared.write(middle, code.bytes());
        let cold = (middle + code.len() as u64).next_multiple_of(64);
        Arena { shared, hot, cold, stubs }
    }

    /// Its address in the program, and its size in bytes.
    pub fn mapping(&self) -> (Address, u64) {
        (self.shared.base, self.shared.size())
    }

    /// Address of the next code in that part.
    pub fn next(&self, part: Part) -> CacheAddress {
        let offset = if part == Part::Hot { self.hot } else { self.cold };
        CacheAddress::new(self.shared.base.get() + offset)
    }

    /// Takes `code`, written for [`next`](Self::next).
    pub fn append(&mut self, part: Part, code: &[u8]) {
        let cursor = if part == Part::Hot { &mut self.hot } else { &mut self.cold };
        self.shared.write(*cursor, code);
        *cursor += code.len() as u64;
    }

    /// Bytes of translated code.
    pub fn hot_bytes(&self) -> u64 {
        self.hot
    }

    /// Puts the code from `offset` on into a huge page.
    pub fn gather(&self, offset: u64) {
        self.shared.gather(offset);
    }

    /// Whether there is room for another superblock.
    pub fn has_room(&self) -> bool {
        self.hot + MARGIN < self.shared.size() / 2 && self.cold + MARGIN < self.shared.size()
    }

    /// Whether there is room for another link to its code.
    pub fn has_room_for_a_link(&self) -> bool {
        self.cold + LAST < self.shared.size()
    }

    /// Whether the stub of an exit may still be written.
    pub fn has_room_for_a_stub(&self) -> bool {
        self.cold + STUB <= self.shared.size()
    }

    /// Whether `at` is one of its addresses.
    pub fn contains(&self, at: CacheAddress) -> bool {
        self.shared.contains(at.get())
    }

    /// Reads the bytes at `at`.
    pub fn read(&self, at: CacheAddress, buffer: &mut [u8]) -> std::io::Result<()> {
        self.shared.read(at.get() - self.shared.base.get(), buffer)
    }

    /// Stores a rel32 in one piece.
    pub fn patch(&self, at: CacheAddress, value: u32) {
        self.shared.patch(at.get() - self.shared.base.get(), value);
    }

    /// Replaces the first byte of the instruction at `at` by a trap.
    pub fn trap_at(&self, at: CacheAddress) {
        self.shared.store(at.get() - self.shared.base.get(), INT3);
    }

    /// Whether its code reaches text at `at` and the data there without a detour. A displacement without a base reaches the low 2 GiB
    /// from everywhere.
    pub fn reaches(&self, at: u64) -> bool {
        at < LOW || self.distance(at) < REACH
    }

    /// Distance from the program's address `at` to its farther end, in bytes.
    pub fn distance(&self, at: u64) -> u64 {
        let base = self.shared.base.get();
        at.abs_diff(base).max(at.abs_diff(base + self.shared.size()))
    }
}
