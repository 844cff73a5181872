//! Non-temporal stores: past the caches.

use super::{Core, Hierarchy, group};
use crate::caches::line::{Bytes, Line, Owner};

impl Hierarchy {
    /// A non-temporal store by `core` to these bytes of `line`: past the caches, which give the line up.
    /// True if it is the first one to the line for a while.
    pub fn store_past(&mut self, core: usize, owner: Owner, line: Line, written: Bytes) -> bool {
        let first = !self.cores[core].combiner.holds(line);
        if first {
            self.groups[group(line)] += 1;
            self.book_page(owner, line);
            self.give_up(core, line);
        }
        if let Some(gone) = self.cores[core].combiner.store(line, written, owner) {
            self.tallies.of(gone).nt_lines += 1;
        }
        first
    }

    /// `line` leaves all caches; a dirty copy goes to memory.
    fn give_up(&mut self, core: usize, line: Line) {
        self.take_from_others(core, line);
        if let Some(state) = self.take_private(core, line, false) {
            self.book_left_l2(state);
            self.book_left_last(self.cores[core].last, line, state);
        }
        let Core { l1_shadow, l2_shadow, last, .. } = &mut self.cores[core];
        let last = &mut self.last[*last].shadow;
        l1_shadow.iter_mut().chain([l2_shadow, last]).for_each(|shadow| shadow.remove(line));
        let index = self.whereabouts.index(line);
        let last = self.cores[core].last;
        self.lose_placed(last, line);
        let level = &mut self.last[last].cache;
        if let Some(state) = level.cache.remove(level.indexing.set(index), line) {
            self.book_left_last(last, line, state);
        }
    }
}
