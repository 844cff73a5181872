//! Lines that stores bring only to overwrite them: non-temporal stores would save these fills.
//!
//! A core gathers non-temporal stores to a line in one of few buffers (`write_combining.rs`), and writes the line to memory without
//! reading it if the stores cover all its bytes. A line that ordinary stores brought qualifies if all its bytes are written soon, before
//! any is read. The buffers do not limit the number of open lines: a programmer who rewrites the stores as whole vectors completes each
//! line at once. (This speeds a lattice-Boltzmann step with nine streams of stores up from 0.36 to 0.24 s.)

use std::collections::VecDeque;

use crate::caches::line::{Bytes, Line, Owner};

/// Maximum number of open lines: as many streams as whole vectors are stored to in turn; D3Q27 lattices have 27. A column of a matrix is
/// longer.
const OPEN: usize = 32;

/// Maximum number of closed lines that are remembered.
const MOST_CLOSED: usize = 64;
/// Places for lines that were overwritten whole, by their numbers: more than an L1 has.
const WHOLE_LINES: usize = 1 << 10;

/// The lines of one core that are being written, the one brought last at the end.
#[derive(Debug)]
pub struct Overwriting {
    open: Vec<Open>,
    /// Lines that had to make room before all their bytes were written: further stores open them again.
    closed: VecDeque<Line>,
    /// The owner that brought each line that was overwritten whole.
    whole: Vec<(Line, Owner)>,
}

impl Default for Overwriting {
    fn default() -> Self {
        Overwriting { open: Vec::new(), closed: VecDeque::new(), whole: vec![(Line::NONE, Owner(0)); WHOLE_LINES] }
    }
}

#[derive(Debug, Clone, Copy)]
struct Open {
    line: Line,
    written: Bytes,
    brought_by: Owner,
    /// Stores of that instruction to other lines since its last store to this one.
    others: usize,
    /// Its outcome was reported.
    told: bool,
}

/// Outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineOutcome {
    /// The owner that brought it.
    pub brought_by: Owner,
    /// All of it was written.
    pub whole: bool,
}

impl Open {
    fn told(&self) -> Option<LineOutcome> {
        let whole = self.written == Bytes::MAX;
        (!self.told).then_some(LineOutcome { brought_by: self.brought_by, whole })
    }
}

impl Overwriting {
    /// A store by `owner` brings `line`. Returns the outcome of the line that has to make room. A line that is open stays open: a buffer
    /// for non-temporal stores keeps lines that a cache gives up meanwhile because of other lines of their sets.
    pub fn bring(&mut self, line: Line, owner: Owner) -> Option<LineOutcome> {
        self.use_again(line);
        if let Some(open) = self.open.iter_mut().find(|open| open.line == line) {
            open.others = 0;
            return None;
        }
        if !self.closed.is_empty() {
            self.closed.retain(|closed| *closed != line);
        }
        self.make_room(Open { line, written: 0, brought_by: owner, others: 0, told: false })
    }

    /// A store finds `line` in a cache. If it had to make room before, it is open again. Returns the outcome of the line that has to make
    /// room now.
    #[inline]
    pub fn reopen(&mut self, line: Line) -> Option<LineOutcome> {
        if self.closed.is_empty() {
            return None;
        }
        let at = self.closed.iter().position(|closed| *closed == line)?;
        self.closed.remove(at);
        self.make_room(Open { line, written: 0, brought_by: Owner(0), others: 0, told: true })
    }

    fn make_room(&mut self, open: Open) -> Option<LineOutcome> {
        let gone = (self.open.len() == OPEN).then(|| self.open.remove(0));
        if let Some(gone) = &gone {
            self.close(gone.line);
        }
        self.open.push(open);
        gone.and_then(|gone| gone.told())
    }

    fn close(&mut self, line: Line) {
        if self.closed.len() == MOST_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back(line);
    }

    /// A line that was overwritten whole is used; returns the owner that brought it.
    pub fn use_again(&mut self, line: Line) -> Option<Owner> {
        let place = &mut self.whole[line.0 as usize % WHOLE_LINES];
        (place.0 == line).then(|| std::mem::replace(place, (Line::NONE, Owner(0))).1)
    }

