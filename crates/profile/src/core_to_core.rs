//! Where a hypervisor has put this host's CPUs, determined from the latency of a cache line between each pair.
//!
//! A guest sees one topology when it starts, but the hypervisor may move its CPUs while it runs: two of them lie now under one
//! last-level cache and now under two, with another path to the memory each. Streams of several threads then differ by a
//! factor of two (docs/conventions.md, Ceilings).

use serde::{Deserialize, Serialize};

/// Greatest ratio of two latencies of one distance: repetitions differ by a quarter, a line that leaves the
/// last-level cache takes three times as long or more.
const SAME: f64 = 1.7;

/// Core-to-core latencies: the least time in which a cache line goes from one CPU to another, in seconds, for each pair of
/// CPUs, ascending.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CoreToCore(Vec<f64>);

impl CoreToCore {
    /// Of the pairs' latencies, in any order.
    pub fn of(mut pairs: Vec<f64>) -> Self {
        pairs.sort_unstable_by(f64::total_cmp);
        CoreToCore(pairs)
    }

    /// The pairs' latencies, ascending, in seconds.
    pub fn pairs(&self) -> &[f64] {
        &self.0
    }

    /// Whether both are readings of one placement.
    pub fn is_same(&self, other: &CoreToCore) -> bool {
        let near = |(a, b): (&f64, &f64)| a.max(*b) <= SAME * a.min(*b);
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(near)
    }

    /// The lesser latency of each pair: the higher one was disturbed.
    pub fn least(&self, other: &CoreToCore) -> Self {
        CoreToCore(self.0.iter().zip(&other.0).map(|(a, b)| a.min(*b)).collect())
    }

    /// How many of these CPUs share a last-level cache, if groups of them are equally large: a line comes from a cache that
    /// two CPUs share sooner than from memory, which takes `memory_s` seconds. `None` for one CPU.
    ///
    /// near = n (g − 1) / 2 of the n (n − 1) / 2 pairs of n CPUs in groups of g.
    pub fn sharing(&self, memory_s: f64) -> Option<u32> {
        let pairs = self.0.len() as f64;
        let cpus = (1.0 + (1.0 + 8.0 * pairs).sqrt()) / 2.0;
        let near = self.0.iter().filter(|s| **s < memory_s).count() as f64;
        (pairs > 0.0).then(|| (1.0 + 2.0 * near / cpus).round() as u32)
    }

    /// In words: `lines cross in 46 ns`, `lines cross in 46 to 210 ns`.
    pub fn words(&self) -> String {
        let ns = |s: f64| format!("{:.0}", s * 1e9);
        match (self.0.first(), self.0.last()) {
            (Some(near), Some(far)) if ns(*near) != ns(*far) => {
                format!("lines cross in {} to {} ns", ns(*near), ns(*far))
            }
            (Some(near), _) => format!("lines cross in {} ns", ns(*near)),
            _ => "one CPU".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_share_a_cache_reach_each_other_before_memory() {
        let sharing = |ns: &[f64]| CoreToCore::of(ns.iter().map(|n| n * 1e-9).collect()).sharing(100e-9);
        assert_eq!([sharing(&[]), sharing(&[45.0]), sharing(&[205.0])], [None, Some(2), Some(1)]);
        assert_eq!(sharing(&[45.0, 210.0, 208.0, 205.0, 44.0, 215.0]), Some(2));
        assert_eq!(sharing(&[45.0; 6]), Some(4));
        assert_eq!(sharing(&[45.0; 28]), Some(8));
    }

    #[test]
    fn a_placement_is_recognised_whatever_the_order_and_the_noise() {
        let of = |ns: &[f64]| CoreToCore::of(ns.iter().map(|n| n * 1e-9).collect());
        assert!(of(&[45.0]).is_same(&of(&[62.0])));
        assert!(!of(&[45.0]).is_same(&of(&[205.0])));
        // Four CPUs: three and one, then two and two.
        let (three, two) =
            (of(&[45.0, 210.0, 46.0, 205.0, 44.0, 215.0]), of(&[45.0, 210.0, 208.0, 205.0, 44.0, 215.0]));
        assert!(!three.is_same(&two) && three.is_same(&three));
        assert!(!of(&[45.0]).is_same(&of(&[])));
        assert_eq!(of(&[62.0]).least(&of(&[45.0])), of(&[45.0]));
        assert_eq!(
            (of(&[45.2]).words(), three.words()),
            ("lines cross in 45 ns".into(), "lines cross in 44 to 215 ns".into())
        );
    }
}
