//! Number and times of calls, with little memory.

use rprof_profile::evidence::blas::Calls;

/// Most times that are kept for the median.
const KEPT: usize = 64;

/// Calls of one shape.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Calls.
    pub calls: u64,
    timed: u64,
    slow: u64,
    ticks: f64,
    /// Every 2^`thinned`-th time.
    kept: Vec<u64>,
    thinned: u32,
}

impl Tally {
    /// Adds the time of a call in ticks. `is_slow`: addresses were recorded meanwhile, so that it says nothing of other calls.
    pub fn returned(&mut self, ticks: u64, is_slow: bool) {
        self.ticks += ticks as f64;
        if is_slow {
            self.slow += 1;
            return;
        }
        if self.timed.trailing_zeros() >= self.thinned {
            if self.kept.len() == KEPT {
                // Of those that are kept every other one.
                let mut is_odd = true;
                self.kept.retain(|_| {
                    is_odd = !is_odd;
                    !is_odd
                });
                self.thinned += 1;
            }
            if self.timed.trailing_zeros() >= self.thinned {
                self.kept.push(ticks);
            }
        }
        self.timed += 1;
    }

    /// In seconds.
    pub fn finish(mut self, ticks_per_s: f64) -> Calls {
        self.kept.sort_unstable();
        let median = self.kept.get(self.kept.len() / 2).map(|ticks| *ticks as f64 / ticks_per_s);
        Calls { calls: self.calls, timed: self.timed + self.slow, time_s: self.ticks / ticks_per_s, median_s: median }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_all() {
        let mut tally = Tally::default();
        // 1000 × 1 to 1000, in no order; the first one is slow.
        tally.returned(1_000_000, false);
        for i in 0..1000u64 {
            tally.returned(1000 * (1 + i * 7 % 1000), false);
        }
        assert!(tally.kept.len() <= KEPT && tally.kept.len() >= KEPT / 2, "{}", tally.kept.len());
        let calls = tally.finish(1000.0);
        assert_eq!((calls.timed, calls.time_s), (1001, 501_500.0));
        let median = calls.median_s.unwrap();
        assert!((400.0..=600.0).contains(&median), "{median}");
        assert_eq!(Tally::default().finish(1.0).median_s, None);
    }

    #[test]
    fn calls_that_were_slowed_down_are_none_of_the_median() {
        let mut tally = Tally::default();
        (0..50).for_each(|_| tally.returned(70_000, true));
        let alone = tally.clone().finish(1000.0);
        assert_eq!((alone.timed, alone.median_s), (50, None));
        (0..3).for_each(|_| tally.returned(1000, false));
        assert_eq!(tally.finish(1000.0).median_s, Some(1.0));
    }
}
