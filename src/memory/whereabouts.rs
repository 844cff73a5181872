//! Where a program's lines lie in physical memory, as far as that can be told: what levels behind L1 are indexed by.

use super::frames::Frames;
use super::huge_pages::HugePages;
use super::line::{Line, PAGE_LINES_SHIFT, PAGE_SHIFT};
use super::placement::Placement;
use crate::profile::evidence::memory::Access;

/// What is known.
#[derive(Debug)]
pub enum Whereabouts {
    /// Nothing: all pages are placed by this rule.
    Rule(Placement),
    /// Which pages are huge; each kind has its rule.
    Kinds(HugePages),
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

    /// `process` has just made `accesses` in address space `space`, and still is there to ask for its pages.
    pub fn meet(&mut self, process: u32, space: u32, accesses: &[Access]) {
        match self {
            Whereabouts::Rule(_) => {}
            Whereabouts::Kinds(pages) | Whereabouts::KindsInFrames(pages) => {
                accesses.iter().for_each(|access| pages.meet(process, space, access.address, access.last_byte()));
                pages.end_batch();
            }
            Whereabouts::Frames(frames, _, kinds) => {
                for access in accesses {
                    let pages = access.address >> PAGE_SHIFT..=access.last_byte() >> PAGE_SHIFT;
                    pages.for_each(|page| frames.meet(process, Line::of(page << PAGE_SHIFT, space)));
                    kinds.iter_mut().for_each(|k| k.meet(process, space, access.address, access.last_byte()));
                }
                kinds.iter_mut().for_each(HugePages::end_batch);
            }
        }
    }

    /// What was mapped from address `from` up to `to` in address space `space` is not there any more.
    pub fn forget(&mut self, space: u32, from: u64, to: u64) {
        match self {
            Whereabouts::Rule(_) => {}
            Whereabouts::Kinds(pages) | Whereabouts::KindsInFrames(pages) => pages.forget(space, from, to),
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
            Whereabouts::Kinds(pages) => pages.placement(line).index(line),
            Whereabouts::KindsInFrames(pages) => pages.placement(line).index_by_frame(line),
            Whereabouts::Frames(frames, rule, _) => match frames.of(line) {
                Some(frame) => line.in_page() | frame << PAGE_LINES_SHIFT,
                None => rule.index(line),
            },
        }
    }

    /// Whether `line` lies in a huge page; `None` where that is not known.
    pub fn on_huge_page(&self, line: Line) -> Option<bool> {
        match self {
            Whereabouts::Rule(_) => None,
            Whereabouts::Kinds(pages) | Whereabouts::KindsInFrames(pages) => pages.holds(line),
            Whereabouts::Frames(.., kinds) => kinds.as_ref()?.holds(line),
        }
    }

    /// In words: whose addresses index the levels behind L1.
    pub fn in_words(&self) -> String {
        match self {
            Whereabouts::Rule(rule) => rule.in_words().into(),
            Whereabouts::Kinds(pages) | Whereabouts::KindsInFrames(pages) => pages.in_words(),
            Whereabouts::Frames(frames, rule, _) => frames.in_words(*rule),
        }
    }
}
