//! Places in which a burst's accesses found their lines and pages.

use rprof_profile::evidence::bursts::{Found, TracedAccess, Translation};
use rprof_profile::machine::Cache;

use crate::sets::{Keys, Sets};

/// Assumes small pages; the memory model decides which of them are huge.
pub(super) const PAGE_BITS: u32 = 12;
pub(super) const LINE_BITS: u32 = 6;
/// Entries and ways of the translation buffers; assumed, they differ little between cores of the last ten years.
pub(super) const FIRST_TLB: (usize, usize) = (64, 4);
pub(super) const SECOND_TLB: (usize, usize) = (2048, 16);
/// Caches assumed if the machine's are not known.
pub(super) const ASSUMED_L1: (usize, usize) = (32 << 10, 8);
pub(super) const ASSUMED_L2: (usize, usize) = (1 << 20, 16);
/// Lines of one access that the caches look up; the rest of a longer string counts the same way.
const LONGEST: u64 = 64;

/// Caches and translation buffers of one thread, emptied for each burst.
#[derive(Debug, Clone)]
pub(super) struct Caches {
    l1: Sets,
    l2: Sets,
    first_tlb: Sets,
    second_tlb: Sets,
    used: Keys,
    generation: u64,
    last_line: u64,
    last_page: u64,
}

impl Caches {
    pub(super) fn new(caches: &[Cache]) -> Caches {
        let sized = |level: u32, assumed: (usize, usize)| {
            let found = caches.iter().find(|cache| cache.level == level && cache.line == 1 << LINE_BITS);
            let (bytes, ways) = found.map_or(assumed, |cache| (cache.size as usize, cache.ways as usize));
            Sets::new(bytes >> LINE_BITS, ways)
        };
        Caches {
            l1: sized(1, ASSUMED_L1),
            l2: sized(2, ASSUMED_L2),
            first_tlb: Sets::new(FIRST_TLB.0, FIRST_TLB.1),
            second_tlb: Sets::new(SECOND_TLB.0, SECOND_TLB.1),
            used: Keys::new(),
            generation: 0,
            last_line: u64::MAX,
            last_page: u64::MAX,
        }
    }

    /// Forgets everything: contents from before the last pause are stale.
    pub(super) fn empty(&mut self) {
        self.generation += 1;
        self.used.clear();
        (self.last_line, self.last_page) = (u64::MAX, u64::MAX);
    }

    /// An access.
    #[inline]
    pub(super) fn meet(&mut self, access: &TracedAccess) -> (Found, Translation) {
        let first = access.address >> LINE_BITS;
        let last = access.address.saturating_add(u64::from(access.bytes.max(1)) - 1) >> LINE_BITS;
        if first == last && first == self.last_line {
            return (Found::L1, Translation::First);
        }
        let mut found = Found::L1;
        let mut translation = Translation::First;
        for line in first..=last.min(first + LONGEST) {
            found = farther(found, self.line(line));
            let page = line >> (PAGE_BITS - LINE_BITS);
            if page != self.last_page {
                self.last_page = page;
                translation = slower(translation, self.page(page));
            }
        }
        self.last_line = last;
        (found, translation)
    }

    fn line(&mut self, line: u64) -> Found {
        let key = self.key(line);
        if self.l1.meet(line, key) {
            return Found::L1;
        }
        // L2 is indexed by physical addresses: pages lie anywhere in it.
        let within = line & ((1 << (PAGE_BITS - LINE_BITS)) - 1);
        let scattered = (line >> (PAGE_BITS - LINE_BITS)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let again = self.used.insert(key);
        if self.l2.meet(within | scattered << (PAGE_BITS - LINE_BITS), key) {
            return Found::L2;
        }
        Found::Beyond { again }
    }

    fn page(&mut self, page: u64) -> Translation {
        let key = self.key(page);
        if self.first_tlb.meet(page, key) {
            Translation::First
        } else if self.second_tlb.meet(page, key) {
            Translation::Second
        } else {
            Translation::Walk
        }
    }

    fn key(&self, number: u64) -> u64 {
        number & ((1 << 48) - 1) | self.generation << 48
    }
}

/// The level that is farther from the core.
pub(super) fn farther(a: Found, b: Found) -> Found {
    let rank = |found| match found {
        Found::L1 => 0,
        Found::L2 => 1,
        Found::L3 => 2,
        Found::Beyond { again: true } => 3,
        Found::Beyond { again: false } => 4,
        Found::Memory => 5,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// The translation that takes longer.
pub(super) fn slower(a: Translation, b: Translation) -> Translation {
    let rank = |translation| match translation {
        Translation::First => 0,
        Translation::Second => 1,
        Translation::Walk => 2,
    };
    if rank(b) > rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;

    fn read(address: u64) -> TracedAccess {
        TracedAccess { address, bytes: 8, offset: 0, kind: AccessKind::Load }
    }

    #[test]
    fn lines_are_found_by_how_long_ago_they_were_used() {
        let mut caches = Caches::new(&[]);
        caches.empty();
        let mut sweep = |lines: u64| {
            let mut found = (0, 0, 0, 0);
            for line in 0..lines {
                match caches.meet(&read((1 << 30) | (line * 64))).0 {
                    Found::L1 => found.0 += 1,
                    Found::L2 => found.1 += 1,
                    Found::Beyond { again: true } => found.2 += 1,
                    Found::Beyond { again: false } => found.3 += 1,
                    Found::L3 | Found::Memory => unreachable!("a burst does not know"),
                }
            }
            found
        };
        assert_eq!(sweep(256), (0, 0, 0, 256));
        assert_eq!(sweep(256), (256, 0, 0, 0));
        assert_eq!(sweep(4096), (256, 0, 0, 3840));
        let (l1, l2, _, _) = sweep(4096);
        assert!(l1 == 0 && l2 > 3900, "{l1} {l2}");
    }

    #[test]
    fn pages_miss_the_translation_buffers_in_turn() {
        let mut caches = Caches::new(&[]);
        caches.empty();
        let mut last = Translation::First;
        for _ in 0..3 {
            for page in 0..1024u64 {
                last = caches.meet(&read(page << 12)).1;
            }
        }
        assert_eq!(last, Translation::Second);
        for _ in 0..2 {
            for page in 0..8192u64 {
                last = caches.meet(&read(page << 12)).1;
            }
        }
        assert_eq!(last, Translation::Walk);
    }
}