    /// A store by `owner` to these bytes of `line`. Returns the outcome of this line, if it is whole now, or of one that waits too long
    /// for its remaining bytes.
    #[inline]
    pub fn store(&mut self, line: Line, bytes: Bytes, owner: Owner) -> Option<LineOutcome> {
        let (mut whole, mut late) = (None, None);
        for (at, open) in self.open.iter_mut().enumerate() {
            if open.line == line {
                open.others = 0;
                open.written |= bytes;
                whole = (open.written == Bytes::MAX).then_some(at);
            } else if open.brought_by == owner {
                // An instruction keeps each line that it stores to in turn open, even if it did not bring it just now.
                open.others += 1;
                late = (open.others >= OPEN).then_some(at).or(late);
            }
        }
        let gone = self.open.remove(whole.or(late)?);
        let told = gone.told()?;
        if told.whole {
            self.whole[line.0 as usize % WHOLE_LINES] = (line, told.brought_by);
        }
        Some(told)
    }

    /// A load from `line`; returns the line's outcome.
    #[inline]
    pub fn load(&mut self, line: Line) -> Option<LineOutcome> {
        let at = self.open.iter().position(|open| open.line == line)?;
        self.open.remove(at).told()
    }

    /// The next access does not follow the last one.
    pub fn clear(&mut self) {
        self.open.clear();
        self.closed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::line::bytes_of_line;

    const ONE: Owner = Owner(1);
    const WHOLE: Option<LineOutcome> = Some(LineOutcome { brought_by: ONE, whole: true });
    const PARTLY: Option<LineOutcome> = Some(LineOutcome { brought_by: ONE, whole: false });

    #[test]
    fn a_line_is_whole_when_all_its_bytes_were_written_before_any_was_read() {
        let mut lines = Overwriting::default();
        lines.bring(Line(1), ONE);
        let stores = (0..8).map(|i| lines.store(Line(1), bytes_of_line(i * 8, 8), Owner(i as u32)));
        assert_eq!(stores.collect::<Vec<_>>()[6..], [None, WHOLE]);
        assert_eq!(lines.store(Line(1), Bytes::MAX, ONE), None, "it was told");
        lines.bring(Line(2), ONE);
        lines.store(Line(2), bytes_of_line(0, 32), ONE);
        assert_eq!(lines.load(Line(2)), PARTLY);
        assert_eq!(lines.store(Line(2), bytes_of_line(32, 32), ONE), None, "it was read");
        lines.bring(Line(3), ONE);
        lines.store(Line(3), bytes_of_line(0, 32), ONE);
        assert_eq!(lines.bring(Line(3), Owner(7)), None, "it was gone from a cache meanwhile");
        assert_eq!(lines.store(Line(3), bytes_of_line(32, 32), Owner(7)), WHOLE);
    }

    #[test]
    fn streams_of_instructions_of_their_own_are_open_each() {
        let whole = |streams: u64| {
            let mut lines = Overwriting::default();
            let mut all = Vec::new();
            for (line, part, stream) in
                (0..50).flat_map(|i| (0..8).flat_map(move |p| (0..streams).map(move |s| (100 * s + i, p, s))))
            {
                let (line, owner) = (Line(line), Owner(stream as u32));
                all.extend(if part == 0 { lines.bring(line, owner) } else { lines.reopen(line) });
                all.extend(lines.store(line, bytes_of_line(8 * part, 8), owner));
            }
            all.iter().filter(|told| told.whole).count()
        };
        assert_eq!([1, 2, 9, 32, 33, 64].map(whole), [50, 100, 450, 1600, 0, 0]);
    }

    #[test]
    fn who_brought_a_line_is_known_when_it_is_used_again() {
        let mut lines = Overwriting::default();
        lines.bring(Line(1), ONE);
        assert_eq!(lines.store(Line(1), Bytes::MAX, Owner(2)), WHOLE);
        assert_eq!((lines.use_again(Line(1)), lines.use_again(Line(1))), (Some(ONE), None));
    }

    #[test]
    fn columns_have_too_many_lines_open() {
        let told = |rows: u64| {
            let mut lines = Overwriting::default();
            let mut all: Vec<LineOutcome> = (0..rows).filter_map(|row| lines.bring(Line(row), ONE)).collect();
            let stores = (0..8).flat_map(|i| (0..rows).map(move |row| (row, i)));
            all.extend(stores.filter_map(|(row, i)| lines.store(Line(row), bytes_of_line(8 * i, 8), ONE)));
            (all.len(), all.iter().filter(|told| told.whole).count())
        };
        assert_eq!([told(1), told(9), told(32), told(33), told(100)], [(1, 1), (9, 9), (32, 32), (33, 0), (100, 0)]);
    }
}
