//! The loops of a function: control flow from its code, the innermost loop of every address, waiting loops marked.

use iced_x86::Instruction;

use super::code_map::{CodeMap, FunctionId};
use super::executed::Executed;
use super::modules::Place;
use super::waiting;
use crate::isa::control_flow;
use crate::isa::x86_64::CodeGraph;

/// A function's code is analysed up to this many bytes; generated giants beyond it have no loops listed.
const LARGEST: u64 = 1 << 20;

/// A function's control flow.
#[derive(Debug, Default)]
pub struct Shape {
    /// Its instructions and basic blocks.
    pub graph: CodeGraph,
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
    /// Analyses `function`: the code that was executed or, where none was counted, all of it that its file holds.
    pub fn of(function: FunctionId, code: &mut CodeMap, executed: Option<&Executed>) -> Self {
        let entry = code.known(function).place.map_or(0, |p| p.offset);
        match executed.map(|e| (e, e.of(function))) {
            Some((executed, spans)) if !spans.is_empty() => {
                let runs: Vec<(u64, &[u8])> = spans.iter().map(|span| executed.bytes(*span)).collect();
                if runs.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() > LARGEST {
                    return Shape::default();
                }
                Self::new(CodeGraph::new(runs), entry)
            }
            _ => {
                let runs = static_code(function, code);
                Self::new(CodeGraph::new(runs.iter().map(|(start, bytes)| (*start, bytes.as_slice()))), entry)
            }
        }
    }

    /// Finds the loops of `graph`; `entry` is where the function starts.
    pub fn new(graph: CodeGraph, entry: u64) -> Self {
        let found = control_flow::loops(&graph.blocks, entry);
        let mut innermost = vec![None; graph.blocks.len()];
        for (i, l) in found.iter().enumerate() {
            l.blocks.iter().for_each(|b| innermost[*b] = Some(i as u32));
        }
        let instructions = |blocks: &[usize]| -> Vec<&Instruction> {
            blocks.iter().flat_map(|b| graph.block_instructions(*b)).collect()
        };
        let loops = found
            .iter()
            .enumerate()
            .map(|(i, l)| LoopShape {
                header: graph.blocks[l.header].start,
                blocks: l.blocks.clone(),
                latches: l.latches.clone(),
                parent: l.parent,
                is_innermost: !found.iter().any(|other| other.parent == Some(i)),
                waits: waiting::spins(instructions(&l.blocks).into_iter()),
            })
            .collect();
        Shape { graph, loops, innermost }
    }

    /// The innermost loop that holds `offset`.
    pub fn loop_at(&self, offset: u64) -> Option<u32> {
        let index = self.graph.blocks.partition_point(|b| b.start <= offset).checked_sub(1)?;
        (offset < self.graph.blocks[index].end).then_some(())?;
        self.innermost[index]
    }

    /// Whether the code at `offset` spins.
    pub fn waits_at(&self, offset: u64) -> bool {
        self.loop_at(offset).is_some_and(|l| self.loops[l as usize].waits)
    }
}

/// The code of every part of `function` that evidence fell in, as its file holds it.
fn static_code(function: FunctionId, code: &mut CodeMap) -> Vec<(u64, Vec<u8>)> {
    let known = code.known(function).clone();
    let Some(place) = known.place else { return Vec::new() };
    let parts = known.parts.iter().filter(|(start, end)| end.saturating_sub(*start) <= LARGEST);
    let read = parts.filter_map(|(start, end)| {
        let bytes = code.code(Place { offset: *start, ..place }, *end)?;
        Some((*start, bytes))
    });
    read.collect()
}
