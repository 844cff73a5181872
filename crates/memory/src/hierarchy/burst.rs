//! Conflicts in L2, from bursts in which all accesses are simulated.
//!
//! The sample of lines models L2 by classes, which follow from virtual addresses: it spreads strides of powers of two over more sets than
//! the frames of pages do. A burst of all accesses uses fewer lines than L2 holds. A line that leaves L2 meanwhile leaves because of a
//! conflict, and is missed if it is used again.

use std::collections::HashSet;

use crate::address::page_color::{Indexing, SetSample};
use crate::caches::geometry::Level;
use crate::caches::hash::Mixing;
use crate::caches::line::{Line, Owner, State};
use crate::caches::set_cache::{Lookup, SetCache};

/// Outcome of a line that passes through L2 to L1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// It did so in this burst before.
    pub again: bool,
    /// It did, and L2 does not hold it any more.
    pub conflict: bool,
    /// The last writer of a line that leaves L2 dirty to make room.
    pub pushed_out: Option<Owner>,
}

/// Lines of the present burst that one core's L2 holds.
#[derive(Debug)]
pub struct BurstL2 {
    cache: SetCache,
    indexing: Indexing,
    lines: usize,
    used: HashSet<Line, Mixing>,
    over: bool,
}

impl BurstL2 {
    /// For an L2 like this `level`.
    pub fn new(level: &Level) -> Self {
        let indexing = Indexing::new(level.sets(), SetSample::ONE);
        BurstL2 {
            cache: SetCache::with_sets(indexing.sets(), level.ways),
            indexing,
            lines: level.lines() as usize,
            used: HashSet::default(),
            over: false,
        }
    }

    /// The burst is over.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// `line`, in the set that follows from `index`, passes through L2 to L1.
    pub fn fill(&mut self, line: Line, index: u64) -> Fill {
        if self.over || self.used.len() >= self.lines {
            self.cache.clear();
            self.used.clear();
            self.over = false;
        }
        let set = self.indexing.set(index);
        let again = !self.used.insert(line);
        match self.cache.find(set, line) {
            Lookup::Hit(_) => Fill { again, conflict: false, pushed_out: None },
            Lookup::Lost | Lookup::Miss => {
                Fill { again, conflict: again, pushed_out: self.insert(set, line, State::CLEAN) }
            }
        }
    }

    /// `line`, written by `writer`, leaves L1. Returns the last writer of a line that leaves L2 dirty.
    pub fn write_back(&mut self, line: Line, index: u64, writer: Owner) -> Option<Owner> {
        let set = self.indexing.set(index);
        match self.cache.peek(set, line) {
            Some(state) => {
                *state = State::dirty(writer);
                None
            }
            // The state of lines from before the burst is unknown.
            None if self.over || !self.used.contains(&line) => None,
            None => self.insert(set, line, State::dirty(writer)),
        }
    }

    /// Another core takes `line`: if it comes again, that is no conflict.
    pub fn lose(&mut self, line: Line, index: u64) {
        if self.used.remove(&line) {
            self.cache.remove(self.indexing.set(index), line);
        }
    }

    fn insert(&mut self, set: u32, line: Line, state: State) -> Option<Owner> {
        self.cache.insert(set, line, state).and_then(|(_, state)| state.writer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_set_push_each_other_out() {
        let level = Level { size: 64 << 10, ways: 4, shared_by: 1 };
        let mut l2 = BurstL2::new(&level);
        let mut walk = |lines: u64, stride: u64| {
            l2.end();
            let (mut conflicts, mut reused, mut written) = (0, 0, 0);
            for i in 0..4 * lines {
                let line = Line(i % lines * stride);
                let fill = l2.fill(line, line.0);
                let more = l2.write_back(line, line.0, Owner(3));
                assert!(fill.again || !fill.conflict);
                conflicts += u32::from(fill.conflict);
                reused += u32::from(fill.again);
                written += fill.pushed_out.iter().chain(&more).count();
            }
            (conflicts, reused, written)
        };
        let sets = u64::from(level.sets());
        assert_eq!(walk(5, sets), (15, 15, 16), "all but the first round; the last four lines are still there");
        assert_eq!(walk(4, sets), (0, 12, 0));
        assert_eq!(walk(5, sets + 1), (0, 15, 0));
        assert_eq!(walk(level.lines(), 1).0, 0, "all that it holds");
        // More lines than it holds are no conflict.
        assert_eq!(walk(3 * level.lines(), 1).0, 0);
    }

    #[test]
    fn a_line_that_another_core_took_is_no_conflict() {
        let mut l2 = BurstL2::new(&Level { size: 64 << 10, ways: 4, shared_by: 1 });
        let fresh = Fill { again: false, conflict: false, pushed_out: None };
        assert_eq!(l2.fill(Line(7), 7), fresh);
        l2.lose(Line(7), 7);
        assert_eq!(l2.fill(Line(7), 7), fresh);
    }
}
