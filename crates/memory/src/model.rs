//! The model as an access sink: exact, or from a sample of the accesses.

mod evidence;
mod near;
mod weighing;

use std::collections::HashMap;

use rprof_profile::code::CodeRef;
use rprof_profile::evidence::data::Allocation;
use rprof_profile::evidence::memory::{Access, AccessSink, Amount, Collection, Executed, MemoryEvidence, Phase};
use rprof_profile::run::Warning;

use crate::address::huge_pages::HugePages;
use crate::address::page_color::{PageColoring, SetSample};
use crate::address::page_frames::Frames;
use crate::address::physical::PhysicalMap;
use crate::attribution::backlog::Backlog;
use crate::attribution::data::DataSamples;
use crate::attribution::interleave::{Interleaver, Part};
use crate::attribution::owners::{Owners, Place};
use crate::attribution::pages::TouchedPages;
use crate::attribution::tallies::Stratum;
use crate::attribution::weights::{by_warm_up, split, weight, weights};
use crate::caches::geometry::{Geometry, LINE_BYTES};
use crate::caches::line::{Line, Owner, PAGE_SHIFT};
use crate::estimate::ablation::Estimator;
use crate::estimate::control_variate::ControlVariate;
use crate::estimate::window_weights::WindowWeights;
use crate::hierarchy::play::play;
use crate::hierarchy::{Hierarchy, Scope};
use crate::sampling::bursts::BurstSchedule;
use crate::sampling::executions::Executions;
use crate::sampling::page_arrivals::Arrivals;
use crate::sampling::schedule::PhaseSchedule;

/// Maximum lines that all caches of a model hold: 64 MB.
const MAX_LINES: u64 = 5 << 20;
/// Maximum accesses in the backlog, beyond one batch: the accesses that the start or a window collects, 5 MB.
const MOST_PUT_OFF: u64 = 3 << 16;
/// The same while the simulation decides what to collect next, or while a phase has no end in sight: a burst of a thread.
const FEW_PUT_OFF: u64 = 1 << 14;

/// A model of a host's caches, fed with the program's accesses.
pub struct CacheModel {
    geometry: Geometry,
    placement: PageColoring,
    /// All levels in an exact model; L1, from bursts, in a sampled one.
    full: Hierarchy,
    sampled: Option<Sampled>,
    classes: SetSample,
    has_l2: bool,
    owners: Owners,
    pages: TouchedPages,
    /// Only for processes of this host.
    data: Option<DataSamples>,
    backlog: Backlog,
    interleaver: Interleaver,
    /// The phase that each thread is in.
    phases: HashMap<u32, Phase>,
    /// By core: whether the last accesses of its thread went through [`full`](Self::full).
    full_is_current: Vec<bool>,
    executed: Executions,
    strata: WindowWeights,
    /// The host has more cores than are simulated.
    few_cores: bool,
    without: Option<Estimator>,
    warnings: Vec<Warning>,
}

/// Additional state of a sampled model.
struct Sampled {
    /// The levels beyond L1, with lines of class 0.
    hierarchy: Hierarchy,
    /// Correlation of these lines with L1 events in bursts.
    control: ControlVariate,
    rhythm: BurstSchedule,
    pace: PhaseSchedule,
    /// Pauses since windows were weighted last.
    pauses: u64,
    /// Only for processes of this host.
    arrivals: Option<Arrivals>,
    /// The program ran before the model saw it: lines that it meets first were touched before, and may be in the last level.
    midway: bool,
}

impl Sampled {
    /// The part of the lines touched before the model saw the program that the last level has no room for; `None`, if it saw its start.
    fn missing(&self, classes: SetSample) -> Option<f64> {
        let arrivals = self.arrivals.as_ref().filter(|_| self.midway)?;
        Some(arrivals.beyond(self.hierarchy.last_level_lines() * classes.count()))
    }

    /// Fixes the counts of the last window.
    fn close_window(&mut self, classes: SetSample) {
        if let Some(arrivals) = &self.arrivals {
            let missing = self.missing(classes);
            // The start of the program, in which most lines are new, is over or not.
            let unknown = if self.midway { 0.0 } else { 1.0 };
            let share = arrivals.share(classes.count()).unwrap_or(unknown);
            self.hierarchy.tallies.limit_compulsory(share, self.pace.is_warm(), missing);
        }
    }
}

impl CacheModel {
    /// An empty model of `geometry` that wants every access. `warnings` are doubts about the geometry, handed on with
    /// the evidence.
    pub fn exact(geometry: Geometry, placement: PageColoring, warnings: Vec<Warning>) -> Self {
        Self::new(geometry, placement, warnings, false)
    }

