//! Translated blocks, their exits, and the mapping from cache addresses back to the program's.

use std::ops::Range;

use crate::translator::code_cache::version::{Place, Version};
use crate::x86_64::emit::Gpr;
use crate::x86_64::induction::Induction;
use rprof_profile::code::CodeRef;
use rprof_tracee::address::{Address, CacheAddress};

/// Number of a block in its address space.
pub type BlockId = u32;
/// Number of an exit in its address space; 0 is none.
pub type SiteId = u32;

/// A translated basic block.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its first instruction in the program.
    pub start: Address,
    /// Which version of the program it is part of.
    pub version: Version,
    /// Its start, for the evidence.
    pub at: CodeRef,
    /// Its bytes, in the pool.
    pub code: Range<u32>,
    /// Its first byte in the cache.
    pub entry: CacheAddress,
    /// Entry for jumps from elsewhere, if different.
    pub side: Option<CacheAddress>,
    /// Entry for calls, which have left the cache's return address on the stack.
    pub called: Option<CacheAddress>,
    /// Tag of the comparison before it that lookups reach.
    pub head: Option<CompareImmediate>,
    /// One past its last byte in the hot part.
    pub end: CacheAddress,
    /// Its counter.
    pub slot: u32,
    /// It has no counter in line.
    pub flow: Option<Flow>,
    /// Bytes from `entry` behind which it has been counted.
    pub counted_at: u32,
    /// Its points, in the pool.
    pub points: Range<u32>,
    /// The register that holds the counter of a loop, if any.
    pub loop_counter: Option<Gpr>,
    /// The induction register that counts a loop, if any: the exit adds the distance that it has moved to the counter.
    pub induction: Option<Induction>,
    /// Two more registers of that loop, lent to its probes.
    pub loop_probes: Option<(Gpr, Gpr)>,
    /// Exits that were linked to it.
    pub incoming: Vec<SiteId>,
    /// The block before it in the cache, if that falls through into it; or, for a separate chain of an inlined callee, the
    /// caller.
    pub chained: Option<BlockId>,
    /// The landing behind the call that it ends in.
    pub landing: Option<ReturnPoint>,
    /// Number of the relayout that placed it; 0 if none did.
    pub placed: u32,
    /// It is part of an inlined callee; only that call site reaches it.
    pub copied: bool,
    /// Not invalidated.
    pub alive: bool,
}

/// How a block without a counter in line is counted. Its own counter counts entries from elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// The block before it.
    pub from: BlockId,
    /// The counter of that block's exits to elsewhere, if it has one.
    pub left: Option<u32>,
}

/// A place in the cache with a known program state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafePoint {
    /// Bytes from the block's entry.
    pub cache: u32,
    /// Bytes from the block's start.
    pub program: u16,
    /// The registers that are elsewhere.
    pub moved: SpillState,
}

/// Registers of the program that are elsewhere at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpillState {
    /// None.
    Nothing,
    /// This register, in the slot for lent ones.
    Lent(Gpr),
    /// RCX, in its slot.
    Rcx,
    /// RCX, in its slot, and this register in the slot for lent ones.
    RcxAndLent(Gpr),
    /// RCX and RDX, in their slots.
    RcxAndRdx,
    /// In a loop: the program's value of the counter register is in its slot, and the register holds the counter; or the distance
    /// of the induction register is not in the counter yet.
    Loop,
    /// `Loop`, and this register in the slot for lent ones.
    LoopAndLent(Gpr),
    /// RCX must become the address behind the block (a `syscall` was executed).
    RcxIsNext,
}

/// The landing of the return from a call: behind the `call` in the cache, as the processor predicts.
#[derive(Debug, Clone, Copy)]
pub struct ReturnPoint {
    /// The call in the program.
    pub from: Address,
    /// Where the cache continues with it after the push of the return address.
    pub call: CacheAddress,
    /// Other blocks that end in the same call cannot continue there.
    pub own: bool,
    /// Tag of the comparison with the return address.
    pub tag: CompareImmediate,
}

/// Address of four bytes of a comparison with an address, and the value that makes it fail for every address if written there.
pub type CompareImmediate = (CacheAddress, u32);

/// An exit: a rel32 that leads to a block or to a stub that asks for it.
#[derive(Debug, Clone)]
pub struct Site {
    /// Address of the rel32.
    pub patch: CacheAddress,
    /// The target.
    pub target: Address,
    /// The target's version.
    pub version: Version,
    /// It is a `call`.
    pub calls: bool,
    /// The stub that asks for the block, once it was needed.
    pub stub: Option<CacheAddress>,
    /// The block that it leads to.
    pub linked: Option<BlockId>,
}

/// A system call of the program.
#[derive(Debug, Clone, Copy)]
pub struct CallSite {
    /// The `syscall` in the cache.
    pub native: CacheAddress,
    /// Where the block continues after it.
    pub after: CacheAddress,
}

impl Site {
    /// The target.
    pub fn place(&self) -> Place {
        self.version.place(self.target)
    }
}

impl Block {
    /// The address behind it.
    pub fn next(&self) -> Address {
        self.start + u64::from(self.code.end - self.code.start)
    }

    /// Entry for jumps from elsewhere.
    pub fn way_in(&self) -> CacheAddress {
        self.side.unwrap_or(self.entry)
    }

    /// The amount that one execution adds to the counter.
    pub fn scale(&self) -> i64 {
        self.induction.map_or(1, |i| i.step)
    }
}
