//! Executed runs of code → basic blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::control_flow::Block;

/// The instructions of some code and its basic blocks.
#[derive(Debug, Clone, Default)]
pub struct CodeGraph {
    /// All instructions, by ascending address, each once.
    pub instructions: Vec<Instruction>,
    /// The basic blocks, by ascending address.
    pub blocks: Vec<Block>,
    /// The instructions of each block, as indices into `instructions`.
    pub ranges: Vec<Range<usize>>,
}

impl CodeGraph {
    /// The graph of runs of code (address, bytes). Runs may overlap, as the blocks of a counting engine do: they are cut where
    /// a run starts, where a jump leads, and behind each jump. Successors of indirect jumps are unknown and left out.
    pub fn new<'a>(runs: impl IntoIterator<Item = (u64, &'a [u8])>) -> CodeGraph {
        let mut code = BTreeMap::new();
        let mut leaders = BTreeSet::new();
        for (start, bytes) in runs {
            leaders.insert(start);
            for instruction in &mut Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
                if instruction.is_invalid() {
                    break;
                }
                if let Some(target) = direct_target(&instruction) {
                    leaders.insert(target);
                }
                code.entry(instruction.ip()).or_insert(instruction);
            }
        }
        let mut graph = CodeGraph { instructions: code.into_values().collect(), ..CodeGraph::default() };
        graph.cut(&leaders);
        graph
    }

    /// The instructions of block `n`.
    pub fn block_instructions(&self, n: usize) -> &[Instruction] {
        &self.instructions[self.ranges[n].clone()]
    }

    fn cut(&mut self, leaders: &BTreeSet<u64>) {
        let mut first = 0;
        for at in 0..self.instructions.len() {
            let instruction = &self.instructions[at];
            let next = self.instructions.get(at + 1).map(Instruction::ip);
            let falls_into = next.filter(|&next| next == instruction.next_ip());
            if falls_into.is_some_and(|next| !leaders.contains(&next)) && !ends_block(instruction) {
                continue;
            }
            let start = self.instructions[first].ip();
            self.blocks.push(Block { start, end: instruction.next_ip(), successors: successors(instruction) });
            self.ranges.push(first..at + 1);
            first = at + 1;
        }
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt
    )
}

/// Target of a direct jump inside a function (calls lead elsewhere).
fn direct_target(instruction: &Instruction) -> Option<u64> {
    let jumps = matches!(instruction.flow_control(), FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch);
    (jumps && instruction.near_branch_target() != 0).then(|| instruction.near_branch_target())
}

fn successors(last: &Instruction) -> Vec<u64> {
    let falls = !matches!(
        last.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception
    );
    direct_target(last).into_iter().chain(falls.then_some(last.next_ip())).collect()
}
