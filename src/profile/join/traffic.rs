//! The memory model's traffic by function, loop and instruction.

use std::collections::{BTreeMap, HashMap};

use super::code_map::{CodeMap, FunctionId};
use super::modules::Pass;
use crate::profile::evidence::memory::{MemoryEvidence, Traffic};
use crate::profile::function::{Bytes, CacheMisses, Misses};

/// Traffic of one function.
#[derive(Debug, Default)]
pub struct FunctionTraffic {
    /// Traffic by instruction and thread: (offset, thread of the counted evidence, figures).
    pub sites: Vec<(u64, u32, Traffic)>,
}

/// Divides the sites of `memory` among functions.
pub fn by_function(memory: &MemoryEvidence, code: &mut CodeMap) -> HashMap<FunctionId, FunctionTraffic> {
    let mut functions: HashMap<FunctionId, FunctionTraffic> = HashMap::new();
    for site in &memory.sites {
        let Some(place) = code.place(Pass::Counted, site.at) else { continue };
        let function = functions.entry(code.function(place)).or_default();
        function.sites.push((place.offset, site.thread, site.traffic));
    }
    functions
}

impl FunctionTraffic {
    /// Sum over the instructions that `wanted` chooses by offset.
    pub fn sum(&self, wanted: impl Fn(u64) -> bool) -> Traffic {
        let mut sum = Traffic::default();
        self.sites.iter().filter(|(at, ..)| wanted(*at)).for_each(|(.., traffic)| sum.add(traffic));
        sum
    }

    /// DRAM bytes by thread of the counted evidence, of the instructions that `wanted` chooses.
    pub fn dram_by_thread(&self, wanted: impl Fn(u64) -> bool) -> BTreeMap<u32, f64> {
        let mut threads = BTreeMap::new();
        for (_, thread, traffic) in self.sites.iter().filter(|(at, ..)| wanted(*at)) {
            *threads.entry(*thread).or_default() += traffic.dram_read + traffic.dram_write;
        }
        threads
    }

    /// DRAM bytes by instruction.
    pub fn dram_by_offset(&self) -> HashMap<u64, f64> {
        let mut offsets = HashMap::new();
        for (at, _, traffic) in &self.sites {
            *offsets.entry(*at).or_default() += traffic.dram_read + traffic.dram_write;
        }
        offsets
    }
}

/// Bytes beyond L1; those of L1 are counted, not simulated.
pub fn bytes(traffic: &Traffic) -> Bytes {
    let sum = |read: f64, write: f64| Some(whole(read + write));
    Bytes {
        l1: None,
        l2: sum(traffic.l2_read, traffic.l2_write),
        l3: sum(traffic.l3_read, traffic.l3_write),
        dram: sum(traffic.dram_read, traffic.dram_write),
        dram_read: sum(traffic.dram_read, 0.0),
        dram_write: sum(0.0, traffic.dram_write),
    }
}

/// Misses in lines.
pub fn cache_misses(traffic: &Traffic) -> CacheMisses {
    let lines = |n: f64| Some(whole(n));
    CacheMisses { l1: lines(traffic.l1_misses), l2: lines(traffic.l2_misses), l3: lines(traffic.l3_misses) }
}

/// The 3C classes of last-level misses.
pub fn misses(traffic: &Traffic) -> Misses {
    let lines = |n: f64| Some(whole(n));
    Misses {
        compulsory: lines(traffic.compulsory),
        capacity: lines(traffic.capacity),
        conflict: lines(traffic.conflict),
        coherence: lines(traffic.coherence),
    }
}

/// Rounds a sampled sum to whole bytes or lines.
pub fn whole(sum: f64) -> u64 {
    sum.round().max(0.0) as u64
}
