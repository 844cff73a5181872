//! Data that lines come from: by owner, a bounded random sample of the addresses.

use crate::address::mappings::{Found, Mappings};
use crate::attribution::tallies::Stratum;
use crate::caches::line::Owner;
use rprof_basics::random::mix;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::data::{Allocation, DataEvidence, DataSample, SiteData};

/// Maximum samples of an owner in one stratum, halved if room is short.
const EACH: usize = 1024;
/// Samples of all owners together: 4 MB.
const MOST: usize = 1 << 18;

/// The samples of all owners.
#[derive(Debug)]
pub struct DataSamples {
    /// Of [`Stratum::Plain`], [`Stratum::Sample`] and [`Stratum::Warming`].
    of: Vec<[Reservoir; 3]>,
    each: usize,
    most: usize,
    kept: usize,
    /// Number of samples in memory of a mapping not known yet.
    unread: usize,
    /// The mappings of all processes.
    mappings: Mappings,
}

/// An address and its mapping.
#[derive(Debug, Clone, Copy)]
struct Kept {
    address: u64,
    process: u32,
    found: Found,
}

/// The number of events and a sample of them, each with the same probability (algorithm R of Vitter, ACM TOMS 11, 1985).
#[derive(Debug, Default)]
struct Reservoir {
    seen: u64,
    kept: Vec<Kept>,
}

/// The samples without a known mapping.
fn unread(of: &mut [[Reservoir; 3]]) -> impl Iterator<Item = &mut Kept> {
    let all = of.iter_mut().flatten().flat_map(|reservoir| &mut reservoir.kept);
    all.filter(|sample| sample.found == Found::Unread)
}

/// A number below `bound`, the same for the same `seed`.
fn below(bound: u64, seed: u64) -> u64 {
    ((u128::from(mix(seed)) * u128::from(bound)) >> 64) as u64
}

impl DataSamples {
    /// No samples yet.
    pub fn new() -> Self {
        DataSamples { of: Vec::new(), each: EACH, most: MOST, kept: 0, unread: 0, mappings: Mappings::default() }
    }

    /// `owner` brings the line of `address` from memory.
    #[inline]
    pub fn note(&mut self, owner: Owner, stratum: Stratum, process: u32, address: u64) {
        let stratum = match stratum {
            Stratum::Plain => 0,
            Stratum::Sample => 1,
            Stratum::Warming => 2,
            Stratum::End | Stratum::Nothing => return,
        };
        let at = owner.0 as usize;
        if self.of.len() <= at {
            self.of.resize_with(at + 1, Default::default);
        }
        let reservoir = &mut self.of[at][stratum];
        reservoir.seen += 1;
        let place = if reservoir.kept.len() < self.each && reservoir.seen <= self.each as u64 {
            reservoir.kept.len()
        } else {
            below(reservoir.seen, reservoir.seen ^ (at as u64) << 40) as usize
        };
        if place < self.each {
            self.keep(at, stratum, place, process, address);
        }
    }

    #[cold]
    fn keep(&mut self, at: usize, stratum: usize, place: usize, process: u32, address: u64) {
        let readings = self.mappings.readings();
        let found = self.mappings.find(process, address);
        let sample = Kept { address, process, found };
        self.unread += usize::from(found == Found::Unread);
        let kept = &mut self.of[at][stratum].kept;
        match kept.get_mut(place) {
            Some(old) => {
                self.unread -= usize::from(old.found == Found::Unread);
                *old = sample;
            }
            None => {
                kept.push(sample);
                self.kept += 1;
            }
        }
        if self.mappings.readings() > readings {
            self.look_again();
        }
        if self.kept > self.most && self.each > 1 {
            self.thin_out();
        }
    }

    /// Looks again for those without a known mapping.
    fn look_again(&mut self) {
        if self.unread == 0 {
            return;
        }
        self.unread = 0;
        for sample in unread(&mut self.of) {
            sample.found = self.mappings.find(sample.process, sample.address);
            self.unread += usize::from(sample.found == Found::Unread);
        }
    }

    /// Processes may end now: this is the last chance to read their maps.
    pub fn before_the_end(&mut self) {
        if self.unread > 0 {
            self.mappings.read_again();
            self.look_again();
        }
    }

    /// `process` was given memory.
    pub fn allocated(&mut self, process: u32, allocation: Allocation) {
        self.is_gone(process, allocation.start, allocation.start.saturating_add(allocation.bytes));
        self.mappings.allocated(process, allocation);
    }

