//! The model as an access sink: exact, or from a sample of the accesses.

use std::collections::{HashMap, VecDeque};

use crate::profile::code::CodeRef;
use crate::profile::evidence::data::Allocation;
use crate::profile::evidence::memory::{
    Access, AccessSink, Amount, Collection, Executed, MemoryEvidence, Phase, SiteTraffic, Traffic,
};
use crate::profile::run::Warning;

use super::arrivals::Arrivals;
use super::calibration;
use super::control::{Control, Estimates};
use super::data::DataSamples;
use super::estimate::{Beyond, Near, near, relative_error, windows_error};
use super::executions::{Executions, Factors, Scales, Times};
use super::frames::Frames;
use super::geometry::{Geometry, LINE_BYTES};
use super::hierarchy::{Hierarchy, Scope};
use super::huge_pages::HugePages;
use super::interleave::{Interleaver, Part};
use super::line::Owner;
use super::mix::Mixing;
use super::owners::{Owners, Place};
use super::pace::Pace;
use super::pages::TouchedPages;
use super::placement::{Classes, Placement};
use super::replay::{by_warm_up, play, weight};
use super::sampling::Rhythm;
use super::strata::{Seen, Strata, Weights};
use super::tally::{Book, Tally};
use super::whereabouts::Whereabouts;

/// Lines that all caches of a model hold at most: 64 MB.
const MAX_LINES: u64 = 5 << 20;
/// Accesses that are simulated at a time while threads wait for nothing: a fraction of their patience.
const PIECE: usize = 1 << 10;
/// Accesses that are put off at most: a burst of a thread. What ends a phase is known as much later.
const MOST_PUT_OFF: usize = 1 << 14;

/// A model of a host's caches, fed with the program's accesses.
pub struct CacheModel {
    geometry: Geometry,
    placement: Placement,
    /// Exact: everything. Sampled: L1, from the bursts.
    full: Hierarchy,
    sampled: Option<Sampled>,
    classes: Classes,
    has_l2: bool,
    owners: Owners,
    pages: TouchedPages,
    /// Where the processes are real ones.
    data: Option<DataSamples>,
    /// What was recorded and not looked at yet.
    put_off: VecDeque<PutOff>,
    /// Accesses in it.
    waiting: usize,
    /// Room for batches.
    spare: Vec<Vec<Access>>,
    /// Only one thread has come, and which. Several are to be interleaved as they come.
    single: bool,
    first: Option<u32>,
    interleaver: Interleaver,
    /// The phase that each thread is in.
    phases: HashMap<u32, Phase>,
    executed: Executions,
    strata: Strata,
    /// The host has more cores than are simulated.
    few_cores: bool,
    warnings: Vec<Warning>,
}

/// A batch that was put off.
struct PutOff {
    thread: u32,
    process: u32,
    selected: bool,
    phase: Phase,
    /// How many of the first accesses only warm L1 up.
    warm_up: u64,
    /// How many were simulated.
    done: usize,
    accesses: Vec<Access>,
}

/// What a sampled model has besides.
struct Sampled {
    /// What lies behind L1, from the lines of class 0.
    hierarchy: Hierarchy,
    /// What they say about L1.
    control: Control,
    rhythm: Rhythm,
    pace: Pace,
    /// Where the processes are real ones.
    arrivals: Option<Arrivals>,
}

impl Sampled {
    /// What was counted in the last window is final.
    fn close_window(&mut self, classes: Classes) {
        if let Some(arrivals) = &self.arrivals {
            self.hierarchy.tallies.limit_compulsory(arrivals.share(classes.count()), self.pace.is_warm());
        }
    }
}

impl CacheModel {
    /// An empty model of `geometry` that wants every access. `warnings` are doubts about the geometry, handed on with
    /// the evidence.
    pub fn exact(geometry: Geometry, placement: Placement, warnings: Vec<Warning>) -> Self {
        Self::new(geometry, placement, warnings, false)
    }

    /// An empty model of `geometry` that wants a sample: windows between pauses, in them one line in 32 (fewer where L2
    /// is small), and all accesses in bursts.
    pub fn sampled(geometry: Geometry, placement: Placement, warnings: Vec<Warning>) -> Self {
        Self::new(geometry, placement, warnings, true)
    }

