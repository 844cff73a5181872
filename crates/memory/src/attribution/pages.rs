//! The pages that each instruction touched, in bounded memory: exact for few pages, thinned out beyond that.

use std::collections::HashSet;

use crate::address::page_color::SetSample;
use crate::caches::geometry::LINE_SHIFT;
use crate::caches::hash::Mixing;
use crate::caches::line::{Line, Owner};
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::memory::Access;
use rprof_profile::evidence::pages::{Mark, PagesEvidence, SitePages, is_kept};

/// Marks of all owners together: at most 5 MB.
const MOST_MARKS: usize = 1 << 18;
/// Lines of a page.
const PAGE_LINES: u64 = 64;

/// The touched pages, by owner.
#[derive(Debug)]
pub struct TouchedPages {
    classes: SetSample,
    most: usize,
    marks: usize,
    of: Vec<OwnPages>,
}

/// Pages of one owner.
#[derive(Debug, Default)]
struct OwnPages {
    /// The mark that was noted last, + 1.
    latest: u64,
    thinned: u32,
    marks: HashSet<u64, Mixing>,
}

impl TouchedPages {
    /// No pages yet. With several `classes`, only lines of class 0 are sure to be simulated.
    pub fn new(classes: SetSample) -> Self {
        TouchedPages { classes, most: MOST_MARKS, marks: 0, of: Vec::new() }
    }

    /// `owner` accesses memory of address space `space`.
    #[inline]
    pub fn note(&mut self, owner: Owner, space: u32, access: &Access) {
        let at = owner.0 as usize;
        if self.of.len() <= at {
            self.of.resize_with(at + 1, OwnPages::default);
        }
        for number in access.address >> LINE_SHIFT..=access.last_byte() >> LINE_SHIFT {
            let mark = self.mark(Line::of(number << LINE_SHIFT, space));
            let own = &mut self.of[at];
            if own.latest != mark.0 + 1 {
                own.latest = mark.0 + 1;
                self.add(at, mark);
            }
        }
    }

    fn mark(&self, line: Line) -> Mark {
        if self.classes == SetSample::ONE || self.classes.of(line) != 0 {
            Mark::page_seen(line.page())
        } else {
            Mark::line_seen(line.page(), line.in_page() / self.classes.count())
        }
    }

    fn add(&mut self, at: usize, mark: Mark) {
        let own = &mut self.of[at];
        if is_kept(mark.page(), own.thinned) && own.marks.insert(mark.0) {
            self.marks += 1;
            if self.marks > self.most {
                self.thin_out();
            }
        }
    }

    /// Halves the marks of the owners with the most of them until a quarter of the room is free.
    #[cold]
    fn thin_out(&mut self) {
        while self.marks > self.most / 4 * 3 {
            let most = self.of.iter().map(|own| own.marks.len()).max().unwrap_or(0);
            for own in self.of.iter_mut().filter(|own| own.marks.len() > most / 2) {
                own.thinned += 1;
                let thinned = own.thinned;
                own.marks.retain(|mark| is_kept(Mark(*mark).page(), thinned));
                own.marks.shrink_to_fit();
            }
            self.marks = self.of.iter().map(|own| own.marks.len()).sum();
        }
    }

    /// The pages by instruction; `place` returns the code of an owner.
    pub fn evidence(self, place: impl Fn(Owner) -> Option<CodeRef>) -> PagesEvidence {
        let sampled_lines = (self.classes != SetSample::ONE).then(|| (PAGE_LINES / self.classes.count()) as u32);
        let touched = (0..).map(Owner).zip(self.of).filter(|(_, own)| own.latest != 0);
        let sites = touched.filter_map(|(owner, own)| {
            let marks = own.marks.into_iter().map(Mark).collect();
            place(owner).map(|at| SitePages { at, thinned: own.thinned, marks })
        });
        PagesEvidence { sites: sites.collect(), sampled_lines, at_most: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;

    fn load(address: u64, bytes: u32) -> Access {
        Access { address, bytes, site: 0, kind: AccessKind::Load }
    }

    fn union(pages: TouchedPages) -> (f64, usize) {
        let evidence = pages.evidence(|_| Some(CodeRef { module: 0, offset: 0 }));
        (evidence.union(evidence.sites.iter()).pages, evidence.sites.len())
    }

    #[test]
    fn pages_are_told_apart_by_number_and_space() {
        let mut pages = TouchedPages::new(SetSample::ONE);
        (0..4096).for_each(|i| pages.note(Owner(0), 0, &load(0x1000 + i * 8, 8)));
        pages.note(Owner(2), 1, &load(0x1000, 8));
        pages.note(Owner(2), 0, &load(0x8ffc, 8));
        pages.note(Owner(2), 0, &load(0x10_0000, 3 * 4096));
        assert_eq!(union(pages), (8.0 + 1.0 + 1.0 + 3.0, 2));
    }

    #[test]
    fn many_pages_of_many_instructions_are_thinned_out() {
        let mut pages = TouchedPages { most: 4096, ..TouchedPages::new(SetSample::ONE) };
        for page in 0..200_000u64 {
            pages.note(Owner((page % 3) as u32), 0, &load(page << 12, 8));
        }
        (0..10).for_each(|page| pages.note(Owner(3), 0, &load(page << 12, 8)));
        assert!(pages.marks <= 4096, "{}", pages.marks);
        assert_eq!((pages.of[3].thinned, pages.of[3].marks.len()), (0, 10), "small ones stay exact");
        let (found, _) = union(pages);
        assert!((found / 200_000.0 - 1.0).abs() < 0.06, "{found}");
    }

    #[test]
    fn a_sample_of_lines_tells_dense_pages() {
        let classes = SetSample::for_sets(2048);
        let mut pages = TouchedPages::new(classes);
        for line in 0..640 * PAGE_LINES {
            let access = load(line * 64, 8);
            if classes.of(Line::of(access.address, 0)) == 0 {
                pages.note(Owner(0), 0, &access);
            }
        }
        assert_eq!(union(pages), (640.0, 1));
    }
}
