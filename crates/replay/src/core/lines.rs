//! Lines that a burst touched: when first, and when they arrive in L1.

/// Places, as a power of two.
const BITS: u32 = 13;

/// A line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    line: u64,
    /// Cycle of the request.
    pub asked: u32,
    /// Cycle in which its data can be used.
    pub arrives: u32,
    /// Cause of the wait.
    pub level: u8,
    /// Instructions on a wrong path asked for it; nothing on the right one has used it yet.
    pub early: bool,
}

/// A table by line; newer lines push out older ones.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    places: Vec<Line>,
}

const EMPTY: Line = Line { line: u64::MAX, asked: 0, arrives: 0, level: 0, early: false };

impl Lines {
    pub(super) fn new() -> Lines {
        Lines { places: vec![EMPTY; 1 << BITS] }
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(EMPTY);
    }

    #[inline]
    fn place(line: u64) -> usize {
        // Neighbouring lines do not push out one another.
        ((line ^ (line >> BITS).wrapping_mul(0x9e37_79b9)) & ((1 << BITS) - 1)) as usize
    }

    #[inline]
    pub(super) fn get(&self, line: u64) -> Option<&Line> {
        Some(&self.places[Lines::place(line)]).filter(|held| held.line == line)
    }

    #[inline]
    pub(super) fn insert(&mut self, line: u64, asked: u32, arrives: u32, level: u8, early: bool) {
        self.places[Lines::place(line)] = Line { line, asked, arrives, level, early };
    }

    /// The line is used: no longer early.
    #[inline]
    pub(super) fn use_early(&mut self, line: u64) {
        self.places[Lines::place(line)].early = false;
    }
}
