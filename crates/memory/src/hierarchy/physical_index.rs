//! L2 and the last level of the sample of lines once more, with the real frames of pages.
//!
//! Lines of class 0 have whole sets only if the class and the set follow from the same number, which assumes that pages have colours
//! evenly (`address/page_color.rs`). The frames of small pages have random colours: in a working set about as large as L2 some colours
//! have more pages than ways, others fewer, and a third of its lines may be missed. Here a line's set follows from the colour of its frame
//! and from the bits of its position in the page that do not determine the class. Positions that differ only in the other bits are merged;
//! a fully used page has one line in the sample for each merged position. This model is right about L2 misses of such pages. It spreads
//! lines a page apart, which share one position, over all positions
//! ([`Tally::with_placed_l2`](crate::attribution::tally::Tally::with_placed_l2) combines the two models). The same holds for the
//! last level ([`Tally::with_placed_last`](crate::attribution::tally::Tally::with_placed_last)), which receives the requests and
//! victims of the L2 by classes.

use super::Hierarchy;
use crate::address::page_color::{Indexing, SetSample};
use crate::address::physical::PhysicalMap;
use crate::caches::line::{Line, Owner, PAGE_LINES_SHIFT, State};
use crate::caches::set_cache::{Lookup, SetCache};

/// The sampled part of one core's L2.
#[derive(Debug)]
pub struct PhysicallyIndexedL2 {
    cache: SetCache,
    indexing: Indexing,
}

impl PhysicallyIndexedL2 {
    /// With the sets that lines of class 0 use.
    pub fn new(indexing: Indexing, ways: u32) -> Self {
        PhysicallyIndexedL2 { cache: SetCache::with_sets(indexing.sets(), ways), indexing }
    }

    /// `line` enters L1: returns whether L2 has it; afterwards it does.
    pub fn find(&mut self, line: Line, pages: &PhysicalMap) -> bool {
        let set = self.set(line, pages);
        if matches!(self.cache.find(set, line), Lookup::Hit(_)) {
            return true;
        }
        self.cache.insert(set, line, State::CLEAN);
        false
    }

    /// `line`, dirty by `writer`, leaves L1. If it was not dirty here by the same owner: its last writer here, if it was dirty.
    pub fn write_back(&mut self, line: Line, pages: &PhysicalMap, writer: Owner) -> Option<Option<Owner>> {
        let set = self.set(line, pages);
        match self.cache.peek(set, line) {
            Some(state) => {
                let before = std::mem::replace(state, State::dirty(writer)).writer();
                (before != Some(writer)).then_some(before)
            }
            None => {
                self.cache.insert(set, line, State::dirty(writer));
                Some(None)
            }
        }
    }

    /// Another core takes `line`.
    pub fn lose(&mut self, line: Line, pages: &PhysicalMap) {
        self.cache.remove(self.set(line, pages), line);
    }

    /// Another core reads `line`.
    pub fn clean(&mut self, line: Line, pages: &PhysicalMap) {
        let state = self.cache.peek(self.set(line, pages), line);
        state.into_iter().for_each(|state| *state = state.cleaned());
    }

    fn set(&self, line: Line, pages: &PhysicalMap) -> u32 {
        self.indexing.set(pages.placed(line))
    }
}

/// A part of the sampled part of one last level: lines at one place of their pages, because frame look-ups are slow. If the numbers of
/// sets are powers of two these lines have sets of their own.
#[derive(Debug)]
pub struct PlacedLast {
    cache: SetCache,
    indexing: Indexing,
    /// log2 of the number of classes, and of the places in a page that lines of one class have.
    class_bits: u32,
    place_bits: u32,
}

impl PlacedLast {
    /// With some of the sets that lines of class 0 use.
    pub fn new(indexing: Indexing, ways: u32, classes: SetSample) -> Self {
        let class_bits = classes.count().ilog2();
        let places = if indexing.sets().is_power_of_two() { PAGE_LINES_SHIFT - class_bits } else { 0 };
        let place_bits = places.min(indexing.sets().ilog2());
        let cache = SetCache::with_sets(indexing.sets() >> place_bits, ways);
        PlacedLast { cache, indexing, class_bits, place_bits }
    }

    /// Whether `line` is one of those that are simulated.
    #[inline]
    fn has(&self, line: Line) -> bool {
        line.in_page() >> self.class_bits & ((1 << self.place_bits) - 1) == 0
    }

    /// The set of a line with this number of its place in memory.
    fn set(&self, placed: u64) -> u32 {
        self.indexing.set(placed) >> self.place_bits
    }

