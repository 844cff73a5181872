//! The rule: a ceiling is the second-best of its rounds, and its interval reaches from their median to their best.
//!
//! ```text
//!  rounds, worst to best   ·    ·  ·   ·┊  · · ·▲ ·
//!                                  median┊       ┊ best
//!                                        └ value ┘
//! ```
//!
//! The best round alone may be a clock error or a lucky moment. Rates of in-core work are compared per cycle, so a round at another clock
//! counts like any other; the value is given at the median clock.

use std::collections::HashMap;

use super::class::Class;
use crate::harness::timing::{Rate, SAME_CLOCK, usual_clock};
use rprof_profile::clock;
use rprof_profile::machine::{CeilingId, Quality};

/// Rounds in which a value must occur to count as reproduced.
const FEWEST: usize = 2;

/// Largest clock error of a steady round. With a larger one, the work per cycle is unknown, too.
const UNSTEADY: f64 = 0.01;

/// The result of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Events a second.
    pub rate: f64,
    /// Core clock, in hertz.
    pub clock_hz: f64,
    /// The clock measured beside such work, in hertz.
    pub idle_clock_hz: f64,
    /// The threads kept their cores throughout.
    pub undisturbed: bool,
    /// The clock was steady.
    pub steady: bool,
}

impl Round {
    /// `rate` as a round. `shared_cores`: threads share cores on this host, even if its topology says otherwise.
    pub fn of(rate: &Rate, shared_cores: bool) -> Self {
        let undisturbed = !rate.disturbed && (shared_cores || !rate.shared);
        let steady = rate.clock_doubt <= UNSTEADY;
        Round { rate: rate.best, clock_hz: rate.clock_hz, idle_clock_hz: rate.idle_clock_hz, undisturbed, steady }
    }
}

/// The estimate of a ceiling from all its rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Events a second, at `clock_hz`.
    pub rate: f64,
    /// Core clock, in hertz.
    pub clock_hz: f64,
    /// The clock measured beside the work, if different.
    pub idle_clock_hz: Option<f64>,
    /// Distance of the median or the best round from `rate`, the greater one, relative to `rate`.
    pub spread: f64,
    /// [`Quality::Noisy`] or [`Quality::Reproduced`].
    pub quality: Quality,
    /// Why it is noisy.
    pub reason: Option<String>,
}

impl Estimate {
    /// The interval of a ceiling of `class`.
    pub fn interval(&self, class: Class, guest: bool) -> f64 {
        self.spread.max(class.least_interval(guest))
    }
}

/// The rounds of all ceilings, by id and threads.
#[derive(Debug, Default)]
pub struct Rounds(HashMap<(CeilingId, usize), Vec<Round>>);

impl Rounds {
    /// Adds a round and returns the estimate of all.
    pub fn note(&mut self, id: &CeilingId, threads: usize, round: Round) -> Option<Estimate> {
        let all = self.0.entry((id.clone(), threads)).or_default();
        if round.rate > 0.0 && round.clock_hz > 0.0 {
            all.push(round);
        }
        estimate(all, Class::of(id), clock::follows(id))
    }
}

/// Applies the rule. `per_cycle`: the work stays inside the core.
pub fn estimate(rounds: &[Round], class: Class, per_cycle: bool) -> Option<Estimate> {
    let undisturbed: Vec<Round> =
        rounds.iter().filter(|r| r.undisturbed && (r.steady || !per_cycle)).copied().collect();
    let is_disturbed = undisturbed.len() < FEWEST;
    let counted = if is_disturbed { rounds } else { &undisturbed };
    let clock_hz = usual_clock(counted.iter().map(|r| r.clock_hz))?;
    let idle_clock_hz = usual_clock(counted.iter().map(|r| r.idle_clock_hz)).unwrap_or(clock_hz);
    let at_clock = |r: &Round| if per_cycle { r.rate * clock_hz / r.clock_hz } else { r.rate };
    let mut rates: Vec<f64> = counted.iter().map(at_clock).collect();
    rates.sort_unstable_by(|a, b| b.total_cmp(a));
    let (best, median) = (rates[0], rates[rates.len() / 2]);
    let rate = rates.get(1).copied().unwrap_or(best);
    let below = 1.0 - median / best;
    let reason = match () {
        _ if rounds.len() < FEWEST => Some("it was measured once".into()),
        _ if is_disturbed => Some("other work took its cores, or their clock moved, in almost every round".into()),
        _ if below > class.noisy_from() => {
            Some(format!("the median of its {} rounds is {:.0} % below the best", rates.len(), 100.0 * below))
        }
        _ => None,
    };
    let quality = if reason.is_some() { Quality::Noisy } else { Quality::Reproduced };
    let is_other = (idle_clock_hz / clock_hz - 1.0).abs() > SAME_CLOCK;
    let spread = (best / rate - 1.0).max(1.0 - median / rate);
    Some(Estimate { rate, clock_hz, idle_clock_hz: is_other.then_some(idle_clock_hz), spread, quality, reason })
}