    /// An empty model of `geometry` that wants a sample: windows between pauses, in them one line in 32 (fewer if L2 is small), and all
    /// accesses in bursts.
    pub fn sampled(geometry: Geometry, placement: PageColoring, warnings: Vec<Warning>) -> Self {
        Self::new(geometry, placement, warnings, true)
    }

    /// The same for processes of this host, with their process ids in the accesses: the model asks the kernel about them.
    pub fn of_host_processes(mut self) -> Self {
        let rule = PhysicalMap::Rule(self.placement);
        let kinds = || HugePages::new(self.placement);
        let frames = Frames::readable().map(|frames| match self.sampled {
            // Bursts are short, and none of their lines comes from memory.
            Some(_) => PhysicalMap::Frames(frames.of_the_latest(), self.placement, None),
            None => PhysicalMap::Frames(frames, self.placement, kinds()),
        });
        self.full.know(frames.or_else(|| kinds().map(PhysicalMap::KindsInFrames)).unwrap_or(rule));
        if let Some(sampled) = &mut self.sampled {
            sampled.arrivals = Some(Arrivals::new());
            let frames = Frames::readable().map(Frames::of_the_latest);
            let known = kinds().map(|kinds| PhysicalMap::Kinds(kinds, frames));
            sampled.hierarchy.know(known.unwrap_or(PhysicalMap::Rule(self.placement)));
        }
        self.data = Some(DataSamples::new());
        self
    }

    /// The same for a program that has run before the model sees it. Its start is unknown: a line that was touched before, and is met
    /// first in a window with a warm-up that has not filled the last level, is there with the probability that the last level's size
    /// has in the processes' pages.
    pub fn begun_midway(mut self) -> Self {
        if let Some(sampled) = &mut self.sampled {
            sampled.midway = true;
            sampled.pace.shorten();
        }
        self
    }

    /// The same without one estimator; of an exact model it changes nothing.
    pub fn without(mut self, estimator: Estimator) -> Self {
        self.without = Some(estimator);
        if let Some(sampled) = &mut self.sampled {
            match estimator {
                Estimator::PageArrivals => sampled.arrivals = None,
                Estimator::Frames => sampled.hierarchy.tallies.ignore_frames(),
                _ => {}
            }
        }
        self
    }

    /// Whether `estimator` is used.
    fn uses(&self, estimator: Estimator) -> bool {
        self.without != Some(estimator)
    }

    fn new(geometry: Geometry, placement: PageColoring, mut warnings: Vec<Warning>, sampled: bool) -> Self {
        let scope = if sampled { Scope::FirstLevel } else { Scope::Whole };
        let classes =
            if sampled { SetSample::for_sets(geometry.l2.unwrap_or(geometry.last).sets()) } else { SetSample::ONE };
        let (geometry, few) = geometry.within(MAX_LINES * classes.count());
        let few_cores = few.is_some();
        warnings.extend(few);
        CacheModel {
            geometry: geometry.clone(),
            placement,
            has_l2: geometry.l2.is_some(),
            owners: Owners::new(geometry.cores),
            full: Hierarchy::new(geometry.clone(), placement, scope),
            sampled: sampled.then(|| {
                let hierarchy = Hierarchy::new(geometry, placement, Scope::OneClass(classes));
                let pace = PhaseSchedule::new(hierarchy.last_level_lines());
                Sampled {
                    hierarchy,
                    control: ControlVariate::default(),
                    rhythm: BurstSchedule::new(),
                    pace,
                    pauses: 0,
                    arrivals: None,
                    midway: false,
                }
            }),
            classes,
            pages: TouchedPages::new(classes),
            data: None,
            backlog: Backlog::default(),
            interleaver: Interleaver::default(),
            phases: HashMap::new(),
            full_is_current: Vec::new(),
            executed: Executions::default(),
            strata: WindowWeights::default(),
            few_cores,
            without: None,
            warnings,
        }
    }