    /// The memory of `process` at `from..to` is gone.
    pub fn unmapped(&mut self, process: u32, from: u64, to: u64) {
        self.is_gone(process, from, to);
        self.mappings.unmapped(process, from, to);
    }

    /// `child` starts with the allocations of `parent`.
    pub fn forked(&mut self, parent: u32, child: u32) {
        self.mappings.forked(parent, child);
    }

    /// The mapping of samples in `from..to` that are still unread is lost.
    fn is_gone(&mut self, process: u32, from: u64, to: u64) {
        if self.unread == 0 {
            return;
        }
        for sample in unread(&mut self.of) {
            if sample.process == process && (from..to).contains(&sample.address) {
                sample.found = Found::Gone;
                self.unread -= 1;
            }
        }
    }

    /// Halves the samples of each owner.
    fn thin_out(&mut self) {
        self.each /= 2;
        self.kept = 0;
        for reservoir in self.of.iter_mut().flatten() {
            let kept = &mut reservoir.kept;
            for i in 0..self.each.min(kept.len()) {
                let other = i + below((kept.len() - i) as u64, reservoir.seen ^ (i as u64) << 50) as usize;
                kept.swap(i, other);
            }
            self.unread -= kept.iter().skip(self.each).filter(|sample| sample.found == Found::Unread).count();
            kept.truncate(self.each);
            kept.shrink_to_fit();
            self.kept += kept.len();
        }
    }

    /// The samples by instruction. `place` returns the code of an owner, `weights` the scale of its events in each stratum.
    pub fn evidence(
        mut self,
        place: impl Fn(Owner) -> Option<CodeRef>,
        weights: impl Fn(Owner) -> [f64; 3],
    ) -> DataEvidence {
        let unread = (self.unread > 0).then(|| self.mappings.unread());
        let (modules, mappings) = self.mappings.into_evidence();
        let mut sites = Vec::new();
        for (owner, strata) in (0..).map(Owner).zip(self.of) {
            let Some(at) = place(owner) else { continue };
            let weights = weights(owner);
            for (Reservoir { seen, kept: samples }, weight) in strata.into_iter().zip(weights) {
                if !samples.is_empty() && weight > 0.0 {
                    let sample = |kept: &Kept| DataSample {
                        address: kept.address,
                        mapping: match kept.found {
                            Found::In(number) => Some(number),
                            Found::Gone => None,
                            Found::Unread => unread,
                        },
                    };
                    let complete = samples.len() as u64 == seen;
                    let samples = samples.iter().map(sample).collect();
                    sites.push(SiteData { at, lines: seen as f64 * weight, samples, complete });
                }
            }
        }
        DataEvidence { modules, mappings, sites }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = 1 << 30;

    fn shares(samples: DataSamples, below: u64) -> Vec<(f64, usize)> {
        let evidence = samples.evidence(|_| Some(CodeRef { module: 0, offset: 0 }), |_| [1.0, 32.0, 0.0]);
        let share =
            |s: &SiteData| s.samples.iter().filter(|s| s.address < below).count() as f64 / s.samples.len() as f64;
        evidence.sites.iter().map(|s| (share(s), s.samples.len())).collect()
    }

    #[test]
    fn a_sample_has_the_shares_of_all() {
        let mut samples = DataSamples::new();
        // One tenth first, all of it in a row.
        (0..1_000_000).for_each(|i| samples.note(Owner(0), Stratum::Plain, NOBODY, i));
        let found = shares(samples, 100_000);
        assert!(found[0].1 == EACH && (found[0].0 - 0.1).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn many_owners_share_the_room_and_keep_their_shares() {
        let mut samples = DataSamples { most: 4096, each: 256, ..DataSamples::new() };
        for i in 0..400_000u64 {
            samples.note(Owner((i % 64) as u32), Stratum::Sample, NOBODY, i);
        }
        assert!(samples.kept <= 4096 && samples.each == 64, "{} {}", samples.kept, samples.each);
        let found = shares(samples, 100_000);
        let mean = found.iter().map(|f| f.0).sum::<f64>() / found.len() as f64;
        assert!(found.len() == 64 && (mean - 0.25).abs() < 0.03, "{mean}");
    }

    #[test]
    fn warm_up_is_not_noted() {
        let mut samples = DataSamples::new();
        [Stratum::Nothing, Stratum::End].into_iter().for_each(|stratum| samples.note(Owner(0), stratum, NOBODY, 1));
        assert!(samples.of.is_empty());
    }
}
