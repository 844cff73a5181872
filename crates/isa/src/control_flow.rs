//! Control flow of a function as a graph of basic blocks, and the natural loops in it. Architecture-neutral.
//!
//! ```text
//!  blocks ─▶ edges ─▶ reverse postorder ─▶ dominators ─▶ back edges ─▶ natural loops ─▶ nest
//! ```
//!
//! Dominators after Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm". Blocks that no edge reaches (behind an
//! indirect jump) are entries of their own, so that loops in them are found too.

use std::collections::{BTreeMap, BTreeSet};

/// A basic block: instructions in `start..end`, entered only at `start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Address of its first instruction.
    pub start: u64,
    /// Address behind its last instruction.
    pub end: u64,
    /// Starts of the blocks that can follow it; those outside the graph are ignored. A call's successor is the block behind it.
    pub successors: Vec<u64>,
}

/// A natural loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Index of the block that every iteration enters first.
    pub header: usize,
    /// Indices of its blocks, inner loops included, in reverse postorder: the header first.
    pub blocks: Vec<usize>,
    /// Blocks that jump back to the header.
    pub latches: Vec<usize>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// The next outer loop.
    pub parent: Option<usize>,
}

/// The natural loops of a graph, outer before inner. `entry`: the address where the function starts.
///
/// Cycles that can be entered at several blocks (irreducible ones) are not natural loops and are left out.
pub fn loops(blocks: &[Block], entry: u64) -> Vec<Loop> {
    let graph = Graph::new(blocks, entry);
    let mut bodies: BTreeMap<usize, (BTreeSet<usize>, Vec<usize>)> = BTreeMap::new();
    for from in 0..blocks.len() {
        for &to in &graph.successors[from] {
            if graph.dominates(to, from) {
                let (body, latches) = bodies.entry(to).or_default();
                graph.collect_body(to, from, body);
                latches.push(from);
            }
        }
    }
    nest(bodies, &graph.rank)
}

/// Orders loops from outer to inner and links them.
fn nest(bodies: BTreeMap<usize, (BTreeSet<usize>, Vec<usize>)>, rank: &[usize]) -> Vec<Loop> {
    let mut bodies: Vec<_> = bodies.into_iter().collect();
    bodies.sort_unstable_by_key(|(header, (body, _))| (usize::MAX - body.len(), *header));
    let mut loops: Vec<Loop> = Vec::with_capacity(bodies.len());
    for (header, (body, latches)) in &bodies {
        // The smallest loop so far that holds the header; sorted by size, the last one is.
        let parent = bodies[..loops.len()].iter().rposition(|(_, (outer, _))| outer.contains(header));
        let depth = parent.map_or(1, |outer| loops[outer].depth + 1);
        let mut blocks: Vec<usize> = body.iter().copied().collect();
        blocks.sort_by_key(|&block| rank[block]);
        loops.push(Loop { header: *header, blocks, latches: latches.clone(), depth, parent });
    }
    loops
}

/// The graph in the form of the dominator computation. The node behind the last block is the common root of all entries.
struct Graph {
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    /// Position in reverse postorder from the root.
    rank: Vec<usize>,
    /// Immediate dominator; the root is its own.
    dominator: Vec<usize>,
}

impl Graph {
    fn new(blocks: &[Block], entry: u64) -> Graph {
        let root = blocks.len();
        let at: BTreeMap<u64, usize> = blocks.iter().enumerate().map(|(n, block)| (block.start, n)).collect();
        let mut successors: Vec<Vec<usize>> = blocks
            .iter()
            .map(|block| {
                let unique: BTreeSet<usize> =
                    block.successors.iter().filter_map(|start| at.get(start).copied()).collect();
                unique.into_iter().collect()
            })
            .collect();
        let roots = entries(&successors, at.get(&entry).copied());
        successors.push(roots);
        let order = postorder(&successors, root);
        let mut rank = vec![0; root + 1];
        for (position, &node) in order.iter().rev().enumerate() {
            rank[node] = position;
        }
        let mut predecessors = vec![Vec::new(); root + 1];
        for (from, targets) in successors.iter().enumerate() {
            for &to in targets {
                predecessors[to].push(from);
            }
        }
        let mut graph = Graph { successors, predecessors, rank, dominator: vec![root; root + 1] };
        graph.find_dominators(&order);
        graph
    }

