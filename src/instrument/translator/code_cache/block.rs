//! Translated blocks, their exits, and how a place in the cache is turned back into the program's own.

use std::ops::Range;

use crate::instrument::translator::code_cache::version::{Place, Version};
use crate::instrument::translator::translate::edge_counters::Flow;
use crate::instrument::x86_64::emit::Gpr;
use crate::instrument::x86_64::induction::Induction;
use crate::profile::code::CodeRef;
use crate::tracee::address::{Address, CacheAddress};

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
    /// Where it starts, for the evidence.
    pub at: CodeRef,
    /// Its bytes, in the pool.
    pub code: Range<u32>,
    /// Its first byte in the cache.
    pub entry: CacheAddress,
    /// Where whoever does not run into it enters it, if not there.
    pub side: Option<CacheAddress>,
    /// Where calls enter it, which have left the cache's return address on the stack.
    pub called: Option<CacheAddress>,
    /// Of the comparison before it that a lookup leads to.
    pub head: Option<Tag>,
    /// One past its last byte in the hot part.
    pub end: CacheAddress,
    /// Its counter.
    pub slot: u32,
    /// It is not counted in line.
    pub flow: Option<Flow>,
    /// Bytes from `entry` behind which it has been counted.
    pub counted_at: u32,
    /// Its points, in the pool.
    pub points: Range<u32>,
    /// A loop whose counter stands in a register: that register.
    pub loop_counter: Option<Gpr>,
    /// A loop that is counted by its induction register: how far that has come is added to the counter at the exit.
    pub induction: Option<Induction>,
    /// Two more registers of that loop, lent to its probes.
    pub loop_probes: Option<(Gpr, Gpr)>,
    /// Exits that were linked to it.
    pub incoming: Vec<SiteId>,
    /// The block before it in the cache runs into it; or the caller in whose copy of a callee it stands apart.
    pub chained: Option<BlockId>,
    /// It ends in a call, behind which returns land.
    pub landing: Option<Landing>,
    /// Not 0: it stands where it is because it was hot when blocks were placed for the so-manieth time.
    pub placed: u32,
    /// It stands in place of a call, and only who calls gets there.
    pub copied: bool,
    /// Not dropped.
    pub alive: bool,
}

/// A place in the cache where the program's state is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Bytes from the block's entry.
    pub cache: u32,
    /// Bytes from the block's start.
    pub program: u16,
    /// What stands elsewhere.
    pub moved: Moved,
}

/// Registers of the program that stand elsewhere at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
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
    /// In a loop: the register of its counter, in its slot, holds the counter; or the way of its induction register is
    /// not in the counter yet.
    Loop,
    /// `Loop`, and this register in the slot for lent ones.
    LoopAndLent(Gpr),
    /// RCX is to become the address behind the block (a `syscall` was executed).
    RcxIsNext,
}

/// Where the return from a call lands: behind the `call` in the cache, as the processor predicts.
#[derive(Debug, Clone, Copy)]
pub struct Landing {
    /// The call in the program.
    pub from: Address,
    /// Where the cache goes on with it when the return address was pushed.
    pub call: CacheAddress,
    /// Other blocks that end in it cannot go on there.
    pub own: bool,
    /// Of the comparison with the return address.
    pub tag: Tag,
}

/// Four bytes of a comparison with an address, and what makes it fail for every address if it stands there instead.
pub type Tag = (CacheAddress, u32);

/// An exit: a rel32 that leads to a block or to a stub that asks for it.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where the rel32 stands.
    pub patch: CacheAddress,
    /// Where it is to lead.
    pub target: Address,
    /// In which version.
    pub version: Version,
    /// It is a `call`.
    pub calls: bool,
    /// The stub that asks, once it was needed.
    pub stub: Option<CacheAddress>,
    /// The block that it leads to.
    pub linked: Option<BlockId>,
}

/// A system call of the program.
#[derive(Debug, Clone, Copy)]
pub struct CallSite {
    /// The `syscall` in the cache.
    pub native: CacheAddress,
    /// Where the block goes on after it.
    pub after: CacheAddress,
}

impl Site {
    /// Where it is to lead.
    pub fn place(&self) -> Place {
        self.version.place(self.target)
    }
}

impl Block {
    /// The address behind it.
    pub fn next(&self) -> Address {
        self.start + u64::from(self.code.end - self.code.start)
    }

    /// Where whoever does not run into it enters it.
    pub fn way_in(&self) -> CacheAddress {
        self.side.unwrap_or(self.entry)
    }

    /// What one execution adds to the counter.
    pub fn scale(&self) -> i64 {
        self.induction.map_or(1, |i| i.step)
    }
}
