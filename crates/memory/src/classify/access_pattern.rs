//! The pattern in which an instruction touches memory: next to earlier accesses, in constant strides, or neither.

use crate::caches::geometry::LINE_SHIFT;
use crate::caches::line::Line;

/// Slots for a thread's recent L1 misses.
const SLOTS: usize = 512;

/// A miss is recent for this many more misses: enough for every stream of a loop to come round, too few for a random walk through a small
/// array to meet its own neighbours.
const RECENT: u32 = 64;

/// The access pattern of an L1 miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPattern {
    /// Next to a line that the thread missed shortly before. Unrolled loops share a stream among several instructions, so this considers
    /// the thread, not the instruction.
    Unit,
    /// As far from the instruction's previous access as that was from the one before.
    Strided,
    /// Neither.
    Random,
}

/// The last two places that one instruction accessed: a read and a following write of the same place count as one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Steps {
    last: u64,
    step: u64,
    constant: bool,
}

impl Steps {
    /// Notes an access; returns whether it is in another line than the one before.
    #[inline]
    pub fn note(&mut self, address: u64) -> bool {
        if address == self.last {
            return false;
        }
        let moved = (address ^ self.last) >> LINE_SHIFT != 0;
        let step = address.wrapping_sub(self.last);
        self.constant = step == self.step;
        (self.last, self.step) = (address, step);
        moved
    }
}

/// The lines that a thread missed recently, in a hash table without collision chains.
#[derive(Debug)]
pub struct RecentMisses {
    /// Line, and the number of the miss.
    slots: Box<[(Line, u32); SLOTS]>,
    now: u32,
}

impl RecentMisses {
    /// Nothing missed yet.
    pub fn new() -> Self {
        RecentMisses { slots: Box::new([(Line::NONE, 0); SLOTS]), now: 0 }
    }

    /// Classifies a miss of `line` by the instruction with these `steps`, and remembers it.
    pub fn classify(&mut self, line: Line, steps: &Steps) -> AccessPattern {
        self.now = self.now.wrapping_add(1);
        let near = |distance: i64| {
            let wanted = line.offset(distance);
            let (known, when) = self.slots[Self::slot(wanted)];
            known == wanted && self.now.wrapping_sub(when) <= RECENT
        };
        let order = match (near(-1) || near(1), steps.constant) {
            (true, _) => AccessPattern::Unit,
            (false, true) => AccessPattern::Strided,
            (false, false) => AccessPattern::Random,
        };
        self.slots[Self::slot(line)] = (line, self.now);
        order
    }

    fn slot(line: Line) -> usize {
        // Arrays that are a power of two apart must not meet in one slot.
        (line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SLOTS
    }
}

impl Default for RecentMisses {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of misses in each class when one instruction touches these addresses, each line missing.
    fn classes(addresses: impl Iterator<Item = u64>) -> [usize; 3] {
        let (mut steps, mut recent, mut count) = (Steps::default(), RecentMisses::new(), [0; 3]);
        for address in addresses {
            steps.note(address);
            count[recent.classify(Line::of(address, 0), &steps) as usize] += 1;
        }
        count
    }

    #[test]
    fn streams_both_ways_are_unit() {
        assert_eq!(classes((1..1001).map(|i| i * 64)), [999, 0, 1]);
        assert_eq!(classes((1..1001).rev().map(|i| i * 64)), [999, 0, 1]);
    }

    #[test]
    fn a_column_walk_is_strided() {
        let [unit, strided, random] = classes((0..1000).map(|i| (1 << 30) + i * 8192));
        assert_eq!((unit, random), (0, 2));
        assert_eq!(strided, 998);
    }

    #[test]
    fn what_is_read_and_written_by_one_instruction_is_one_step() {
        let (mut steps, mut recent) = (Steps::default(), RecentMisses::new());
        let strided = (0..1000u64).map(|i| (1 << 30) + i * 320).filter(|&address| {
            steps.note(address);
            let order = recent.classify(Line::of(address, 0), &steps);
            steps.note(address);
            order == AccessPattern::Strided
        });
        assert_eq!(strided.count(), 998);
    }

    #[test]
    fn a_random_walk_through_a_small_array_is_random() {
        let walk = (0..100_000u64).map(|i| (rprof_basics::random::mix(i) % 4096) * 64);
        let [unit, _, random] = classes(walk);
        assert!(random > 95_000 && unit < 4_000, "{unit} {random}");
    }

    #[test]
    fn a_shuffle_is_random() {
        let [unit, strided, random] = classes((0..10_000u64).map(|i| rprof_basics::random::mix(i) >> 30));
        assert!(random > 9_900 && unit + strided < 100, "{unit} {strided} {random}");
    }
}