    fn find_dominators(&mut self, postorder: &[usize]) {
        let root = self.successors.len() - 1;
        let mut known = vec![false; root + 1];
        known[root] = true;
        let mut changed = true;
        while changed {
            changed = false;
            for &node in postorder.iter().rev().filter(|&&node| node != root) {
                let mut candidates = self.predecessors[node].iter().copied().filter(|&p| known[p]);
                let Some(first) = candidates.next() else { continue };
                let dominator = candidates.fold(first, |a, b| self.common_dominator(a, b));
                if !known[node] || self.dominator[node] != dominator {
                    self.dominator[node] = dominator;
                    known[node] = true;
                    changed = true;
                }
            }
        }
    }

    fn common_dominator(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            if self.rank[a] > self.rank[b] {
                a = self.dominator[a];
            } else {
                b = self.dominator[b];
            }
        }
        a
    }

    fn dominates(&self, a: usize, mut b: usize) -> bool {
        while self.rank[b] > self.rank[a] {
            b = self.dominator[b];
        }
        a == b
    }

    /// Adds to `body` the blocks that reach `latch` without passing `header`, and both ends.
    fn collect_body(&self, header: usize, latch: usize, body: &mut BTreeSet<usize>) {
        body.insert(header);
        let mut open = vec![latch];
        while let Some(node) = open.pop() {
            if body.insert(node) {
                open.extend(&self.predecessors[node]);
            }
        }
    }
}

/// The function's entry, and in each part that it does not reach the first block.
fn entries(successors: &[Vec<usize>], entry: Option<usize>) -> Vec<usize> {
    let mut has_predecessor = vec![false; successors.len()];
    for (from, targets) in successors.iter().enumerate() {
        for &to in targets {
            has_predecessor[to] |= to != from;
        }
    }
    let orphans = (0..successors.len()).filter(|&n| !has_predecessor[n]);
    let mut reached = vec![false; successors.len()];
    let mut roots = Vec::new();
    for candidate in entry.into_iter().chain(orphans).chain(0..successors.len()) {
        if reached[candidate] {
            continue;
        }
        roots.push(candidate);
        let mut open = vec![candidate];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(&successors[node]);
            }
        }
    }
    roots
}

fn postorder(successors: &[Vec<usize>], root: usize) -> Vec<usize> {
    let mut seen = vec![false; successors.len()];
    let mut order = Vec::with_capacity(successors.len());
    let mut open = vec![(root, 0)];
    seen[root] = true;
    while let Some((node, next)) = open.pop() {
        match successors[node].get(next) {
            Some(&to) => {
                open.push((node, next + 1));
                if !std::mem::replace(&mut seen[to], true) {
                    open.push((to, 0));
                }
            }
            None => order.push(node),
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u64, &[u64])]) -> Vec<Block> {
        edges.iter().map(|(start, to)| Block { start: *start, end: start + 1, successors: to.to_vec() }).collect()
    }

    #[test]
    fn nested_loops_with_a_branch_inside() {
        // 0 → 1(outer) → 2(inner) → {3, 4} → 5 → 2; 5 → 6 → 1; 6 → 7
        let blocks =
            graph(&[(0, &[1]), (1, &[2]), (2, &[3, 4]), (3, &[5]), (4, &[5]), (5, &[2, 6]), (6, &[1, 7]), (7, &[])]);
        let found = loops(&blocks, 0);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].header, found[0].depth, found[0].parent, found[0].blocks.len()), (1, 1, None, 6));
        assert_eq!((found[1].header, found[1].depth, found[1].parent), (2, 2, Some(0)));
        assert_eq!((found[1].blocks[0], found[1].blocks.len(), &found[1].latches[..]), (2, 4, &[5][..]));
        assert_eq!(found[1].blocks[3], 5, "the latch comes last in reverse postorder");
    }

    #[test]
    fn a_block_that_jumps_to_itself() {
        let found = loops(&graph(&[(0, &[1]), (1, &[1, 2]), (2, &[])]), 0);
        assert_eq!(found, [Loop { header: 1, blocks: vec![1], latches: vec![1], depth: 1, parent: None }]);
    }

    #[test]
    fn two_back_edges_to_one_header_are_one_loop() {
        let found = loops(&graph(&[(0, &[1]), (1, &[2, 3]), (2, &[1]), (3, &[1, 4]), (4, &[])]), 0);
        assert_eq!((found.len(), &found[0].latches[..], found[0].blocks.len()), (1, &[2, 3][..], 3));
    }

    #[test]
    fn a_loop_that_no_edge_reaches_is_found() {
        let found = loops(&graph(&[(0, &[]), (5, &[6]), (6, &[5])]), 0);
        assert_eq!((found.len(), found[0].header), (1, 1));
    }

    #[test]
    fn an_irreducible_cycle_is_no_natural_loop() {
        assert_eq!(loops(&graph(&[(0, &[1, 2]), (1, &[2]), (2, &[1])]), 0), []);
    }
}
