//! Recent execution by block: which blocks are hot, and whether their placement calls for relayout.

use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::version::Version;

/// Share of recent execution that the hot blocks cover.
const HOT: f64 = 0.995;
/// Relayout is due when blocks that are worth it and are not well placed cover more than this share of it.
const BADLY_PLACED: f64 = 0.1;
/// A block is not well placed if less than one part in this many of the recent execution had been seen when it was placed.
const LITTLE: u64 = 8;

/// Whether a code cache needs relayout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nearly all recent execution is well placed.
    None,
    /// Not enough of it is, but few blocks were executed often enough so far.
    NotYet,
    /// Blocks that are worth it are not well placed.
    Relayout,
}

/// Recent execution. A block's weight is its executions times its length in bytes.
#[derive(Debug)]
pub(super) struct Execution {
    /// Executions of each block; those of an inlined one count for its original.
    counts: Vec<u64>,
    /// The weight of all blocks.
    pub all: u64,
    /// The weight of the blocks that each round has placed; the first entry is for blocks in no round.
    placed_in: Vec<u64>,
    /// The part of it in blocks that are executed often enough for relayout.
    worth_in: Vec<u64>,
}

impl Execution {
    /// The `recent` executions by counter, after this number of `rounds` (and none). Relayout of a block executed `worth`
    /// times is worth it.
    pub fn of(cache: &CodeCache, recent: &[u64], worth: u64, rounds: usize) -> Self {
        let mut execution = Execution {
            counts: vec![0; cache.blocks.len()],
            all: 0,
            placed_in: vec![0; rounds],
            worth_in: vec![0; rounds],
        };
        for (id, block) in cache.blocks.iter().enumerate().filter(|(_, b)| b.alive && b.version == Version::Plain) {
            let count = recent.get(block.slot as usize).map_or(0, |&n| (n as i64 / block.scale()).unsigned_abs());
            if count == 0 {
                continue;
            }
            let Some(found) = cache.find(block.version, block.start) else { continue };
            if block.copied || found == id as BlockId {
                let weight = count.saturating_mul(u64::from(block.code.end - block.code.start));
                execution.counts[found as usize] += count;
                execution.all += weight;
                execution.placed_in[block.placed as usize] += weight;
                execution.worth_in[block.placed as usize] += if count >= worth { weight } else { 0 };
            }
        }
        execution
    }

    /// Whether this calls for relayout. `executed`: executions before each round; a round planned from few executions
    /// is not a good placement.
    pub fn need(&self, executed: &[u64]) -> Need {
        let (mut badly, mut worth) = (0, 0);
        for (round, then) in executed.iter().enumerate() {
            if round == 0 || *then < self.all / LITTLE {
                badly += self.placed_in[round];
                worth += self.worth_in[round];
            }
        }
        let is_much = |weight: u64| weight as f64 > BADLY_PLACED * self.all as f64;
        match (is_much(badly), is_much(worth)) {
            (_, true) => Need::Relayout,
            (true, false) => Need::NotYet,
            (false, false) => Need::None,
        }
    }

    /// The blocks that cover nearly all of it, those of the greatest weight first: (block, executions).
    pub fn hot(&self, cache: &CodeCache) -> Vec<(BlockId, u64)> {
        let executed = self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(id, &count)| {
            let code = &cache.blocks[id].code;
            (count.saturating_mul(u64::from(code.end - code.start)), id as BlockId, count)
        });
        let mut blocks: Vec<(u64, BlockId, u64)> = executed.collect();
        blocks.sort_unstable_by(|a, b| b.cmp(a));
        let mut covered = 0;
        let enough = |(weight, _, _): &(u64, BlockId, u64)| {
            let go_on = (covered as f64) < HOT * self.all as f64;
            covered += weight;
            go_on
        };
        blocks.into_iter().take_while(enough).map(|(_, id, count)| (id, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_no_round_call_for_relayout_once_they_are_worth_it() {
        let execution = |placed_in: [u64; 2], worth_in: [u64; 2]| Execution {
            counts: Vec::new(),
            all: placed_in.iter().sum(),
            placed_in: placed_in.to_vec(),
            worth_in: worth_in.to_vec(),
        };
        let much = [0, 1000];
        assert_eq!(execution([50, 950], [50, 950]).need(&much), Need::None, "a twentieth");
        assert_eq!(execution([500, 500], [500, 500]).need(&much), Need::Relayout);
        assert_eq!(execution([500, 500], [50, 500]).need(&much), Need::NotYet);
        assert_eq!(execution([0, 1000], [0, 1000]).need(&[0, 100]), Need::Relayout, "planned from a tenth of it");
        assert_eq!(execution([0, 0], [0, 0]).need(&much), Need::None, "no thread moved");
    }
}
