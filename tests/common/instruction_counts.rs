//! Counts of an engine by instruction.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions};
use rprof::instrument::Counted;

/// By offset in its module: (executions, run-time sum) of an instruction.
pub type Counts = BTreeMap<u64, (u64, u64)>;

/// Sums over the blocks, which may overlap; instructions that were never executed are left out.
pub fn by_instruction(counted: &Counted) -> Counts {
    let mut counts = Counts::new();
    for block in &counted.evidence.blocks {
        let executions: u64 = block.executions.iter().map(|e| e.1).sum();
        let mut decoder = Decoder::new(64, &block.code, DecoderOptions::NONE);
        while decoder.can_decode() {
            let offset = decoder.position() as u64;
            let _ = decoder.decode();
            counts.entry(block.at.offset + offset).or_insert((0, 0)).0 += executions;
        }
        for dynamic in &block.dynamic {
            counts.entry(block.at.offset + u64::from(dynamic.offset)).or_insert((0, 0)).1 += dynamic.sum;
        }
    }
    counts.retain(|_, c| *c != (0, 0));
    counts
}
