//! The caches of all cores and the transfers between them.
//!
//! ```text
//!  access ─▶ L1 ──miss──▶ L2 ──miss──▶ other cores ──not there──▶ last level ──miss──▶ memory
//!            └─dirty victim─▶└─dirty (victim cache: any) victim──────▶└─dirty victim───▶
//! ```
//!
//! Stores allocate (write-allocate) and stay in the cache until they are evicted (write-back). A fill is charged to the instruction that
//! caused it, a write-back to the one that last wrote the line, once at each level: a dirty line that a victim cache returns to L2 and
//! receives again unwritten counts like a clean victim, that is, not at all. At the end all dirty lines are written back, as the next
//! program would force them to be.

mod booking;
mod build;
mod burst;
mod coherence;
mod non_temporal;
mod overwritten;
mod physical_index;
pub mod play;
mod time;
pub mod writebacks;

use crate::address::page_color::{Indexing, PageColoring, SetSample};
use crate::address::physical::PhysicalMap;
use crate::attribution::tallies::Tallies;
use crate::caches::geometry::{Geometry, LINE_BYTES, LastLevelPolicy, Level};
use crate::caches::line::{Line, Owner, State};
use crate::caches::set_cache::{Lookup, SetCache};
use crate::caches::write_combining::WriteCombiner;
use crate::classify::compulsory::SeenLines;
use crate::classify::fully_associative::PartialShadow;
use crate::classify::overwriting::Overwriting;
use crate::hierarchy::writebacks::CacheResidencies;
use burst::BurstL2;
use overwritten::use_again;
use physical_index::{Asked, PhysicallyIndexedL2, PlacedLast};
use rprof_basics::random::mix;
use rprof_profile::evidence::memory::Access;

/// A cache and how it finds its sets.
#[derive(Debug)]
struct Indexed {
    cache: SetCache,
    indexing: Indexing,
}

/// The private caches of one core.
#[derive(Debug)]
struct Core {
    l1: SetCache,
    /// Only if all lines are simulated.
    l1_shadow: Option<PartialShadow>,
    l2: Option<Indexed>,
    /// Only if all lines are simulated, in bursts.
    burst_l2: Option<BurstL2>,
    /// Only in a sample of lines, if the kinds of pages are known.
    placed_l2: Option<PhysicallyIndexedL2>,
    l2_shadow: PartialShadow,
    combiner: WriteCombiner,
    /// Only if all accesses are simulated.
    overwriting: Option<Overwriting>,
    last: usize,
}

/// One instance of the last level, with its fully associative shadow.
#[derive(Debug)]
struct LastLevel {
    cache: Indexed,
    shadow: PartialShadow,
    /// Only in a sample of lines, if the kinds of pages are known.
    placed: Option<PlacedLast>,
}

/// All caches of the host, as far as the program's threads reach them.
#[derive(Debug)]
pub struct Hierarchy {
    geometry: Geometry,
    /// The level beyond L1, if it is not simulated.
    beyond_scope: Option<Level>,
    whereabouts: PhysicalMap,
    scope: Scope,
    l1_indexing: Indexing,
    cores: Vec<Core>,
    last: Vec<LastLevel>,
    seen: SeenLines,
    /// Only in a sample of lines.
    residencies: Option<CacheResidencies>,
    groups: [u64; GROUPS],
    fills: u64,
    met: u64,
    stale: u64,
    /// Events by owner.
    pub tallies: Tallies,
}

/// Which part of the traffic a hierarchy simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All lines, all levels.
    Whole,
    /// All levels, but only lines of class 0: each cache is simulated in proportion.
    OneClass(SetSample),
    /// All lines, L1, transfers between cores, and of L2 only lines that a burst meets twice (`burst.rs`).
    FirstLevel,
}

impl Scope {
    fn classes(self) -> SetSample {
        if let Scope::OneClass(classes) = self { classes } else { SetSample::ONE }
    }

    fn indexing(self, level: &Level) -> Indexing {
        Indexing::new(level.sets(), self.classes())
    }
}

/// The level an access found its line in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// In L1.
    Hit,
    /// In another cache.
    Miss,
    /// In no cache: it came from memory.
    Memory,
}

/// Groups of lines, from which the scatter of a sample is estimated.
pub const GROUPS: usize = 32;

