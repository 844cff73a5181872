//! Which instructions of a thread are replayed: stratified random sampling, with strata that grow as the run does.
//!
//! ```text
//!  level 0:  |b|b|b|b|b|b|b|b|    every slot of instructions is a burst
//!  level 1:  |b  |  b|b  |  b|    of two neighbours one is, by chance
//!  level 2:  |b      |b      |    …
//! ```
//!
//! The numbers are pseudo-random and the same in every run.

use rprof_basics::random::{mix, word};

/// Instructions of a slot.
pub(super) const SLOT: u64 = 8_000;
/// Instructions before a slot that only fill the pipeline.
pub(super) const LEAD_IN: u64 = 2_000;

/// The strata of one thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strata {
    seed: u64,
    /// A stratum has 2^level slots.
    level: u32,
}

impl Strata {
    /// Of the thread with this number.
    pub(super) fn new(thread: u32) -> Strata {
        Strata { seed: word(u64::from(thread) + 1), level: 0 }
    }

    pub(super) fn level(self) -> u32 {
        self.level
    }

    /// The same with strata of twice the size.
    pub(super) fn coarser(self) -> Strata {
        Strata { level: self.level + 1, ..self }
    }

    /// The same at `level`.
    pub(super) fn at(self, level: u32) -> Strata {
        Strata { level, ..self }
    }

    /// Whether slot number `slot` has a burst.
    pub(super) fn is_chosen(self, slot: u64) -> bool {
        (1..=self.level).all(|level| {
            let stratum = slot >> level;
            let half = mix(self.seed ^ mix(stratum << 6 | u64::from(level))) & 1;
            slot >> (level - 1) & 1 == half
        })
    }

    /// The first slot from `slot` on that has a burst.
    pub(super) fn next(self, slot: u64) -> u64 {
        (slot..).find(|&slot| self.is_chosen(slot)).unwrap_or(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stratum_has_one_burst_and_coarser_ones_keep_some_of_the_finer_ones() {
        let fine = Strata::new(3);
        let mut before: Vec<u64> = (0..1 << 12).collect();
        let mut strata = fine;
        for level in 0..8 {
            let chosen: Vec<u64> = (0..1 << 12).filter(|&slot| strata.is_chosen(slot)).collect();
            let by_stratum: Vec<u64> = chosen.iter().map(|slot| slot >> level).collect();
            assert_eq!(by_stratum, (0..1 << (12 - level)).collect::<Vec<u64>>());
            assert!(chosen.iter().all(|slot| before.contains(slot)));
            before = chosen;
            strata = strata.coarser();
        }
        assert_eq!(fine.at(8).is_chosen(7), strata.is_chosen(7));
    }

    #[test]
    fn threads_choose_otherwise() {
        let chosen = |thread| {
            let strata = Strata::new(thread).at(3);
            (0..800).filter(|&slot| strata.is_chosen(slot)).collect::<Vec<u64>>()
        };
        assert_eq!(chosen(0), chosen(0));
        assert_ne!(chosen(0), chosen(1));
        assert_eq!(Strata::new(0).at(3).next(chosen(0)[4] + 1), chosen(0)[5]);
    }
}
