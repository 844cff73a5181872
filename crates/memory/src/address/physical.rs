//! The places of a program's lines in physical memory, as far as known: they index the levels beyond L1.

use crate::address::huge_pages::HugePages;
use crate::address::page_color::PageColoring;
use crate::address::page_frames::Frames;
use crate::caches::line::{Line, PAGE_SHIFT};
use rprof_profile::evidence::memory::Access;

/// The knowledge of physical addresses.
#[derive(Debug)]
pub enum PhysicalMap {
    /// None: this rule places all pages.
    Rule(PageColoring),
    /// Which pages are huge; each kind has its rule. And the frames of small pages, if known, for [`PhysicalMap::placed`].
    Kinds(HugePages, Option<Frames>),
    /// The same with frames, made up for huge pages. Not for a sample of lines: a class follows from virtual addresses, and has whole sets
    /// only of pages placed by these.
    KindsInFrames(HugePages),
    /// The frames of pages, and a rule for pages without one; which pages are huge, if wanted. Not for a sample of lines either.
    Frames(Frames, PageColoring, Option<HugePages>),
}

impl PhysicalMap {
    /// Whether lines have frames, known or made up.
    pub fn has_frames(&self) -> bool {
        matches!(self, PhysicalMap::Frames(..) | PhysicalMap::KindsInFrames(_))
    }

    /// Whether [`placed`](Self::placed) is better than [`index`](Self::index).
    pub fn places(&self) -> bool {
        matches!(self, PhysicalMap::Kinds(..))
    }

    /// Whether the frames of pages are known.
    pub fn knows_frames(&self) -> bool {
        matches!(self, PhysicalMap::Frames(..) | PhysicalMap::Kinds(_, Some(_)))
    }

    /// `process` has just made `accesses` in address space `space`, and still exists, so that the kernel can be asked about its pages.
    pub fn meet(&mut self, process: u32, space: u32, accesses: &[Access]) {
        match self {
            PhysicalMap::Rule(_) => {}
            PhysicalMap::Kinds(pages, frames) => {
                for access in accesses {
                    pages.meet(process, space, access.address, access.last_byte());
                    let line = Line::of(access.address, space);
                    frames
                        .iter_mut()
                        .for_each(|frames| frames.meet_if(process, line, || pages.holds(line) != Some(true)));
                }
                pages.end_batch();
                frames.iter_mut().for_each(Frames::end_batch);
            }
            PhysicalMap::KindsInFrames(pages) => {
                accesses.iter().for_each(|access| pages.meet(process, space, access.address, access.last_byte()));
                pages.end_batch();
            }
            PhysicalMap::Frames(frames, _, kinds) => {
                for access in accesses {
                    let pages = access.address >> PAGE_SHIFT..=access.last_byte() >> PAGE_SHIFT;
                    pages.for_each(|page| frames.meet(process, Line::of(page << PAGE_SHIFT, space)));
                    kinds.iter_mut().for_each(|k| k.meet(process, space, access.address, access.last_byte()));
                }
                frames.end_batch();
                kinds.iter_mut().for_each(HugePages::end_batch);
            }
        }
    }

    /// Addresses `from` to `to` of address space `space` were unmapped.
    pub fn forget(&mut self, space: u32, from: u64, to: u64) {
        match self {
            PhysicalMap::Rule(_) => {}
            PhysicalMap::Kinds(pages, frames) => {
                pages.forget(space, from, to);
                frames.iter_mut().for_each(|frames| frames.forget(space, from, to));
            }
            PhysicalMap::KindsInFrames(pages) => pages.forget(space, from, to),
            PhysicalMap::Frames(frames, _, kinds) => {
                frames.forget(space, from, to);
                kinds.iter_mut().for_each(|kinds| kinds.forget(space, from, to));
            }
        }
    }

    /// The number that selects the set of `line`: position in the page, frame or colour above it.
    #[inline]
    pub fn index(&self, line: Line) -> u64 {
        match self {
            PhysicalMap::Rule(rule) => rule.index(line),
            PhysicalMap::Kinds(pages, _) => pages.placement(line).index(line),
            PhysicalMap::KindsInFrames(pages) => pages.placement(line).index_by_frame(line),
            PhysicalMap::Frames(frames, rule, _) => match frames.of(line) {
                Some(frame) => line.in_frame(frame),
                None => rule.index(line),
            },
        }
    }

    /// The same by the frame of its page, or by a random one, for a sample of lines in pages that are used whole, if
    /// [more than a rule](Self::places) is known.
    #[inline]
    pub fn placed(&self, line: Line) -> u64 {
        self.by_frame(line, PageColoring::index)
    }

    /// The same for caches that hash frames ([`Indexing::of_frames`](crate::address::page_color::Indexing::of_frames)): huge pages
    /// have frames, too.
    #[inline]
    pub fn placed_in_frames(&self, line: Line) -> u64 {
        self.by_frame(line, PageColoring::index_by_frame)
    }

    #[inline]
    fn by_frame(&self, line: Line, of_huge_pages: fn(PageColoring, Line) -> u64) -> u64 {
        let PhysicalMap::Kinds(pages, frames) = self else { return self.index(line) };
        match pages.placement(line) {
            PageColoring::SmallPages => match frames.as_ref().and_then(|frames| frames.of(line)) {
                Some(frame) => line.in_frame(frame),
                None => PageColoring::SmallPages.index_by_frame(line),
            },
            rule => of_huge_pages(rule, line),
        }
    }

    /// Whether `line` lies in a huge page; `None` if that is not known.
    pub fn on_huge_page(&self, line: Line) -> Option<bool> {
        match self {
            PhysicalMap::Rule(_) => None,
            PhysicalMap::Kinds(pages, _) | PhysicalMap::KindsInFrames(pages) => pages.holds(line),
            PhysicalMap::Frames(.., kinds) => kinds.as_ref()?.holds(line),
        }
    }

    /// In words: the addresses that index the levels beyond L1.
    pub fn in_words(&self) -> String {
        match self {
            PhysicalMap::Rule(rule) => rule.in_words().into(),
            PhysicalMap::Kinds(pages, frames) => {
                let words = pages.in_words();
                if frames.is_some() {
                    format!("{words}; in L2 and behind it also by the frames of the page map")
                } else {
                    words
                }
            }
            PhysicalMap::KindsInFrames(pages) => pages.in_words(),
            PhysicalMap::Frames(frames, rule, _) => frames.in_words(*rule),
        }
    }
}
