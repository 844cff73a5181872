//! The model as an access sink: exact, or from a sample of the accesses.

use std::collections::HashMap;

use crate::profile::code::CodeRef;
use crate::profile::evidence::memory::{Access, AccessSink, Collection, MemoryEvidence, SiteTraffic};
use crate::profile::run::Warning;

use super::estimate::{Sources, relative_error};
use super::geometry::Geometry;
use super::hierarchy::{Hierarchy, Scope};
use super::interleave::{Interleaver, Part};
use super::line::Owner;
use super::owners::Owners;
use super::placement::{Classes, Placement};
use super::replay::play;
use super::sampling::Rhythm;
use super::tally::Tally;

/// A model of a host's caches, fed with the program's accesses.
pub struct CacheModel {
    /// Exact: everything. Sampled: L1 and coherence, from the bursts.
    full: Hierarchy,
    /// Sampled: what lies behind L1, from the lines of class 0.
    sampled: Option<(Hierarchy, Rhythm)>,
    classes: Classes,
    has_l2: bool,
    owners: Owners,
    interleaver: Interleaver,
    /// Accesses and bytes that the engine counted, by (thread, site).
    executed: HashMap<(u32, u32), (u64, u64)>,
    warnings: Vec<Warning>,
}

impl CacheModel {
    /// An empty model of `geometry` that wants every access. `warnings` are doubts about the geometry, handed on with
    /// the evidence.
    pub fn exact(geometry: Geometry, placement: Placement, warnings: Vec<Warning>) -> Self {
        Self::new(geometry, placement, warnings, false)
    }

    /// An empty model of `geometry` that wants a sample: one line in 32 (fewer where L2 is small), and
    /// all accesses in bursts.
    pub fn sampled(geometry: Geometry, placement: Placement, warnings: Vec<Warning>) -> Self {
        Self::new(geometry, placement, warnings, true)
    }

    fn new(geometry: Geometry, placement: Placement, warnings: Vec<Warning>, sampled: bool) -> Self {
        let scope = if sampled { Scope::FirstLevel } else { Scope::Whole };
        let classes =
            if sampled { Classes::for_sets(geometry.l2.unwrap_or(geometry.last).sets()) } else { Classes::ONE };
        CacheModel {
            has_l2: geometry.l2.is_some(),
            owners: Owners::new(geometry.cores),
            full: Hierarchy::new(geometry.clone(), placement, scope),
            sampled: sampled.then(|| (Hierarchy::new(geometry, placement, Scope::OneClass(classes)), Rhythm::new())),
            classes,
            interleaver: Interleaver::default(),
            executed: HashMap::new(),
            warnings,
        }
    }

    /// Puts a part of one thread's accesses, in order, through the caches.
    fn simulate(&mut self, part: Part) {
        let place = self.owners.place(part.thread, part.process);
        self.full.add_core(place.core);
        let classes = self.classes;
        let Some((sampled, rhythm)) = &mut self.sampled else {
            for access in part.accesses {
                let owner = owner(&mut self.owners, &mut self.full, None, part.thread, access.site);
                self.owners.steps(owner).note(access.address);
                play(&mut self.full, &mut self.owners, (place, owner), access, true, |_| true);
            }
            return;
        };
        sampled.add_core(place.core);
        let accesses = part.accesses.len() as u64;
        let warm_up = if part.selected {
            rhythm.selected(part.thread, accesses);
            0
        } else {
            rhythm.all(part.thread, accesses)
        };
        for (i, access) in (0..).zip(part.accesses) {
            let owner = owner(&mut self.owners, &mut self.full, Some(sampled), part.thread, access.site);
            self.owners.steps(owner).note(access.address);
            if !part.selected {
                self.full.tallies.set_warming_up(i < warm_up);
                play(&mut self.full, &mut self.owners, (place, owner), access, true, |_| true);
            }
            play(sampled, &mut self.owners, (place, owner), access, part.selected, |line| classes.of(line) == 0);
        }
    }

    fn receive(&mut self, part: Part) {
        let mut interleaver = std::mem::take(&mut self.interleaver);
        interleaver.add(part, |part| self.simulate(part));
        self.interleaver = interleaver;
    }

