//! Orders hot blocks: each behind its most frequent predecessor, so that code executed in turn is contiguous and few jumps are
//! taken (bottom-up positioning after Pettis and Hansen, PLDI 1990).

use crate::translator::code_cache::hash::AddressMap;
use crate::x86_64::decode::Terminator;
use rprof_tracee::address::Address;

/// A block that was executed often.
#[derive(Debug, Clone, Copy)]
pub struct HotBlock {
    /// Its first instruction.
    pub at: Address,
    /// Recent executions.
    pub count: u64,
    /// The blocks that may follow it in the cache.
    pub successors: [Option<Address>; 2],
    /// See [`runs_on`](crate::translator::translate::edge_counters::runs_on).
    pub runs_on: bool,
    /// It is one of its successors.
    pub repeats: bool,
    /// It uses flags that an earlier block has set: a counter in it has to save them.
    pub needs_flags: bool,
}

/// A block in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its first instruction.
    pub at: Address,
    /// The next block of the chain is executed nearly as often, and nearly always behind this one: it needs no counter in line
    /// ([`edge_counters`](crate::translator::translate::edge_counters)).
    pub next_flows: bool,
    /// Control nearly always reaches the next block of the chain from this one.
    pub next_is_alone: bool,
}

/// If more than one execution in this many goes another way, the next block has a counter in line: a detour costs more than some
/// counters.
const DETOUR: u64 = 64;

/// If at most one execution of a block in this many comes from elsewhere, the block counts as reached from one block only.
const ALONE: u64 = 16;

/// The blocks that may follow a block in the cache that ends in `end`, with `next` behind it.
pub fn successors(end: Terminator, next: Address) -> [Option<Address>; 2] {
    match end {
        Terminator::Next
        | Terminator::System
        | Terminator::ShortBranch(_)
        | Terminator::Call(_)
        | Terminator::CallIndirect => [Some(next), None],
        Terminator::Jump(to) => [Some(to), None],
        Terminator::Branch(_, to) => [Some(next), Some(to)],
        _ => [None, None],
    }
}

/// Estimates from the blocks' counts how often control goes from block `i` to each of its successors.
fn edges(blocks: &[HotBlock], by_start: &AddressMap<u64, usize>, i: usize) -> Vec<(u64, usize, usize)> {
    let block = &blocks[i];
    let hot: Vec<usize> = block.successors.iter().flatten().filter_map(|s| by_start.get(&s.get()).copied()).collect();
    let all: u64 = hot.iter().map(|&s| blocks[s].count).sum();
    let share = |s: usize| {
        let count = u128::from(blocks[s].count) * u128::from(block.count) / u128::from(all.max(1));
        blocks[s].count.min(count as u64)
    };
    hot.iter().filter(|&&s| s != i).map(|&s| (share(s), i, s)).collect()
}

/// Joins blocks to chains, the hottest first.
pub fn chains(blocks: &[HotBlock]) -> Vec<Vec<Placed>> {
    let by_start: AddressMap<u64, usize> = blocks.iter().enumerate().map(|(i, b)| (b.at.get(), i)).collect();
    let mut edges: Vec<_> = (0..blocks.len()).flat_map(|i| edges(blocks, &by_start, i)).collect();
    edges.sort_unstable_by(|a, b| b.cmp(a));
    let mut chain_of: Vec<usize> = (0..blocks.len()).collect();
    let mut chains: Vec<Vec<usize>> = (0..blocks.len()).map(|i| vec![i]).collect();
    for (_, from, to) in edges {
        let (a, b) = (chain_of[from], chain_of[to]);
        if a == b || chains[a].last() != Some(&from) || chains[b].first() != Some(&to) {
            continue;
        }
        let behind = std::mem::take(&mut chains[b]);
        behind.iter().for_each(|&i| chain_of[i] = a);
        chains[a].extend(behind);
    }
    chains.retain(|c| !c.is_empty());
    chains.sort_by_key(|c| std::cmp::Reverse(c.iter().map(|&i| blocks[i].count).max()));
    chains.iter_mut().for_each(|chain| begin_without_flags(chain, blocks));
    let mut predecessors = vec![0; blocks.len()];
    for successor in blocks.iter().flat_map(|b| b.successors).flatten() {
        by_start.get(&successor.get()).into_iter().for_each(|&i| predecessors[i] += 1);
    }
    let flows = |i: usize, next: usize| {
        let (block, next_block) = (&blocks[i], &blocks[next]);
        let few = block.count.min(next_block.count) / DETOUR;
        let count_of = |at: &Address| by_start.get(&at.get()).map_or(0, |&i| blocks[i].count);
        // Otherwise as many executions may leave as enter from elsewhere, unless one of the two is known to be rare.
        let leaves = block.successors.iter().flatten().filter(|at| **at != next_block.at).map(count_of).sum::<u64>();
        let is_sure = predecessors[next] == 1 || leaves <= few;
        block.runs_on && !next_block.repeats && is_sure && block.count.abs_diff(next_block.count) <= few
    };
    let placed = |chain: &[usize], n: usize| {
        let next = chain.get(n + 1).copied();
        let next_flows = next.is_some_and(|next| flows(chain[n], next));
        let is_alone = |next: usize| blocks[next].count - blocks[next].count / ALONE <= blocks[chain[n]].count;
        Placed { at: blocks[chain[n]].at, next_flows, next_is_alone: next.is_some_and(is_alone) }
    };
    chains.into_iter().map(|c| (0..c.len()).map(|n| placed(&c, n)).collect()).collect()
}

