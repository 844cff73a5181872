//! Targets of indirect jumps, indirect calls and returns.

use super::history::History;

/// Lengths of the history that the tables use; the first table uses none: the last target.
const LENGTHS: [Option<usize>; 4] = [None, Some(1), Some(3), Some(5)];
/// Entries of a table, as a power of two.
const ENTRY_BITS: u32 = 10;
/// Number of return addresses that a core remembers; assumed.
const RETURNS: usize = 32;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    tag: u32,
    confidence: u8,
    target: u64,
}

/// Targets of indirect branches by history: a small ITTAGE (Seznec, A 64-Kbytes ITTAGE indirect branch predictor, 2011).
#[derive(Debug, Clone)]
pub(super) struct Targets {
    tables: Vec<Entry>,
    returns: [u64; RETURNS],
    depth: usize,
}

impl Targets {
    pub(super) fn new() -> Targets {
        Targets { tables: vec![Entry::default(); LENGTHS.len() << ENTRY_BITS], returns: [0; RETURNS], depth: 0 }
    }

    /// Whether the indirect branch at `address` would have been sent to `target`; learns it.
    pub(super) fn meet(&mut self, address: u64, target: u64, history: &History) -> bool {
        let mut places = [0usize; LENGTHS.len()];
        let mut tags = [0u32; LENGTHS.len()];
        let mut provider = None;
        for (n, length) in LENGTHS.iter().enumerate() {
            let hash = length.map_or(0, |table| history.hash(table));
            let mixed = (hash ^ address.wrapping_mul(0x2545_f491_4f6c_dd1d)).wrapping_mul(0x9fb2_1c65_1e98_df25);
            places[n] = n << ENTRY_BITS | (mixed >> (64 - ENTRY_BITS)) as usize;
            tags[n] = (mixed >> 20) as u32 | 1;
            if self.tables[places[n]].tag == tags[n] {
                provider = Some(n);
            }
        }
        let predicted = provider.map(|n| self.tables[places[n]].target);
        let right = predicted == Some(target);
        if let Some(n) = provider {
            let entry = &mut self.tables[places[n]];
            match (right, entry.confidence) {
                (true, _) => entry.confidence = (entry.confidence + 1).min(3),
                (false, 0) => entry.target = target,
                (false, _) => entry.confidence -= 1,
            }
        }
        if !right {
            let next = provider.map_or(0, |n| n + 1);
            for n in next..LENGTHS.len().min(next + 1 + usize::from(provider.is_none())) {
                let entry = &mut self.tables[places[n]];
                match entry.confidence {
                    0 => *entry = Entry { tag: tags[n], confidence: 0, target },
                    _ => entry.confidence -= 1,
                }
            }
        }
        right
    }

    /// A call that is to return to `back`.
    pub(super) fn call(&mut self, back: u64) {
        self.returns[self.depth % RETURNS] = back;
        self.depth = self.depth.wrapping_add(1);
    }

    /// Whether a return to `target` was foreseen.
    pub(super) fn ret(&mut self, target: u64) -> bool {
        self.depth = self.depth.wrapping_sub(1);
        self.returns[self.depth % RETURNS] == target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_periodic_sequence_of_targets_is_learnt() {
        let (mut targets, mut history) = (Targets::new(), History::new());
        let mut wrong = 0;
        for n in 0..20_000u64 {
            let target = 0x5000 + 64 * [0, 3, 1, 3, 3, 2, 0, 1][n as usize % 8];
            wrong += u32::from(!targets.meet(0x4000, target, &history) && n > 10_000);
            history.push_target(target);
        }
        assert!(wrong < 50, "{wrong}");
    }

    #[test]
    fn returns_are_foreseen_to_the_depth_of_the_stack() {
        let mut targets = Targets::new();
        (0..20).for_each(|n| targets.call(n));
        assert!((0..20).rev().all(|n| targets.ret(n)));
        (0..40).for_each(|n| targets.call(n));
        let right = (0..40).rev().filter(|&n| targets.ret(n)).count();
        assert_eq!(right, RETURNS);
    }
}
