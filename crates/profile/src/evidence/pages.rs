//! Evidence of the pages that instructions touched, in a form that can be merged over several instructions.
//!
//! For an instruction with many pages the model keeps only those with enough leading zeros in their hash. It keeps the same ones
//! for all instructions, so that the union of the kept pages is a sample of the union.

use serde::{Deserialize, Serialize};

use std::collections::HashMap;

use crate::code::CodeRef;

/// The pages of one instruction in one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SitePages {
    /// The instruction.
    pub at: CodeRef,
    /// One page in 2^`thinned` was kept ([`is_kept`]).
    pub thinned: u32,
    /// The pages and lines seen, each once.
    pub marks: Vec<Mark>,
}

/// An observation on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark(pub u64);

/// The pages of all instructions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PagesEvidence {
    /// One entry per (site, thread) that accessed memory where the model looked.
    pub sites: Vec<SitePages>,
    /// Lines of each page, out of 64, that the run always looked at; `None`: all.
    pub sampled_lines: Option<u32>,
    /// Pages that the kernel certainly provided: an upper limit of the estimate, unless the run saw more. `None` without this figure.
    pub at_most: Option<f64>,
}

/// Lines of a page.
const PAGE_LINES: f64 = 64.0;

/// Distinct pages, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// How many.
    pub pages: f64,
    /// Standard error of thinning out, relative; `None` if nothing was.
    pub error: Option<f64>,
    /// The model looked at a sample of the lines only.
    pub sampled: bool,
}

/// Whether `page` is among the one in 2^`thinned` that are kept.
pub fn is_kept(page: u64, thinned: u32) -> bool {
    let mixed = (page ^ page >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
    thinned == 0 || mixed >> 64u32.saturating_sub(thinned.min(63)) == 0
}

impl Mark {
    const PAGE_SHIFT: u32 = 6;

    /// Any part of `page` was touched.
    pub fn page_seen(page: u64) -> Mark {
        Mark(page << Self::PAGE_SHIFT)
    }

    /// The sampled line number `sampled` (below 63) of `page` was touched.
    pub fn line_seen(page: u64, sampled: u64) -> Mark {
        Mark((page << Self::PAGE_SHIFT) | (sampled + 1))
    }

    /// The page.
    pub fn page(self) -> u64 {
        self.0 >> Self::PAGE_SHIFT
    }

    fn is_of_sample(self) -> bool {
        self.0 & ((1 << Self::PAGE_SHIFT) - 1) != 0
    }
}

impl PagesEvidence {
    /// Distinct pages of `sites`, which are some of those here.
    ///
    /// A sample of lines may miss pages with few touched lines. The estimate of their number follows from the number of pages with one
    /// sampled line touched and the number with two (Chao's estimate for incidences, a lower bound if the lines of a page are touched
    /// independently). The ratio of missed pages to pages with one sampled line is at most that of the lines outside of the sample to
    /// those in it; it reaches that if one line of each page is touched. Lines at even distances are not touched independently, and
    /// few pages show two of the sample: the kernel's pages bound the estimate there.
    pub fn union<'a>(&self, sites: impl Iterator<Item = &'a SitePages> + Clone) -> Estimate {
        let thinned = sites.clone().map(|s| s.thinned).max().unwrap_or(0);
        let mut lines: HashMap<u64, Vec<Mark>> = HashMap::new();
        for mark in sites.flat_map(|s| &s.marks).filter(|m| is_kept(m.page(), thinned)) {
            let seen = lines.entry(mark.page()).or_default();
            if mark.is_of_sample() && !seen.contains(mark) {
                seen.push(*mark);
            }
        }
        let with = |n: usize| lines.values().filter(|seen| seen.len() == n).count() as f64;
        let kept = lines.len() as f64;
        let (one, two, sampled) = (with(1), with(2), kept - with(0));
        let missed = match self.sampled_lines.map(|of| f64::from(of.max(1))) {
            Some(of) if two > 0.0 => {
                let chao = (1.0 - 1.0 / of) * one * one / (2.0 * two);
                chao.min(one * (PAGE_LINES - of) / of)
            }
            _ => 0.0,
        };
        let each = 2f64.powi(thinned as i32);
        let most = self.at_most.map_or(f64::INFINITY, |most| most / each);
        let error = (thinned > 0).then(|| ((1.0 - 1.0 / each) / kept.max(1.0)).sqrt());
        Estimate { pages: each * kept.max((sampled + missed).min(most)), error, sampled: self.sampled_lines.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(thinned: u32, marks: impl Iterator<Item = Mark>) -> SitePages {
        let marks = marks.filter(|m| is_kept(m.page(), thinned)).collect();
        SitePages { at: CodeRef { module: 0, offset: 0 }, thinned, marks }
    }

    #[test]
    fn pages_of_several_instructions_count_once() {
        let whole = site(0, (100..300).map(Mark::page_seen));
        let half = site(0, (200..400).map(Mark::page_seen));
        let evidence = PagesEvidence::default();
        assert_eq!(evidence.union([&whole, &half].into_iter()), Estimate { pages: 300.0, error: None, sampled: false });
        assert_eq!(evidence.union([].into_iter()).pages, 0.0);
    }

    #[test]
    fn thinned_pages_stand_for_the_others() {
        let (large, small) =
            (site(4, (0..100_000).map(Mark::page_seen)), site(0, (50_000..110_000).map(Mark::page_seen)));
        let Estimate { pages, error, .. } = PagesEvidence::default().union([&large, &small].into_iter());
        let error = error.unwrap();
        assert!((0.005..0.03).contains(&error), "{error}");
        assert!((pages / 110_000.0 - 1.0).abs() < 3.0 * error, "{pages}");
    }

    #[test]
    fn pages_that_a_sample_of_lines_missed_are_estimated() {
        // Each of two sampled lines of 1,000 pages was touched with probability one half.
        let touched = |page: u64| (0..2).filter(move |line| page >> line & 1 == 1);
        let marks = (0..1000).flat_map(|page| touched(page).map(move |line| Mark::line_seen(page, line)));
        let sparse = site(0, marks);
        let evidence = PagesEvidence { sampled_lines: Some(2), ..PagesEvidence::default() };
        assert_eq!(evidence.union([&sparse].into_iter()).pages, 1000.0);
        // Pages that are known otherwise are no fewer.
        let known = site(0, (0..1200).map(Mark::page_seen));
        assert_eq!(evidence.union([&sparse, &known].into_iter()).pages, 1200.0);
    }

    #[test]
    fn pages_of_which_one_line_was_touched_are_no_more_than_the_sample_allows() {
        // One line each of 64,000 pages, so that a sample of two lines shows one in 32; and ten pages wholly touched.
        let sparse = (0..2000).map(|page| Mark::line_seen(page, page & 1));
        let whole = (9000..9010).flat_map(|page| (0..2).map(move |line| Mark::line_seen(page, line)));
        let evidence = PagesEvidence { sampled_lines: Some(2), ..PagesEvidence::default() };
        let of_both = site(0, sparse.chain(whole));
        assert_eq!(evidence.union([&of_both].into_iter()).pages, 64_010.0);
    }
}