    /// Puts a part of one thread's accesses, in order, through the caches.
    fn simulate(&mut self, part: Part) {
        let place = self.owners.place(part.thread, part.process);
        self.full.add_core(place.core);
        let classes = self.classes;
        let Some(Sampled { hierarchy, control, pace, .. }) = &mut self.sampled else {
            for access in part.accesses {
                let owner = owner(&mut self.owners, &mut self.full, None, place, access.site);
                self.owners.steps(owner).note(access.address);
                self.pages.note(owner, place.space, access);
                let from_memory = |stratum, address| note(&mut self.data, owner, stratum, part.process, address);
                play(&mut self.full, &mut self.owners, (place, owner), access, Some(0), |_| true, from_memory);
            }
            return;
        };
        hierarchy.add_core(place.core);
        hierarchy.tallies.open(match part.phase {
            Phase::Opening => Stratum::Plain,
            Phase::Measuring => Stratum::Sample,
            Phase::Warming => Stratum::Warming,
            Phase::Pause => Stratum::Nothing,
        });
        let one_in = if part.selected { classes.count() } else { 1 };
        let accesses = weights(part.accesses, one_in);
        let warm_up = part.warm_up;
        let orders = part.selected.then(|| classes.count().ilog2());
        let mut before = 0;
        if part.selected {
            control.end_burst(part.thread, &self.full.tallies, &mut hierarchy.tallies);
            // L1 does not see the accesses that the sample leaves out of this part.
            if self.full_is_current.get(place.core).copied().unwrap_or(false) {
                self.full.interrupt(place.core);
            }
        }
        set_growing(&mut self.full_is_current, place.core, !part.selected);
        pace.fill(hierarchy.last_levels());
        let (fills, stale) = (hierarchy.fills(), hierarchy.stale());
        for access in part.accesses {
            let owner = owner(&mut self.owners, &mut self.full, Some(hierarchy), place, access.site);
            let moved = self.owners.steps(owner).note(access.address);
            self.pages.note(owner, place.space, access);
            let counted = !part.selected && before >= warm_up;
            if !part.selected {
                if counted && !place.shares_book {
                    control.meet(part.thread, owner, self.full.tallies.plain_of(owner));
                }
                for (stratum, access) in by_warm_up(access, warm_up.saturating_sub(before)).into_iter().flatten() {
                    self.full.tallies.open(stratum);
                    play(&mut self.full, &mut self.owners, (place, owner), &access, Some(0), |_| true, |_, _| ());
                }
                before += weight(access, 1);
            }
            let admit = |line| classes.of(line) == 0;
            let from_memory = |stratum, address| note(&mut self.data, owner, stratum, part.process, address);
            hierarchy.tallies.note_apart(counted);
            hierarchy.tallies.of(owner).visited += match u64::from(access.bytes) {
                ..=LINE_BYTES => u64::from(moved && admit(Line::of(access.address, place.space))),
                _ => weight(access, classes.count()),
            };
            play(hierarchy, &mut self.owners, (place, owner), access, orders, admit, from_memory);
        }
        if part.phase == Phase::Opening && pace.begins_second_half(accesses * one_in) {
            hierarchy.half_time();
        }
        pace.simulated(part.phase, accesses * one_in, hierarchy.fills() - fills, hierarchy.stale() - stale);
    }

    /// Takes a batch. The model simulates none of it yet, unless the backlog is too large.
    fn receive(&mut self, thread: u32, process: u32, selected: bool, accesses: &[Access]) {
        if self.sampled.is_some() && !selected && weights(accesses, 1) > BurstSchedule::LONGEST {
            let (burst, others) = split(accesses, BurstSchedule::LONGEST);
            self.receive(thread, process, false, &burst);
            return self.receive(thread, process, true, &others);
        }
        let one_in = if selected { self.classes.count() } else { 1 };
        let weights = weights(accesses, one_in);
        self.owners.work(thread, weights);
        let space = self.owners.place(thread, process).space;
        if let Some(sampled) = &mut self.sampled {
            sampled.hierarchy.meet(process, space, accesses);
        }
        if !selected {
            self.full.meet(process, space, accesses);
        }
        let phase = self.phases.get(&thread).copied().unwrap_or_default();
        // The next collection depends on the accesses received, not on their simulation.
        let rhythm = self.sampled.as_mut().map(|sampled| &mut sampled.rhythm);
        let warm_up = rhythm.map_or(0, |rhythm| rhythm.note(thread, selected, weights));
        self.backlog.push(Part { thread, process, selected, phase, warm_up, accesses }, one_in);
        self.note_received(phase, weights, one_in);
        while self.backlog.exceeds(self.most_put_off()) && self.simulate_some() {}
    }

    /// Notes that `accesses` were received, all or one in `one_in`.
    fn note_received(&mut self, phase: Phase, accesses: u64, one_in: u64) {
        let Some(Sampled { pace, arrivals, .. }) = &mut self.sampled else { return };
        let ended = pace.received(phase, accesses * one_in) && phase == Phase::Measuring;
        let Some(arrivals) = arrivals else { return };
        let arrived = match ended {
            true => arrivals.end(self.owners.processes()),
            false => arrivals.note(self.owners.processes(), accesses),
        };
        self.note_arrived(arrived);
    }

