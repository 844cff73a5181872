//! Where the CPUs were while a function ran: what the watch saw, and the samples between.

use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::placement::CoreToCore;
use crate::profile::run::Warning;

/// A look says nothing of a sample that is further from it, in seconds.
const NEAR_S: f64 = 0.5;

/// The placements of one run.
#[derive(Debug, Default)]
pub struct Placements {
    /// The distinct ones, in order of appearance.
    pub distinct: Vec<CoreToCore>,
    /// When each was seen, in seconds since the start of the pass, ascending.
    seen: Vec<(f64, usize)>,
}

impl Placements {
    /// Those that the timed pass saw. What was seen once alone is a disturbance.
    pub fn of(timed: &TimedEvidence) -> Self {
        let mut all = Placements::default();
        for look in &timed.placements {
            let t_s = (look.time_ns as f64 - timed.start_ns as f64) * 1e-9;
            let known = all.distinct.iter().position(|p| p.is_same(&look.core_to_core));
            let index = known.unwrap_or_else(|| {
                all.distinct.push(look.core_to_core.clone());
                all.distinct.len() - 1
            });
            all.distinct[index] = all.distinct[index].least(&look.core_to_core);
            all.seen.push((t_s, index));
        }
        all.drop_disturbances();
        all
    }

    fn drop_disturbances(&mut self) {
        if self.seen.len() < 3 {
            return;
        }
        let times = |index: usize| self.seen.iter().filter(|(_, i)| *i == index).count();
        let kept: Vec<usize> = (0..self.distinct.len()).filter(|i| times(*i) > 1).collect();
        self.seen.retain(|(_, i)| kept.contains(i));
        self.seen.iter_mut().for_each(|(_, i)| *i = kept.iter().position(|k| k == i).unwrap_or(0));
        self.distinct = kept.iter().map(|i| self.distinct[*i].clone()).collect();
    }

    /// That the CPUs were moved while the program ran.
    pub fn warning(&self) -> Option<Warning> {
        let words: Vec<String> = self.distinct.iter().map(CoreToCore::words).collect();
        (words.len() > 1).then(|| {
            Warning::new(
                "cpus-moved",
                format!("the hypervisor moved this host's CPUs while the program ran: {}", words.join(", then ")),
                "a function's bandwidth ceilings are the time-weighted mean over the placements that it ran in",
                "use whole cores that the provider pins",
            )
        })
    }

    /// The share of `samples` (time, weight) in each of [`distinct`](Self::distinct); empty where that is not known of at
    /// least half of them.
    pub fn shares(&self, samples: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let mut shares = vec![0.0; self.distinct.len()];
        let (mut known, mut all) = (0.0, 0.0);
        for (t_s, weight_s) in samples {
            all += weight_s;
            if let Some(index) = nearest(&self.seen, t_s) {
                shares[index] += weight_s;
                known += weight_s;
            }
        }
        if known <= 0.0 || known < all / 2.0 {
            return Vec::new();
        }
        shares.iter_mut().for_each(|share| *share /= known);
        shares
    }
}

/// What the look nearest to a time saw; `looks` are (seconds since the start of the pass, what was seen), ascending.
pub(super) fn nearest<T: Copy>(looks: &[(f64, T)], t_s: f64) -> Option<T> {
    let behind = looks.partition_point(|(t, _)| *t < t_s);
    let near = looks[behind.saturating_sub(1)..].iter().take(2);
    let (t, seen) = near.min_by(|a, b| (a.0 - t_s).abs().total_cmp(&(b.0 - t_s).abs()))?;
    ((t - t_s).abs() <= NEAR_S).then_some(*seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::evidence::timed::PlacementSeen;

    fn evidence(looks: &[(u64, f64)]) -> TimedEvidence {
        let look = |(ms, ns): &(u64, f64)| PlacementSeen {
            time_ns: 1_000_000_000 + ms * 1_000_000,
            core_to_core: CoreToCore::of(vec![ns * 1e-9]),
        };
        TimedEvidence {
            start_ns: 1_000_000_000,
            placements: looks.iter().map(look).collect(),
            ..TimedEvidence::default()
        }
    }

    #[test]
    fn samples_are_of_the_placement_that_was_seen_next_to_them() {
        let all = Placements::of(&evidence(&[(100, 46.0), (150, 60.0), (200, 210.0), (250, 205.0), (300, 600.0)]));
        assert_eq!(all.distinct.len(), 2, "600 ns were seen once");
        assert!(all.warning().is_some_and(|w| w.text.contains("46 ns, then lines cross in 205 ns")));
        let at = |t: &[f64]| all.shares(t.iter().map(|t| (*t, 1e-3)));
        assert_eq!(at(&[0.11, 0.16, 0.17]), [1.0, 0.0]);
        assert_eq!(at(&[0.11, 0.21, 0.24, 0.26]), [0.25, 0.75]);
        assert!(at(&[2.0, 3.0, 0.1]).is_empty(), "nobody looked");
        assert!(Placements::of(&evidence(&[])).shares([(0.1, 1.0)].into_iter()).is_empty());
    }
}
