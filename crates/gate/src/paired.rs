//! The error of a difference from bursts that both runs have in one place. Two builds that do the same for most of their time have the same
//! bursts there, and errors that cancel.

use std::collections::BTreeMap;

use crate::result::{NORMAL_95, SampledBursts};

/// Half the width of the 95 % interval of the difference of all cycles, from the scatter of the differences d of n slots, each of which
/// stands for s of them (simple random sampling of differences; Cochran, Sampling Techniques, 2.9):
///
/// ```text
/// error = 1.96 · s · √n · sd(d) · √(1 − 1/s)
/// ```
///
/// A slot that one run does not reach has no cycles there. `None` with fewer than two slots, or with other strata in both runs.
pub(crate) fn paired_error(base: &SampledBursts, head: &SampledBursts) -> Option<f64> {
    if base.slots != head.slots || base.slots == 0 {
        return None;
    }
    let mut differences: BTreeMap<(u32, u64), f64> = BTreeMap::new();
    for (bursts, sign) in [(base, -1.0), (head, 1.0)] {
        for burst in &bursts.bursts {
            *differences.entry((burst.thread, burst.slot)).or_default() += sign * burst.cycles;
        }
    }
    let n = differences.len() as f64;
    if n < 2.0 {
        return None;
    }
    let mean = differences.values().sum::<f64>() / n;
    let variance = differences.values().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let slots = base.slots as f64;
    Some(NORMAL_95 * slots * (n * variance * (1.0 - 1.0 / slots)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::GateBurst;

    fn sampled(slots: u64, cycles: impl Iterator<Item = f64>) -> SampledBursts {
        let burst = |(n, cycles)| GateBurst { thread: 0, slot: slots * n, cycles };
        SampledBursts { slots, bursts: (0..).zip(cycles).map(burst).collect() }
    }

    #[test]
    fn equal_parts_cancel_and_other_ones_count() {
        // Bursts that differ much among themselves, and in the head by one cycle more or less.
        let cycles = |n: u64| 1000.0 + (n * n % 997) as f64;
        let base = sampled(8, (0..100).map(cycles));
        assert_eq!(paired_error(&base, &base), Some(0.0));
        let head = sampled(8, (0..100).map(|n| cycles(n) + if n % 2 == 0 { 1.0 } else { -1.0 }));
        let expected = 1.96 * 8.0 * (100.0 * (100.0 / 99.0) * (7.0 / 8.0f64)).sqrt();
        assert!((paired_error(&base, &head).unwrap() - expected).abs() < 1e-6);
        let shifted = sampled(8, (0..100).map(|n| cycles(n + 1)));
        assert!(paired_error(&base, &shifted).unwrap() > 20.0 * expected);
    }

    #[test]
    fn other_strata_are_not_paired_and_whole_runs_have_no_error() {
        let base = sampled(1, (0..10).map(f64::from));
        assert_eq!(paired_error(&base, &sampled(2, (0..10).map(f64::from))), None);
        assert_eq!(paired_error(&base, &sampled(1, (0..30).map(|n| 3.0 * f64::from(n)))), Some(0.0));
        assert_eq!(paired_error(&SampledBursts::default(), &SampledBursts::default()), None);
    }
}
