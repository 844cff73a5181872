//! Whether the values of a loop-carried cycle are results themselves: `y[i] = s = a·s + x[i]` stores each of them, a sum only its
//! last.

use crate::dependency::ChainStep;

use super::graph::{Graph, Source};
use super::restarted::operations_on_cycles;

/// Each iteration stores a value of a cycle to a place of its own. If floating-point operations are on a cycle, only their
/// values count: loop counters are on cycles, too.
pub(super) fn is_stored(graph: &Graph) -> bool {
    if graph.moving_stores.is_empty() {
        return false;
    }
    let on_cycle = operations_on_cycles(graph);
    let is_fp = |n: usize| matches!(graph.operations[n].step, Some(ChainStep::Fp { .. }));
    let any_fp = (0..on_cycle.len()).any(|n| on_cycle[n] && is_fp(n));
    let is_value = |n: usize| on_cycle[n] && (is_fp(n) || !any_fp);
    graph.moving_stores.iter().any(|&store| {
        // A store on a cycle hands its value on to a later load.
        let handed_on = on_cycle[store];
        let data = graph.operations[store].inputs.iter().filter(|input| input.via.is_none());
        handed_on || data.filter_map(|input| made_by(graph, input.from)).any(is_value)
    })
}

/// The operation of this iteration that made it, beyond moves.
fn made_by(graph: &Graph, mut from: Source) -> Option<usize> {
    loop {
        let Source::Operation(at) = from else { return None };
        let operation = &graph.operations[at];
        match (operation.step, &operation.inputs[..]) {
            (None, [only]) if only.via.is_none() => from = only.from,
            _ => return Some(at),
        }
    }
}
