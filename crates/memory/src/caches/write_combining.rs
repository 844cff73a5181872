//! The buffers in which a core gathers non-temporal stores to a line before they go to memory.

use crate::caches::line::{Bytes, Line, Owner};

/// Buffers of a core: Zen has 8 or more, Intel 10 to 16; a partial line leaves when a further one is needed.
const BUFFERS: usize = 12;

/// Non-temporal stores on their way, oldest first.
#[derive(Debug, Default)]
pub struct WriteCombiner {
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    line: Line,
    /// The bytes of the line written so far.
    written: Bytes,
    owner: Owner,
}

impl WriteCombiner {
    /// Whether no line is in the buffers.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a part of `line` is in the buffers.
    pub fn holds(&self, line: Line) -> bool {
        self.open.iter().any(|open| open.line == line)
    }

    /// A store to these bytes of `line`. Returns the owner of a line that goes to memory because of
    /// it: this one, now complete, or the oldest one, which has to make room.
    pub fn store(&mut self, line: Line, written: Bytes, owner: Owner) -> Option<Owner> {
        let at = self.open.iter().position(|open| open.line == line);
        if written | at.map_or(0, |at| self.open[at].written) == Bytes::MAX {
            if let Some(at) = at {
                self.open.remove(at);
            }
            return Some(owner);
        }
        match at {
            Some(at) => {
                self.open[at].written |= written;
                self.open[at].owner = owner;
                None
            }
            None => {
                let evicted = (self.open.len() == BUFFERS).then(|| self.open.remove(0).owner);
                self.open.push(Open { line, written, owner });
                evicted
            }
        }
    }

    /// An ordinary access to `line`: the buffered part goes to memory first. Returns its owner.
    pub fn take(&mut self, line: Line) -> Option<Owner> {
        let at = self.open.iter().position(|open| open.line == line)?;
        Some(self.open.remove(at).owner)
    }

    /// Empties the buffers; returns the owners of the lines.
    pub fn drain(&mut self) -> Vec<Owner> {
        self.open.drain(..).map(|open| open.owner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::line::bytes_of_line;

    #[test]
    fn a_complete_line_leaves_once() {
        let mut buffers = WriteCombiner::default();
        let left: Vec<_> =
            (0..8).filter_map(|i| buffers.store(Line(1), bytes_of_line(u64::from(i) * 8, 8), Owner(i))).collect();
        assert_eq!(left, [Owner(7)]);
        assert_eq!(buffers.store(Line(1), bytes_of_line(0, 64), Owner(3)), Some(Owner(3)));
        assert!(buffers.is_empty());
    }

    #[test]
    fn partial_lines_make_room_oldest_first() {
        let mut buffers = WriteCombiner::default();
        let left: Vec<_> =
            (0..14).filter_map(|i| buffers.store(Line(i.into()), bytes_of_line(0, 8), Owner(i))).collect();
        assert_eq!(left, [Owner(0), Owner(1)]);
        assert_eq!(buffers.take(Line(5)), Some(Owner(5)));
        assert_eq!(buffers.drain().len(), BUFFERS - 1);
    }
}
