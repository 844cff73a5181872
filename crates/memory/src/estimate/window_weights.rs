//! Weights of the sampling windows. A window lasts for a number of noted accesses, a pause for a length of time. If the phases of a
//! program differ in speed, windows therefore see the slow phases too often. So the events of each window are weighted by the executions
//! between it and its neighbours:
//!
//! ```text
//! ── window ──┤ pause │ warm-up ├── window ──┤ pause │ warm-up ├──
//!          half ◀─┼─▶ half ────▶                                    an instruction that a window did not see: on to the next
//! ```
//!
//! The sum over all windows still follows from the executions (`sampling/executions.rs`); weights only divide it among windows. The error
//! follows from how much each of `n` windows differs from the one before it, as the events between them may lie anywhere between the two:
//! `sqrt(n / (n − 1) · Σ (executions that a window represents × difference of events per execution)² / 2)`, the estimator of successive
//! differences for systematic samples (Wolter, Introduction to Variance Estimation, chapter 8), made wider if windows are few.

use std::collections::HashMap;

use crate::caches::geometry::LINE_BYTES;
use crate::caches::hash::Mixing;
use rprof_basics::student::correction;
use rprof_profile::evidence::memory::{Amount, Phase};

/// Executions that suffice for a rate of events; fewer are added to those of the next window.
pub const ENOUGH: f64 = 4096.0;
/// The same for bursts, which see parts of loops and of functions' starts: two whole ones.
const ENOUGH_IN_BURSTS: f64 = 32_768.0;

/// Executions and weights of each instruction, all threads together.
#[derive(Debug, Default)]
pub struct WindowWeights {
    sites: HashMap<u32, Site, Mixing>,
}

/// One instruction.
#[derive(Debug, Clone, Copy, Default)]
struct Site {
    strings: bool,
    /// All amounts noted so far, by phase: opening, pause, warm-up, measured.
    told: [f64; 4],
    /// Executions that the sample of windows represents.
    sampled: Account,
    /// The same for bursts, which sample windows and the opening.
    bursts: Account,
}

/// Events of an instruction seen since the last weighting.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// In bursts: accesses, or bytes of strings, and misses of L1.
    pub bursts: f64,
    pub l1_misses: f64,
    /// In the sample of windows: misses of L2 and lines that became dirty there, and misses of the last level.
    pub far_misses: [f64; 2],
}

/// Standard errors of misses relative to their number, from differences between windows; `None` if too few windows saw the instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scatter {
    pub l1: Option<f64>,
    pub l2: Option<f64>,
    pub l3: Option<f64>,
}

/// Executions, or bytes of strings, and the events seen in them.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// Executions that no weighted event represents yet.
    due: f64,
    /// Executions that were seen, with events not weighted yet.
    seen: f64,
    /// Σ weight × seen and Σ seen of weighted events.
    weighted: (f64, f64),
    /// For two kinds of events: the events per execution at the last weighting, the sum of events, and the sum of squared errors.
    rates: Option<[f64; 2]>,
    sums: [f64; 2],
    squares: [f64; 2],
    /// How often events were weighted.
    times: f64,
}

impl Account {
    /// The weight of the `events` seen since the last weighting, if at least `enough` executions were seen.
    fn weight(&mut self, events: [f64; 2], enough: f64) -> Option<f64> {
        if self.seen < enough {
            return None;
        }
        let weight = (self.due / self.seen).max(1.0);
        let rates = events.map(|events| events / self.seen);
        let before = self.rates.replace(rates).unwrap_or(rates);
        for i in 0..rates.len() {
            self.sums[i] += self.due * rates[i];
            self.squares[i] += (self.due * (rates[i] - before[i])).powi(2) / 2.0;
        }
        self.times += 1.0;
        self.weighted = (self.weighted.0 + self.due, self.weighted.1 + self.seen);
        (self.due, self.seen) = (0.0, 0.0);
        Some(weight)
    }

    fn mean(&self) -> f64 {
        self.weighted.0 / self.weighted.1
    }

    /// The relative error of this kind of events.
    fn error(&self, kind: usize) -> Option<f64> {
        if self.times < 2.0 {
            return None;
        }
        if self.sums[kind] == 0.0 {
            return Some(0.0);
        }
        // There is one difference less than windows.
        let standard = (self.squares[kind] * self.times / (self.times - 1.0)).sqrt() / self.sums[kind];
        Some(standard * correction(self.times as usize))
    }