    fn evidence(mut self, sites: &[CodeRef]) -> MemoryEvidence {
        self.full.tallies.set_warming_up(false);
        self.full.flush();
        if let Some((sampled, _)) = &mut self.sampled {
            sampled.flush();
        }
        let scales = self.first_level_scales();
        let beyond = self.sampled.as_ref().map_or(&self.full, |(sampled, _)| sampled);
        let conflict_share = beyond.tallies.conflict_share();
        let beyond_scale = self.classes.count() as f64;
        let tallies = self.full.tallies.all().iter().zip(beyond.tallies.all());
        let mut traffic = Vec::new();
        for (((site, thread), (first, beyond)), scale) in self.owners.pairs().iter().zip(tallies).zip(scales) {
            let Some(&at) = sites.get(*site as usize) else { continue };
            let (first, first_scale) = scale.map_or((beyond, beyond_scale), |scale| (first, scale));
            let has_l2 = self.has_l2;
            let mut figures = Sources { first, first_scale, beyond, beyond_scale, has_l2, conflict_share }.traffic();
            if let Some(&(_, bytes)) = self.executed.get(&(*thread, *site)) {
                let seen = figures.l1_read + figures.l1_write;
                if seen > 0.0 {
                    figures.l1_read *= bytes as f64 / seen;
                    figures.l1_write *= bytes as f64 / seen;
                }
            }
            traffic.push(SiteTraffic { at, thread: *thread, traffic: figures });
        }
        self.warn_of_overflow();
        let (mode, error) = match &self.sampled {
            None => ("exact", None),
            Some((sampled, _)) => ("sampled", relative_error(sampled.groups())),
        };
        MemoryEvidence { mode: mode.into(), error, sites: traffic, warnings: self.warnings }
    }

    /// How many events one event of the full hierarchy stands for, by owner. `None` where an owner never executed in a
    /// counted part of a burst.
    fn first_level_scales(&self) -> Vec<Option<f64>> {
        let Some((sampled, rhythm)) = &self.sampled else {
            return vec![Some(1.0); self.owners.pairs().len()];
        };
        let pairs = || self.owners.pairs().iter().zip(self.full.tallies.all().iter().zip(sampled.tallies.all()));
        // Of each thread: accesses in bursts, and in the sample that runs all the time.
        let mut by_thread: HashMap<u32, (u64, u64)> = HashMap::new();
        for ((_, thread), (burst, classed)) in pairs() {
            let (a, b) = by_thread.entry(*thread).or_default();
            *a += burst.accesses;
            *b += classed.accesses;
        }
        let scale = |thread: &u32, site: &u32, burst: &Tally| {
            if !rhythm.was_sampled(*thread) {
                return Some(1.0);
            }
            if burst.accesses == 0 {
                return None;
            }
            if let Some((accesses, _)) = self.executed.get(&(*thread, *site)) {
                return Some(*accesses as f64 / burst.accesses as f64);
            }
            let (bursts, classed) = by_thread.get(thread)?;
            Some((classed * self.classes.count()) as f64 / (*bursts).max(1) as f64)
        };
        pairs().map(|((site, thread), (burst, _))| scale(thread, site, burst)).collect()
    }

    fn warn_of_overflow(&mut self) {
        let hierarchy = self.sampled.as_ref().map_or(&self.full, |(sampled, _)| sampled);
        let false_seen = hierarchy.seen().false_seen();
        if false_seen > 0.0 {
            self.warnings.push(Warning::new(
                "compulsory-misses",
                "the program touched more than 14 GiB",
                format!("up to {:.2} % of compulsory misses are counted as capacity misses", 100.0 * false_seen),
                "none needed for bytes, which are not affected",
            ));
        }
    }
}

/// The owner for `site` in `thread`, with tallies in both hierarchies.
#[inline]
fn owner(owners: &mut Owners, full: &mut Hierarchy, sampled: Option<&mut Hierarchy>, thread: u32, site: u32) -> Owner {
    let (owner, fresh) = owners.owner(thread, site);
    if fresh {
        full.tallies.add();
        if let Some(sampled) = sampled {
            sampled.tallies.add();
        }
    }
    owner
}

impl AccessSink for CacheModel {
    fn record(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.receive(Part { thread, process, selected: false, accesses: batch });
    }

    fn record_selected(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.receive(Part { thread, process, selected: self.sampled.is_some(), accesses: batch });
    }

    fn collect(&mut self, _thread: u32) -> Collection {
        match &self.sampled {
            Some((_, rhythm)) if !rhythm.bursting() => Collection::Selected { mask: self.classes.mask() },
            _ => Collection::All,
        }
    }

    fn executed(&mut self, thread: u32, site: u32, accesses: u64, bytes: u64) {
        let entry = self.executed.entry((thread, site)).or_default();
        entry.0 += accesses;
        entry.1 += bytes;
    }

    fn finish(mut self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        let mut interleaver = std::mem::take(&mut self.interleaver);
        interleaver.finish(|part| self.simulate(part));
        self.evidence(sites)
    }
}