/// The group of a line: that of its page.
fn group(line: Line) -> usize {
    (mix(line.page()) >> 32) as usize % GROUPS
}

impl Hierarchy {
    /// Empty caches.
    pub fn new(mut geometry: Geometry, placement: PageColoring, scope: Scope) -> Self {
        let beyond_scope = geometry.l2.filter(|_| scope == Scope::FirstLevel);
        if scope == Scope::FirstLevel {
            let last = Level { size: LINE_BYTES, ways: 1, shared_by: u32::MAX };
            geometry = Geometry { l2: None, last, policy: LastLevelPolicy::NonInclusive, ..geometry };
        }
        Hierarchy {
            l1_indexing: scope.indexing(&geometry.l1),
            geometry,
            beyond_scope,
            whereabouts: PhysicalMap::Rule(placement),
            scope,
            cores: Vec::new(),
            last: Vec::new(),
            seen: SeenLines::new(),
            residencies: matches!(scope, Scope::OneClass(_)).then(CacheResidencies::default),
            groups: [0; GROUPS],
            fills: 0,
            met: 0,
            stale: 0,
            tallies: Tallies::default(),
        }
    }

    /// Replaces the rule for page coloring with a better physical map. To be called before the first access.
    pub fn know(&mut self, whereabouts: PhysicalMap) {
        debug_assert!(!matches!(self.scope, Scope::OneClass(_)) || !whereabouts.has_frames());
        self.whereabouts = whereabouts;
        if self.places() && self.geometry.l2.is_some() {
            self.tallies.place_l2();
        }
    }

    /// Whether caches beyond L1 are also simulated with the frames of pages.
    fn places(&self) -> bool {
        matches!(self.scope, Scope::OneClass(_)) && self.whereabouts.places()
    }

    /// `process` has just made `accesses` in address space `space`, and still exists, so that the kernel can be asked about its pages.
    pub fn meet(&mut self, process: u32, space: u32, accesses: &[Access]) {
        self.whereabouts.meet(process, space, accesses);
    }

    /// Addresses `from` to `to` of address space `space` were unmapped: a new mapping there is new, and lies elsewhere. Returns whether
    /// any line there had come from memory.
    pub fn unmapped(&mut self, space: u32, from: u64, to: u64) -> bool {
        self.whereabouts.forget(space, from, to);
        self.seen.forget(space, from, to)
    }

    /// In words: the addresses that index the levels beyond L1.
    pub fn placement_in_words(&self) -> String {
        self.whereabouts.in_words()
    }

    /// Whether the frames of pages are known.
    pub fn knows_frames(&self) -> bool {
        self.whereabouts.knows_frames()
    }

    /// The lines that were ever fetched from memory.
    pub fn seen(&self) -> &SeenLines {
        &self.seen
    }

    /// Lines fetched from memory.
    pub fn fills(&self) -> u64 {
        self.fills
    }

    /// Lines fetched from memory for the first time.
    pub fn met(&self) -> u64 {
        self.met
    }

    /// Last levels that are in use.
    pub fn last_levels(&self) -> usize {
        self.last.len()
    }

    /// Lines found in their place from before an interval that was not simulated.
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// Lines fetched from memory or stored past the caches, by group of pages.
    pub fn groups(&self) -> &[u64; GROUPS] {
        &self.groups
    }

    /// A load (or prefetch) by `core`, or a store, of any part of `line`.
    #[inline]
    pub fn access(&mut self, core: usize, owner: Owner, line: Line, store: bool) -> Outcome {
        let set = self.l1_indexing.set(line.0);
        let Core { l1, l1_shadow, .. } = &mut self.cores[core];
        let kept = l1_shadow.as_mut().and_then(|shadow| shadow.touch(line));
        let lost = match l1.find(set, line) {
            Lookup::Hit(state) => {
                let whole = state.is_whole();
                if whole {
                    *state = state.with_whole(false);
                }
                if store {
                    let (shared, before) = (state.is_shared(), state.writer());
                    *state = state.with_shared(false).written_by(owner);
                    if before != Some(owner) {
                        self.tallies.dirty_l1(owner, before);
                    }
                    if shared {
                        self.take_from_others(core, line);
                    }
                } else {
                    let used_again = use_again(state);
                    self.book_used_again(used_again);
                }
                if whole {
                    self.book_rewritten(core, line);
                }
                return Outcome::Hit;
            }
            Lookup::Lost => true,
            Lookup::Miss => false,
        };
        if let (Some(kept), false) = (kept, lost) {
            self.tallies.of(owner).l1_shadowed.note(kept);
        }
        self.miss(core, owner, line, store, lost)
    }

