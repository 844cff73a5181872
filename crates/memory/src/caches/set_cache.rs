//! One set-associative cache with true LRU replacement.
//!
//! A set is a run of `ways` tags, most recently used first: a hit in the first way, by far the most common one, changes nothing; any
//! other hit rotates the run. Free ways are at the end of the run.

use crate::caches::line::{Line, State};

/// The tags and states of one cache.
#[derive(Debug)]
pub struct SetCache {
    ways: usize,
    tags: Vec<Line>,
    states: Vec<State>,
}

/// Result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// The line is here and is now the most recently used of its set.
    Hit(&'a mut State),
    /// It is not here.
    Miss,
    /// It was here until another core wrote it.
    Lost,
}

impl SetCache {
    /// An empty cache of `sets` × `ways`.
    pub fn with_sets(sets: u32, ways: u32) -> Self {
        let (sets, ways) = (sets.max(1), ways.max(1) as usize);
        let lines = sets as usize * ways;
        SetCache { ways, tags: vec![Line::NONE; lines], states: vec![State::CLEAN; lines] }
    }

    /// Looks for `line` in `set` and makes it the most recently used.
    #[inline]
    pub fn find(&mut self, set: u32, line: Line) -> Lookup<'_> {
        let first = set as usize * self.ways;
        if self.tags[first] == line && !self.states[first].is_lost() {
            return Lookup::Hit(&mut self.states[first]);
        }
        self.find_further(first, line)
    }

    fn find_further(&mut self, first: usize, line: Line) -> Lookup<'_> {
        let tags = &mut self.tags[first..first + self.ways];
        let Some(way) = tags.iter().position(|&tag| tag == line) else { return Lookup::Miss };
        let states = &mut self.states[first..first + self.ways];
        if states[way].is_lost() {
            (tags[way], states[way]) = (Line::NONE, State::CLEAN);
            tags[way..].rotate_left(1);
            states[way..].rotate_left(1);
            return Lookup::Lost;
        }
        let state = states[way];
        for i in (0..way).rev() {
            (tags[i + 1], states[i + 1]) = (tags[i], states[i]);
        }
        (tags[0], states[0]) = (line, state);
        Lookup::Hit(&mut states[0])
    }

    /// The state of `line` without counting as a use.
    pub fn peek(&mut self, set: u32, line: Line) -> Option<&mut State> {
        let first = set as usize * self.ways;
        let way = self.tags[first..first + self.ways].iter().position(|&tag| tag == line)?;
        Some(&mut self.states[first + way]).filter(|state| !state.is_lost())
    }

    /// Puts `line`, which must not be here, into `set` as the most recently used. Returns the line that had to go.
    pub fn insert(&mut self, set: u32, line: Line, state: State) -> Option<(Line, State)> {
        let first = set as usize * self.ways;
        let tags = &mut self.tags[first..first + self.ways];
        let states = &mut self.states[first..first + self.ways];
        debug_assert!(!tags.contains(&line), "{line:?} inserted twice");
        let last = self.ways - 1;
        let evicted = (tags[last], states[last]);
        for i in (0..last).rev() {
            (tags[i + 1], states[i + 1]) = (tags[i], states[i]);
        }
        (tags[0], states[0]) = (line, state);
        (evicted.0 != Line::NONE && !evicted.1.is_lost()).then_some(evicted)
    }

    /// Takes `line` out and returns its state.
    pub fn remove(&mut self, set: u32, line: Line) -> Option<State> {
        let state = self.peek(set, line).map(std::mem::take)?;
        let first = set as usize * self.ways;
        let tags = &mut self.tags[first..first + self.ways];
        let way = tags.iter().position(|&tag| tag == line)?;
        tags[way] = Line::NONE;
        tags[way..].rotate_left(1);
        self.states[first + way..first + self.ways].rotate_left(1);
        Some(state)
    }

    /// Takes `line` out because another core wrote it: its place is free, but [`Lookup::Lost`] remembers it until the
    /// place is used.
    pub fn invalidate(&mut self, set: u32, line: Line) -> Option<State> {
        let state = self.remove(set, line)?;
        let last = (set as usize + 1) * self.ways - 1;
        (self.tags[last], self.states[last]) = (line, State::lost());
        Some(state)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.tags.fill(Line::NONE);
        self.states.fill(State::CLEAN);
    }

    /// Number of places that hold `line`, whatever their sets.
    #[cfg(test)]
    pub fn copies(&self, line: Line) -> usize {
        self.tags.iter().zip(&self.states).filter(|(tag, state)| **tag == line && !state.is_lost()).count()
    }

    /// Applies `mark` to the state of all lines.
    pub fn mark(&mut self, mark: impl Fn(State) -> State) {
        self.states.iter_mut().filter(|state| !state.is_lost()).for_each(|state| *state = mark(*state));
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = (Line, State)> + '_ {
        let all = self.tags.iter().copied().zip(self.states.iter().copied());
        all.filter(|&(line, state)| line != Line::NONE && !state.is_lost())
    }

    /// Takes all lines out and returns the dirty ones.
    pub fn drain_dirty(&mut self) -> Vec<(Line, State)> {
        let dirty = self.tags.iter().zip(&self.states).filter(|(_, state)| state.writer().is_some());
        let dirty: Vec<_> = dirty.map(|(line, state)| (*line, *state)).collect();
        self.tags.fill(Line::NONE);
        self.states.fill(State::CLEAN);
        dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::line::Owner;

    fn fill(cache: &mut SetCache, lines: std::ops::Range<u64>) -> Vec<u64> {
        lines.filter_map(|l| cache.insert(0, Line(l), State::CLEAN)).map(|(line, _)| line.0).collect()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = SetCache::with_sets(1, 4);
        assert!(fill(&mut cache, 0..4).is_empty());
        assert!(matches!(cache.find(0, Line(0)), Lookup::Hit(_)));
        assert_eq!(fill(&mut cache, 4..8), [1, 2, 3, 0]);
    }

    #[test]
    fn a_removed_line_leaves_a_free_way() {
        let mut cache = SetCache::with_sets(1, 4);
        fill(&mut cache, 0..4);
        assert_eq!(cache.remove(0, Line(2)), Some(State::CLEAN));
        assert_eq!(fill(&mut cache, 4..6), [0]);
    }

    #[test]
    fn a_lost_line_is_remembered_until_its_place_is_used() {
        let mut cache = SetCache::with_sets(1, 2);
        fill(&mut cache, 0..2);
        assert!(cache.invalidate(0, Line(1)).is_some());
        assert!(cache.peek(0, Line(1)).is_none());
        assert_eq!(cache.find(0, Line(1)), Lookup::Lost);
        assert_eq!(cache.find(0, Line(1)), Lookup::Miss);
        fill(&mut cache, 1..2);
        cache.invalidate(0, Line(1));
        assert!(fill(&mut cache, 2..3).is_empty());
        assert_eq!(cache.find(0, Line(1)), Lookup::Miss);
    }

    #[test]
    fn dirty_lines_are_drained() {
        let mut cache = SetCache::with_sets(2, 2);
        cache.insert(0, Line(4), State::dirty(Owner(9)));
        cache.insert(1, Line(5), State::CLEAN);
        assert_eq!(cache.drain_dirty(), [(Line(4), State::dirty(Owner(9)))]);
        assert!(cache.drain_dirty().is_empty());
    }
}
