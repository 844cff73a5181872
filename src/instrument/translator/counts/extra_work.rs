//! How much longer a stretch of translated code takes than the program's own: the instructions that the translator added, priced.
//!
//! | added | cycles each | where measured |
//! | --- | --- | --- |
//! | a counter in line | `COUNTER` | three programs of known work, `tests/bench.d/single.sh` |
//! | the comparison and landing of a return | `RETURN` | the same |
//!
//! Counters of loops are registers and cost nothing. Prices differ between processors: the correction is stated with its own size
//! as its error.

use crate::instrument::translator::code_cache::block::BlockId;
use crate::instrument::translator::code_cache::cache::CodeCache;

/// `ret`
const RET: u8 = 0xc3;
/// Cycles of a counter in line.
const COUNTER: f64 = 0.6;
/// Cycles of a return.
const RETURN: f64 = 3.0;

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
    pub fn added(&mut self) -> Added {
        self.counters.totals.sort();
        let value = |slot: u32| -> f64 { self.counters.totals.of(slot).iter().map(|t| t.value as i64 as f64).sum() };
        let mut added = Added::default();
        for id in 0..self.blocks.len() as BlockId {
            let block = &self.blocks[id as usize];
            let bytes = self.block_code(id).len() as f64;
            if block.induction.is_some() || block.loop_counter.is_some() {
                // An induction register may go down.
                let steps: i64 = self.counters.totals.of(block.slot).iter().map(|t| t.value as i64).sum();
                added.bytes.0 += (steps as f64 / block.scale() as f64).abs() * bytes;
                continue;
            }
            let counted = value(block.slot);
            let left = block.flow.and_then(|flow| flow.left).map_or(0.0, value);
            added.cycles += COUNTER * (counted + left);
            added.bytes.0 += counted * bytes;
            if block.placed == 0 {
                added.bytes.1 += counted * bytes;
            }
            if self.block_code(id).last() == Some(&RET) {
                added.cycles += RETURN * counted;
            }
        }
        added
    }
}