    /// `core` continues after accesses that were not simulated: its L1 shadow and its burst's knowledge of L2 start anew.
    pub fn interrupt(&mut self, core: usize) {
        self.cores[core].burst_l2.iter_mut().for_each(BurstL2::end);
        self.cores[core].l1_shadow.iter_mut().for_each(PartialShadow::clear);
        self.cores[core].overwriting.iter_mut().for_each(Overwriting::clear);
    }

    #[cold]
    fn miss(&mut self, core: usize, owner: Owner, line: Line, store: bool, lost_in_l1: bool) -> Outcome {
        let fills = self.fills;
        self.tallies.fill_l1(owner, lost_in_l1);
        if !self.cores[core].combiner.is_empty()
            && let Some(gone) = self.cores[core].combiner.take(line)
        {
            self.tallies.of(gone).nt_lines += 1;
        }
        let index = self.whereabouts.index(line);
        let (mut shared, mut lost) = (false, lost_in_l1);
        // As a victim cache had it; without an L2 it enters L1 in that state.
        let mut brought = None;
        let (mut in_l2, mut found_stale) = (false, false);
        let mut kept_in_l2 = None;
        let mut used_again = None;
        let Core { l2, l2_shadow, .. } = &mut self.cores[core];
        if let Some(l2) = l2 {
            kept_in_l2 = l2_shadow.touch(line);
            match l2.cache.find(l2.indexing.set(index), line) {
                Lookup::Hit(state) => {
                    in_l2 = true;
                    used_again = use_again(state);
                    shared = state.is_shared();
                    found_stale = state.is_stale();
                    *state = state.refreshed();
                    if store {
                        *state = state.with_shared(false);
                    }
                }
                Lookup::Lost => lost = true,
                Lookup::Miss => {}
            }
        }
        self.book_used_again(used_again);
        if in_l2 {
            self.book_stale(owner, found_stale);
            self.tallies.of(owner).stale_in_l2 += u64::from(found_stale);
            if store && shared {
                self.take_from_others(core, line);
                shared = false;
            }
        } else {
            (shared, brought) = self.fetch(core, owner, line, index, store);
            if self.cores[core].l2.is_some() {
                let tally = self.tallies.of(owner);
                tally.l2_fills += 1;
                if let (Some(kept), false) = (kept_in_l2, lost) {
                    tally.l2_shadowed.note(kept);
                }
                let state = brought.take().map_or(State::CLEAN, State::come_back).with_shared(shared);
                self.insert_l2(core, line, index, state);
            }
        }
        if let Some(l2) = &mut self.cores[core].burst_l2 {
            let fill = l2.fill(line, index);
            let tally = self.tallies.of(owner);
            tally.burst_reused += u64::from(fill.again);
            tally.burst_conflicts += u64::from(fill.conflict);
            fill.pushed_out.into_iter().for_each(|writer| self.tallies.of(writer).burst_writebacks += 1);
        }
        if let Some(l2) = &mut self.cores[core].placed_l2
            && !l2.find(line, &self.whereabouts)
        {
            self.tallies.of(owner).placed_fills += 1;
        }
        let tally = self.tallies.of(owner);
        tally.coherence_in_l2 += u64::from(lost && !lost_in_l1);
        let mut state = brought.unwrap_or(State::CLEAN).with_shared(shared);
        let before = state.writer();
        before.into_iter().for_each(|before| self.tallies.dirty_l1(before, None));
        if store {
            self.tallies.dirty_l1(owner, before);
            state = state.written_by(owner).with_only_written(self.fills != fills);
        }
        let set = self.l1_indexing.set(line.0);
        if let Some((victim, state)) = self.cores[core].l1.insert(set, line, state)
            && state.writer().is_some()
        {
            self.victim_of_l1(core, victim, state);
        }
        if self.fills == fills { Outcome::Miss } else { Outcome::Memory }
    }

