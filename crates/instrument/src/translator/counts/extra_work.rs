//! How much longer a stretch of translated code takes than the program's own: the instructions that the translator added, priced.
//!
//! | added | cycles each |
//! | --- | --- |
//! | a counter in line | `COUNTER` |
//! | the comparison and landing of a return that is not inlined | `RETURN` |
//! | the lookup or comparison of an indirect jump or call | `INDIRECT` |
//!
//! Counters of loops are registers and cost nothing. The prices are least squares over programs of known counts (`tests/bench.d/single.sh`)
//! on an AMD Zen 5: 0.7, 1.7, 0.3, or 0.2, 2.2, 0.4 if a constant part (0.1) represents cold caches; an Intel CPU with AVX-512 and a Zen 4
//! had 0.6 and 2 to 3 for the first two. They differ between processors and programs, so the correction has an error
//! (`join::windows::timing`).

use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::cache::CodeCache;

/// `ret`
const RET: u8 = 0xc3;
/// Cycles of a counter in line.
const COUNTER: f64 = 0.6;
/// Cycles of a return.
const RETURN: f64 = 2.0;
/// Cycles of an indirect jump or call.
const INDIRECT: f64 = 0.5;

/// Instructions of translated code that the program's own does not have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Added {
    /// Cycles that it took.
    pub cycles: f64,
    /// Bytes of the program's code that were executed, and those of them in copies that no relayout has written. Loops that count in a
    /// register are as fast in these.
    bytes: (f64, f64),
}

impl Added {
    /// Adds that of another code cache.
    pub fn add(&mut self, more: Added) {
        self.cycles += more.cycles;
        self.bytes.0 += more.bytes.0;
        self.bytes.1 += more.bytes.1;
    }

    /// Share of the executed code that was in first copies, which are slower than the price list says.
    pub fn first_copies(&self) -> f64 {
        if self.bytes.0 > 0.0 { self.bytes.1 / self.bytes.0 } else { 0.0 }
    }
}

impl CodeCache {
    /// The translator's additions since the totals were handed over last.
    pub fn added(&self) -> Added {
        let in_line = self.counters.totals.slots.of_all_threads(self.counters.slots);
        let mut executed = in_line.clone();
        self.add_flows(&mut executed);
        let mut added = Added::default();
        for id in 0..self.blocks.len() as BlockId {
            let block = &self.blocks[id as usize];
            let of = |counts: &[u64], slot: u32| counts.get(slot as usize).map_or(0.0, |&n| n as i64 as f64);
            let bytes = self.block_code(id).len() as f64;
            if block.induction.is_some() || block.loop_counter.is_some() {
                // An induction register may go down.
                added.bytes.0 += (of(&in_line, block.slot) / block.scale() as f64).abs() * bytes;
                continue;
            }
            let left = block.flow.and_then(|flow| flow.left).map_or(0.0, |slot| of(&in_line, slot));
            added.cycles += COUNTER * (of(&in_line, block.slot) + left);
            let times = of(&executed, block.slot);
            added.bytes.0 += times * bytes;
            if block.placed == 0 {
                added.bytes.1 += times * bytes;
            }
            // An inlined callee returns by running on.
            if self.block_code(id).last() == Some(&RET) && !block.copied {
                added.cycles += RETURN * times;
            } else if self.usual.slot(block.start).is_some() {
                added.cycles += INDIRECT * times;
            }
        }
        added
    }
}
