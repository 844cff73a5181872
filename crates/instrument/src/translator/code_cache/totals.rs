//! The counts of threads that have ended, by counter and thread.

use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::hash::AddressMap;

/// One counter's value in one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    slot: u32,
    /// The thread.
    pub thread: u32,
    /// The sum of its counts.
    pub value: u64,
}

/// Entries that are kept unsorted at most, beside as many as are sorted.
const UNSORTED: usize = 1 << 16;

/// Values by (counter, thread): in order, except those added last.
#[derive(Debug, Default)]
pub struct SlotTotals {
    entries: Vec<Total>,
    sorted: usize,
}

impl SlotTotals {
    /// Adds to a counter.
    pub fn add(&mut self, slot: u32, thread: u32, value: u64) {
        self.entries.push(Total { slot, thread, value });
        if self.entries.len() > 2 * self.sorted + UNSORTED {
            self.sort();
        }
    }

    /// Brings entries in order, adds up those of one counter and thread, and drops sums of 0.
    pub fn sort(&mut self) {
        self.entries.sort_by_key(|e| (e.slot, e.thread));
        self.entries.dedup_by(|next, kept| {
            let same = (next.slot, next.thread) == (kept.slot, kept.thread);
            if same {
                kept.value = kept.value.wrapping_add(next.value);
            }
            same
        });
        self.entries.retain(|e| e.value != 0);
        self.sorted = self.entries.len();
    }

    /// The values of `slot` by thread; only after [`sort`](Self::sort).
    pub fn of(&self, slot: u32) -> &[Total] {
        debug_assert_eq!(self.sorted, self.entries.len());
        let start = self.entries.partition_point(|e| e.slot < slot);
        let length = self.entries[start..].iter().take_while(|e| e.slot == slot).count();
        &self.entries[start..start + length]
    }

    /// The sums over all threads of the first `counters` counters.
    pub fn of_all_threads(&self, counters: u32) -> Vec<u64> {
        let mut sums = vec![0u64; counters as usize];
        for entry in &self.entries {
            if let Some(sum) = sums.get_mut(entry.slot as usize) {
                *sum = sum.wrapping_add(entry.value);
            }
        }
        sums
    }
}

/// The counts of a code cache so far.
#[derive(Debug, Default)]
pub struct Totals {
    pub(crate) slots: SlotTotals,
    /// Beginnings of blocks that were executed alone, by (block, bytes): (thread, executions).
    pub(crate) parts: AddressMap<(BlockId, u16), Vec<(u32, u64)>>,
}

/// Adds to a value of a thread.
pub(crate) fn add(to: &mut Vec<(u32, u64)>, thread: u32, value: u64) {
    match to.iter_mut().find(|(t, _)| *t == thread) {
        Some((_, sum)) => *sum = sum.wrapping_add(value),
        None => to.push((thread, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_added_up_by_counter_and_thread() {
        let mut totals = SlotTotals::default();
        for _ in 0..3 {
            for slot in (0..UNSORTED as u32).rev() {
                totals.add(slot, slot % 2, u64::from(slot));
            }
        }
        totals.add(7, 0, u64::MAX);
        totals.sort();
        assert_eq!(totals.entries.len(), UNSORTED, "counter 0 added up to 0");
        assert_eq!(totals.of(9), [Total { slot: 9, thread: 1, value: 27 }]);
        let seven = [Total { slot: 7, thread: 0, value: u64::MAX }, Total { slot: 7, thread: 1, value: 21 }];
        assert_eq!(totals.of(7), seven);
        assert_eq!(totals.of_all_threads(10)[7..], [20, 24, 27]);
        assert!(totals.of(UNSORTED as u32).is_empty());
    }
}
