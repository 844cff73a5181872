//! Loop-carried dependency chains of a function's innermost loops, with how often they ran.

use super::counts::FunctionCounts;
use super::flow::{EdgeCounts, edge_counts};
use super::loop_carried;
use super::loops::LoopNest;
use super::prefetch::{self, Origins};
use rprof_isa::dependency::BodyDependencies;
use rprof_isa::x86_64::dataflow::analyse_body;
use rprof_profile::function::Chain;

/// Chains of one function.
#[derive(Debug, Default)]
pub struct Chains {
    /// (loop as the nest numbers it, its chains).
    pub of_loops: Vec<(usize, Chain)>,
    /// Share of the function's instructions in loops that were analysed.
    pub coverage: f64,
    /// How often the function was called.
    pub calls: Option<u64>,
    /// The origins of addresses of accesses in innermost loops.
    pub origins: Origins,
}

/// Analyses the innermost loops of a function, each along the path that most iterations take.
pub fn chains(nest: &LoopNest, counts: &FunctionCounts, entry: u64) -> Chains {
    let executions: Vec<u64> = nest.graph.blocks.iter().map(|b| counts.whole.executions(b.start)).collect();
    let falls_out: Vec<bool> = (0..executions.len()).map(|b| leaves(nest, b)).collect();
    let edges = edge_counts(&nest.graph.blocks, &executions, entry, &falls_out);
    let mut found = Chains { calls: calls(nest, &executions, &edges, entry), ..Chains::default() };
    let mut covered = 0;
    for (index, shape_loop) in nest.loops.iter().enumerate().filter(|(_, l)| l.is_innermost && !l.waits) {
        let header = shape_loop.blocks[0];
        let iterations = executions[header];
        let body = loop_carried::path(nest, index, &executions);
        if iterations == 0 || body.is_empty() {
            continue;
        }
        let Some(dependencies) = analyse_body(&body) else { continue };
        prefetch::origins(nest, index, &body, &mut found.origins);
        covered += counts.loops[index].tally.instructions;
        let entries = loop_carried::entries(nest, index, &executions, &edges);
        let starts = loop_carried::starts(nest, index, &dependencies.cycles, &executions, &edges).unwrap_or(entries);
        let threads = counts.loops[index].per_thread.values().filter(|(n, _)| *n > 0).count().max(1) as u32;
        let shared = Chain { header: shape_loop.header, iterations, entries, threads, ..Chain::default() };
        found.of_loops.extend(with_dependencies(shared, starts, dependencies).into_iter().map(|c| (index, c)));
    }
    found.coverage = match counts.whole.tally.instructions {
        0 => 0.0,
        all => covered as f64 / all as f64,
    };
    found
}

/// Executions of the block at `entry` that no edge of the function leads to.
fn calls(nest: &LoopNest, executions: &[u64], edges: &EdgeCounts, entry: u64) -> Option<u64> {
    let first = nest.graph.blocks.iter().position(|block| block.start == entry)?;
    let jumps: u64 = edges.iter().filter(|((_, to), _)| *to == first).map(|(_, taken)| taken).sum();
    Some(executions[first].saturating_sub(jumps)).filter(|calls| *calls > 0)
}

/// One chain for the loop-carried cycles, which start anew `starts` times, and one for the longest path
/// that starts anew in every iteration.
fn with_dependencies(shared: Chain, starts: u64, dependencies: BodyDependencies) -> Vec<Chain> {
    let fp_per_iteration = f64::from(dependencies.fp_instructions);
    let mut chains = Vec::new();
    let stored = dependencies.stored;
    if !dependencies.cycles.is_empty() {
        let per_start = shared.iterations as f64 / starts as f64;
        let restart_every = (starts > u64::from(shared.threads)).then_some(per_start);
        chains.push(Chain { cycles: dependencies.cycles, fp_per_iteration, restart_every, stored, ..shared.clone() });
    }
    if let Some(restarted) = dependencies.restarted {
        chains.push(Chain { cycles: vec![restarted], fp_per_iteration, restart_every: Some(1.0), ..shared });
    }
    chains
}

/// Whether control may leave block `index` to a place without an edge in the graph: by an indirect jump, a return, a jump out of the
/// function.
fn leaves(nest: &LoopNest, index: usize) -> bool {
    use iced_x86::FlowControl::{ConditionalBranch, IndirectBranch, Return, UnconditionalBranch};
    let Some(last) = nest.graph.block_instructions(index).last() else { return true };
    let outside = |target: u64| {
        let graph = &nest.graph;
        let (Some(first), Some(end)) = (graph.blocks.first(), graph.blocks.last()) else { return true };
        target < first.start || target >= end.end
    };
    match last.flow_control() {
        IndirectBranch | Return => true,
        ConditionalBranch | UnconditionalBranch => outside(last.near_branch_target()),
        _ => false,
    }
}
