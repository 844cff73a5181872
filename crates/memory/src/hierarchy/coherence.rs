//! Transfers: effects of one core's access on the line in the caches of other cores and in other last levels.

use super::{Core, Hierarchy};
use crate::caches::line::{Line, State};
use crate::caches::set_cache::SetCache;

impl Hierarchy {
    /// Removes `line` from `core`'s private caches and returns its merged state; a dirty L1 copy counts as having left L1. `lost`: leave a
    /// mark that another core took it.
    pub(super) fn take_private(&mut self, core: usize, line: Line, lost: bool) -> Option<State> {
        let take = |cache: &mut SetCache, set| if lost { cache.invalidate(set, line) } else { cache.remove(set, line) };
        let (set, index) = (self.l1_indexing.set(line.0), self.whereabouts.index(line));
        let Core { l1, l2, burst_l2, .. } = &mut self.cores[core];
        burst_l2.iter_mut().for_each(|l2| l2.lose(line, index));
        let inner = take(l1, set);
        let outer = l2.as_mut().and_then(|l2| take(&mut l2.cache, l2.indexing.set(index)));
        let writer = inner.and_then(State::writer);
        if let Some(writer) = writer {
            self.tallies.write_back_l1(writer);
            if lost {
                self.tallies.hand_over(writer);
            }
            self.book_dirtied(core, line, outer, writer);
        }
        if lost {
            self.book_used_by_other([inner, outer]);
        }
        self.cores[core].placed_l2.iter_mut().for_each(|l2| l2.lose(line, &self.whereabouts));
        let state = outer.or(inner)?;
        let only_written = !lost && inner.filter(|_| writer.is_some()).or(outer).is_some_and(State::is_only_written);
        Some(writer.map_or(state, |writer| state.written_by(writer)).with_only_written(only_written))
    }

    /// A write by `core`: the other cores lose `line`, a dirty copy goes to its last level. True if one had it.
    pub(super) fn take_from_others(&mut self, core: usize, line: Line) -> bool {
        let mut had = false;
        if self.cores.len() == 1 {
            return had;
        }
        let index = self.whereabouts.index(line);
        for other in (0..self.cores.len()).filter(|&other| other != core) {
            let Some(state) = self.take_private(other, line, true) else { continue };
            had = true;
            self.book_left_l2(state);
            self.write_to_last(other, line, index, state);
        }
        self.settle_remote(self.cores[core].last, line, index, true);
        had
    }

    /// A read by `core`: copies of `line` in other cores become shared and clean. True if one had it.
    pub(super) fn share_with_others(&mut self, core: usize, line: Line) -> bool {
        let mut had = false;
        let (set, index) = (self.l1_indexing.set(line.0), self.whereabouts.index(line));
        for other in (0..self.cores.len()).filter(|&other| other != core) {
            let Core { l1, l2, .. } = &mut self.cores[other];
            let share = |state: &mut State| std::mem::replace(state, state.cleaned().with_shared(true));
            let inner = l1.peek(set, line).map(share);
            let outer = l2.as_mut().and_then(|l2| l2.cache.peek(l2.indexing.set(index), line).map(share));
            had |= inner.is_some() || outer.is_some();
            self.book_used_by_other([inner, outer]);
            let inner = inner.filter(|state| state.writer().is_some());
            if let Some(writer) = inner.and_then(State::writer) {
                self.tallies.write_back_l1(writer);
                self.tallies.hand_over(writer);
                self.book_dirtied(other, line, outer, writer);
            }
            self.cores[other].placed_l2.iter_mut().for_each(|l2| l2.clean(line, &self.whereabouts));
            if let Some(state) = inner.or(outer) {
                let state = state.with_only_written(false);
                self.book_left_l2(state);
                self.write_to_last(other, line, index, state);
            }
        }
        had
    }

    /// Settles the copies in other last levels than `own` of a line that is used here: dirty ones go to memory; a write removes them.
    pub(super) fn settle_remote(&mut self, own: usize, line: Line, index: u64, store: bool) {
        for other in (0..self.last.len()).filter(|&other| other != own) {
            if store {
                self.lose_placed(other, line);
            }
            let level = &mut self.last[other].cache;
            let set = level.indexing.set(index);
            let state = if store {
                level.cache.remove(set, line)
            } else {
                level.cache.peek(set, line).map(|state| std::mem::replace(state, state.cleaned()))
            };
            if let Some(state) = state {
                self.book_used_by_other([Some(state), None]);
                self.book_left_last(other, line, state);
            }
        }
    }
}
