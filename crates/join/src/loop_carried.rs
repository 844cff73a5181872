//! Whether a loop's dependency chain goes on when the loop is entered again.
//!
//! The sum over a matrix runs through both of its loops; a dot product of each row starts anew with each row. The outer
//! loop's path, with the inner loop's body once on it, is analysed like a loop of its own: if it carries a cycle through the
//! inner loop's operations, the chain goes on from one entry of the inner loop to the next.

use iced_x86::Instruction;

use super::flow::EdgeCounts;
use super::loops::LoopNest;
use rprof_isa::dependency::{ChainStep, Cycle};
use rprof_isa::x86_64::dataflow::analyse_body;

/// How often loop `index` was entered from outside; 1 if that could not be determined.
pub fn entries(nest: &LoopNest, index: usize, executions: &[u64], edges: &EdgeCounts) -> u64 {
    let header = nest.loops[index].blocks[0];
    let latches = nest.loops[index].latches.iter();
    let back: Option<u64> = latches.map(|latch| edges.get(&(*latch, header)).copied()).sum();
    back.map_or(1, |back| executions[header].saturating_sub(back)).max(1)
}

/// The path that most iterations of loop `index` take: its blocks that run in at least half of them, those of loops in it
/// once.
pub fn path(nest: &LoopNest, index: usize, executions: &[u64]) -> Vec<Instruction> {
    let header_of = |block: usize| {
        let innermost = nest.loop_at(nest.graph.blocks[block].start).map_or(index, |l| l as usize);
        nest.loops[innermost].blocks[0]
    };
    let often = |block: &&usize| executions[**block] * 2 >= executions[header_of(**block)];
    let blocks = nest.loops[index].blocks.iter().filter(often);
    blocks.flat_map(|b| nest.graph.block_instructions(*b)).copied().collect()
}

/// How often the chain with these `cycles` of loop `index` started anew; `None`: at each entry of the loop.
pub fn starts(nest: &LoopNest, index: usize, cycles: &[Cycle], executions: &[u64], edges: &EdgeCounts) -> Option<u64> {
    let chain: Vec<&Cycle> = cycles.iter().filter(|c| c.steps.iter().any(is_work)).collect();
    let mut carried_through = None;
    let mut outer = nest.loops[index].parent;
    while let Some(parent) = outer.filter(|_| !chain.is_empty()) {
        let Some(dependencies) = analyse_body(&path(nest, parent, executions)) else { break };
        if !chain.iter().all(|c| dependencies.cycles.iter().any(|whole| holds(whole, c))) {
            break;
        }
        carried_through = Some(entries(nest, parent, executions, edges));
        outer = nest.loops[parent].parent;
    }
    carried_through
}

/// A step that a chain is about; loop counters are not.
fn is_work(step: &ChainStep) -> bool {
    matches!(step, ChainStep::Fp { .. } | ChainStep::Load | ChainStep::IntegerMultiply | ChainStep::IntegerDivide)
}

/// Whether one turn of `whole` goes through all of `part`'s work.
fn holds(whole: &Cycle, part: &Cycle) -> bool {
    let count = |cycle: &Cycle, step: &ChainStep| {
        let steps = cycle.steps.iter().filter(|s| *s == step).count();
        steps as f64 / f64::from(cycle.distance.max(1))
    };
    part.steps.iter().filter(|s| is_work(s)).all(|step| count(whole, step) >= count(part, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::x86_64::CodeGraph;

    /// `xorpd xmm0,xmm0` · `xor ecx,ecx` · inner: `addsd xmm0,[rdi]` `inc ecx` `cmp ecx,edx` `jb inner` · `dec esi`
    /// `jnz outer` · `ret`; `outer` is the first instruction or the second.
    fn nest(reset: bool) -> LoopNest {
        let back = if reset { 0xeb } else { 0xef };
        let code = [
            0x66,
            0x0f,
            0x57,
            0xc0,
            0x31,
            0xc9,
            0xf2,
            0x0f,
            0x58,
            0x07,
            0xff,
            0xc1,
            0x39,
            0xd1,
            0x72,
            0xf6,
            0xff,
            0xce,
            0x75,
            back + 1,
            0xc3,
        ];
        let code = code.map(|b| b as u8);
        LoopNest::new(CodeGraph::new([(0u64, &code[..])]), 0)
    }

    /// Executions of each block for 10 outer iterations of 100.
    fn executions(nest: &LoopNest) -> Vec<u64> {
        let count = |start: u64| match start {
            6 => 1000,
            16 => 10,
            20 => 1,
            4 => 10,
            _ if nest.loops.iter().any(|l| l.header == 0) => 10,
            _ => 1,
        };
        nest.graph.blocks.iter().map(|b| count(b.start)).collect()
    }

    fn starts_of(nest: &LoopNest) -> Option<u64> {
        let executions = executions(nest);
        let leaves = vec![false; executions.len()];
        let edges = super::super::flow::edge_counts(&nest.graph.blocks, &executions, 0, &leaves);
        let inner = nest.loops.iter().position(|l| l.is_innermost).expect("the inner loop");
        let dependencies = analyse_body(&path(nest, inner, &executions)).expect("short");
        starts(nest, inner, &dependencies.cycles, &executions, &edges)
    }

    #[test]
    fn a_sum_over_both_loops_starts_once() {
        assert_eq!(starts_of(&nest(false)), Some(1));
    }

    #[test]
    fn a_sum_that_is_reset_starts_with_each_row() {
        assert_eq!(starts_of(&nest(true)), None);
    }
}
