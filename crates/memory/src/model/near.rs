//! Events of instructions near the core: in L1, and in L2 as far as bursts see it.

use std::collections::HashMap;

use crate::attribution::tally::Tally;
use crate::caches::geometry::LINE_BYTES;
use crate::caches::line::Owner;
use crate::estimate::ablation::Estimator;
use crate::estimate::beyond_l1::BeyondL1;
use crate::estimate::control_variate::Estimates;
use crate::estimate::scaling::{Near, near};

use super::{CacheModel, Sampled};

impl CacheModel {
    /// The events of `owner` near the core, and the standard error of its misses: from bursts, with each event scaled by `scale`, and from
    /// the sample of lines, which ran all the time.
    pub(super) fn near_of(&self, owner: Owner, scale: f64, behind: &BeyondL1) -> (Near, f64) {
        let of_bursts = near(self.full.tallies.plain_of(owner), scale);
        let (_, thread) = self.owners.pairs()[owner.0 as usize];
        let Some(Sampled { control, .. }) = self.sampled.as_ref().filter(|s| s.rhythm.was_sampled(thread)) else {
            return (of_bursts, 0.0);
        };
        // A string may be longer than a burst: a part of its accesses is no evidence. It treats all lines alike.
        if self.executed.is_string(owner) || !self.uses(Estimator::Regression) {
            return (of_bursts, 0.0);
        }
        let lines = self.classes.count() as f64;
        let of_sample = behind.near();
        let estimate = |kind: usize, of: fn(&Near) -> f64| {
            let events = behind.seen(|t| t.own_events()[kind].max(0) as u64);
            let (bursts, sample) = (of(&of_bursts), of(&of_sample));
            control.estimate(owner, kind, Estimates { bursts, sample, events, scale, lines })
        };
        let (misses, error) = estimate(0, |near| near.traffic.l1_misses - near.traffic.coherence);
        let (write_backs, _) = estimate(1, |near| near.traffic.l2_write / LINE_BYTES as f64 - near.handed_over);
        let shares = if of_bursts.traffic.l1_misses > 0.0 { of_bursts } else { of_sample };
        let near = shares.with_own(misses, write_backs);
        let of_burst = self.full.tallies.plain_of(owner);
        let touched = of_burst.admitted as f64 / of_burst.accesses.max(1) as f64;
        let most = self.executed.accesses(owner).filter(|_| touched > 0.0).map(|accesses| accesses as f64 * touched);
        (most.map_or(near, |lines| near.at_most(lines)), error)
    }

    /// Scale factor of an event of the full hierarchy, by owner. `None` if an owner was never executed in a counted part of a burst.
    pub(super) fn first_level_scales(&self) -> Vec<Option<f64>> {
        let Some(Sampled { hierarchy, rhythm, .. }) = &self.sampled else {
            return vec![Some(1.0); self.owners.pairs().len()];
        };
        let pairs = || self.owners.pairs().iter().zip(self.full.tallies.plain().iter().zip(hierarchy.tallies.plain()));
        // For each thread: accesses in bursts, and in the sample that runs all the time.
        let mut by_thread: HashMap<u32, (u64, u64)> = HashMap::new();
        for ((_, thread), (burst, classed)) in pairs() {
            let (a, b) = by_thread.entry(*thread).or_default();
            *a += burst.accesses;
            *b += classed.accesses;
        }
        let scale = |thread: u32, owner: Owner, burst: &Tally| {
            // All accesses were seen: the program ended before any access of this thread was left out.
            if !rhythm.was_sampled(thread) && self.executed.all_seen(owner) {
                return Some(1.0);
            }
            if burst.accesses == 0 {
                return None;
            }
            if let Some(accesses) = self.executed.accesses(owner) {
                let strings = self.executed.is_string(owner);
                let of_burst = if strings { burst.read_bytes + burst.write_bytes } else { burst.accesses };
                return Some(accesses as f64 / of_burst.max(1) as f64);
            }
            let (bursts, classed) = by_thread.get(&thread)?;
            Some((classed * self.classes.count()) as f64 / (*bursts).max(1) as f64)
        };
        (0..).map(Owner).zip(pairs()).map(|(owner, (&(_, thread), (burst, _)))| scale(thread, owner, burst)).collect()
    }
}
