//! The choice of bursts to keep: as many as there is room for, spread evenly over the run.

use std::mem::size_of;

use rprof_profile::evidence::bursts::{Burst, BurstAccess, BurstStep};

/// Most bursts that are kept.
const MOST: usize = 600;
/// Most bytes that they take.
const MOST_BYTES: usize = 64 << 20;

/// The bursts kept so far. When they become too many, every second one goes, and from then on only every second one is recorded.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bursts: Vec<Burst>,
    bytes: usize,
    /// One burst in 2^halvings is recorded.
    halvings: u32,
    begun: u64,
}

impl Kept {
    /// Whether the burst that begins now should be recorded.
    pub(super) fn begin(&mut self) -> bool {
        self.begun += 1;
        self.begun & ((1 << self.halvings) - 1) == 0
    }

    pub(super) fn push(&mut self, mut burst: Burst) {
        burst.steps.shrink_to_fit();
        burst.accesses.shrink_to_fit();
        self.bytes += bytes(&burst);
        self.bursts.push(burst);
        if self.bursts.len() > MOST || self.bytes > MOST_BYTES {
            let mut number = 0;
            self.bursts.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.bytes = self.bursts.iter().map(bytes).sum();
            self.halvings += 1;
        }
    }

    pub(super) fn finish(self) -> Vec<Burst> {
        self.bursts
    }
}

fn bytes(burst: &Burst) -> usize {
    burst.steps.len() * size_of::<BurstStep>() + burst.accesses.len() * size_of::<BurstAccess>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_many_is_a_spread() {
        let mut kept = Kept::default();
        for number in 0..5000 {
            if kept.begin() {
                kept.push(Burst { thread: number, ..Burst::default() });
            }
        }
        let numbers: Vec<u32> = kept.finish().iter().map(|burst| burst.thread).collect();
        assert!((MOST / 2..=MOST).contains(&numbers.len()), "{}", numbers.len());
        let gaps: Vec<u32> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|&gap| gap == gaps[0]), "{gaps:?}");
    }
}