    /// Brings `line` to `core`'s private caches from other cores, the last level or memory. Returns whether others still hold it, and its
    /// state in the victim cache.
    fn fetch(&mut self, core: usize, owner: Owner, line: Line, index: u64, store: bool) -> (bool, Option<State>) {
        let held_elsewhere = if store { self.take_from_others(core, line) } else { self.share_with_others(core, line) };
        let shared = held_elsewhere && !store;
        if self.scope == Scope::FirstLevel {
            return (shared, None);
        }
        let own = self.cores[core].last;
        if !store {
            self.settle_remote(own, line, index, false);
        }
        let victim_cache = self.geometry.policy == LastLevelPolicy::Victim && self.geometry.l2.is_some();
        let kept_in_shadow = self.last[own].shadow.touch(line);
        self.ask_placed(own, owner, line, Asked { takes: victim_cache && !shared, held_elsewhere });
        let level = &mut self.last[own].cache;
        let set = level.indexing.set(index);
        if victim_cache && !shared {
            if let Some(mut state) = level.cache.remove(set, line) {
                let used_again = use_again(&mut state);
                self.book_used_again(used_again);
                self.book_stale(owner, state.is_stale());
                return (shared, Some(state.refreshed().moved()));
            }
        } else if let Lookup::Hit(state) = level.cache.find(set, line) {
            let stale = state.is_stale();
            let used_again = use_again(state);
            *state = state.refreshed();
            self.book_used_again(used_again);
            self.book_stale(owner, stale);
            return (shared, None);
        }
        if held_elsewhere {
            return (shared, None);
        }
        self.book_beside_placed(own, owner, line);
        let fresh = self.seen.first(line);
        let tally = self.tallies.of(owner);
        tally.last_fills += 1;
        tally.store_fills += u64::from(store);
        tally.compulsory += u64::from(fresh);
        tally.conflict += u64::from(!fresh && kept_in_shadow == Some(true));
        tally.capacity += u64::from(!fresh && kept_in_shadow == Some(false));
        self.groups[group(line)] += 1;
        self.book_page(owner, line);
        self.fills += 1;
        self.met += u64::from(fresh);
        if let Some(residencies) = &mut self.residencies {
            residencies.begin(own, line, owner, self.tallies.stratum());
        }
        if !victim_cache {
            self.insert_last(own, line, set, State::CLEAN);
        }
        (shared, None)
    }

    fn insert_l2(&mut self, core: usize, line: Line, index: u64, state: State) {
        let Some(l2) = &mut self.cores[core].l2 else { return };
        if let Some((victim, state)) = l2.cache.insert(l2.indexing.set(index), line, state) {
            self.victim_of_l2(core, victim, state);
        }
    }

    /// A dirty line leaves L1 for the next level.
    fn victim_of_l1(&mut self, core: usize, line: Line, state: State) {
        let Some(writer) = state.writer() else { return };
        let only_written = state.is_only_written();
        self.tallies.write_back_l1(writer);
        let index = self.whereabouts.index(line);
        let Core { l2, burst_l2, .. } = &mut self.cores[core];
        if let Some(gone) = burst_l2.as_mut().and_then(|l2| l2.write_back(line, index, writer)) {
            self.tallies.of(gone).burst_writebacks += 1;
        }
        match l2 {
            Some(l2) => match l2.cache.peek(l2.indexing.set(index), line) {
                Some(state) => {
                    let old = *state;
                    *state = old.written_by(writer).with_only_written(only_written);
                    self.book_dirtied(core, line, Some(old), writer);
                }
                None => {
                    self.book_dirtied(core, line, None, writer);
                    self.insert_l2(core, line, index, state.with_whole(false));
                }
            },
            None => self.write_to_last(core, line, index, state),
        }
    }

    /// A line leaves L2 because another one needs its place.
    fn victim_of_l2(&mut self, core: usize, line: Line, mut state: State) {
        if self.geometry.l2_inclusive {
            let set = self.l1_indexing.set(line.0);
            if let Some(inner) = self.cores[core].l1.remove(set, line)
                && let Some(writer) = inner.writer()
            {
                self.tallies.write_back_l1(writer);
                self.book_dirtied(core, line, Some(state), writer);
                state = state.written_by(writer).with_only_written(inner.is_only_written());
            }
        }
        self.book_left_l2(state);
        let index = self.whereabouts.index(line);
        if state.writer().is_some() {
            self.write_to_last(core, line, index, state);
        } else if self.geometry.policy == LastLevelPolicy::Victim {
            let last = self.cores[core].last;
            let set = self.last[last].cache.indexing.set(index);
            if self.last[last].cache.cache.peek(set, line).is_none() {
                self.insert_last(last, line, set, state.moved());
            }
            self.put_placed(last, line);
        }
    }