    /// Notes how many pages had arrived in the window when the accesses received so far came.
    fn note_arrived(&mut self, pages: Option<u64>) {
        if let Some(pages) = pages
            && !self.backlog.note_arrived(pages)
        {
            self.note_met(pages);
        }
    }

    /// Notes how many pages had arrived in the window when the accesses simulated so far were received.
    fn note_met(&mut self, pages: u64) {
        if let Some(Sampled { hierarchy, arrivals: Some(arrivals), .. }) = &mut self.sampled {
            arrivals.met(pages, hierarchy.met());
        }
    }

    fn most_put_off(&self) -> u64 {
        match &self.sampled {
            Some(sampled) if sampled.pace.phase() != Phase::Warming => MOST_PUT_OFF,
            _ => FEW_PUT_OFF,
        }
    }

    fn interleave(&mut self, part: Part) {
        self.in_order(|interleaver, model| interleaver.add(part, |part| model.simulate(part)));
    }

    /// Simulates the parts that wait for other threads.
    fn play_all(&mut self) {
        self.in_order(|interleaver, model| interleaver.finish(|part| model.simulate(part)));
    }

    /// Has the interleaver, which this model holds, play parts in the model.
    fn in_order(&mut self, play: impl FnOnce(&mut Interleaver, &mut Self)) {
        let mut interleaver = std::mem::take(&mut self.interleaver);
        play(&mut interleaver, self);
        self.interleaver = interleaver;
    }

    /// Simulates a piece of the backlog; false if there is none.
    fn simulate_some(&mut self) -> bool {
        let Some(mut batch) = self.backlog.take() else { return false };
        let is_alone = self.interleaver.plays_at_once(batch.thread());
        self.interleave(batch.next(is_alone));
        if let Some(pages) = self.backlog.put_back(batch) {
            self.note_met(pages);
        }
        true
    }
}

/// The owner for `site` at `place`, with tallies in both hierarchies.
#[inline]
fn owner(owners: &mut Owners, full: &mut Hierarchy, sampled: Option<&mut Hierarchy>, place: Place, site: u32) -> Owner {
    let (owner, fresh) = owners.owner(place.thread, place.book, site);
    if fresh {
        add_tallies(full, sampled);
    }
    owner
}

/// Tallies of a new owner.
fn add_tallies(full: &mut Hierarchy, sampled: Option<&mut Hierarchy>) {
    full.tallies.add();
    if let Some(sampled) = sampled {
        sampled.tallies.add();
    }
}

/// An amount as accesses; a string counts one per line.
fn in_accesses(amount: &Amount) -> u64 {
    if amount.strings { amount.amount / LINE_BYTES } else { amount.amount }
}

fn set_growing(list: &mut Vec<bool>, at: usize, value: bool) {
    if list.len() <= at {
        list.resize(at + 1, false);
    }
    list[at] = value;
}

#[inline]
fn note(data: &mut Option<DataSamples>, owner: Owner, stratum: Stratum, process: u32, address: u64) {
    if let Some(data) = data {
        data.note(owner, stratum, process, address);
    }
}

impl AccessSink for CacheModel {
    fn record(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.receive(thread, process, false, batch);
    }

    fn record_selected(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.receive(thread, process, self.sampled.is_some(), batch);
    }

    fn work(&mut self) -> bool {
        // With several threads, batches are simulated whole, which takes milliseconds: not while the threads wait for the model
        // repeatedly.
        let waits = matches!(self.phase(), Phase::Opening | Phase::Measuring) && !self.interleaver.is_alone();
        !waits && self.simulate_some()
    }

    fn catch_up(&mut self) {
        while self.simulate_some() {}
    }

    fn is_behind(&self) -> bool {
        self.backlog.exceeds(0)
    }

    fn collect(&mut self, thread: u32) -> Collection {
        let Some(sampled) = &mut self.sampled else { return Collection::All };
        sampled.rhythm.meet(thread);
        if sampled.pace.phase() == Phase::Warming || !sampled.rhythm.bursting() {
            Collection::Selected { mask: self.classes.mask() }
        } else {
            Collection::All
        }
    }

    fn phase(&self) -> Phase {
        self.sampled.as_ref().map_or(Phase::Opening, |s| s.pace.phase())
    }

