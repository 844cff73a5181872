//! Chains of FP operations that begin anew in each iteration: the out-of-order window overlaps them.

use crate::dependency::{ChainStep, Cycle};

use super::cycles::{MOST_CARRIED, longest_from};
use super::graph::{Graph, Source};
use super::latency::TYPICAL;

/// The longest chain of at least two FP operations that neither enters nor leaves the iteration through a cycle.
pub(super) fn restarted(graph: &Graph) -> Option<Cycle> {
    let on_cycle = operations_on_cycles(graph);
    let mut best: Vec<Option<(f64, usize)>> = Vec::with_capacity(graph.operations.len());
    for (at, operation) in graph.operations.iter().enumerate() {
        let fp = matches!(operation.step, Some(ChainStep::Fp { .. }));
        let own = operation.step.map_or(0.0, |step| TYPICAL.of(step));
        let before =
            operation.inputs.iter().enumerate().filter(|(_, input)| input.via != Some(ChainStep::Load)).filter_map(
                |(n, input)| {
                    let Source::Operation(from) = input.from else { return None };
                    best[from].map(|(weight, _)| (weight + own + input.via.map_or(0.0, |step| TYPICAL.of(step)), n))
                },
            );
        let longest = before.max_by(|a, b| a.0.total_cmp(&b.0)).or(fp.then_some((own, usize::MAX)));
        best.push(longest.filter(|_| !on_cycle[at]));
    }
    let weight = |n: usize| best[n].map_or(0.0, |(weight, _)| weight);
    let is_fp = |n: &usize| matches!(graph.operations[*n].step, Some(ChainStep::Fp { .. }));
    let end = (0..best.len()).filter(is_fp).max_by(|&a, &b| weight(a).total_cmp(&weight(b)))?;
    let steps = chain_to(graph, &best, end);
    let fp = steps.iter().filter(|step| matches!(step, ChainStep::Fp { .. })).count();
    (fp >= 2).then_some(Cycle { steps, distance: 1 })
}

fn chain_to(graph: &Graph, best: &[Option<(f64, usize)>], mut at: usize) -> Vec<ChainStep> {
    let mut steps = Vec::new();
    while let Some((_, input)) = best[at] {
        steps.extend(graph.operations[at].step);
        let Some(input) = graph.operations[at].inputs.get(input) else { break };
        steps.extend(input.via);
        let Source::Operation(from) = input.from else { break };
        at = from;
    }
    steps.reverse();
    steps
}

/// Operations that a carried value reaches and that reach the making of a value of the same cycle.
pub(super) fn operations_on_cycles(graph: &Graph) -> Vec<bool> {
    let count = graph.carried.len();
    let mut on_cycle = vec![false; graph.operations.len()];
    if count > MOST_CARRIED {
        return on_cycle;
    }
    let from: Vec<Vec<bool>> =
        (0..count).map(|source| longest_from(graph, source, &TYPICAL).iter().map(Option::is_some).collect()).collect();
    let to: Vec<Vec<bool>> = graph.carried.iter().map(|carried| reaching(graph, carried.made_by)).collect();
    let mut leads: Vec<Vec<bool>> =
        from.iter().map(|reached| graph.carried.iter().map(|c| reached[c.made_by]).collect()).collect();
    for middle in 0..count {
        let onward = leads[middle].clone();
        for row in leads.iter_mut().filter(|row| row[middle]) {
            row.iter_mut().zip(&onward).for_each(|(reached, &further)| *reached |= further);
        }
    }
    for a in 0..count {
        for b in (0..count).filter(|&b| leads[b][a] && leads[a][b]) {
            for (n, flag) in on_cycle.iter_mut().enumerate() {
                *flag |= from[a][n] && to[b][n];
            }
        }
    }
    on_cycle
}

/// Operations with a result that enters that of `end` in the same iteration, itself included.
fn reaching(graph: &Graph, end: usize) -> Vec<bool> {
    let mut reaches = vec![false; graph.operations.len()];
    reaches[end] = true;
    for at in (0..=end).rev() {
        if reaches[at] {
            for input in &graph.operations[at].inputs {
                if let Source::Operation(from) = input.from {
                    reaches[from] = true;
                }
            }
        }
    }
    reaches
}