    /// The same for events that a part of the run may have and another not, as an array that fits into a cache in one of them. Though all
    /// windows were alike, so large a share of the executions may have been otherwise: none of the windows met it with a probability of 5 %.
    fn error_of_phases(&self, kind: usize) -> Option<f64> {
        let unmet = 1.0 - 0.05f64.powf(self.times.recip());
        let is_none = self.sums[kind] == 0.0;
        self.error(kind).map(|error| if is_none { 0.0 } else { error.hypot(unmet) })
    }

    fn is_weighted(&self) -> bool {
        self.weighted.1 > 0.0
    }
}

/// Weights of the events of an instruction, of all its threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Of the sample of windows since the last weighting; `None`: they stay as they are for now.
    pub sampled: Option<f64>,
    /// Of bursts.
    pub bursts: Option<f64>,
}

impl WindowWeights {
    /// Notes the `amounts` executed between the beginnings of the last two windows, and returns the weights of the events to be put away.
    /// `seen` returns the events seen of an instruction, if there ever were any; its second argument says whether it is a string
    /// instruction.
    pub fn weigh(
        &mut self,
        amounts: &[Amount],
        seen: impl Fn(u32, bool) -> Option<Seen>,
    ) -> HashMap<u32, Weights, Mixing> {
        let mut now: HashMap<u32, ([f64; 4], Seen), Mixing> = HashMap::default();
        for &Amount { site, phase, amount, strings } in amounts {
            // Other instructions have no events to weight, and there may be many.
            let Some(seen) = seen(site, strings) else { continue };
            self.sites.entry(site).or_default().strings = strings;
            let (amounts, _) = now.entry(site).or_insert(([0.0; 4], seen));
            amounts[phase as usize] += amount as f64;
        }
        let weigh = |(site, (amounts, seen))| Some((site, self.sites.get_mut(&site)?.note(amounts, seen, false)));
        now.into_iter().filter_map(weigh).collect()
    }

    /// Ends the run and returns the weights of all events that were not put away yet, for instructions that have weights. `total` returns
    /// all amounts of an instruction by phase.
    pub fn end(
        &mut self,
        total: impl Fn(u32) -> [f64; 4],
        seen: impl Fn(u32, bool) -> Option<Seen>,
    ) -> HashMap<u32, Weights, Mixing> {
        let divided = self.sites.iter_mut().filter(|(_, s)| s.sampled.is_weighted() || s.bursts.is_weighted());
        let weigh = divided.map(|(&site, of_site)| {
            let mut rest = total(site);
            rest.iter_mut().zip(of_site.told).for_each(|(all, told)| *all = (*all - told).max(0.0));
            let seen = seen(site, of_site.strings).unwrap_or_default();
            let Weights { sampled, bursts } = of_site.note(rest, seen, true);
            let or_mean =
                |weight: Option<f64>, account: &Account| weight.or(account.is_weighted().then(|| account.mean()));
            (site, Weights { sampled: or_mean(sampled, &of_site.sampled), bursts: or_mean(bursts, &of_site.bursts) })
        });
        weigh.collect()
    }

    /// The error of an instruction's misses.
    pub fn scatter(&self, site: u32) -> Scatter {
        let of = |s: &Site| Scatter {
            l1: s.bursts.error(0),
            l2: s.sampled.error_of_phases(0),
            l3: s.sampled.error_of_phases(1),
        };
        self.sites.get(&site).map(of).unwrap_or_default()
    }

    /// The mean weight of an event in an instruction's sample.
    pub fn mean_weight(&self, site: u32) -> f64 {
        self.sites.get(&site).filter(|s| s.sampled.is_weighted()).map_or(1.0, |s| s.sampled.mean())
    }
}

