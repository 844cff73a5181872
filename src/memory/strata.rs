//! What each window stands for. A window is as long as so many accesses take where addresses are noted, a pause as so much
//! time: of a program whose phases differ in speed, windows see the slow ones too often. So the events of each window are
//! weighted by what was executed between it and its neighbours:
//!
//! ```text
//! ── window ──┤ pause │ warm-up ├── window ──┤ pause │ warm-up ├──
//!          half ◀─┼─▶ half ────▶                                    an instruction that a window did not see: on to the next
//! ```
//!
//! The sum over all windows remains what executions make of it (`executions.rs`); weights only say how it is divided.

use std::collections::HashMap;

use super::mix::Mixing;
use crate::profile::evidence::memory::{Amount, Phase};

/// Executions that are enough to tell from how often something happens; fewer are put to those of the next window.
const ENOUGH: f64 = 4096.0;

/// What is known of the course of each instruction, all threads together.
#[derive(Debug, Default)]
pub struct Strata {
    sites: HashMap<u32, Site, Mixing>,
}

/// Of one instruction.
#[derive(Debug, Clone, Copy, Default)]
struct Site {
    strings: bool,
    /// All amounts that were told, by phase: opening, pause, warm-up, measured.
    told: [f64; 4],
    /// What the sample of windows stands for.
    sampled: Account,
    /// The same of bursts, which are a sample of windows and of the opening.
    bursts: Account,
}

/// Executions, or bytes of strings, and what they are told from.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// Nothing stands for these yet.
    due: f64,
    /// These were seen, and their events not yet weighted.
    seen: f64,
    /// Σ weight × seen and Σ seen of events that were weighted.
    weighted: (f64, f64),
}

impl Account {
    /// The weight of the events of what was seen, if that is enough.
    fn weight(&mut self) -> Option<f64> {
        if self.seen < ENOUGH {
            return None;
        }
        let weight = (self.due / self.seen).max(1.0);
        self.weighted = (self.weighted.0 + self.due, self.weighted.1 + self.seen);
        (self.due, self.seen) = (0.0, 0.0);
        Some(weight)
    }

    fn mean(&self) -> f64 {
        self.weighted.0 / self.weighted.1
    }

    fn is_weighted(&self) -> bool {
        self.weighted.1 > 0.0
    }
}

/// Weights of the events of an instruction, of all its threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Of the sample of windows, since they were weighted last; `None`: they stay as they are for now.
    pub sampled: Option<f64>,
    /// Of bursts.
    pub bursts: Option<f64>,
}

impl Strata {
    /// A window begins to measure, and these are the amounts since one did so before; `bursts` tells what bursts saw of an
    /// instruction that was not weighted yet, in accesses or bytes of strings. The weights of what is to be put away.
    pub fn course(&mut self, amounts: &[Amount], bursts: impl Fn(u32, bool) -> u64) -> HashMap<u32, Weights, Mixing> {
        let mut now: HashMap<u32, [f64; 4], Mixing> = HashMap::default();
        for amount in amounts {
            now.entry(amount.site).or_default()[amount.phase as usize] += amount.amount as f64;
            self.sites.entry(amount.site).or_default().strings = amount.strings;
        }
        let weigh = |(site, amounts): (u32, [f64; 4])| {
            let of_site = self.sites.get_mut(&site)?;
            let seen = bursts(site, of_site.strings) as f64;
            Some((site, of_site.note(amounts, seen, false)))
        };
        now.into_iter().filter_map(weigh).collect()
    }

