//! Where functions begin in a module that has neither symbols nor unwind tables: the targets of its direct calls.

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use super::elf_file::ElfFile;

/// Targets of the direct calls that a linear sweep over the code finds, unsorted. Data among the code makes the sweep
/// lose step for a few bytes; a target outside the code is no target.
pub fn call_targets(elf: &ElfFile) -> Vec<u64> {
    let ranges = elf.code_ranges();
    let inside = |address: u64| ranges.iter().any(|(s, e)| *s <= address && address < *e);
    let mut targets = Vec::new();
    for (start, end) in &ranges {
        let Some(code) = elf.loaded(*start, *end) else { continue };
        let mut decoder = Decoder::with_ip(64, &code, *start, DecoderOptions::NONE);
        let mut instruction = iced_x86::Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.flow_control() == FlowControl::Call && inside(instruction.near_branch_target()) {
                targets.push(instruction.near_branch_target());
            }
        }
    }
    targets
}
