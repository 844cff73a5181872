//! Where a block begins and how it ends.

use iced_x86::{Decoder, DecoderOptions};

use rprof_profile::evidence::bursts::TracedBlock;

use super::predictor::Ending;

/// Properties of a block that recording needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    /// Run-time address of its first instruction, and one past its last.
    pub start: u64,
    pub end: u64,
    /// Address of the last instruction.
    pub last: u64,
    pub instructions: u32,
    pub ending: Ending,
}

impl Shape {
    pub(super) fn new(block: &TracedBlock) -> Shape {
        let end = block.start + block.code.len() as u64;
        let mut shape = Shape { start: block.start, end, ..Shape::default() };
        for instruction in &mut Decoder::with_ip(64, &block.code, block.start, DecoderOptions::NONE) {
            shape.instructions += 1;
            shape.last = instruction.ip();
            shape.ending = Ending::of(&instruction);
        }
        shape
    }
}