    /// The run is over: `total` tells all amounts of an instruction by phase. The weights of what was not put away yet, of
    /// instructions of which something was.
    pub fn end(
        &mut self,
        total: impl Fn(u32) -> [f64; 4],
        bursts: impl Fn(u32, bool) -> u64,
    ) -> HashMap<u32, Weights, Mixing> {
        let divided = self.sites.iter_mut().filter(|(_, s)| s.sampled.is_weighted() || s.bursts.is_weighted());
        let weigh = divided.map(|(&site, of_site)| {
            let mut rest = total(site);
            rest.iter_mut().zip(of_site.told).for_each(|(all, told)| *all = (*all - told).max(0.0));
            let seen = bursts(site, of_site.strings) as f64;
            let Weights { sampled, bursts } = of_site.note(rest, seen, true);
            let or_mean =
                |weight: Option<f64>, account: &Account| weight.or(account.is_weighted().then(|| account.mean()));
            (site, Weights { sampled: or_mean(sampled, &of_site.sampled), bursts: or_mean(bursts, &of_site.bursts) })
        });
        weigh.collect()
    }

    /// What brings the weighted events of an instruction's sample back to their number, so that they stand for what executions
    /// say.
    pub fn back(&self, site: u32) -> f64 {
        self.sites.get(&site).filter(|s| s.sampled.is_weighted()).map_or(1.0, |s| s.sampled.mean().recip())
    }
}

impl Site {
    /// Notes `amounts` by phase up to the beginning of a window, or to the end of the run, and what bursts have seen that was
    /// not weighted yet.
    fn note(&mut self, amounts: [f64; 4], bursts: f64, end: bool) -> Weights {
        self.told.iter_mut().zip(amounts).for_each(|(told, amount)| *told += amount);
        let of = |phase: Phase| amounts[phase as usize];
        let (pause, warm_up) = (of(Phase::Pause), of(Phase::Warming));
        let (before, after) = if end { (pause + warm_up, 0.0) } else { (pause / 2.0, pause / 2.0 + warm_up) };
        self.sampled.due += of(Phase::Measuring) + before;
        self.sampled.seen += of(Phase::Measuring);
        self.bursts.due += of(Phase::Opening) + of(Phase::Measuring) + before;
        self.bursts.seen = bursts;
        let weights = Weights { sampled: self.sampled.weight(), bursts: self.bursts.weight() };
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
        let mut strata = Strata::default();
        let mut course = |by_phase, bursts| strata.course(&amounts(by_phase), |_, _| bursts)[&7];
        // The opening and the first pause, half of which belongs to what comes.
        let first = course([10_000, 20_000, 0, 0], 5_000);
        assert_eq!(first, Weights { sampled: None, bursts: Some(4.0) });
        // A window between two pauses, the first of which no window was before.
        let second = course([0, 8_000, 1_000, 10_000], 6_000);
        assert_eq!(second, Weights { sampled: Some(3.4), bursts: Some(4.0) });
        // What a window hardly saw goes to the next one.
        assert_eq!(course([0, 50_000, 0, 100], 0), Weights { sampled: None, bursts: None });
        let third = course([0, 0, 0, 9_900], 0);
        assert_eq!(third, Weights { sampled: Some((4_000.0 + 1_000.0 + 50_100.0 + 9_900.0) / 10_000.0), bursts: None });
        // The end: 2,000 of the last pause were not told yet.
        let last = strata.end(|_| [10_000.0, 80_000.0, 1_000.0, 30_000.0], |_, _| 5_000)[&7];
        assert_eq!(last.sampled, Some(12_000.0 / 10_000.0));
        let all = 10_000.0 * (3.4 + 6.5 + 1.2);
        assert!((strata.back(7) - 30_000.0 / all).abs() < 1e-12);
        assert!(all == 80_000.0 + 1_000.0 + 30_000.0, "each amount has one window that stands for it");
    }

    #[test]
    fn what_has_no_second_window_stays_as_it_is() {
        let mut strata = Strata::default();
        strata.course(&amounts([100, 20_000, 0, 0]), |_, _| 100);
        assert!(strata.end(|_| [100.0, 20_000.0, 0.0, 500.0], |_, _| 100).is_empty());
        assert_eq!(strata.back(7), 1.0);
    }
}
