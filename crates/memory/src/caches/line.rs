//! A cache line's identity and the state a cache keeps with it.

use crate::caches::geometry::{LINE_BYTES, LINE_SHIFT};

/// A line of one address space: virtual address / 64, with the address space's number above bit 52.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line(pub u64);

const SPACE_SHIFT: u32 = 52;
/// log2 of the bytes in a 4 KiB page, and of the lines.
pub const PAGE_SHIFT: u32 = 12;
pub const PAGE_LINES_SHIFT: u32 = PAGE_SHIFT - LINE_SHIFT;

impl Line {
    /// Represents "no line" in tag arrays. No access can produce it: address spaces stop at 4,094.
    pub const NONE: Line = Line(u64::MAX);

    /// The line that holds `address` in address space `space` (the low 12 bits count, 4,095 is reserved).
    pub fn of(address: u64, space: u32) -> Line {
        Line((address >> LINE_SHIFT) & ((1 << SPACE_SHIFT) - 1) | u64::from(space % 0xfff) << SPACE_SHIFT)
    }

    /// The 4 KiB page that it lies in, address space included.
    pub fn page(self) -> u64 {
        self.0 >> PAGE_LINES_SHIFT
    }

    /// The number of that page in its address space.
    pub fn virtual_page(self) -> u64 {
        self.page() & ((1 << (SPACE_SHIFT - PAGE_LINES_SHIFT)) - 1)
    }

    /// Its position in its page, 0 to 63.
    pub fn in_page(self) -> u64 {
        self.0 & ((1 << PAGE_LINES_SHIFT) - 1)
    }

    /// The number that selects a cache's set if the line's page lies in this frame, or has this colour.
    #[inline]
    pub fn in_frame(self, frame: u64) -> u64 {
        self.in_page() | frame << PAGE_LINES_SHIFT
    }

    /// The group of 2^`log2` lines that it lies in, as if that were a line: a sample of one line in 2^`log2` has one of each group.
    pub fn group(self, log2: u32) -> Line {
        Line(self.0 >> log2)
    }

    /// The line `distance` lines further on.
    pub fn offset(self, distance: i64) -> Line {
        Line(self.0.wrapping_add_signed(distance))
    }
}

/// Bytes of a line, one bit each.
pub type Bytes = u64;

/// The `bytes` bytes of a line from `offset` on.
pub fn bytes_of_line(offset: u64, bytes: u64) -> Bytes {
    if bytes >= LINE_BYTES { Bytes::MAX } else { ((1 << bytes) - 1) << offset }
}

/// Index of one (instruction, thread) pair in the model's tallies, to which traffic is attributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub u32);

/// A cache's state of a line: its last writer if it is dirty, whether other cores may hold it, and whether another core's write took it
/// away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State(u32);

const SHARED: u32 = 1 << 31;
const LOST: u32 = 1 << 30;
const PASSED: u32 = 1 << 29;
const STALE: u32 = 1 << 28;
const IDLE: u32 = 1 << 27;
const ONLY_WRITTEN: u32 = 1 << 26;
const WHOLE: u32 = 1 << 25;
const WRITER: u32 = WHOLE - 1;

impl State {
    /// Clean, not shared.
    pub const CLEAN: State = State(0);

    /// Dirty by `owner`.
    pub fn dirty(owner: Owner) -> State {
        State((owner.0 + 1) & WRITER)
    }

    fn with(self, mark: u32, set: bool) -> State {
        if set { State(self.0 | mark) } else { State(self.0 & !mark) }
    }

    /// Its last writer; `None` if it is clean.
    pub fn writer(self) -> Option<Owner> {
        (self.0 & WRITER).checked_sub(1).map(Owner)
    }

    /// The same with `owner` as last writer, just now.
    pub fn written_by(self, owner: Owner) -> State {
        State(self.0 & !(WRITER | PASSED | STALE) | State::dirty(owner).0)
    }

    /// The same, clean.
    pub fn cleaned(self) -> State {
        State(self.0 & !(WRITER | PASSED | ONLY_WRITTEN | WHOLE))
    }

    /// A line that comes back into L2 from a victim cache.
    pub fn come_back(self) -> State {
        State(self.0 | PASSED)
    }

    /// Not used since an interval that was not simulated: the real cache may not hold the line any more.
    pub fn aged(self) -> State {
        State(self.0 | STALE | IDLE)
    }

