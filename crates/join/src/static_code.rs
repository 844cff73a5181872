//! The code of a function as its file holds it.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::code_map::{CodeMap, FunctionId};
use super::modules::Place;

/// A function's code is analysed up to this many bytes; generated giants beyond it have no loops listed.
pub const LARGEST: u64 = 1 << 20;

/// The code of every part of `function` with evidence, as its file holds it, without padding.
pub fn static_code(function: FunctionId, code: &mut CodeMap) -> Vec<(u64, Vec<u8>)> {
    let known = code.known(function).clone();
    let Some(place) = known.place else { return Vec::new() };
    let parts = known.parts.iter().filter(|(start, end)| end.saturating_sub(*start) <= LARGEST);
    let read = parts.filter_map(|(start, end)| {
        let bytes = code.code(Place { offset: *start, ..place }, *end)?;
        Some(without_padding(*start, &bytes))
    });
    read.flatten().collect()
}

/// Runs of `bytes` between the `nop`s that align the code after a jump. No edge leads to them, so that they would look like a second way
/// into the loop that they precede.
pub(super) fn without_padding(start: u64, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let instructions: Vec<Instruction> =
        Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).iter().take_while(|i| !i.is_invalid()).collect();
    let targets: HashSet<u64> = instructions.iter().map(Instruction::near_branch_target).collect();
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut behind_jump = true;
    for instruction in &instructions {
        let padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        if behind_jump && padding && !targets.contains(&instruction.ip()) {
            continue;
        }
        let from = (instruction.ip() - start) as usize;
        let code = &bytes[from..from + instruction.len()];
        match runs.last_mut() {
            Some((at, run)) if *at + run.len() as u64 == instruction.ip() => run.extend_from_slice(code),
            _ => runs.push((instruction.ip(), code.to_vec())),
        }
        behind_jump = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
    }
    runs
}
