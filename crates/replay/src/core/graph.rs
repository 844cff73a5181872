//! The dependence graph of a burst's events, and the walk back over its last-arriving edges.

use rprof_profile::account::Cause;

/// An event of an instruction: dispatch, the arrival of its loaded data, its result, its retirement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Node {
    /// Cycle.
    pub time: u32,
    /// The node that this one waited for last.
    pub from: u32,
    /// Parts of the time since `from`: waiting for a port, translation, the level of the line, its bandwidth.
    pub port: u16,
    pub translation: u16,
    pub level: u32,
    pub bandwidth: u32,
    /// Causes of the rest of the time and of each of these parts.
    pub cause: Cause4,
}

/// Causes of a node's time: the rest, the port, the level; bandwidth is that of memory, or counts as the level.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cause4 {
    pub rest: u8,
    pub port: u8,
    pub level: u8,
    pub bandwidth: u8,
}

/// Index of a cause.
pub(super) const fn index(cause: Cause) -> u8 {
    cause as u8
}

impl Node {
    /// A node that waited for one thing.
    #[inline]
    pub(super) fn plain(time: u32, from: u32, cause: Cause) -> Node {
        let cause = Cause4 { rest: index(cause), ..Cause4::default() };
        Node { time, from, cause, ..Node::default() }
    }
}

/// All events of a burst in the order in which they were computed.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
}

/// A stretch of the path from one event to the last event that it waited for. It has one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Cycles.
    pub cycles: u32,
    /// Index of the cause.
    pub cause: u8,
}

/// The path over last-arriving edges from `last` back to the cycle `start`, latest stretch first. The stretches add up to `last`'s
/// time − `start`.
pub(super) fn walk(graph: &Graph, last: u32, start: u32, path: &mut Vec<Stretch>) {
    path.clear();
    let mut at = last;
    let mut resolving = false;
    loop {
        let node = &graph.nodes[at as usize];
        if node.time <= start || at == 0 {
            return;
        }
        let before = &graph.nodes[node.from as usize];
        // The walk ignores the time before `start`; an edge across `start` counts from there on.
        let mut left = node.time.saturating_sub(before.time.max(start));
        let mut give = |amount: u32, cause: u8| {
            let cycles = amount.min(left);
            left -= cycles;
            if cycles > 0 {
                path.push(Stretch { cycles, cause: if resolving { under_misprediction(cause) } else { cause } });
            }
        };
        give(node.bandwidth, node.cause.bandwidth);
        give(node.level, node.cause.level);
        give(u32::from(node.translation), index(Cause::Tlb));
        give(u32::from(node.port), node.cause.port);
        give(u32::MAX, node.cause.rest);
        resolving = match node.cause.rest {
            rest if rest == index(Cause::Mispredict) => true,
            rest if rest == index(Cause::Base) || rest == index(Cause::FrontEnd) => false,
            _ => resolving,
        };
        at = node.from;
    }
}

/// The wait for a mispredicted branch counts as part of the misprediction, except for the time beyond L2.
fn under_misprediction(cause: u8) -> u8 {
    const KEPT: [u8; 6] = [
        index(Cause::Base),
        index(Cause::FrontEnd),
        index(Cause::L3),
        index(Cause::DramLatency),
        index(Cause::DramBandwidth),
        index(Cause::Tlb),
    ];
    if KEPT.contains(&cause) { cause } else { index(Cause::Mispredict) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_gives_all_cycles_away_once() {
        let mut graph = Graph::default();
        graph.nodes.push(Node::default());
        graph.nodes.push(Node::plain(10, 0, Cause::Base));
        let mut load = Node::plain(60, 1, Cause::Chain);
        (load.level, load.port) = (40, 3);
        (load.cause.level, load.cause.port) = (index(Cause::L3), index(Cause::L1));
        graph.nodes.push(load);
        graph.nodes.push(Node::plain(80, 2, Cause::Mispredict));
        let mut path = Vec::new();
        walk(&graph, 3, 4, &mut path);
        let of = |cause: Cause| path.iter().filter(|s| s.cause == index(cause)).map(|s| s.cycles).sum::<u32>();
        assert_eq!(path.iter().map(|s| s.cycles).sum::<u32>(), 76);
        assert_eq!(of(Cause::L3), 40);
        assert_eq!(of(Cause::Mispredict), 30, "the load that the branch waited for, too");
        assert_eq!(of(Cause::Base), 6);
        assert_eq!(path[0], Stretch { cycles: 20, cause: index(Cause::Mispredict) }, "the latest comes first");
    }
}
