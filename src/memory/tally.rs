//! What each instruction of each thread caused, in lines and bytes.

use crate::profile::evidence::memory::Traffic;

use super::geometry::LINE_BYTES;
use super::line::Owner;

/// Events of one (instruction, thread). All counts are lines unless their name says bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Accesses seen.
    pub accesses: u64,
    /// Bytes loaded, as executed.
    pub read_bytes: u64,
    /// Bytes stored, as executed.
    pub write_bytes: u64,
    /// L1 misses: lines that came into L1.
    pub l1_fills: u64,
    /// Dirty lines that left L1.
    pub l1_writebacks: u64,
    /// L2 misses: lines that came into L2.
    pub l2_fills: u64,
    /// Dirty lines that left L2.
    pub l2_writebacks: u64,
    /// Last-level misses: lines that came from memory.
    pub last_fills: u64,
    /// Those of them that a store asked for.
    pub store_fills: u64,
    /// Dirty lines that the last level wrote to memory.
    pub last_writebacks: u64,
    /// Non-temporal lines, complete or not, that went to memory.
    pub nt_lines: u64,
    /// Last-level misses of lines never fetched before.
    pub compulsory: u64,
    /// Last-level misses that a fully associative cache also has.
    pub capacity: u64,
    /// Last-level misses that it has not.
    pub conflict: u64,
    /// Misses of private caches because another core wrote the line.
    pub coherence: u64,
    /// L1 misses next to a line that missed shortly before.
    pub unit: u64,
    /// Other L1 misses of instructions with a constant stride.
    pub strided: u64,
    /// L1 misses in no such order.
    pub random: u64,
    /// L1 misses of gathers and scatters.
    pub gathered: u64,
}

impl Tally {
    /// The same in the terms of DESIGN section 5. Without an L2 between L1 and the last level, what enters or leaves
    /// "L2 from beyond" is what memory delivers.
    pub fn traffic(&self, has_l2: bool) -> Traffic {
        let bytes = |lines: u64| (lines * LINE_BYTES) as f64;
        let (dram_read, dram_write) = (bytes(self.last_fills), bytes(self.last_writebacks + self.nt_lines));
        Traffic {
            l1_read: self.read_bytes as f64,
            l1_write: self.write_bytes as f64,
            l2_read: bytes(self.l1_fills),
            l2_write: bytes(self.l1_writebacks),
            l3_read: if has_l2 { bytes(self.l2_fills) } else { dram_read },
            l3_write: if has_l2 { bytes(self.l2_writebacks + self.nt_lines) } else { dram_write },
            dram_read,
            dram_write,
            dram_fill: bytes(self.store_fills),
            dram_nt: bytes(self.nt_lines),
            l1_misses: self.l1_fills as f64,
            l2_misses: if has_l2 { self.l2_fills } else { self.last_fills } as f64,
            l3_misses: self.last_fills as f64,
            compulsory: self.compulsory as f64,
            capacity: self.capacity as f64,
            conflict: self.conflict as f64,
            coherence: self.coherence as f64,
            unit_lines: self.unit as f64,
            strided_lines: self.strided as f64,
            random_lines: self.random as f64,
            gathered_lines: self.gathered as f64,
        }
    }
}

/// The tallies of all owners.
#[derive(Debug, Default)]
pub struct Tallies(Vec<Tally>);

impl Tallies {
    /// Adds an owner with an empty tally.
    pub fn add(&mut self) -> Owner {
        self.0.push(Tally::default());
        Owner((self.0.len() - 1) as u32)
    }

    /// The tally of `owner`.
    #[inline]
    pub fn of(&mut self, owner: Owner) -> &mut Tally {
        &mut self.0[owner.0 as usize]
    }

    /// All tallies, by owner.
    pub fn all(&self) -> &[Tally] {
        &self.0
    }
}