    /// Not used since a window has begun to measure.
    pub fn idle(self) -> State {
        State(self.0 | IDLE)
    }

    /// Merged with the state of a `dirty` line that comes from another cache.
    pub fn merged(self, dirty: State) -> State {
        State(self.0 & !(WRITER | PASSED | STALE | IDLE | ONLY_WRITTEN) | dirty.moved().0)
    }

    /// The part of the state that moves with a line from cache to cache: its writer, whether it was only written, and whether it was used
    /// since an interval that was not simulated.
    pub fn moved(self) -> State {
        State(self.0 & (WRITER | ONLY_WRITTEN | STALE | IDLE))
    }

    /// Whether it was not used since an interval that was not simulated.
    pub fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// After another use.
    pub fn refreshed(self) -> State {
        State(self.0 & !(if self.is_stale() { STALE } else { IDLE }))
    }

    /// For a line from before an interval that was not simulated: it was not used in two different phases since, such as a window's
    /// warm-up and its measurement.
    pub fn is_idle(self) -> bool {
        self.0 & IDLE != 0
    }

    /// Whether a store brought it from memory, and it was only written before it left L1.
    pub fn is_only_written(self) -> bool {
        self.0 & ONLY_WRITTEN != 0
    }

    /// The same with the `only_written` mark set or cleared.
    pub fn with_only_written(self, only_written: bool) -> State {
        self.with(ONLY_WRITTEN, only_written)
    }

    /// In L1: whether it was overwritten whole, and not used since.
    pub fn is_whole(self) -> bool {
        self.0 & WHOLE != 0
    }

    /// The same with the `whole` mark set or cleared.
    pub fn with_whole(self, whole: bool) -> State {
        self.with(WHOLE, whole)
    }

    /// Whether it left L2 since it was last written: between L2 and the last level it counts as clean.
    pub fn has_passed(self) -> bool {
        self.0 & PASSED != 0
    }

    /// Whether other cores may hold it, too.
    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// The same with the shared mark set or cleared.
    pub fn with_shared(self, shared: bool) -> State {
        self.with(SHARED, shared)
    }

    /// Whether another core's write invalidated it: the place is free, the tag remembers the line.
    pub fn is_lost(self) -> bool {
        self.0 & LOST != 0
    }

    /// The state of a line that another core's write took away.
    pub fn lost() -> State {
        State(LOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_keep_their_parts_apart() {
        let state = State::CLEAN.with_shared(true).written_by(Owner(7));
        assert_eq!(state.writer(), Some(Owner(7)));
        assert!(state.is_shared() && !state.is_lost());
        assert_eq!(state.cleaned(), State::CLEAN.with_shared(true));
        assert_eq!(State::lost().writer(), None);
        let aged = state.aged();
        assert!(aged.is_stale() && !aged.refreshed().is_stale() && !aged.written_by(Owner(8)).is_stale());
        assert!(aged.refreshed().is_idle() && !aged.refreshed().refreshed().is_idle());
        assert!(aged.refreshed().refreshed().idle().is_idle() && !state.idle().refreshed().is_idle());
        let part = aged.moved();
        assert_eq!((part.writer(), part.is_shared(), part.is_stale()), (Some(Owner(7)), false, true));
        let back = state.come_back();
        assert!(back.has_passed() && back.writer() == Some(Owner(7)));
        assert!(!back.written_by(Owner(8)).has_passed() && !back.cleaned().has_passed());
        let whole = state.with_only_written(true);
        assert!(whole.is_only_written() && whole.writer() == Some(Owner(7)) && whole.moved().is_only_written());
        assert!(!whole.cleaned().is_only_written() && !whole.with_only_written(false).is_only_written());
        assert!(State::CLEAN.merged(whole).is_only_written() && !whole.merged(state).is_only_written());
    }

    #[test]
    fn address_spaces_do_not_meet() {
        assert_ne!(Line::of(0x1000, 0), Line::of(0x1000, 1));
        assert_eq!(Line::of(0x10ff, 3), Line::of(0x10c0, 3));
        assert_eq!(Line::of(u64::MAX, 0xfff).page() >> 46, 0);
        assert_eq!(Line::of(0x2fc0, 0).in_page(), 63);
        assert_eq!(Line::of(0x7fff_ffff_f000, 9).virtual_page(), 0x7_ffff_ffff);
    }
}
