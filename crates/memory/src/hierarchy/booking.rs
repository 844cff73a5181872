//! Counts events of lines for the owners that caused them.

use super::Hierarchy;
use crate::caches::line::{Line, Owner, State};

impl Hierarchy {
    /// A line in this state leaves L2.
    pub(super) fn book_left_l2(&mut self, state: State) {
        if let Some(writer) = state.writer()
            && !state.has_passed()
        {
            self.tallies.of(writer).l2_writebacks += 1;
        }
    }

    /// A store of `writer` to `line` in `core`'s L1 reaches its L2, or passes through it; `old` is the line's state there, if it was
    /// there.
    pub(super) fn book_dirtied(&mut self, core: usize, line: Line, old: Option<State>, writer: Owner) {
        if let Some(l2) = &mut self.cores[core].placed_l2
            && let Some(before) = l2.write_back(line, &self.whereabouts, writer)
        {
            self.tallies.of(writer).placed_dirtied += 1;
            before.into_iter().for_each(|before| self.tallies.of(before).placed_taken_over += 1);
        }
        let before = old.filter(|old| !old.has_passed()).and_then(State::writer);
        if before == Some(writer) {
            return;
        }
        self.tallies.of(writer).l2_dirtied += 1;
        before.into_iter().for_each(|before| self.tallies.of(before).l2_taken_over += 1);
    }

    /// `line` comes from memory, or is stored past the caches.
    pub(super) fn book_page(&mut self, owner: Owner, line: Line) {
        let huge = self.whereabouts.on_huge_page(line);
        let tally = self.tallies.of(owner);
        tally.on_small_pages += u64::from(huge == Some(false));
        tally.on_huge_pages += u64::from(huge == Some(true));
    }

    /// `owner` found a line in its place from before an interval that was not simulated, if it is `stale`.
    pub(super) fn book_stale(&mut self, owner: Owner, stale: bool) {
        self.tallies.of(owner).stale += u64::from(stale);
        self.stale += u64::from(stale);
    }

    /// `line` leaves last level `last` in this state.
    pub(super) fn book_left_last(&mut self, last: usize, line: Line, state: State) {
        if let Some(residencies) = &mut self.residencies {
            residencies.end(last, line, state, self.tallies.stratum());
        }
        if let Some(writer) = state.writer() {
            self.tallies.of(writer).last_writebacks += 1;
        }
    }
}
