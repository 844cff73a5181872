//! Events that concern all lines at once: pauses, windows, and the end of the program.

use super::Hierarchy;
use crate::caches::line::{Line, State};
use crate::hierarchy::writebacks::CacheResidencies;

impl Hierarchy {
    /// Ends the run: non-temporal lines and all dirty lines go to memory.
    pub fn flush(&mut self) {
        let clean: Option<Vec<_>> = self.residencies.is_some().then(|| {
            let all = self.lines_behind_l1();
            all.filter(|(.., state)| state.writer().is_none()).collect()
        });
        for core in 0..self.cores.len() {
            for owner in self.cores[core].combiner.drain() {
                self.tallies.of(owner).nt_lines += 1;
            }
            for (line, state) in self.cores[core].l1.drain_dirty() {
                self.victim_of_l1(core, line, state);
            }
            let dirty = self.cores[core].l2.as_mut().map(|l2| l2.cache.drain_dirty()).unwrap_or_default();
            for (line, state) in dirty {
                self.victim_of_l2(core, line, state);
            }
        }
        for last in 0..self.last.len() {
            for (line, state) in self.last[last].cache.cache.drain_dirty() {
                self.book_left_last(last, line, state);
            }
        }
        for (last, line, state) in clean.into_iter().flatten() {
            self.book_left_last(last, line, state);
        }
    }

    /// The lines of all caches beyond L1, with the number of their last level.
    fn lines_behind_l1(&self) -> impl Iterator<Item = (usize, Line, State)> + '_ {
        let private = self.cores.iter().filter_map(|core| Some((core.last, &core.l2.as_ref()?.cache)));
        let shared = self.last.iter().enumerate().map(|(last, level)| (last, &level.cache.cache));
        let caches = private.chain(shared);
        caches.flat_map(|(last, cache)| cache.lines().map(move |(line, state)| (last, line, state)))
    }

    /// An interval passes that is not simulated: the content of the caches beyond L1 may have changed afterwards.
    pub fn age(&mut self) {
        if let Some(mut residencies) = self.residencies.take() {
            residencies.pause(self.lines_behind_l1());
            self.residencies = Some(residencies);
        }
        self.mark(State::aged);
    }

    /// The second half of the program's start begins.
    pub fn half_time(&mut self) {
        self.residencies.iter_mut().for_each(CacheResidencies::half_time);
        self.mark(State::idle);
    }

    /// A window begins to measure. `outlasts`: the pause before it did not turn the last level over.
    pub fn measure(&mut self, outlasts: bool) {
        self.residencies.iter_mut().for_each(|residencies| residencies.measure(outlasts));
        self.mark(State::idle);
    }

    fn mark(&mut self, mark: fn(State) -> State) {
        self.cores.iter_mut().filter_map(|core| core.l2.as_mut()).for_each(|l2| l2.cache.mark(mark));
        self.last.iter_mut().for_each(|last| last.cache.cache.mark(mark));
    }

    /// The stays of lines in the caches, as far as they were followed.
    pub fn residencies(&mut self) -> Option<&mut CacheResidencies> {
        self.residencies.as_mut()
    }
}