/// The rates of in-core work over some x, all at the usual clock.
pub fn at_one_clock(rates: Vec<(f64, Rate)>) -> Vec<(f64, f64)> {
    let Some(usual) = usual_clock(rates.iter().map(|(_, rate)| rate.clock_hz)) else { return Vec::new() };
    let known = rates.into_iter().filter(|(_, rate)| rate.clock_hz > 0.0);
    known.map(|(x, rate)| (x, rate.best * usual / rate.clock_hz)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rate: f64, clock_hz: f64) -> Round {
        Round { rate, clock_hz, idle_clock_hz: clock_hz, undisturbed: true, steady: true }
    }

    fn of(rates: &[f64], class: Class) -> Estimate {
        let rounds: Vec<Round> = rates.iter().map(|rate| round(*rate, 1e9)).collect();
        estimate(&rounds, class, false).expect("rounds")
    }

    #[test]
    fn the_second_best_round_stands_and_the_interval_reaches_from_the_median_to_the_best() {
        let all = of(&[90.0, 100.0, 80.0, 95.0, 85.0], Class::Beyond);
        assert_eq!((all.rate, all.quality), (95.0, Quality::Reproduced));
        assert!((all.spread - (100.0 / 95.0 - 1.0)).abs() < 1e-12);
        let low = of(&[96.0, 95.0, 80.0, 70.0, 60.0], Class::Beyond);
        assert!((low.spread - (1.0 - 80.0 / 95.0)).abs() < 1e-12);
    }

    #[test]
    fn a_median_far_below_the_best_is_noisy_by_the_class() {
        let rates = [100.0, 95.0, 92.0, 91.0, 90.0];
        let quality = |class| of(&rates, class).quality;
        assert_eq!(
            [Class::Core, Class::Near, Class::Beyond].map(quality),
            [Quality::Noisy, Quality::Reproduced, Quality::Reproduced]
        );
        assert!(of(&rates, Class::Core).reason.is_some_and(|r| r.contains("8 %")));
        assert_eq!(of(&[100.0, 99.0, 70.0, 70.0], Class::Beyond).quality, Quality::Noisy);
        assert_eq!(of(&[100.0], Class::Beyond).quality, Quality::Noisy, "one round reproduces nothing");
    }

    #[test]
    fn rounds_at_another_clock_are_compared_per_cycle() {
        let rounds = [round(4e9, 2e9), round(6e9, 3e9), round(4e9, 2e9)];
        let core = estimate(&rounds, Class::Core, true).expect("rounds");
        assert_eq!((core.rate, core.clock_hz, core.spread), (4e9, 2e9, 0.0));
        assert_eq!(estimate(&rounds, Class::Beyond, false).map(|e| e.rate), Some(4e9), "and memory as it is");
        assert_eq!(estimate(&[], Class::Core, true), None);
    }

    #[test]
    fn disturbed_rounds_count_where_there_are_too_few_others() {
        let disturbed = |rate| Round { undisturbed: false, ..round(rate, 1e9) };
        let few = estimate(&[disturbed(50.0), round(100.0, 1e9), disturbed(60.0)], Class::Core, true).expect("rounds");
        assert_eq!((few.rate, few.quality), (60.0, Quality::Noisy));
        let enough = [disturbed(50.0), round(100.0, 1e9), round(100.0, 1e9)];
        assert_eq!(
            estimate(&enough, Class::Core, true).map(|e| (e.rate, e.quality)),
            Some((100.0, Quality::Reproduced))
        );
    }

    #[test]
    fn points_of_a_sweep_are_at_one_clock() {
        let rate = |best, clock_hz| Rate { best, clock_hz, ..Rate::judge(&[], 1.0, 8) };
        let points = vec![(1.0, rate(5.0, 2.5e9)), (2.0, rate(12.0, 3e9)), (4.0, rate(20.0, 2.5e9))];
        assert_eq!(at_one_clock(points), [(1.0, 5.0), (2.0, 10.0), (4.0, 20.0)]);
        assert_eq!(at_one_clock(vec![(1.0, rate(0.0, 0.0))]), []);
    }
}
