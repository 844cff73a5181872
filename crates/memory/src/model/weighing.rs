//! Weights windows and bursts by the executions around them, as soon as these are known.

use std::collections::HashMap;

use crate::attribution::tallies::Stratum;
use crate::caches::hash::Mixing;
use crate::caches::line::Owner;
use crate::estimate::ablation::Estimator;
use crate::estimate::window_weights::{Seen, Weights};

use super::{CacheModel, Sampled};

impl CacheModel {
    /// Events of each instruction that were seen and not put away.
    pub(super) fn seen(&self) -> HashMap<u32, SeenOf, Mixing> {
        let mut seen: HashMap<u32, SeenOf, Mixing> = HashMap::default();
        let Some(Sampled { hierarchy, .. }) = &self.sampled else { return seen };
        for (owner, (site, _)) in (0..).map(Owner).zip(self.owners.pairs()) {
            let burst = self.full.tallies.plain_of(owner);
            let sample = hierarchy.tallies.as_placed(&hierarchy.tallies.sample(owner));
            let SeenOf { accesses, bytes, l1_misses, far_misses } = seen.entry(*site).or_default();
            *accesses += burst.accesses;
            *bytes += burst.read_bytes + burst.write_bytes;
            *l1_misses += burst.l1_fills;
            *far_misses = [far_misses[0] + sample.l2_fills + sample.l2_dirtied, far_misses[1] + sample.last_fills];
        }
        seen
    }

    pub(super) fn put_away(&mut self, weights: &HashMap<u32, Weights, Mixing>) {
        let Some(Sampled { hierarchy, control, rhythm, .. }) = &mut self.sampled else { return };
        control.end_bursts(&self.full.tallies, &mut hierarchy.tallies);
        let pairs = self.owners.pairs();
        let of_sample = |owner: Owner| weights.get(&pairs.get(owner.0 as usize)?.0)?.sampled;
        hierarchy.residencies().into_iter().for_each(|residencies| residencies.weigh(of_sample));
        for (owner, (site, thread)) in (0..).map(Owner).zip(pairs) {
            let Some(Weights { sampled, bursts }) = weights.get(site) else { continue };
            if let Some(weight) = sampled {
                hierarchy.tallies.apply_weight(Stratum::Sample, owner, *weight);
            }
            // A thread that was always seen is not scaled up.
            if let Some(weight) = bursts.filter(|_| rhythm.was_sampled(*thread)) {
                self.full.tallies.apply_weight(Stratum::Plain, owner, weight);
                control.put_away(owner, weight);
            }
        }
    }

    /// Weights windows and bursts by the executions around them.
    pub(super) fn weigh(&mut self) {
        let mut total: HashMap<u32, [f64; 4], Mixing> = HashMap::default();
        for (owner, (site, _)) in (0..).map(Owner).zip(self.owners.pairs()) {
            let of_site = total.entry(*site).or_default();
            of_site.iter_mut().zip(self.executed.by_phase(owner)).for_each(|(sum, amount)| *sum += amount as f64);
        }
        let total = |site| total.get(&site).copied().unwrap_or_default();
        let seen = self.seen();
        let of = |site, strings| Some(seen.get(&site)?.of(strings));
        let is_used = self.uses(Estimator::WindowWeights);
        let weights = if is_used { self.strata.end(total, of) } else { HashMap::default() };
        self.put_away(&weights);
        let Some(Sampled { hierarchy, .. }) = &mut self.sampled else { return };
        for owner in (0..self.owners.pairs().len() as u32).map(Owner) {
            hierarchy.tallies.merge_weighted(Stratum::Sample, owner);
            self.full.tallies.merge_weighted(Stratum::Plain, owner);
        }
        hierarchy.tallies.all_back();
        self.full.tallies.all_back();
    }
}

/// Events of an instruction: in bursts, and in the sample of windows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeenOf {
    accesses: u64,
    bytes: u64,
    l1_misses: u64,
    far_misses: [u64; 2],
}

impl SeenOf {
    /// The same in terms of accesses, or of bytes of `strings`.
    pub(super) fn of(&self, strings: bool) -> Seen {
        Seen {
            bursts: if strings { self.bytes } else { self.accesses } as f64,
            l1_misses: self.l1_misses as f64,
            far_misses: self.far_misses.map(|misses| misses as f64),
        }
    }
}
