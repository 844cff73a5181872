//! The loops of a function: control flow from its code, the innermost loop of every address, waiting loops marked.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::code_map::{CodeMap, FunctionId};
use super::executed::Executed;
use super::modules::Place;
use super::waiting;
use crate::isa::control_flow::{self, Block};

/// A function's code is analysed up to this many instructions; generated giants beyond it have no loops listed.
const LARGEST: usize = 200_000;

/// A function's control flow.
#[derive(Debug, Default)]
pub struct Shape {
    /// Its instructions by offset.
    pub instructions: Vec<Instruction>,
    /// Its basic blocks by start.
    pub blocks: Vec<Block>,
    /// Its natural loops, outer before inner.
    pub loops: Vec<LoopShape>,
    /// Innermost loop of each block.
    innermost: Vec<Option<u32>>,
}

/// A natural loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopShape {
    /// Offset of its header.
    pub header: u64,
    /// Indices of its blocks in reverse postorder, inner loops included.
    pub blocks: Vec<usize>,
    /// Blocks that jump back to the header.
    pub latches: Vec<usize>,
    /// The next outer loop.
    pub parent: Option<usize>,
    /// It holds no other loop.
    pub is_innermost: bool,
    /// It spins: waiting, not work.
    pub waits: bool,
}

impl Shape {
    /// Analyses `function`: the code that was executed or, where there was no counted pass, all its code.
    pub fn of(function: FunctionId, code: &mut CodeMap, executed: Option<&Executed>) -> Self {
        let mut instructions = match executed.map(|e| (e, e.of(function))) {
            Some((executed, spans)) if !spans.is_empty() => {
                spans.iter().flat_map(|span| executed.instructions(*span)).copied().collect()
            }
            _ => static_code(function, code),
        };
        instructions.sort_unstable_by_key(Instruction::ip);
        instructions.dedup_by_key(|i| i.ip());
        if instructions.len() > LARGEST {
            return Shape::default();
        }
        let entry = code.known(function).place.map_or(0, |p| p.offset);
        Self::from_instructions(instructions, entry)
    }

    /// Builds blocks and loops of `instructions`, sorted by `ip`; `entry` is where the function starts.
    pub fn from_instructions(instructions: Vec<Instruction>, entry: u64) -> Self {
        let blocks = basic_blocks(&instructions);
        let found = control_flow::loops(&blocks, entry);
        let mut innermost = vec![None; blocks.len()];
        for (i, l) in found.iter().enumerate() {
            l.blocks.iter().for_each(|b| innermost[*b] = Some(i as u32));
        }
        let mut shape = Shape { instructions, blocks, loops: Vec::new(), innermost };
        shape.loops = found
            .iter()
            .enumerate()
            .map(|(i, l)| LoopShape {
                header: shape.blocks[l.header].start,
                blocks: l.blocks.clone(),
                latches: l.latches.clone(),
                parent: l.parent,
                is_innermost: !found.iter().any(|other| other.parent == Some(i)),
                waits: waiting::spins(l.blocks.iter().flat_map(|b| shape.block_instructions(*b))),
            })
            .collect();
        shape
    }

    /// The innermost loop that holds `offset`.
    pub fn loop_at(&self, offset: u64) -> Option<u32> {
        self.block_at(offset).and_then(|b| self.innermost[b])
    }

    /// Whether the code at `offset` spins.
    pub fn waits_at(&self, offset: u64) -> bool {
        self.loop_at(offset).is_some_and(|l| self.loops[l as usize].waits)
    }

    /// The instructions of block `index`.
    pub fn block_instructions(&self, index: usize) -> &[Instruction] {
        let block = &self.blocks[index];
        let first = self.instructions.partition_point(|i| i.ip() < block.start);
        let last = self.instructions.partition_point(|i| i.ip() < block.end);
        &self.instructions[first..last]
    }

    fn block_at(&self, offset: u64) -> Option<usize> {
        let index = self.blocks.partition_point(|b| b.start <= offset).checked_sub(1)?;
        (offset < self.blocks[index].end).then_some(index)
    }
}

/// The code of every part of `function` that evidence fell in, as its file holds it.
fn static_code(function: FunctionId, code: &mut CodeMap) -> Vec<Instruction> {
    let known = code.known(function).clone();
    let Some(place) = known.place else { return Vec::new() };
    let mut instructions = Vec::new();
    for (start, end) in known.parts {
        if end.saturating_sub(start) > 15 * LARGEST as u64 {
            continue;
        }
        let Some(bytes) = code.code(Place { offset: start, ..place }, end) else { continue };
        let decoder = Decoder::with_ip(64, &bytes, start, DecoderOptions::NONE);
        instructions.extend(decoder.into_iter().filter(|i| !i.is_invalid()));
    }
    instructions
}

/// Cuts `instructions` at branch targets and behind branches.
fn basic_blocks(instructions: &[Instruction]) -> Vec<Block> {
    let mut leaders = BTreeSet::new();
    let mut previous_end = None;
    for instruction in instructions {
        if previous_end != Some(instruction.ip()) {
            leaders.insert(instruction.ip());
        }
        previous_end = Some(instruction.next_ip());
        if ends_block(instruction) {
            leaders.insert(instruction.next_ip());
            if is_direct_jump(instruction) {
                leaders.insert(instruction.near_branch_target());
            }
        }
    }
    let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
    let mut start = 0;
    for (i, instruction) in instructions.iter().enumerate() {
        if leaders.contains(&instruction.ip()) {
            start = instruction.ip();
        }
        let next_starts_block = instructions.get(i + 1).is_none_or(|next| leaders.contains(&next.ip()));
        if next_starts_block {
            let successors = successors(instruction);
            blocks.insert(start, Block { start, end: instruction.next_ip(), successors });
        }
    }
    blocks.into_values().collect()
}

fn is_direct_jump(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::XbeginXabortXend
    )
}

fn ends_block(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt
    )
}

/// Where control goes after `last`, the last instruction of a block.
fn successors(last: &Instruction) -> Vec<u64> {
    match last.flow_control() {
        FlowControl::UnconditionalBranch => vec![last.near_branch_target()],
        FlowControl::ConditionalBranch => vec![last.near_branch_target(), last.next_ip()],
        FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => Vec::new(),
        _ => vec![last.next_ip()],
    }
}