    /// A request for `line`, which leaves the cache if it `takes` it; returns whether the cache had it.
    fn find(&mut self, line: Line, placed: u64, takes: bool) -> bool {
        let set = self.set(placed);
        match takes {
            true => self.cache.remove(set, line).is_some(),
            false => matches!(self.cache.find(set, line), Lookup::Hit(_)),
        }
    }

    /// `line` enters the cache, if it is not there.
    fn put(&mut self, line: Line, placed: u64) {
        let set = self.set(placed);
        if self.cache.peek(set, line).is_none() {
            self.cache.insert(set, line, State::CLEAN);
        }
    }
}

/// A request to a last level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The line leaves the last level.
    pub takes: bool,
    /// Other cores have it.
    pub held_elsewhere: bool,
}

impl Hierarchy {
    /// `owner` requests `line` from last level `last`.
    pub(super) fn ask_placed(&mut self, last: usize, owner: Owner, line: Line, asked: Asked) {
        let Some(level) = self.last[last].placed.as_mut().filter(|level| level.has(line)) else { return };
        let placed = self.whereabouts.placed_in_frames(line);
        let tally = self.tallies.of(owner);
        tally.placed_last_asked += 1;
        if level.find(line, placed, asked.takes) || asked.held_elsewhere {
            return;
        }
        tally.placed_last_fills += 1;
        if !asked.takes {
            level.put(line, placed);
        }
    }

    /// A line comes from memory to last level `last`, according to the model by classes.
    pub(super) fn book_beside_placed(&mut self, last: usize, owner: Owner, line: Line) {
        let beside = self.last[last].placed.as_ref().is_some_and(|level| level.has(line));
        self.tallies.of(owner).beside_placed += u64::from(beside);
    }

    /// `line` comes from L2 to last level `last`.
    pub(super) fn put_placed(&mut self, last: usize, line: Line) {
        if let Some(level) = self.last[last].placed.as_mut().filter(|level| level.has(line)) {
            level.put(line, self.whereabouts.placed_in_frames(line));
        }
    }

    /// Last level `last` loses `line` to others, or to memory.
    pub(super) fn lose_placed(&mut self, last: usize, line: Line) {
        if let Some(level) = self.last[last].placed.as_mut().filter(|level| level.has(line)) {
            level.find(line, self.whereabouts.placed_in_frames(line), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::huge_pages::HugePages;
    use crate::address::page_color::{PageColoring, SetSample};
    use crate::caches::geometry::Level;

    #[test]
    fn it_tells_what_is_dirty_by_whom() {
        let level = Level { size: 1 << 20, ways: 16, shared_by: 1 };
        let mut l2 =
            PhysicallyIndexedL2::new(Indexing::new(level.sets(), SetSample::for_sets(level.sets())), level.ways);
        let pages = PhysicalMap::Kinds(HugePages::new(PageColoring::SmallPages).unwrap(), None);
        let (line, one, other) = (Line(0x1240), Owner(1), Owner(2));
        assert!(!l2.find(line, &pages) && l2.find(line, &pages));
        assert_eq!(l2.write_back(line, &pages, one), Some(None), "it was clean");
        assert_eq!(l2.write_back(line, &pages, one), None, "it was dirty already");
        assert_eq!(l2.write_back(line, &pages, other), Some(Some(one)), "taken over");
        l2.clean(line, &pages);
        assert_eq!(l2.write_back(line, &pages, other), Some(None));
        l2.lose(line, &pages);
        assert!(!l2.find(line, &pages));
        assert_eq!(l2.write_back(Line(0x99), &pages, one), Some(None), "it was not there");
    }

    #[test]
    fn pages_have_colours_at_random_or_by_their_frames() {
        let pages = |frames| PhysicalMap::Kinds(HugePages::new(PageColoring::SmallPages).unwrap(), frames);
        let sets = |pages: &PhysicalMap| -> Vec<u64> {
            let mut of_color = vec![0; 16];
            (0..256).for_each(|page| of_color[(pages.placed(Line(page << 6)) >> 6) as usize % 16] += 1);
            of_color
        };
        assert_eq!(
            sets(&pages(Some(crate::address::page_frames::Frames::made_up(256, |page| page + 7)))),
            vec![16; 16]
        );
        let at_random = sets(&pages(None));
        assert!(at_random.iter().any(|&n| n > 19) && at_random.iter().any(|&n| n < 13), "{at_random:?}");
    }
}
