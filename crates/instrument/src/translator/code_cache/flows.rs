//! Executions of blocks that have no counter of their own.

use crate::translator::code_cache::block::Flow;
use crate::translator::code_cache::cache::CodeCache;

impl CodeCache {
    /// Adds the executions that fell through from the blocks before to the counters, by slot. The counters are of running
    /// threads: they were read one after the other.
    pub fn add_flows(&self, counts: &mut [u64]) {
        let get = |counts: &[u64], slot: u32| counts.get(slot as usize).map_or(0, |&n| n as i64);
        for block in self.blocks.iter() {
            let Some(Flow { from, left, .. }) = block.flow else { continue };
            let from = get(counts, self.block(from).slot) - left.map_or(0, |slot| get(counts, slot));
            if let Some(count) = counts.get_mut(block.slot as usize) {
                *count = (*count as i64 + from).max(0) as u64;
            }
        }
    }
}