    fn ended(&mut self, thread: u32) {
        self.catch_up();
        self.sampled.iter_mut().for_each(|sampled| sampled.rhythm.end(thread));
        self.interleaver.end(thread);
        self.owners.end(thread);
    }

    fn ending(&mut self) {
        self.catch_up();
        self.data.iter_mut().for_each(DataSamples::before_the_end);
    }

    fn enter(&mut self, thread: u32, phase: Phase) {
        if self.phases.insert(thread, phase).is_none() {
            self.in_order(|interleaver, model| interleaver.begin(|part| model.simulate(part)));
        }
        if let Some(arrivals) = self.sampled.as_mut().and_then(|s| s.arrivals.as_mut()) {
            arrivals.glance(self.owners.processes());
        }
    }

    fn end_phase(&mut self) {
        let phase = self.phase();
        if matches!(phase, Phase::Pause | Phase::Warming) {
            self.catch_up();
        }
        // The simulation of the backlog may have ended the phase already.
        let Some(sampled) = self.sampled.as_mut().filter(|sampled| sampled.pace.phase() == phase) else { return };
        if phase == Phase::Pause {
            sampled.hierarchy.age();
            sampled.pauses += 1;
            sampled.rhythm.begin_window();
            sampled.close_window(self.classes);
            sampled.hierarchy.tallies.begin_window();
        }
        sampled.pace.end_phase();
        if sampled.pace.phase() == phase && phase != Phase::Warming {
            sampled.rhythm.go_on();
        }
        let Some(arrivals) = &mut sampled.arrivals else { return };
        let arrived = match phase {
            Phase::Pause => {
                arrivals.begin(self.owners.processes(), sampled.hierarchy.met());
                None
            }
            Phase::Measuring if sampled.pace.phase() == Phase::Pause => arrivals.end(self.owners.processes()),
            Phase::Measuring | Phase::Warming => arrivals.look(self.owners.processes()),
            Phase::Opening => None,
        };
        self.note_arrived(arrived);
    }

    fn allocated(&mut self, process: u32, allocation: Allocation) {
        if let Some(data) = &mut self.data {
            data.allocated(process, allocation);
        }
    }

    fn forked(&mut self, parent: u32, child: u32) {
        if let Some(data) = &mut self.data {
            data.forked(parent, child);
        }
    }

    fn unmapped(&mut self, process: u32, from: u64, to: u64) {
        // Earlier accesses there belong to the old mapping.
        self.catch_up();
        if self.interleaver.awaits(process, from..to) {
            self.play_all();
        }
        if let Some(data) = &mut self.data {
            data.unmapped(process, from, to);
        }
        if let Some(space) = self.owners.space(process) {
            self.full.unmapped(space, from, to);
            if let Some(Sampled { hierarchy, arrivals, .. }) = &mut self.sampled {
                let seen = hierarchy.unmapped(space, from, to);
                let pages = (to - from) >> PAGE_SHIFT;
                arrivals.iter_mut().for_each(|arrivals| arrivals.give_back(process, pages, seen));
            }
        }
    }

    fn deltas(&mut self, amounts: &[Amount]) {
        self.catch_up();
        if let Some(Sampled { hierarchy, pace, pauses, .. }) = &mut self.sampled {
            // If `deltas` is not called for every window, the latest pause gets an equal part; stays of earlier pauses are left as they
            // are.
            let of_pauses = amounts.iter().filter(|amount| amount.phase == Phase::Pause).map(in_accesses).sum::<u64>();
            hierarchy.measure(pace.outlasts(of_pauses / std::mem::take(pauses).max(1)));
        }
        if self.uses(Estimator::WindowWeights) {
            let seen = self.seen();
            let of = |site, strings| Some(seen.get(&site)?.of(strings));
            let weights = self.strata.weigh(amounts, of);
            self.put_away(&weights);
        }
    }

    fn executed(&mut self, executed: Executed) {
        let book = self.owners.book(executed.thread);
        let (owner, fresh) = self.owners.owner_of(executed.thread, book, executed.site, executed.accesses);
        if fresh {
            add_tallies(&mut self.full, self.sampled.as_mut().map(|s| &mut s.hierarchy));
        }
        self.executed.add(owner, &executed);
        if Some(owner) == self.owners.nowhere() {
            self.executed.note_nowhere(&executed);
        }
        if self.owners.is_of_another(owner, executed.thread) {
            self.executed.note_elsewhere(&executed);
        }
    }

    fn finish(mut self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        self.catch_up();
        self.play_all();
        self.evidence(sites)
    }
}
