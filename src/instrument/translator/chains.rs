//! In which order hot blocks are best placed: each behind the one that most often runs into it, so that what is executed
//! in turn stands in one piece and few jumps are taken (bottom-up positioning after Pettis and Hansen, PLDI 1990).

use super::hash::AddressMap;
use crate::instrument::x86_64::decode::End;
use crate::target::address::Address;

/// A block that was executed often.
#[derive(Debug, Clone, Copy)]
pub struct HotBlock {
    /// Its first instruction.
    pub at: Address,
    /// How often, of late.
    pub count: u64,
    /// What the cache can run into behind it.
    pub successors: [Option<Address>; 2],
}

/// What a block at whose end stands `end`, with `next` behind it, can run into in the cache.
pub fn successors(end: End, next: Address) -> [Option<Address>; 2] {
    match end {
        End::Next | End::System | End::ShortBranch(_) | End::Call(_) | End::CallIndirect => [Some(next), None],
        End::Jump(to) => [Some(to), None],
        End::Branch(_, to) => [Some(next), Some(to)],
        _ => [None, None],
    }
}

/// How often control goes from block `i` to each of its successors, as far as the blocks' counts tell.
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
pub fn chains(blocks: &[HotBlock]) -> Vec<Vec<Address>> {
    let by_start: AddressMap<u64, usize> = blocks.iter().enumerate().map(|(i, b)| (b.at.get(), i)).collect();
    let mut edges: Vec<_> = (0..blocks.len()).flat_map(|i| edges(blocks, &by_start, i)).collect();
    edges.sort_by(|a, b| b.cmp(a));
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
    chains.into_iter().map(|c| c.into_iter().map(|i| blocks[i].at).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at: u64, count: u64, successors: &[u64]) -> HotBlock {
        let successor = |i: usize| successors.get(i).map(|&s| Address::new(s));
        HotBlock { at: Address::new(at), count, successors: [successor(0), successor(1)] }
    }

    fn placed(blocks: &[HotBlock]) -> Vec<Vec<u64>> {
        chains(blocks).iter().map(|c| c.iter().map(|a| a.get()).collect()).collect()
    }

    #[test]
    fn the_likelier_way_follows_and_the_other_stands_apart() {
        let blocks = [block(1, 100, &[2, 3]), block(2, 10, &[4]), block(3, 90, &[4]), block(4, 100, &[])];
        assert_eq!(placed(&blocks), [vec![1, 3, 4], vec![2]]);
    }

    #[test]
    fn a_loop_is_cut_once() {
        // 5 → 6 → 7 → 5, left from 7 to 8; entered at 6.
        let blocks = [block(5, 99, &[6]), block(6, 100, &[7]), block(7, 100, &[8, 5]), block(8, 1, &[])];
        assert_eq!(placed(&blocks), [vec![6, 7, 5], vec![8]]);
    }

    #[test]
    fn blocks_that_loop_on_themselves_and_unknown_successors_are_no_trouble() {
        assert_eq!(placed(&[block(1, 5, &[1, 77])]), [vec![1]]);
        assert!(placed(&[]).is_empty());
    }
}