    /// A dirty line arrives at `core`'s last level.
    fn write_to_last(&mut self, core: usize, line: Line, index: u64, dirty: State) {
        if dirty.writer().is_none() || self.scope == Scope::FirstLevel {
            return;
        }
        let last = self.cores[core].last;
        self.put_placed(last, line);
        let level = &mut self.last[last].cache;
        let set = level.indexing.set(index);
        match level.cache.peek(set, line) {
            Some(state) => *state = state.merged(dirty),
            None => self.insert_last(last, line, set, dirty.moved()),
        }
    }

    fn insert_last(&mut self, last: usize, line: Line, set: u32, state: State) {
        let Some((victim, mut state)) = self.last[last].cache.cache.insert(set, line, state) else { return };
        if self.geometry.policy == LastLevelPolicy::Inclusive {
            for core in 0..self.cores.len() {
                if self.cores[core].last == last
                    && let Some(writer) = self.take_private(core, victim, false).and_then(State::writer)
                {
                    self.tallies.of(writer).l2_writebacks += 1;
                    state = state.written_by(writer);
                }
            }
        }
        self.book_left_last(last, victim, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::page_frames::Frames;
    use crate::hierarchy::writebacks::KnownFills;

    #[test]
    fn what_was_written_goes_to_memory_once() {
        let kinds = [
            (LastLevelPolicy::Victim, true),
            (LastLevelPolicy::Victim, false),
            (LastLevelPolicy::NonInclusive, false),
            (LastLevelPolicy::Inclusive, false),
        ];
        // With frames, which follow no rule.
        let frames = || PhysicalMap::Frames(Frames::made_up(200, mix), PageColoring::SmallPages, None);
        let by_rule = || PhysicalMap::Rule(PageColoring::SmallPages);
        for ((policy, l2_inclusive), whereabouts) in
            kinds.into_iter().flat_map(|kind| [by_rule(), frames()].map(|whereabouts| (kind, whereabouts)))
        {
            let level = |size, ways| Level { size, ways, shared_by: 2 };
            let (l1, l2, last) = (level(1 << 10, 2), Some(level(32 << 10, 4)), level(128 << 10, 4));
            let geometry = Geometry { l1, l2, last, policy, l2_inclusive, cores: 2 };
            let mut caches = Hierarchy::new(geometry, PageColoring::SmallPages, Scope::Whole);
            caches.know(whereabouts);
            caches.residencies = Some(CacheResidencies::default());
            caches.add_core(1);
            let owners = [(); 3].map(|()| caches.tallies.add());
            for i in 0..200_000 {
                let random = mix(i);
                let line = Line(0x1000 + random % 6000);
                let core = (random >> 20) as usize % 2;
                let (owner, store) = (owners[(random >> 30) as usize % 3], random >> 40 & 1 == 1);
                caches.access(core, owner, line, store);
                let copies = |core: usize| caches.cores[core].l2.as_ref().map_or(0, |l2| l2.cache.copies(line));
                assert!(copies(core) <= 1 && (!store || copies(1 - core) == 0), "{policy:?}: a line that others wrote");
            }
            caches.flush();
            let written =
                caches.residencies.take().unwrap().written(|_| KnownFills { stands_for: [1.0; 5], error: 0.0 });
            for (owner, tally) in owners.iter().zip(caches.tallies.plain()) {
                assert!(tally.last_writebacks > 0, "{policy:?} {tally:?}");
                assert!(tally.last_writebacks <= tally.l2_writebacks, "{policy:?} {tally:?}");
                assert_eq!(written[owner].lines, tally.last_writebacks as f64, "{policy:?}");
                assert!(tally.l1_taken_over > 0 && tally.l2_taken_over > 0, "{policy:?} {tally:?}");
                assert_eq!(tally.l1_dirtied - tally.l1_taken_over, tally.l1_writebacks, "{policy:?} {tally:?}");
                assert_eq!(tally.l2_dirtied - tally.l2_taken_over, tally.l2_writebacks, "{policy:?} {tally:?}");
            }
        }
    }
}