/// Makes a chain that is a loop begin, and so have its counter, where no flags have to be saved for it, if control goes round the
/// whole of it nearly always.
fn begin_without_flags(chain: &mut [usize], blocks: &[HotBlock]) {
    let (Some(&first), Some(&last)) = (chain.first(), chain.last()) else { return };
    let is_loop = blocks[last].successors.contains(&Some(blocks[first].at));
    let is_even = chain.iter().all(|&i| blocks[i].count.abs_diff(blocks[first].count) <= blocks[first].count / DETOUR);
    if is_loop && is_even && blocks[first].needs_flags {
        let begin = chain.iter().position(|&i| !blocks[i].needs_flags).unwrap_or(0);
        chain.rotate_left(begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at: u64, count: u64, successors: &[u64]) -> HotBlock {
        let successor = |i: usize| successors.get(i).map(|&s| Address::new(s));
        let repeats = successors.contains(&at);
        let successors = [successor(0), successor(1)];
        HotBlock { at: Address::new(at), count, successors, runs_on: !repeats, repeats, needs_flags: false }
    }

    fn placed(blocks: &[HotBlock]) -> Vec<Vec<u64>> {
        chains(blocks).iter().map(|c| c.iter().map(|p| p.at.get()).collect()).collect()
    }

    #[test]
    fn the_likelier_way_follows_and_the_other_stands_apart() {
        let blocks = [block(1, 100, &[2, 3]), block(2, 10, &[4]), block(3, 90, &[4]), block(4, 100, &[])];
        assert_eq!(placed(&blocks), [vec![1, 3, 4], vec![2]]);
    }

    #[test]
    fn a_block_spares_its_counter_if_hardly_anything_goes_another_way() {
        let flowing = |blocks: &[HotBlock]| {
            let chains = chains(blocks);
            chains.iter().flatten().filter(|p| p.next_flows).map(|p| p.at.get()).collect::<Vec<_>>()
        };
        let straight = [block(1, 1000, &[2, 9]), block(2, 990, &[3]), block(3, 995, &[4]), block(4, 700, &[])];
        assert_eq!(flowing(&straight), [1, 2], "the last is executed less often");
        // 1 → 2 → 4 as often as 1 → 3 → 4
        let diamond = [block(1, 100, &[2, 3]), block(2, 50, &[4]), block(3, 50, &[4]), block(4, 100, &[])];
        assert!(flowing(&diamond).is_empty());
        // 1 → 2 and 5 → 2, 1 → 3: as much may enter 2 as leaves 1.
        let unknown = [block(1, 100, &[2, 3]), block(2, 100, &[]), block(3, 90, &[]), block(5, 90, &[2, 3])];
        assert!(flowing(&unknown).is_empty());
        let mut call = straight;
        call[0].runs_on = false;
        assert_eq!(flowing(&call), [2]);
        let a_loop = [block(1, 100, &[2]), block(2, 100, &[2])];
        assert!(flowing(&a_loop).is_empty(), "it has a counter of its own");
    }

    #[test]
    fn who_hardly_ever_comes_from_elsewhere_is_alone() {
        let alone = |count: u64| {
            let blocks = [block(1, 960, &[2]), block(2, count, &[]), block(3, 2, &[2])];
            chains(&blocks)[0][0].next_is_alone
        };
        assert!(alone(900) && alone(960) && alone(1024));
        assert!(!alone(1040));
    }

    #[test]
    fn a_loop_is_cut_once() {
        // 5 → 6 → 7 → 5, left from 7 to 8; entered at 6.
        let blocks = [block(5, 99, &[6]), block(6, 100, &[7]), block(7, 100, &[8, 5]), block(8, 1, &[])];
        assert_eq!(placed(&blocks), [vec![6, 7, 5], vec![8]]);
    }

    #[test]
    fn a_loop_begins_where_no_flags_are_to_be_saved() {
        let needing = |block: HotBlock| HotBlock { needs_flags: true, ..block };
        // 5 → 6 → 7 → 5, entered at 6 and left from 7 to 8.
        let closed = |exits: u64| {
            let (second, third) = (block(6, 1000, &[7]), block(7, 1000, &[8, 5]));
            [block(5, 1000 - exits, &[6]), needing(second), needing(third), block(8, exits, &[])]
        };
        assert_eq!(placed(&closed(1)), [vec![5, 6, 7], vec![8]]);
        assert_eq!(placed(&closed(300))[0], [6, 7, 5], "it is left often");
        let open = [needing(block(5, 1000, &[6])), block(6, 1000, &[7]), block(7, 1000, &[])];
        assert_eq!(placed(&open), [vec![5, 6, 7]]);
    }

    #[test]
    fn blocks_that_loop_on_themselves_and_unknown_successors_are_no_trouble() {
        assert_eq!(placed(&[block(1, 5, &[1, 77])]), [vec![1]]);
        assert!(placed(&[]).is_empty());
    }
}
