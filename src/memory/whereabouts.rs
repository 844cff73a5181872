//! Where a program's lines lie in physical memory, as far as that can be told: what levels behind L1 are indexed by.

use super::frames::Frames;
use super::huge_pages::HugePages;
use super::line::{Line, PAGE_SHIFT};
use super::placement::Placement;
use crate::profile::evidence::memory::Access;

/// What is known.
#[derive(Debug)]
pub enum Whereabouts {
    /// Nothing: all pages are placed by this rule.
    Rule(Placement),
    /// Which pages are huge; each kind has its rule. And the frames of small ones, where they are told, for [`Whereabouts::placed`].
    Kinds(HugePages, Option<Frames>),
    /// The same with frames, made up where pages are huge. Not for lines of one class: a class is told from virtual addresses,
    /// and has whole sets only of pages placed by these.
    KindsInFrames(HugePages),
    /// The frames of pages, and a rule for those that have none; which pages are huge, where that is wanted. As little for lines of
    /// one class.
    Frames(Frames, Placement, Option<HugePages>),
}

impl Whereabouts {
    /// Lines have frames, known or made up.
    pub fn has_frames(&self) -> bool {
        matches!(self, Whereabouts::Frames(..) | Whereabouts::KindsInFrames(_))
    }

    /// [`placed`](Self::placed) tells more than [`index`](Self::index).
    pub fn places(&self) -> bool {
        matches!(self, Whereabouts::Kinds(..))
    }

    /// Frames tell where pages lie.
    pub fn knows_frames(&self) -> bool {
        matches!(self, Whereabouts::Frames(..) | Whereabouts::Kinds(_, Some(_)))
    }

    /// `process` has just made `accesses` in address space `space`, and still is there to ask for its pages.
    pub fn meet(&mut self, process: u32, space: u32, accesses: &[Access]) {
        match self {
            Whereabouts::Rule(_) => {}
            Whereabouts::Kinds(pages, frames) => {
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
            Whereabouts::KindsInFrames(pages) => {
                accesses.iter().for_each(|access| pages.meet(process, space, access.address, access.last_byte()));
                pages.end_batch();
            }
            Whereabouts::Frames(frames, _, kinds) => {
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

    /// What was mapped from address `from` up to `to` in address space `space` is not there any more.
    pub fn forget(&mut self, space: u32, from: u64, to: u64) {
        match self {
            Whereabouts::Rule(_) => {}
            Whereabouts::Kinds(pages, frames) => {
                pages.forget(space, from, to);
                frames.iter_mut().for_each(|frames| frames.forget(space, from, to));
            }
            Whereabouts::KindsInFrames(pages) => pages.forget(space, from, to),
            Whereabouts::Frames(frames, _, kinds) => {
                frames.forget(space, from, to);
                kinds.iter_mut().for_each(|kinds| kinds.forget(space, from, to));
            }
        }
    }

    /// The number that the set of `line` is taken from: position in the page, frame or colour above it.
    #[inline]
    pub fn index(&self, line: Line) -> u64 {
        match self {
            Whereabouts::Rule(rule) => rule.index(line),
            Whereabouts::Kinds(pages, _) => pages.placement(line).index(line),
            Whereabouts::KindsInFrames(pages) => pages.placement(line).index_by_frame(line),
            Whereabouts::Frames(frames, rule, _) => match frames.of(line) {
                Some(frame) => line.in_frame(frame),
                None => rule.index(line),
            },
        }
    }

    /// The same by the frame of its page, or by one at random, for lines of one class whose pages are used whole, as far as
    /// [more than a rule](Self::places) is known.
    #[inline]
    pub fn placed(&self, line: Line) -> u64 {
        self.by_frame(line, Placement::index)
    }

    /// The same for caches that hash frames ([`Indexing::of_frames`](super::placement::Indexing::of_frames)): huge pages have some, too.
    #[inline]
    pub fn placed_in_frames(&self, line: Line) -> u64 {
        self.by_frame(line, Placement::index_by_frame)
    }

    #[inline]
    fn by_frame(&self, line: Line, of_huge_pages: fn(Placement, Line) -> u64) -> u64 {
        let Whereabouts::Kinds(pages, frames) = self else { return self.index(line) };
        match pages.placement(line) {
            Placement::SmallPages => match frames.as_ref().and_then(|frames| frames.of(line)) {
                Some(frame) => line.in_frame(frame),
                None => Placement::SmallPages.index_by_frame(line),
            },
            rule => of_huge_pages(rule, line),
        }
    }

    /// Whether `line` lies in a huge page; `None` where that is not known.
    pub fn on_huge_page(&self, line: Line) -> Option<bool> {
        match self {
            Whereabouts::Rule(_) => None,
            Whereabouts::Kinds(pages, _) | Whereabouts::KindsInFrames(pages) => pages.holds(line),
            Whereabouts::Frames(.., kinds) => kinds.as_ref()?.holds(line),
        }
    }

    /// In words: whose addresses index the levels behind L1.
    pub fn in_words(&self) -> String {
        match self {
            Whereabouts::Rule(rule) => rule.in_words().into(),
            Whereabouts::Kinds(pages, frames) => {
                let words = pages.in_words();
                if frames.is_some() {
                    format!("{words}; in L2 and behind it also by the frames of the page map")
                } else {
                    words
                }
            }
            Whereabouts::KindsInFrames(pages) => pages.in_words(),
            Whereabouts::Frames(frames, rule, _) => frames.in_words(*rule),
        }
    }
}