impl Site {
    /// Notes the `amounts` by phase up to the beginning of a window or the end of the run, and the events seen since the last weighting.
    fn note(&mut self, amounts: [f64; 4], seen: Seen, end: bool) -> Weights {
        self.told.iter_mut().zip(amounts).for_each(|(told, amount)| *told += amount);
        let of = |phase: Phase| amounts[phase as usize];
        let (pause, warm_up) = (of(Phase::Pause), of(Phase::Warming));
        let (before, after) = if end { (pause + warm_up, 0.0) } else { (pause / 2.0, pause / 2.0 + warm_up) };
        self.sampled.due += of(Phase::Measuring) + before;
        self.sampled.seen += of(Phase::Measuring);
        self.bursts.due += of(Phase::Opening) + of(Phase::Measuring) + before;
        self.bursts.seen = seen.bursts;
        // A string's unit is a line, as an access is the unit of other instructions.
        let unit = if self.strings { LINE_BYTES as f64 } else { 1.0 };
        let weights = Weights {
            sampled: self.sampled.weight(seen.far_misses, unit * ENOUGH),
            bursts: self.bursts.weight([seen.l1_misses, 0.0], unit * ENOUGH_IN_BURSTS),
        };
        self.sampled.due += after;
        self.bursts.due += after;
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(by_phase: [u64; 4]) -> Vec<Amount> {
        let phases = [Phase::Opening, Phase::Pause, Phase::Warming, Phase::Measuring];
        let each =
            phases.into_iter().map(|phase| Amount { site: 7, phase, amount: by_phase[phase as usize], strings: false });
        each.collect()
    }

    #[test]
    fn windows_are_weighted_by_what_lies_around_them() {
        let mut strata = WindowWeights::default();
        let seen = |bursts: f64| Seen { bursts, l1_misses: bursts / 2.0, far_misses: [30.0, 0.0] };
        let mut weigh = |by_phase, bursts| strata.weigh(&amounts(by_phase), |_, _| Some(seen(bursts)))[&7];
        // The opening and the first pause, half of which belongs to the next window.
        let first = weigh([100_000, 200_000, 0, 0], 5e4);
        assert_eq!(first, Weights { sampled: None, bursts: Some(4.0) });
        // A window between two pauses, the first of which follows no window.
        let second = weigh([0, 80_000, 10_000, 100_000], 6e4);
        assert_eq!(second, Weights { sampled: Some(3.4), bursts: Some(4.0) });
        // If a window saw too few executions, they go to the next one.
        assert_eq!(weigh([0, 500_000, 0, 1_000], 0.0), Weights { sampled: None, bursts: None });
        let third = weigh([0, 0, 0, 99_000], 0.0);
        assert_eq!(
            third,
            Weights { sampled: Some((40_000.0 + 10_000.0 + 501_000.0 + 99_000.0) / 100_000.0), bursts: None }
        );
        // The end: 20,000 executions of the last pause were not noted yet.
        let last = strata.end(|_| [100_000.0, 800_000.0, 10_000.0, 300_000.0], |_, _| Some(seen(5e4)))[&7];
        assert_eq!(last.sampled, Some(120_000.0 / 100_000.0));
        let all = 100_000.0 * (3.4 + 6.5 + 1.2);
        assert!((strata.mean_weight(7) - all / 300_000.0).abs() < 1e-12);
        assert!(all == 800_000.0 + 10_000.0 + 300_000.0, "each amount has one window that stands for it");
        let Scatter { l1, l2, l3 } = strata.scatter(7);
        assert_eq!((l1, l3), (Some(0.0), Some(0.0)), "all windows saw the same");
        assert!((l2.unwrap() - 0.6316).abs() < 1e-3, "three windows are alike if less than 63 % of all differ: {l2:?}");
    }

    #[test]
    fn what_has_no_second_window_stays_as_it_is() {
        let mut strata = WindowWeights::default();
        let seen = |_, _| Some(Seen { bursts: 100.0, ..Seen::default() });
        strata.weigh(&amounts([100, 20_000, 0, 0]), seen);
        assert!(strata.end(|_| [100.0, 20_000.0, 0.0, 500.0], seen).is_empty());
        assert_eq!((strata.mean_weight(7), strata.scatter(7)), (1.0, Scatter::default()));
    }

    #[test]
    fn nothing_is_kept_of_what_was_never_seen() {
        let mut strata = WindowWeights::default();
        assert!(strata.weigh(&amounts([0, 20_000, 0, 10_000]), |_, _| None).is_empty());
        assert!(strata.sites.is_empty());
    }

    #[test]
    fn windows_that_differ_have_an_error() {
        let mut strata = WindowWeights::default();
        for misses in [0.0, 10_000.0, 10_000.0] {
            let seen = |_, _| Some(Seen { far_misses: [misses, 0.0], ..Seen::default() });
            strata.weigh(&amounts([0, 0, 0, 10_000]), seen);
        }
        let of_three = (0.75f64.sqrt() / 2.0 * correction(3)).hypot(0.6316);
        assert!((strata.scatter(7).l2.unwrap() - of_three).abs() < 1e-3, "{:?}", strata.scatter(7));
        assert_eq!((strata.scatter(7).l3, strata.scatter(7).l1), (Some(0.0), None));
    }
}
