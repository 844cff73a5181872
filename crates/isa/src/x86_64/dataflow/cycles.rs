//! The slowest cycles of a dependency graph: the greatest Σ latency / Σ distance over all cycles through carried values.
//!
//! Within an iteration the graph has no cycles, so that one pass finds the longest paths. Carried values and the longest paths
//! between them form a small graph; the search raises the ratio until no cycle has a greater one.

use crate::dependency::{ChainStep, Cycle};

use super::graph::{Graph, Source};
use super::latency::{ASSUMPTIONS, Assumption};

/// A longest path within an iteration from one carried value to the making of another.
#[derive(Debug, Clone)]
struct Path {
    from: usize,
    to: usize,
    weight: f64,
    steps: Vec<ChainStep>,
}

/// Maximum number of carried values of a graph that the analysis handles: no relevant loop has more.
pub(super) const MOST_CARRIED: usize = 128;

/// The slowest cycle under each assumption, without repetitions; the one of a typical core first.
pub(super) fn candidates(graph: &Graph) -> Vec<Cycle> {
    if graph.carried.len() > MOST_CARRIED {
        return Vec::new();
    }
    let mut cycles: Vec<Cycle> = Vec::new();
    for assumption in &ASSUMPTIONS {
        let paths = paths(graph, assumption);
        if let Some(cycle) = slowest(graph, &paths)
            && !cycles.contains(&cycle)
        {
            cycles.push(cycle);
        }
    }
    cycles
}

/// For each operation the weight of the longest path from a carried value to its result, and the input that it came by.
pub(super) fn longest_from(graph: &Graph, source: usize, assumption: &Assumption) -> Vec<Option<(f64, usize)>> {
    let mut best: Vec<Option<(f64, usize)>> = Vec::with_capacity(graph.operations.len());
    for operation in &graph.operations {
        let own = operation.step.map_or(0.0, |step| assumption.of(step));
        let mut longest: Option<(f64, usize)> = None;
        for (n, input) in operation.inputs.iter().enumerate() {
            let before = match input.from {
                Source::Carried(carried) => (carried == source).then_some(0.0),
                Source::Operation(from) => best[from].map(|(weight, _)| weight),
            };
            let Some(before) = before else { continue };
            let weight = before + own + input.via.map_or(0.0, |step| assumption.of(step));
            if longest.is_none_or(|(other, _)| weight > other) {
                longest = Some((weight, n));
            }
        }
        best.push(longest);
    }
    best
}

fn paths(graph: &Graph, assumption: &Assumption) -> Vec<Path> {
    let mut paths = Vec::new();
    for from in 0..graph.carried.len() {
        let best = longest_from(graph, from, assumption);
        for (to, carried) in graph.carried.iter().enumerate() {
            if let Some((weight, _)) = best[carried.made_by] {
                paths.push(Path { from, to, weight, steps: steps_to(graph, &best, carried.made_by) });
            }
        }
    }
    paths
}

/// The steps of the longest path to an operation, in order.
fn steps_to(graph: &Graph, best: &[Option<(f64, usize)>], mut at: usize) -> Vec<ChainStep> {
    let mut steps = Vec::new();
    while let Some((_, input)) = best[at] {
        let input = graph.operations[at].inputs[input];
        let step = graph.operations[at].step;
        steps.extend(step.map(|step| if input.is_factor { step.of_factor() } else { step }));
        steps.extend(input.via);
        match input.from {
            Source::Operation(from) => at = from,
            Source::Carried(_) => break,
        }
    }
    steps.reverse();
    steps
}

/// The cycle with the greatest Σ weight / Σ distance; `None` without a cycle that takes time.
fn slowest(graph: &Graph, paths: &[Path]) -> Option<Cycle> {
    let mut ratio = 0.0;
    let mut slowest = None;
    while let Some(cycle) = better_cycle(graph, paths, ratio) {
        let weight: f64 = cycle.iter().map(|&n| paths[n].weight).sum();
        let distance: u32 = cycle.iter().map(|&n| graph.carried[paths[n].to].distance).sum();
        let reached = weight / f64::from(distance);
        if reached <= ratio {
            break;
        }
        ratio = reached;
        slowest = Some(Cycle { steps: cycle.iter().flat_map(|&n| paths[n].steps.iter().copied()).collect(), distance });
    }
    slowest
}

/// A cycle (indices of its paths) with a ratio above `ratio`: one with a positive Σ (weight − ratio × distance), after
/// Bellman and Ford.
fn better_cycle(graph: &Graph, paths: &[Path], ratio: f64) -> Option<Vec<usize>> {
    const NOISE: f64 = 1e-9;
    let count = graph.carried.len();
    let mut longest = vec![0.0f64; count];
    let mut arrived_by: Vec<Option<usize>> = vec![None; count];
    let mut last = None;
    for _ in 0..=count {
        last = None;
        for (n, path) in paths.iter().enumerate() {
            let gain = path.weight - ratio * f64::from(graph.carried[path.to].distance);
            if longest[path.from] + gain > longest[path.to] + NOISE {
                longest[path.to] = longest[path.from] + gain;
                arrived_by[path.to] = Some(n);
                last = Some(path.to);
            }
        }
        last?;
    }
    // Still growing after as many rounds as there are values: walking back ends on the cycle.
    let mut at = last?;
    for _ in 0..count {
        at = paths[arrived_by[at]?].from;
    }
    let mut cycle = Vec::new();
    let start = at;
    loop {
        let path = arrived_by[at]?;
        cycle.push(path);
        at = paths[path].from;
        if at == start {
            break;
        }
    }
    cycle.reverse();
    Some(cycle)
}
