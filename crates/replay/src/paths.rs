//! The point at which the two sides of a branch meet again: the branch's immediate post-dominator in the graph of blocks that
//! bursts executed.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use rprof_profile::evidence::bursts::BurstEvidence;

use super::op::{NONE, Program, kind};

/// Blocks of a side that are followed at most.
const LONGEST_SIDE: usize = 16;
/// Registers that a call may change: all but those that the System V ABI has it keep (`rbx rbp rsp r12 … r15`).
const CHANGED_BY_CALLS: u128 = !(1 << 3 | 1 << 4 | 1 << 5 | 0xf << 12);

/// One side of a branch, up to where both meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Slots of the shortest way.
    pub slots: u32,
    /// Registers written on it, one bit each.
    pub writes: u128,
}

/// The meeting points of the conditional branches.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    meets: Vec<Option<u32>>,
    sides: HashMap<(u32, u32), Side>,
    successors: Vec<Vec<u32>>,
}

impl Paths {
    /// The graph has the edges that bursts took, and those of direct jumps between known blocks. A call leads to the code behind it.
    pub fn new(program: &Program, bursts: &BurstEvidence) -> Paths {
        let successors = successors(program, bursts);
        let meets = post_dominators(&successors);
        let mut paths = Paths { meets, sides: HashMap::new(), successors };
        for block in 0..program.blocks.len() as u32 {
            let conditional = program.block(block).1.last().is_some_and(|last| last.is(kind::CONDITIONAL));
            let Some(meet) = paths.meets[block as usize].filter(|_| conditional) else { continue };
            for first in paths.successors[block as usize].clone() {
                if let Some(side) = paths.shortest(program, first, meet) {
                    paths.sides.insert((block, first), side);
                }
            }
        }
        paths
    }

    /// The block in which both sides of the branch at the end of `block` meet.
    pub fn meet(&self, block: u32) -> Option<u32> {
        self.meets[block as usize]
    }

    /// The other side of a branch that really led to `next`.
    pub fn other_side(&self, block: u32, next: u32) -> Option<Side> {
        let others = self.successors[block as usize].iter().filter(|&&other| other != next);
        others.filter_map(|&other| self.sides.get(&(block, other))).next().copied()
    }

    fn shortest(&self, program: &Program, first: u32, meet: u32) -> Option<Side> {
        let mut queue = VecDeque::from([(first, Side { slots: 0, writes: 0 }, 0)]);
        let mut seen = BTreeSet::new();
        while let Some((block, side, depth)) = queue.pop_front() {
            if block == meet {
                return Some(side);
            }
            if depth == LONGEST_SIDE || !seen.insert(block) {
                continue;
            }
            let side = side.and(program, block);
            queue.extend(self.successors[block as usize].iter().map(|&next| (next, side, depth + 1)));
        }
        None
    }
}

impl Side {
    fn and(self, program: &Program, block: u32) -> Side {
        let ops = program.block(block).1;
        let slots = ops.iter().map(|op| u32::from(op.slots)).sum::<u32>();
        let mut writes = self.writes;
        for op in ops {
            writes |= written(&op.writes);
        }
        if ops.last().is_some_and(|last| last.is(kind::CALL)) {
            writes |= CHANGED_BY_CALLS;
        }
        Side { slots: self.slots + slots, writes }
    }
}

/// The registers of a list, one bit each.
pub fn written(registers: &[u8]) -> u128 {
    registers.iter().filter(|&&register| register != NONE).fold(0, |bits, &register| bits | 1 << register)
}

fn successors(program: &Program, bursts: &BurstEvidence) -> Vec<Vec<u32>> {
    let mut starts: BTreeMap<u64, u32> = BTreeMap::new();
    for (n, block) in program.blocks.iter().enumerate() {
        starts.entry(block.start).or_insert(n as u32);
    }
    let mut edges: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); program.blocks.len()];
    let last = |block: u32| program.block(block).1.last();
    for pair in bursts.bursts.iter().flat_map(|burst| burst.steps.windows(2)) {
        let leaves = last(pair[0].block).is_none_or(|last| last.is(kind::CALL | kind::RETURN));
        if !leaves {
            edges[pair[0].block as usize].insert(pair[1].block);
        }
    }
    for (n, block) in program.blocks.iter().enumerate() {
        let Some(last) = last(n as u32) else { continue };
        if last.is(kind::CALL) || last.is(kind::CONDITIONAL) || !last.is(kind::BRANCH) {
            edges[n].extend(starts.get(&block.end));
        }
        if block.target != 0 && !last.is(kind::CALL) {
            edges[n].extend(starts.get(&block.target));
        }
    }
    edges.into_iter().map(|edges| edges.into_iter().collect()).collect()
}

/// Immediate post-dominators (Cooper, Harvey, Kennedy, A simple, fast dominance algorithm, 2001). Blocks without successors lead to one
/// common exit; blocks that never get there have none.
fn post_dominators(successors: &[Vec<u32>]) -> Vec<Option<u32>> {
    let exit = successors.len();
    let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); exit + 1];
    for (n, next) in successors.iter().enumerate() {
        if next.is_empty() {
            predecessors[exit].push(n as u32);
        }
        for &next in next {
            predecessors[next as usize].push(n as u32);
        }
    }
    let order = postorder(exit, &predecessors);
    let mut number = vec![usize::MAX; exit + 1];
    order.iter().enumerate().for_each(|(at, &block)| number[block] = at);
    let mut dominator = vec![usize::MAX; exit + 1];
    dominator[exit] = exit;
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order.iter().rev().filter(|&&block| block != exit) {
            let exits = successors[block].is_empty().then_some(exit);
            let next = successors[block].iter().map(|&next| next as usize).chain(exits);
            let known = next.filter(|&next| dominator[next] != usize::MAX);
            let new = known.reduce(|a, b| common(a, b, &dominator, &number));
            if let Some(new) = new.filter(|&new| dominator[block] != new) {
                dominator[block] = new;
                changed = true;
            }
        }
    }
    dominator[..exit].iter().map(|&to| (to < exit).then_some(to as u32)).collect()
}

fn common(mut a: usize, mut b: usize, dominator: &[usize], number: &[usize]) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = dominator[a];
        }
        while number[b] < number[a] {
            b = dominator[b];
        }
    }
    a
}

fn postorder(root: usize, next: &[Vec<u32>]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; next.len()];
    let mut stack = vec![(root, 0)];
    seen[root] = true;
    while let Some((block, at)) = stack.pop() {
        match next[block].get(at) {
            Some(&child) => {
                stack.push((block, at + 1));
                if !std::mem::replace(&mut seen[child as usize], true) {
                    stack.push((child as usize, 0));
                }
            }
            None => order.push(block),
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_meet_behind_an_if_and_behind_a_loop() {
        // 0 → 1 | 2, 1 → 3, 2 → 3, 3 → 3 | 4, 4 leaves.
        let graph = vec![vec![1, 2], vec![3], vec![3], vec![3, 4], vec![]];
        assert_eq!(post_dominators(&graph), [Some(3), Some(3), Some(3), Some(4), None]);
    }
}
