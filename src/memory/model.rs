//! The exact model as an access sink: every access goes through the hierarchy.

use std::collections::HashMap;

use crate::isa::facts::AccessKind;
use crate::profile::code::CodeRef;
use crate::profile::evidence::memory::{Access, AccessSink, MemoryEvidence, SiteTraffic};
use crate::profile::run::Warning;

use super::geometry::{Geometry, LINE_BYTES, LINE_SHIFT};
use super::hierarchy::{Hierarchy, Outcome};
use super::interleave::Interleaver;
use super::line::{Line, Owner};
use super::order::{Order, RecentMisses, Steps};
use super::placement::Placement;

/// A model of a host's caches, fed with the program's accesses.
pub struct CacheModel {
    hierarchy: Hierarchy,
    threads: Vec<Option<Thread>>,
    /// Steps of each owner's accesses, by owner.
    steps: Vec<Steps>,
    /// (site, thread) of each owner.
    owners: Vec<(u32, u32)>,
    spaces: HashMap<u32, u32>,
    cores_in_use: usize,
    interleaver: Interleaver,
    warnings: Vec<Warning>,
}

/// What the model keeps of a thread.
struct Thread {
    core: usize,
    /// Owner number + 1 by site; 0 = none yet.
    owners: Vec<u32>,
    recent: RecentMisses,
}

impl CacheModel {
    /// An empty model of `geometry`. `warnings` are doubts about the geometry, handed on with the evidence.
    pub fn exact(geometry: Geometry, placement: Placement, warnings: Vec<Warning>) -> Self {
        CacheModel {
            hierarchy: Hierarchy::new(geometry, placement, false),
            threads: Vec::new(),
            steps: Vec::new(),
            owners: Vec::new(),
            spaces: HashMap::new(),
            cores_in_use: 0,
            interleaver: Interleaver::default(),
            warnings,
        }
    }

    /// Distinct 4 KiB pages whose lines were fetched.
    pub fn pages(&self) -> u64 {
        self.hierarchy.seen().pages()
    }

    /// Puts one thread's accesses, in order, through the caches.
    fn simulate(&mut self, thread: u32, process: u32, batch: &[Access]) {
        let fresh = self.spaces.len() as u32;
        let space = *self.spaces.entry(process).or_insert(fresh);
        let core = self.thread(thread).core;
        for access in batch {
            let owner = self.owner(thread, access.site);
            self.one(thread, core, space, owner, access);
        }
    }

    #[inline]
    fn one(&mut self, thread: u32, core: usize, space: u32, owner: Owner, access: &Access) {
        let steps = &mut self.steps[owner.0 as usize];
        steps.note(access.address);
        let steps = *steps;
        let tally = self.hierarchy.tallies.of(owner);
        tally.accesses += 1;
        let store = match access.kind {
            AccessKind::Load | AccessKind::Gather => {
                tally.read_bytes += u64::from(access.bytes);
                false
            }
            AccessKind::Store | AccessKind::Scatter | AccessKind::NtStore => {
                tally.write_bytes += u64::from(access.bytes);
                true
            }
            AccessKind::Prefetch => false,
        };
        let last_byte = access.address.saturating_add(u64::from(access.bytes.max(1)) - 1);
        let (first, last) = (access.address >> LINE_SHIFT, last_byte >> LINE_SHIFT);
        if access.kind == AccessKind::NtStore {
            for number in first..=last {
                let start = access.address.max(number << LINE_SHIFT);
                let end = last_byte.min(number << LINE_SHIFT | (LINE_BYTES - 1));
                let (offset, bytes) = ((start % LINE_BYTES) as u32, (end - start + 1) as u32);
                self.hierarchy.store_past(core, owner, Line::of(start, space), offset, bytes);
            }
            return;
        }
        for number in first..=last {
            let line = Line::of(number << LINE_SHIFT, space);
            if self.hierarchy.access(core, owner, line, store) == Outcome::Miss {
                self.order(thread, owner, line, &steps, access.kind);
            }
        }
    }

    /// Notes the order class of a miss.
    fn order(&mut self, thread: u32, owner: Owner, line: Line, steps: &Steps, kind: AccessKind) {
        let order = self.thread(thread).recent.classify(line, steps);
        let tally = self.hierarchy.tallies.of(owner);
        match (kind, order) {
            (AccessKind::Gather | AccessKind::Scatter, _) => tally.gathered += 1,
            (_, Order::Unit) => tally.unit += 1,
            (_, Order::Strided) => tally.strided += 1,
            (_, Order::Random) => tally.random += 1,
        }
    }

    /// The state of `thread`, which is put on a core, round robin, when it first appears.
    fn thread(&mut self, thread: u32) -> &mut Thread {
        let index = thread as usize;
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, || None);
        }
        let (cores, hierarchy, in_use) = (self.hierarchy.geometry().cores, &mut self.hierarchy, &mut self.cores_in_use);
        self.threads[index].get_or_insert_with(|| {
            let core = *in_use % cores.max(1) as usize;
            *in_use += 1;
            hierarchy.add_core(core);
            Thread { core, owners: Vec::new(), recent: RecentMisses::new() }
        })
    }

    #[inline]
    fn owner(&mut self, thread: u32, site: u32) -> Owner {
        if let Some(Some(state)) = self.threads.get(thread as usize) {
            if let Some(&owner @ 1..) = state.owners.get(site as usize) {
                return Owner(owner - 1);
            }
        }
        self.new_owner(thread, site)
    }

    #[cold]
    fn new_owner(&mut self, thread: u32, site: u32) -> Owner {
        let owner = self.hierarchy.tallies.add();
        self.steps.push(Steps::default());
        self.owners.push((site, thread));
        let owners = &mut self.thread(thread).owners;
        if owners.len() <= site as usize {
            owners.resize(site as usize + 1, 0);
        }
        owners[site as usize] = owner.0 + 1;
        owner
    }

    fn evidence(mut self, sites: &[CodeRef]) -> MemoryEvidence {
        self.hierarchy.flush();
        let has_l2 = self.hierarchy.geometry().l2.is_some();
        let tallies = self.owners.iter().zip(self.hierarchy.tallies.all());
        let traffic = tallies.filter_map(|(&(site, thread), tally)| {
            let at = *sites.get(site as usize)?;
            Some(SiteTraffic { at, thread, traffic: tally.traffic(has_l2) })
        });
        let traffic = traffic.collect();
        let false_seen = self.hierarchy.seen().false_seen();
        if false_seen > 0.0 {
            self.warnings.push(Warning::new(
                "compulsory-misses",
                "the program touched more than 14 GiB",
                format!("up to {:.2} % of compulsory misses are counted as capacity misses", 100.0 * false_seen),
                "none needed for bytes, which are not affected",
            ));
        }
        MemoryEvidence { mode: "exact".into(), error: None, sites: traffic, warnings: self.warnings }
    }
}

impl AccessSink for CacheModel {
    fn record(&mut self, thread: u32, process: u32, batch: &[Access]) {
        let mut interleaver = std::mem::take(&mut self.interleaver);
        interleaver.add(thread, process, batch, |thread, process, part| self.simulate(thread, process, part));
        self.interleaver = interleaver;
    }

    fn finish(mut self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        let mut interleaver = std::mem::take(&mut self.interleaver);
        interleaver.finish(|thread, process, part| self.simulate(thread, process, part));
        self.evidence(sites)
    }
}
