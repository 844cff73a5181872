//! The lines that were ever fetched, which separates compulsory misses from the others.

use crate::caches::line::Line;
use rprof_basics::random::mix;

/// Maximum slots of the page table, 64 MiB; seven eighths are used: 14 GiB of footprint.
const MAX_SLOTS: usize = 1 << 22;
/// Bits of the overflow table for the pages beyond that.
const OVERFLOW_BITS: u64 = 1 << 27;

/// A set of lines: one 64-bit mask per page, in an open-addressing table that doubles up to 4 Mi slots.
///
/// Lines of pages beyond that share the bits of a 16 MiB hash table, which may report an unseen line as seen: [`SeenLines::false_seen`] is
/// the probability.
#[derive(Debug)]
pub struct SeenLines {
    pages: Vec<u64>,
    masks: Vec<u64>,
    used: usize,
    max_slots: usize,
    overflow: Vec<u64>,
    overflow_used: u64,
}

impl SeenLines {
    /// An empty set.
    pub fn new() -> Self {
        Self::with_slots(MAX_SLOTS)
    }

    /// An empty set with a page table of at most `max_slots`, a power of two not below 1,024.
    fn with_slots(max_slots: usize) -> Self {
        SeenLines {
            pages: vec![u64::MAX; 1024],
            masks: vec![0; 1024],
            used: 0,
            max_slots,
            overflow: Vec::new(),
            overflow_used: 0,
        }
    }

    /// Adds `line`; true if it was not there.
    pub fn first(&mut self, line: Line) -> bool {
        let (page, bit) = (line.page(), 1u64 << line.in_page());
        if let Some(slot) = self.slot(page) {
            let fresh = self.masks[slot] & bit == 0;
            self.masks[slot] |= bit;
            return fresh;
        }
        if self.overflow.is_empty() {
            self.overflow = vec![0; (OVERFLOW_BITS / 64) as usize];
        }
        let at = mix(line.0) % OVERFLOW_BITS;
        let word = &mut self.overflow[(at / 64) as usize];
        let fresh = *word >> (at % 64) & 1 == 0;
        *word |= 1 << (at % 64);
        self.overflow_used += u64::from(fresh);
        fresh
    }

    /// Addresses `from` to `to`, whole pages of address space `space`, were unmapped: a new mapping there is new. Pages beyond the table's
    /// limit are not forgotten. Returns whether any line there had been seen.
    pub fn forget(&mut self, space: u32, from: u64, to: u64) -> bool {
        let (first, end) = (Line::of(from, space).page(), Line::of(to.saturating_sub(1), space).page() + 1);
        let mut any = 0;
        if end.saturating_sub(first) < self.pages.len() as u64 {
            for page in first..end {
                if let Some(slot) = self.find(page) {
                    any |= std::mem::take(&mut self.masks[slot]);
                }
            }
        } else {
            let there = self.pages.iter().zip(&mut self.masks).filter(|(page, _)| (first..end).contains(*page));
            any = there.fold(0, |any, (_, mask)| any | std::mem::take(mask));
        }
        any != 0
    }

    /// Probability that an unseen line is reported as seen: 0 up to 14 GiB of footprint.
    pub fn false_seen(&self) -> f64 {
        self.overflow_used as f64 / OVERFLOW_BITS as f64
    }

    /// The slot of `page`, if it has one.
    fn find(&self, page: u64) -> Option<usize> {
        let at = self.probe(page);
        (self.pages[at] == page).then_some(at)
    }

    /// The slot of `page`, or the free one in which the search for it ends.
    fn probe(&self, page: u64) -> usize {
        let mask = self.pages.len() - 1;
        let mut at = mix(page) as usize & mask;
        while self.pages[at] != page && self.pages[at] != u64::MAX {
            at = (at + 1) & mask;
        }
        at
    }

    /// The slot of `page`, taken if it is new; `None` if it is new and the table is at its limit.
    fn slot(&mut self, page: u64) -> Option<usize> {
        let at = self.probe(page);
        if self.pages[at] == page {
            return Some(at);
        }
        if self.used * 8 >= self.pages.len() * 7 {
            if self.pages.len() >= self.max_slots {
                return None;
            }
            self.grow();
            return self.slot(page);
        }
        self.pages[at] = page;
        self.used += 1;
        Some(at)
    }

    fn grow(&mut self) {
        let size = self.pages.len() * 2;
        let pages = std::mem::replace(&mut self.pages, vec![u64::MAX; size]);
        let masks = std::mem::replace(&mut self.masks, vec![0; size]);
        for (page, bits) in pages.into_iter().zip(masks).filter(|(page, _)| *page != u64::MAX) {
            let at = self.probe(page);
            (self.pages[at], self.masks[at]) = (page, bits);
        }
    }
}

impl Default for SeenLines {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_new_once() {
        let mut seen = SeenLines::new();
        assert!((0..1_000_000).all(|i| seen.first(Line(i * 3))));
        assert!((0..1_000_000).all(|i| !seen.first(Line(i * 3))));
        assert!(seen.first(Line(1)));
        assert_eq!(seen.false_seen(), 0.0);
    }

    #[test]
    fn what_comes_where_something_was_unmapped_is_new() {
        const PAGES: u64 = 5_000;
        let line = |space, page: u64, n: u64| Line::of((page << 12) + 64 * n, space);
        let all = || [1, 2].into_iter().flat_map(|space| (0..PAGES).map(move |page| (space, page)));
        let mut seen = SeenLines::new();
        let mut fresh = || all().filter(|&(space, page)| seen.first(line(space, page, page % 64))).count() as u64;
        assert_eq!((fresh(), fresh()), (2 * PAGES, 0));
        let mut again = |from: u64, to: u64| {
            let any = seen.forget(1, from, to);
            let again = all().filter(|&(space, page)| seen.first(line(space, page, page % 64))).count() as u64;
            assert_eq!(any, again > 0);
            again
        };
        assert_eq!(again(100 << 12, 350 << 12), 250, "of one space alone");
        assert_eq!(again(PAGES << 12, (PAGES + 10) << 12), 0, "nothing was there");
        assert_eq!(again(0, u64::MAX), PAGES, "more than the table has");
        assert_eq!(seen.used as u64, 2 * PAGES, "slots are used again");
    }

    #[test]
    fn beyond_the_limit_it_errs_as_it_says() {
        let mut seen = SeenLines::with_slots(4096);
        let lines = 4_000_000;
        let fresh = (0..lines).filter(|&i| seen.first(Line(i * 64))).count() as f64;
        assert!(seen.false_seen() > 0.02);
        assert!(1.0 - fresh / lines as f64 <= seen.false_seen());
        assert!((0..lines).all(|i| !seen.first(Line(i * 64))));
    }
}
