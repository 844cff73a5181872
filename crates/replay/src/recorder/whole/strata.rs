//! At which instructions of a thread bursts begin: stratified random sampling, with strata that grow as the run does.
//!
//! ```text
//!  level 0:  | b   |   b |  b  |b    |    every slot has a burst at a random place
//!  level 1:  |     |   b |  b  |     |    of two neighbours one keeps it, by chance
//!  level 2:  |     |   b |     |     |    …
//! ```
//!
//! The numbers are pseudo-random and the same in every run.

use rprof_basics::random::{mix, unit_interval, word};

/// Instructions of a slot.
pub(super) const SLOT: u64 = 25_000;
/// Instructions of a burst, with its lead-in.
pub(super) const LENGTH: u64 = 10_000;
/// Instructions of it that only fill the pipeline.
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

    /// The instruction at which the burst of `slot` begins.
    fn start(self, slot: u64) -> u64 {
        let place = unit_interval(mix(self.seed.wrapping_add(mix(slot))));
        slot * SLOT + (place * (SLOT - LENGTH) as f64) as u64
    }

    /// The first slot from `slot` on that has a burst, and the instruction at which that begins.
    pub(super) fn next(self, slot: u64) -> (u64, u64) {
        let chosen = (slot..).find(|&slot| self.is_chosen(slot)).unwrap_or(slot);
        (chosen, self.start(chosen))
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
    fn places_vary_and_stay_within_their_slot() {
        let strata = Strata::new(0);
        let places: Vec<u64> = (0..1000).map(|slot| strata.next(slot).1 - slot * SLOT).collect();
        assert!(places.iter().all(|place| place + LENGTH <= SLOT));
        let mean = places.iter().sum::<u64>() as f64 / 1000.0;
        assert!((mean / ((SLOT - LENGTH) as f64 / 2.0) - 1.0).abs() < 0.05, "{mean}");
        assert_ne!(Strata::new(1).next(0).1, strata.next(0).1);
    }
}
