//! Data caches and translation buffers of the reference core, for one thread. Nothing is fetched ahead here: the core model decides which
//! lines a prefetcher foresaw.

use rprof_profile::evidence::bursts::{Found, TracedAccess, Translation};
use rprof_profile::machine::Cache;

use super::frames::Frames;
use crate::recorder::caches::{ASSUMED_L1, ASSUMED_L2, FIRST_TLB, LINE_BITS, PAGE_BITS, SECOND_TLB, farther, slower};
use crate::sets::Sets;

/// The last level that is assumed if the machine's is not known: (bytes, ways).
const ASSUMED_L3: (usize, usize) = (32 << 20, 16);
/// Lines of a page, as a power of two.
const LINES_BITS: u32 = PAGE_BITS - LINE_BITS;

/// All of them, replaced by LRU.
#[derive(Debug)]
pub(super) struct Hierarchy {
    l1: Sets,
    l2: Sets,
    l3: Sets,
    first_tlb: Sets,
    second_tlb: Sets,
    frames: Frames,
    last_line: u64,
    last_page: u64,
}

impl Hierarchy {
    /// Empty ones of these sizes.
    pub(super) fn new(caches: &[Cache]) -> Hierarchy {
        let sized = |level: u32, assumed: (usize, usize)| {
            let found = caches.iter().find(|cache| cache.level == level && cache.line == 1 << LINE_BITS);
            let (bytes, ways) = found.map_or(assumed, |cache| (cache.size as usize, cache.ways as usize));
            Sets::new(bytes >> LINE_BITS, ways)
        };
        Hierarchy {
            l1: sized(1, ASSUMED_L1),
            l2: sized(2, ASSUMED_L2),
            l3: sized(3, ASSUMED_L3),
            first_tlb: Sets::new(FIRST_TLB.0, FIRST_TLB.1),
            second_tlb: Sets::new(SECOND_TLB.0, SECOND_TLB.1),
            frames: Frames::default(),
            last_line: u64::MAX,
            last_page: u64::MAX,
        }
    }

    /// An access: the farthest level of its lines, and the slowest translation of its pages.
    #[inline]
    pub(super) fn meet(&mut self, access: &TracedAccess) -> (Found, Translation) {
        let first = access.address >> LINE_BITS;
        let last = access.address.saturating_add(u64::from(access.bytes.max(1)) - 1) >> LINE_BITS;
        if first == last && first == self.last_line {
            return (Found::L1, Translation::First);
        }
        let (mut found, mut translation) = (Found::L1, Translation::First);
        for line in first..=last {
            let page = line >> LINES_BITS;
            if page != self.last_page {
                self.last_page = page;
                translation = slower(translation, self.page(page));
            }
            found = farther(found, self.line(line, page));
        }
        self.last_line = last;
        (found, translation)
    }

    #[inline]
    fn line(&mut self, line: u64, page: u64) -> Found {
        // L1 is indexed by bits within the page; a key of 0 is none.
        if self.l1.meet(line, line + 1) {
            return Found::L1;
        }
        let physical = self.frames.frame(page) << LINES_BITS | line & ((1 << LINES_BITS) - 1);
        // Both levels learn of the line.
        let (in_l2, in_l3) = (self.l2.meet(physical, physical + 1), self.l3.meet(physical, physical + 1));
        match (in_l2, in_l3) {
            (true, _) => Found::L2,
            (false, true) => Found::L3,
            (false, false) => Found::Memory,
        }
    }

    fn page(&mut self, page: u64) -> Translation {
        if self.first_tlb.meet(page, page + 1) {
            Translation::First
        } else if self.second_tlb.meet(page, page + 1) {
            Translation::Second
        } else {
            Translation::Walk
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;

    fn hierarchy() -> Hierarchy {
        let cache = |level, size| Cache { level, size, ways: 8, line: 64, shared_by: 1 };
        Hierarchy::new(&[cache(1, 32 << 10), cache(2, 256 << 10), cache(3, 4 << 20)])
    }

    fn read(address: u64, bytes: u32) -> TracedAccess {
        TracedAccess { address, bytes, offset: 0, kind: AccessKind::Load }
    }

    /// How the last of four sweeps over `bytes` finds its lines, if all alike.
    fn sweep(bytes: u64) -> Found {
        let mut hierarchy = hierarchy();
        let mut last = Vec::new();
        for _ in 0..4 {
            last = (0..bytes / 64).map(|line| hierarchy.meet(&read((1 << 30) + 64 * line, 8)).0).collect();
        }
        last.dedup();
        assert_eq!(last.len(), 1, "{last:?}");
        last[0]
    }

    #[test]
    fn lines_are_found_in_the_smallest_cache_that_holds_the_sweep() {
        assert_eq!(sweep(16 << 10), Found::L1);
        assert_eq!(sweep(128 << 10), Found::L2);
        assert_eq!(sweep(2 << 20), Found::L3);
        assert_eq!(sweep(16 << 20), Found::Memory);
    }

    #[test]
    fn pages_at_a_large_power_of_two_do_not_compete_for_sets() {
        // Two lines of each of 512 pages, 1 MiB apart: physical memory is contiguous, so L2 holds them.
        let mut hierarchy = hierarchy();
        let mut misses = 0;
        for round in 0..4 {
            for page in 0..512u64 {
                for line in [0, 1 + page % 63] {
                    let (found, _) = hierarchy.meet(&read((page << 20) + 64 * line, 8));
                    misses += usize::from(round > 0 && found == Found::Memory);
                }
            }
        }
        assert_eq!(misses, 0);
    }

    #[test]
    fn a_string_touches_all_its_lines() {
        let mut hierarchy = hierarchy();
        assert_eq!(hierarchy.meet(&read(0x10_0000, 64 << 10)).0, Found::Memory);
        assert_eq!(hierarchy.meet(&read(0x10_0000, 8)).0, Found::L2, "too long for L1");
        assert_eq!(hierarchy.meet(&read(0x10_ffc0, 8)).0, Found::L1);
    }
}
