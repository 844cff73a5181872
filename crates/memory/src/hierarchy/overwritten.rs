//! Lines that stores bring: whether they are overwritten whole, and whether they are used again before they leave.
//!
//! The first follows from a contiguous run of accesses, as in exact runs and bursts; the second from requests to memory.

use super::{Hierarchy, Outcome, Scope};
use crate::caches::line::{Bytes, Line, Owner, State};
use crate::classify::overwriting::LineOutcome;

/// The line is used: returns its last writer, if it was only written since it came.
#[inline]
pub(super) fn use_again(state: &mut State) -> Option<Owner> {
    if !state.is_only_written() {
        return None;
    }
    *state = state.with_only_written(false);
    state.writer()
}

impl Hierarchy {
    /// An access by `core` found `line` with this `outcome`; a store has `written` these bytes of it.
    #[inline]
    pub fn note_overwriting(
        &mut self,
        core: usize,
        owner: Owner,
        line: Line,
        written: Option<Bytes>,
        outcome: Outcome,
    ) {
        let Some(overwriting) = &mut self.cores[core].overwriting else { return };
        let Some(bytes) = written else {
            let told = overwriting.load(line);
            return self.book_told(told);
        };
        let brings = if self.scope == Scope::FirstLevel { Outcome::Miss } else { Outcome::Memory };
        let made_room = if outcome == brings { overwriting.bring(line, owner) } else { overwriting.reopen(line) };
        let told = overwriting.store(line, bytes, owner);
        self.book_told(made_room);
        self.book_told(told);
        if told.is_some_and(|told| told.whole) {
            let set = self.l1_indexing.set(line.0);
            let state = self.cores[core].l1.peek(set, line);
            state.into_iter().for_each(|state| *state = state.with_whole(true));
        }
    }

    /// A line that was overwritten whole is used while L1 still has it: L1 was a better place for it than memory.
    #[cold]
    pub(super) fn book_rewritten(&mut self, core: usize, line: Line) {
        let brought_by = self.cores[core].overwriting.as_mut().and_then(|overwriting| overwriting.use_again(line));
        if let Some(brought_by) = brought_by {
            let tally = self.tallies.of(brought_by);
            tally.overwritten = tally.overwritten.saturating_sub(1);
        }
    }

    #[inline]
    fn book_told(&mut self, told: Option<LineOutcome>) {
        if let Some(LineOutcome { brought_by, whole }) = told {
            let tally = self.tallies.of(brought_by);
            tally.told_fills += 1;
            tally.overwritten += u64::from(whole);
        }
    }

    /// A line that `writer` only wrote is used again, if there is such a writer.
    #[inline]
    pub(super) fn book_used_again(&mut self, writer: Option<Owner>) {
        if let Some(writer) = writer {
            self.tallies.of(writer).used_again += 1;
        }
    }

    /// Another core uses a line with these states in L1 and L2.
    pub(super) fn book_used_by_other(&mut self, copies: [Option<State>; 2]) {
        let only_written = copies.into_iter().flatten().find(|state| state.is_only_written());
        self.book_used_again(only_written.and_then(State::writer));
    }
}
