//! Lines that stores bring only to overwrite them: what non-temporal stores would spare.
//!
//! A core gathers non-temporal stores to a line in one of few buffers (`write_combining.rs`), and sends it to memory without
//! having read it if all its bytes came together there. Whether ordinary stores would do as well is asked of lines that such
//! stores brought: all bytes have to be written soon, before any is read.

use super::geometry::LINE_BYTES;
use super::line::{Line, Owner};

/// Buffers that are counted on; a core has 10 or 12, of which others take some.
const BUFFERS: usize = 8;

/// Bytes of a line, one bit each.
pub type Bytes = u64;

/// The `bytes` bytes of a line from `offset` on.
pub fn bytes_of_line(offset: u64, bytes: u64) -> Bytes {
    if bytes >= LINE_BYTES { Bytes::MAX } else { ((1 << bytes) - 1) << offset }
}

/// The lines of one core that are being written, the one brought last at the end.
#[derive(Debug, Default)]
pub struct Overwriting {
    open: Vec<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    line: Line,
    written: Bytes,
    brought_by: Owner,
    /// Stores of that instruction to other lines since the last one to this.
    others: usize,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Who brought it.
    pub brought_by: Owner,
    /// All of it was written.
    pub whole: bool,
}

impl Open {
    fn told(&self) -> Told {
        Told { brought_by: self.brought_by, whole: self.written == Bytes::MAX }
    }
}

impl Overwriting {
    /// A store by `owner` brings `line`. What became of the line that has to make room.
    pub fn bring(&mut self, line: Line, owner: Owner) -> Option<Told> {
        let again = self.open.iter().position(|open| open.line == line);
        let goes = again.or((self.open.len() == BUFFERS).then_some(0));
        let told = goes.map(|at| self.open.remove(at).told());
        self.open.push(Open { line, written: 0, brought_by: owner, others: 0 });
        told
    }

    /// A store by `owner` to these bytes of `line`. What became of a line because of it: of this one, if it is whole now, or of one
    /// that waits too long for its rest.
    #[inline]
    pub fn store(&mut self, line: Line, bytes: Bytes, owner: Owner) -> Option<Told> {
        let (mut whole, mut late) = (None, None);
        for (at, open) in self.open.iter_mut().enumerate() {
            if open.line == line {
                open.others = 0;
                open.written |= bytes;
                whole = (open.written == Bytes::MAX).then_some(at);
            } else if open.brought_by == owner {
                // Each line that an instruction stores to in turn needs a buffer, whether it was brought just now or not.
                open.others += 1;
                late = (open.others >= BUFFERS).then_some(at).or(late);
            }
        }
        whole.or(late).map(|at| self.open.remove(at).told())
    }

    /// A load from `line`. What became of that.
    #[inline]
    pub fn load(&mut self, line: Line) -> Option<Told> {
        let at = self.open.iter().position(|open| open.line == line)?;
        Some(self.open.remove(at).told())
    }

    /// What comes next does not follow what came before.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owner = Owner(1);
    const WHOLE: Option<Told> = Some(Told { brought_by: ONE, whole: true });
    const PARTLY: Option<Told> = Some(Told { brought_by: ONE, whole: false });

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
        assert_eq!(lines.bring(Line(3), ONE), PARTLY, "it was gone meanwhile");
    }

    #[test]
    fn lines_that_are_written_in_turn_need_a_buffer_each() {
        let told = |rows: u64| {
            let mut lines = Overwriting::default();
            let mut all: Vec<Told> = (0..rows).filter_map(|row| lines.bring(Line(row), ONE)).collect();
            let stores = (0..8).flat_map(|i| (0..rows).map(move |row| (row, i)));
            all.extend(stores.filter_map(|(row, i)| lines.store(Line(row), bytes_of_line(8 * i, 8), ONE)));
            (all.len(), all.iter().filter(|told| told.whole).count())
        };
        assert_eq!([told(1), told(8), told(9), told(100)], [(1, 1), (8, 8), (9, 0), (100, 0)]);
    }
}