    /// The same for processes of this host, whose ids accesses are recorded with: the model asks the kernel about them.
    pub fn of_host_processes(mut self) -> Self {
        let rule = Whereabouts::Rule(self.placement);
        let kinds = || HugePages::new(self.placement);
        let frames = Frames::readable().map(|frames| match self.sampled {
            // Bursts are short, and nothing of them comes from memory.
            Some(_) => Whereabouts::Frames(frames.of_the_latest(), self.placement, None),
            None => Whereabouts::Frames(frames, self.placement, kinds()),
        });
        self.full.know(frames.or_else(|| kinds().map(Whereabouts::KindsInFrames)).unwrap_or(rule));
        if let Some(sampled) = &mut self.sampled {
            sampled.arrivals = Some(Arrivals::new());
            sampled.hierarchy.know(kinds().map_or(Whereabouts::Rule(self.placement), Whereabouts::Kinds));
        }
        self.data = Some(DataSamples::new());
        self
    }

    fn new(geometry: Geometry, placement: Placement, mut warnings: Vec<Warning>, sampled: bool) -> Self {
        let scope = if sampled { Scope::FirstLevel } else { Scope::Whole };
        let classes =
            if sampled { Classes::for_sets(geometry.l2.unwrap_or(geometry.last).sets()) } else { Classes::ONE };
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
                let pace = Pace::new(hierarchy.last_level_lines());
                Sampled { hierarchy, control: Control::default(), rhythm: Rhythm::new(), pace, arrivals: None }
            }),
            classes,
            pages: TouchedPages::new(classes),
            data: None,
            put_off: VecDeque::new(),
            waiting: 0,
            spare: Vec::new(),
            single: true,
            first: None,
            interleaver: Interleaver::default(),
            phases: HashMap::new(),
            executed: Executions::default(),
            strata: Strata::default(),
            few_cores,
            warnings,
        }
    }

    /// Puts a part of one thread's accesses, in order, through the caches.
    fn simulate(&mut self, part: Part) {
        let place = self.owners.place(part.thread, part.process);
        self.full.add_core(place.core);
        let classes = self.classes;
        let Some(Sampled { hierarchy, control, rhythm, pace, arrivals }) = &mut self.sampled else {
            for access in part.accesses {
                let owner = owner(&mut self.owners, &mut self.full, None, place, access.site);
                self.owners.steps(owner).note(access.address);
                self.pages.note(owner, place.space, access);
                let from_memory = |book, address| note(&mut self.data, owner, book, part.process, address);
                play(&mut self.full, &mut self.owners, (place, owner), access, Some(0), |_| true, from_memory);
            }
            return;
        };
        hierarchy.add_core(place.core);
        hierarchy.tallies.open(match part.phase {
            Phase::Opening => Book::Plain,
            Phase::Measuring => Book::Sample,
            Phase::Warming => Book::Warming,
            Phase::Pause => Book::Nothing,
        });
        let one_in = if part.selected { classes.count() } else { 1 };
        let accesses: u64 = part.accesses.iter().map(|access| weight(access, one_in)).sum();
        let warm_up = part.warm_up.unwrap_or_else(|| rhythm.note(part.thread, part.selected, accesses));
        let orders = part.selected.then(|| classes.count().ilog2());
        let mut before = 0;
        if part.selected && control.end_burst(part.thread, &self.full.tallies, &mut hierarchy.tallies) {
            self.full.interrupt(place.core);
        }
        let (fills, stale) = (hierarchy.fills(), hierarchy.stale());
        for access in part.accesses {
            let owner = owner(&mut self.owners, &mut self.full, Some(hierarchy), place, access.site);
            self.owners.steps(owner).note(access.address);
            self.pages.note(owner, place.space, access);
            let counted = !part.selected && before >= warm_up;
            if !part.selected {
                if counted {
                    control.meet(part.thread, owner, self.full.tallies.plain_of(owner));
                }
                for (book, access) in by_warm_up(access, warm_up.saturating_sub(before)).into_iter().flatten() {
                    self.full.tallies.open(book);
                    play(&mut self.full, &mut self.owners, (place, owner), &access, Some(0), |_| true, |_, _| ());
                }
                before += weight(access, 1);
            }
            let admit = |line| classes.of(line) == 0;
            let from_memory = |book, address| note(&mut self.data, owner, book, part.process, address);
            hierarchy.tallies.note_apart(counted);
            play(hierarchy, &mut self.owners, (place, owner), access, orders, admit, from_memory);
        }
        let phase = pace.phase();
        pace.note(accesses * one_in, hierarchy.fills() - fills, hierarchy.stale() - stale);
        if let Some(arrivals) = arrivals {
            arrivals.note(self.owners.processes(), accesses, hierarchy.met());
            if phase == Phase::Measuring && pace.phase() == Phase::Pause {
                arrivals.end(self.owners.processes(), hierarchy.met());
            }
        }
    }

    /// Takes a batch. While there is but one thread nothing of it is simulated yet, unless too much waits.
    fn receive(&mut self, thread: u32, process: u32, selected: bool, accesses: &[Access]) {
        let space = self.owners.place(thread, process).space;
        if let Some(sampled) = &mut self.sampled {
            sampled.hierarchy.meet(process, space, accesses);
        }
        if !selected {
            self.full.meet(process, space, accesses);
        }
        let phase = self.phases.get(&thread).copied().unwrap_or_default();
        self.single &= *self.first.get_or_insert(thread) == thread;
        if !self.single {
            while self.simulate_some() {}
            return self.interleave(Part { thread, process, selected, phase, warm_up: None, accesses });
        }
        // What is collected next depends on what came, not on what became of it.
        let rhythm = self.sampled.as_mut().map(|sampled| &mut sampled.rhythm);
        let one_in = if selected { self.classes.count() } else { 1 };
        let weights: u64 = accesses.iter().map(|access| weight(access, one_in)).sum();
        let warm_up = rhythm.map_or(0, |rhythm| rhythm.note(thread, selected, weights));
        self.waiting += accesses.len();
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(accesses);
        self.put_off.push_back(PutOff { thread, process, selected, phase, warm_up, done: 0, accesses: kept });
        while self.waiting > MOST_PUT_OFF && self.simulate_some() {}
    }

    fn interleave(&mut self, part: Part) {
        let mut interleaver = std::mem::take(&mut self.interleaver);
        interleaver.add(part, |part| self.simulate(part));
        self.interleaver = interleaver;
    }

    /// Simulates a piece of what was put off; false if nothing was.
    fn simulate_some(&mut self) -> bool {
        let Some(mut batch) = self.put_off.pop_front() else { return false };
        let end = (batch.done + PIECE).min(batch.accesses.len());
        self.interleave(Part {
            thread: batch.thread,
            process: batch.process,
            selected: batch.selected,
            phase: batch.phase,
            warm_up: Some(batch.warm_up),
            accesses: &batch.accesses[batch.done..end],
        });
        let simulated: u64 = batch.accesses[batch.done..end].iter().map(|access| weight(access, 1)).sum();
        batch.warm_up = batch.warm_up.saturating_sub(simulated);
        self.waiting -= end - batch.done;
        batch.done = end;
        if end < batch.accesses.len() {
            self.put_off.push_front(batch);
        } else {
            batch.accesses.clear();
            self.spare.push(batch.accesses);
        }
        true
    }

    fn evidence(mut self, sites: &[CodeRef]) -> MemoryEvidence {
        if let Some(sampled) = &mut self.sampled {
            sampled.close_window(self.classes);
        }
        self.weigh();
        let sampled = self.sampled.iter_mut().map(|sampled| &mut sampled.hierarchy);
        for hierarchy in sampled.chain([&mut self.full]) {
            hierarchy.tallies.note_apart(false);
            hierarchy.tallies.open(Book::End);
            hierarchy.flush();
        }
        let scales = self.first_level_scales();
        let hierarchy = self.sampled.as_ref().map_or(&self.full, |s| &s.hierarchy);
        let (first, behind) = (&self.full.tallies, &hierarchy.tallies);
        // A program that ends before its first pause was simulated without a gap.
        let windows = self.sampled.is_some() && self.executed.extrapolated() > 0.0;
        let beyond = Beyond { has_l2: self.has_l2, conflict_share: behind.conflict_share(), windows };
        let lines = self.classes.count() as f64;
        let total = self.executed.total();
        let of_windows = self.sampled.as_ref().and_then(|s| windows_error(s.pace.windows())).unwrap_or(0.0);
        let (mut traffic, mut unseen) = (Vec::new(), 0.0);
        for (i, (&(site, thread), scale)) in self.owners.pairs().iter().zip(scales).enumerate() {
            let Some(&at) = sites.get(site as usize) else { continue };
            let owner = Owner(i as u32);
            let Scales { fills, write_backs } = self.executed.scales(owner, &total);
            let books = [*behind.plain_of(owner), behind.sample(owner), behind.warming(owner)];
            // Weights divide what executions say among windows: their mean is 1.
            let mean_weight = behind.mean_weight(owner).unwrap_or_else(|| self.strata.mean_weight(site));
            let by_book = [1.0, 1.0 / mean_weight, 1.0];
            let each = |factors: Factors| -> [f64; 3] {
                let factors = factors.each();
                std::array::from_fn(|book| lines * by_book[book] * factors[book])
            };
            let (ahead, back) = (each(fills), each(write_backs));
            let mut of_sample = Near::default();
            books.iter().zip(ahead).for_each(|(tally, each)| of_sample.add(&near(tally, each)));
            let (mut close, l1_error) = match scale {
                Some(scale) => self.near_of(owner, scale, &of_sample),
                None => (of_sample, 0.0),
            };
            close.add(&near(&first.end(owner), 1.0));
            let fate = behind.fate(owner, self.has_l2);
            let mut far = beyond.traffic(&behind.end(owner), lines, lines, fate.gone());
            for ((tally, weight), (ahead, back)) in books.iter().zip(by_book).zip(ahead.into_iter().zip(back)) {
                let mut traffic = beyond.traffic(tally, ahead, back, fate.gone());
                traffic.seen_lines *= weight;
                traffic.l3_seen_lines *= weight;
                far.add(&traffic);
            }
            if windows {
                let left = |tally: &Tally| if self.has_l2 { tally.l2_writebacks } else { tally.l1_writebacks };
                let scaled: f64 = books.iter().zip(back).map(|(tally, each)| left(tally) as f64 * each).sum();
                let each = fate.end_stands_for(scaled / lines / fate.left.max(1) as f64);
                far.dram_write += LINE_BYTES as f64 * lines * each * fate.at_end as f64;
            }
            let mut figures = beyond.join(&close, &far);
            // What one window saw may differ as much in others as everything does that the program does.
            let (scatter, of_all) = (self.strata.scatter(site), of_windows * fills.between_windows());
            let error = |own: Option<f64>| own.unwrap_or(of_all).hypot(fills.without_windows());
            figures.l1_scatter = (error(scatter.l1) * figures.l1_misses).max(l1_error);
            figures.l2_scatter = error(scatter.l2) * figures.l2_misses;
            figures.l3_scatter = error(scatter.l3) * figures.l3_misses;
            if let Some((read, write)) = self.executed.bytes(owner) {
                (figures.l1_read, figures.l1_write) = (read, write);
                // Of the few lines that it accesses none may have been in the sample, and no burst have come while it ran.
                let seen = books.iter().chain([first.plain_of(owner)]).any(|tally| tally.accesses > 0);
                figures.unseen = if seen { 0.0 } else { read + write };
                unseen += figures.unseen;
            }
            traffic.push(SiteTraffic { at, thread, traffic: figures });
        }
        let page_placement = hierarchy.placement_in_words();
        self.warn_of_limits(&total);
        self.warnings.extend(self.executed.warning(unseen));
        if let Some(sampled) = &self.sampled
            && sampled.pace.windows().is_empty()
            && self.executed.extrapolated() > 0.1
        {
            self.warnings.push(Warning::new(
                "memory-opening",
                format!(
                    "the program ended before its memory accesses were sampled a second time for long enough; {:.0} % \
                    of them are taken to be like those seen until then, most of them at its start",
                    100.0 * self.executed.extrapolated()
                ),
                "bytes beyond L1 may be those of cold caches",
                "run longer, or with --memory exact",
            ));
        }
        let ratios = calibration::ratios(&self.geometry, self.placement);
        let own = calibration::worst(&ratios);
        let (mode, error) = match &self.sampled {
            None => ("exact", Some(own)),
            Some(sampled) => ("sampled", relative_error(sampled.hierarchy.groups()).map(|error| error.hypot(own))),
        };
        let pairs = self.owners.pairs();
        let place = |owner: Owner| sites.get(pairs.get(owner.0 as usize)?.0 as usize).copied();
        let pages = self.pages.evidence(place);
        let touched = pages.union(pages.sites.iter()).pages.ceil() as u64;
        if let Some(lines) = self.sampled.as_ref().and_then(|s| s.arrivals.as_ref()?.lines(touched)) {
            limit_compulsory(&mut traffic, lines as f64);
        }
        let weights = |owner| {
            let fills = self.executed.scales(owner, &total).fills;
            fills.each().map(|factor| lines * factor)
        };
        MemoryEvidence {
            mode: mode.into(),
            error,
            page_placement,
            one_in: self.classes.count() as u32,
            one_core: self.geometry.cores == 1 && self.few_cores && !self.single,
            calibration: ratios.into_iter().map(|(id, ratio)| (id.into(), ratio)).collect(),
            sites: traffic,
            pages,
            data: self.data.map(|data| data.evidence(place, weights)).unwrap_or_default(),
            warnings: self.warnings,
        }
    }

    /// What was seen of each instruction and not put away.
    fn seen(&self) -> HashMap<u32, SeenOf, Mixing> {
        let mut seen: HashMap<u32, SeenOf, Mixing> = HashMap::default();
        let Some(Sampled { hierarchy, .. }) = &self.sampled else { return seen };
        for (owner, (site, _)) in (0..).map(Owner).zip(self.owners.pairs()) {
            let (burst, sample) = (self.full.tallies.plain_of(owner), hierarchy.tallies.sample(owner));
            let SeenOf { accesses, bytes, l1_misses, far_misses } = seen.entry(*site).or_default();
            *accesses += burst.accesses;
            *bytes += burst.read_bytes + burst.write_bytes;
            *l1_misses += burst.l1_fills;
            *far_misses = [far_misses[0] + sample.l2_fills, far_misses[1] + sample.last_fills];
        }
        seen
    }

    fn put_away(&mut self, weights: &HashMap<u32, Weights, Mixing>) {
        let Some(Sampled { hierarchy, control, rhythm, .. }) = &mut self.sampled else { return };
        control.end_bursts(&self.full.tallies, &mut hierarchy.tallies);
        for (owner, (site, thread)) in (0..).map(Owner).zip(self.owners.pairs()) {
            let Some(Weights { sampled, bursts }) = weights.get(site) else { continue };
            if let Some(weight) = sampled {
                hierarchy.tallies.put_away(Book::Sample, owner, *weight);
            }
            // Of a thread that was always seen nothing is scaled up.
            if let Some(weight) = bursts.filter(|_| rhythm.was_sampled(*thread)) {
                self.full.tallies.put_away(Book::Plain, owner, weight);
                control.put_away(owner, weight);
            }
        }
    }

    /// Weights windows and bursts by what was executed around them.
    fn weigh(&mut self) {
        let mut total: HashMap<u32, [f64; 4], Mixing> = HashMap::default();
        for (owner, (site, _)) in (0..).map(Owner).zip(self.owners.pairs()) {
            let of_site = total.entry(*site).or_default();
            of_site.iter_mut().zip(self.executed.by_phase(owner)).for_each(|(sum, amount)| *sum += amount as f64);
        }
        let total = |site| total.get(&site).copied().unwrap_or_default();
        let seen = self.seen();
        let of = |site, strings| Some(seen.get(&site)?.of(strings));
        let weights = self.strata.end(total, of);
        self.put_away(&weights);
        let Some(Sampled { hierarchy, .. }) = &mut self.sampled else { return };
        for owner in (0..self.owners.pairs().len() as u32).map(Owner) {
            hierarchy.tallies.bring_back(Book::Sample, owner);
            self.full.tallies.bring_back(Book::Plain, owner);
        }
        hierarchy.tallies.all_back();
        self.full.tallies.all_back();
    }

    /// What `owner` did near the core, from its bursts, whose events stand for `scale`, and from what the sample of lines saw of
    /// it in all the time. And the standard error of its misses.
    fn near_of(&self, owner: Owner, scale: f64, of_sample: &Near) -> (Near, f64) {
        let of_bursts = near(self.full.tallies.plain_of(owner), scale);
        let (_, thread) = self.owners.pairs()[owner.0 as usize];
        let Some(Sampled { control, hierarchy, .. }) = self.sampled.as_ref().filter(|s| s.rhythm.was_sampled(thread))
        else {
            return (of_bursts, 0.0);
        };
        // A string may be longer than a burst: what a part of it says of accesses says nothing. It goes through all lines alike.
        if self.executed.is_string(owner) {
            return (of_bursts, 0.0);
        }
        let lines = self.classes.count() as f64;
        let books =
            [*hierarchy.tallies.plain_of(owner), hierarchy.tallies.sample(owner), hierarchy.tallies.warming(owner)];
        let events = [|t: &Tally| t.l1_fills, |t: &Tally| t.l1_writebacks].map(|of| books.iter().map(of).sum::<u64>());
        let estimate = |kind: usize, bursts, sample| {
            let events = events[kind] as f64;
            control.estimate(owner, kind, Estimates { bursts, sample, events, scale, lines })
        };
        let (misses, error) = estimate(0, of_bursts.traffic.l1_misses, of_sample.traffic.l1_misses);
        let [bursts, sample] = [&of_bursts, of_sample].map(|near| near.traffic.l2_write / LINE_BYTES as f64);
        let (write_backs, _) = estimate(1, bursts, sample);
        let shares = if of_bursts.traffic.l1_misses > 0.0 { of_bursts } else { *of_sample };
        (shares.with(misses, write_backs), error)
    }

    /// How many events one event of the full hierarchy stands for, by owner. `None` where an owner never executed in a
    /// counted part of a burst.
    fn first_level_scales(&self) -> Vec<Option<f64>> {
        let Some(Sampled { hierarchy, rhythm, .. }) = &self.sampled else {
            return vec![Some(1.0); self.owners.pairs().len()];
        };
        let pairs = || self.owners.pairs().iter().zip(self.full.tallies.plain().iter().zip(hierarchy.tallies.plain()));
        // Of each thread: accesses in bursts, and in the sample that runs all the time.
        let mut by_thread: HashMap<u32, (u64, u64)> = HashMap::new();
        for ((_, thread), (burst, classed)) in pairs() {
            let (a, b) = by_thread.entry(*thread).or_default();
            *a += burst.accesses;
            *b += classed.accesses;
        }
        let scale = |thread: u32, owner: Owner, burst: &Tally| {
            if !rhythm.was_sampled(thread) {
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

    fn warn_of_limits(&mut self, total: &Times) {
        self.warnings.extend(self.owners.warning());
        let nowhere = self.owners.nowhere().and_then(|owner| self.executed.accesses(owner));
        if let Some(accesses) = nowhere {
            self.warnings.push(Warning::new(
                "memory-sites",
                format!(
                    "the program has more instructions that access memory than traffic is kept of; {:.1} % of its \
                    accesses are by others",
                    100.0 * accesses as f64 / total.all() as f64
                ),
                "the memory traffic of some functions is missing",
                "run a part of it",
            ));
        }
        let hierarchy = self.sampled.as_ref().map_or(&self.full, |s| &s.hierarchy);
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

/// Makes repeated misses of compulsory ones beyond so many `lines` in all: a window in which pages arrive stands for pauses in
/// which none did.
fn limit_compulsory(sites: &mut [SiteTraffic], lines: f64) {
    let all: f64 = sites.iter().map(|site| site.traffic.compulsory).sum();
    let too_many = 1.0 - lines / all;
    if all > lines {
        for Traffic { compulsory, capacity, .. } in sites.iter_mut().map(|site| &mut site.traffic) {
            *capacity += too_many * *compulsory;
            *compulsory *= 1.0 - too_many;
        }
    }
}

/// What was seen of an instruction: in bursts, and in the sample of windows.
#[derive(Debug, Clone, Copy, Default)]
struct SeenOf {
    accesses: u64,
    bytes: u64,
    l1_misses: u64,
    far_misses: [u64; 2],
}

impl SeenOf {
    /// The same in terms of accesses, or of bytes of `strings`.
    fn of(&self, strings: bool) -> Seen {
        Seen {
            bursts: if strings { self.bytes } else { self.accesses } as f64,
            l1_misses: self.l1_misses as f64,
            far_misses: self.far_misses.map(|misses| misses as f64),
        }
    }
}

/// The owner for `site` at `place`, with tallies in both hierarchies.
#[inline]
fn owner(owners: &mut Owners, full: &mut Hierarchy, sampled: Option<&mut Hierarchy>, place: Place, site: u32) -> Owner {
    let (owner, fresh) = owners.owner(place.thread, place.book, site);
    if fresh {
        full.tallies.add();
        if let Some(sampled) = sampled {
            sampled.tallies.add();
        }
    }
    owner
}

#[inline]
fn note(data: &mut Option<DataSamples>, owner: Owner, book: Book, process: u32, address: u64) {
    if let Some(data) = data {
        data.note(owner, book, process, address);
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
        self.simulate_some()
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

    fn enter(&mut self, thread: u32, phase: Phase) {
        self.phases.insert(thread, phase);
        if let Some(arrivals) = self.sampled.as_mut().and_then(|s| s.arrivals.as_mut()) {
            arrivals.glance(self.owners.processes());
        }
    }

    fn end_phase(&mut self) {
        let phase = self.phase();
        while self.simulate_some() {}
        // What was put off may have ended it already.
        if let Some(sampled) = &mut self.sampled
            && sampled.pace.phase() == phase
        {
            if phase == Phase::Pause {
                sampled.hierarchy.age();
                sampled.rhythm.begin_window();
                sampled.close_window(self.classes);
                sampled.hierarchy.tallies.begin_window();
            }
            sampled.pace.end_phase();
            if sampled.pace.phase() == phase && phase != Phase::Warming {
                sampled.rhythm.go_on();
            }
            if let Some(arrivals) = &mut sampled.arrivals {
                match phase {
                    Phase::Pause => arrivals.begin(self.owners.processes(), sampled.hierarchy.met()),
                    Phase::Measuring if sampled.pace.phase() == Phase::Pause => {
                        arrivals.end(self.owners.processes(), sampled.hierarchy.met());
                    }
                    Phase::Measuring | Phase::Warming => {
                        arrivals.tick(self.owners.processes(), sampled.hierarchy.met());
                    }
                    Phase::Opening => {}
                }
            }
        }
    }

    fn allocated(&mut self, process: u32, allocation: Allocation) {
        if let Some(data) = &mut self.data {
            data.mappings.allocated(process, allocation);
        }
    }

    fn unmapped(&mut self, process: u32, from: u64, to: u64) {
        // What was accessed there before was there.
        while self.simulate_some() {}
        if let Some(data) = &mut self.data {
            data.mappings.unmapped(process, from, to);
        }
        if let Some(space) = self.owners.space(process) {
            let sampled = self.sampled.iter_mut().map(|sampled| &mut sampled.hierarchy);
            sampled.chain([&mut self.full]).for_each(|hierarchy| hierarchy.unmapped(space, from, to));
        }
    }

    fn course(&mut self, amounts: &[Amount]) {
        while self.simulate_some() {}
        let seen = self.seen();
        let of = |site, strings| Some(seen.get(&site)?.of(strings));
        let weights = self.strata.course(amounts, of);
        self.put_away(&weights);
    }

    fn executed(&mut self, executed: Executed) {
        let (thread, book) = (executed.thread, self.owners.book(executed.thread));
        let place = Place { thread, core: 0, space: 0, book };
        let hierarchy = self.sampled.as_mut().map(|s| &mut s.hierarchy);
        let owner = owner(&mut self.owners, &mut self.full, hierarchy, place, executed.site);
        self.executed.add(owner, &executed);
    }

    fn finish(mut self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        while self.simulate_some() {}
        let mut interleaver = std::mem::take(&mut self.interleaver);
        interleaver.finish(|part| self.simulate(part));
        self.evidence(sites)
    }
}
