//! The part of a page's physical address that indexes L2 and last-level caches.
//!
//! L1 is indexed by virtual address. The levels beyond it are indexed by physical address, which the model only knows if it may read the
//! page map (`address/page_frames.rs`): exact runs and bursts use it, sampled lines use it in a second model
//! (`hierarchy/physical_index.rs`). Otherwise it places pages pseudo-randomly, the same way in every run. The low five bits of a page's
//! colour follow from its number: consecutive pages, and those any other distance apart, take all colours in turn (almost: a
//! multiplicative sequence), as pages from one huge page or one run of free memory do, and the sampling of sets (`sampling/bursts.rs`) can
//! be decided from the virtual address alone.

use crate::caches::geometry::LINE_SHIFT;
use crate::caches::line::{Line, PAGE_LINES_SHIFT};
use rprof_basics::random::mix;
use rprof_profile::evidence::memory::PAGE_FACTOR;

/// The low colour bits, which determine the class.
const LOW: u64 = 0x1f;
/// Pages of 4 KiB in one of 2 MiB.
const HUGE_PAGE: u64 = 1 << 9;
const PAGE_LINES: u64 = 1 << PAGE_LINES_SHIFT;

/// Division of lines into classes, of which sampling keeps class 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetSample {
    /// log2 of their number, at most 5.
    bits: u32,
}

impl SetSample {
    /// One class: nothing is left out.
    pub const ONE: SetSample = SetSample { bits: 0 };

    /// As many classes as leave the sets of a physically indexed cache with `sets` sets whole, 32 at most.
    pub fn for_sets(sets: u32) -> Self {
        // Position in the page takes six bits of the set's number; the others must cover the class.
        SetSample { bits: sets.max(1).ilog2().saturating_sub(6).clamp(3, LOW.count_ones()) }
    }

    /// Lines that each line of class 0 represents.
    pub fn count(self) -> u64 {
        1 << self.bits
    }

    /// The mask for [`rprof_profile::evidence::memory::selected`].
    pub fn mask(self) -> u64 {
        (self.count() - 1) << LINE_SHIFT
    }

    /// The class of `line`: every 4 KiB page has equally many lines of each, and a set of a cache with enough sets holds
    /// lines of one class only.
    ///
    /// `class = bits 6–10 of the virtual address ^ bits 27–31 of page number × PAGE_FACTOR`, the low ones of these bits.
    #[inline]
    pub fn of(self, line: Line) -> u64 {
        (line.0 ^ low_color(line.page())) & (self.count() - 1)
    }
}

/// Rules for the placement of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageColoring {
    /// 2 MiB runs stay together, as with transparent huge pages.
    HugePages,
    /// Each 4 KiB page for itself.
    SmallPages,
    /// Physical = virtual: for comparison with simulators that assume so.
    Identity,
}

impl PageColoring {
    /// In words: the addresses that index the levels beyond L1.
    pub fn in_words(self) -> &'static str {
        match self {
            PageColoring::HugePages => "pseudo-random, runs of 2 MiB together",
            PageColoring::SmallPages => "pseudo-random, each 4 KiB page for itself",
            PageColoring::Identity => "physical = virtual addresses",
        }
    }

    /// The colour bits of `line`'s page, as many as any cache needs.
    pub fn color(self, line: Line) -> u64 {
        let page = line.page();
        match self {
            PageColoring::Identity => page,
            PageColoring::HugePages => low_color(page) | (u64::from((product(page) << 5).reverse_bits()) << 5),
            PageColoring::SmallPages => low_color(page) | (mix(page) & !LOW),
        }
    }

    /// The number that selects a cache's set: position in the page, colour above it.
    pub fn index(self, line: Line) -> u64 {
        line.in_frame(self.color(line))
    }

    /// The same with a frame in place of the colour, for caches that lines of all classes enter: in a huge page the low bits of frames are
    /// those of the addresses.
    pub fn index_by_frame(self, line: Line) -> u64 {
        match self {
            PageColoring::HugePages => {
                let page = line.page();
                line.in_frame((page % HUGE_PAGE) | (mix(page / HUGE_PAGE) << HUGE_PAGE.ilog2()))
            }
            PageColoring::SmallPages => line.in_frame(mix(line.page())),
            PageColoring::Identity => self.index(line),
        }
    }
}

/// The sequence that colours are taken from. Its uppermost n bits are even over 2ⁿ values, for any n and any distance of the pages
/// but few.
fn product(page: u64) -> u32 {
    (page as u32).wrapping_mul(PAGE_FACTOR)
}

/// The low colour bits: the uppermost of the product.
fn low_color(page: u64) -> u64 {
    u64::from(product(page) >> 27)
}

/// The sets of a sliced cache that the page in `frame` has: an exclusive or of bits of its address.
fn slices(frame: u64) -> u64 {
    ((frame ^ frame >> 6 ^ frame >> 12) & LOW) | ((frame ^ mix(frame / HUGE_PAGE)) & !LOW)
}

/// How a cache finds its set: its number of sets, and the part of the lines that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexing {
    sets: u32,
    classes: SetSample,
    /// Whether lines have the frames of their pages.
    hashes_frames: bool,
}

impl Indexing {
    /// For the part of a cache of `sets` sets that lines of class 0 use.
    pub fn new(sets: u32, classes: SetSample) -> Self {
        Indexing { sets: (sets >> classes.bits).max(1), classes, hashes_frames: false }
    }

    /// The same for a last level of several slices, for lines that have the frames of their pages: the slice of a line is a hash of all
    /// of its address, so that strides of powers of two meet more than a few sets, as they do with [`PageColoring::HugePages`].
    pub fn of_frames(self) -> Self {
        Indexing { hashes_frames: true, ..self }
    }

    /// The number of sets.
    pub fn sets(self) -> u32 {
        self.sets
    }

    /// The set of a line with this [`PageColoring::index`] (L1: with its virtual line number).
    ///
    /// Powers of two use the low bits; in class 0 the lowest ones of the position in the page equal those of the colour and carry no
    /// information. Other counts (sliced last-level caches) hash, each class into sets of its own.
    #[inline]
    pub fn set(self, mut index: u64) -> u32 {
        if self.hashes_frames {
            index = index & (PAGE_LINES - 1) | slices(index >> PAGE_LINES_SHIFT) << PAGE_LINES_SHIFT;
        }
        if self.sets.is_power_of_two() {
            return ((index >> self.classes.bits) & u64::from(self.sets - 1)) as u32;
        }
        // The class in the uppermost of the five bits: also the first cut of a hash scaled to the number of sets.
        let class = ((index ^ index >> 6) & LOW).reverse_bits();
        let hash = (class | mix(index) >> 5) << self.classes.bits;
        ((u128::from(hash) * u128::from(self.sets)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::memory::selected;

    const CLASSES: SetSample = SetSample { bits: 5 };

    #[test]
    fn a_page_has_two_lines_of_each_class() {
        for page in [0u64, 1, 77, 0x7_fff1_2345] {
            let mut count = [0; 32];
            (0..64).for_each(|i| count[CLASSES.of(Line(page * 64 + i)) as usize] += 1);
            assert_eq!(count, [2; 32]);
        }
    }

    #[test]
    fn class_0_is_what_engines_select() {
        for classes in [3, 4, 5].map(|bits| SetSample { bits }) {
            for address in (0..300_000u64).map(|i| mix(i) >> 17) {
                assert_eq!(classes.of(Line::of(address, 0)) == 0, selected(address, classes.mask()), "{address:#x}");
            }
        }
    }

    #[test]
    fn a_set_holds_lines_of_one_class() {
        for (sets, placement) in
            [(1024, PageColoring::SmallPages), (2048, PageColoring::HugePages), (96 << 6, PageColoring::SmallPages)]
        {
            let (classes, indexing) = (SetSample::for_sets(sets), Indexing::new(sets, SetSample::ONE));
            let mut class_of = vec![None; sets as usize];
            for line in (0..2_000_000u64).step_by(7).map(Line) {
                let set = indexing.set(placement.index(line)) as usize;
                assert_eq!(*class_of[set].get_or_insert(classes.of(line)), classes.of(line), "{sets} sets");
            }
        }
    }

    /// How far from even 8192 lines `stride` bytes apart meet the classes: relative to an even share, root mean square.
    fn unevenness(stride: u64) -> f64 {
        let mut count = [0u32; 32];
        (0..8192u64).for_each(|i| count[CLASSES.of(Line::of(0x7f12_3456_7000 + i * stride, 0)) as usize] += 1);
        let squares: f64 = count.iter().map(|&n| (f64::from(n) / 256.0 - 1.0).powi(2)).sum();
        (squares / 32.0).sqrt()
    }

    #[test]
    fn strides_meet_all_classes() {
        for power in 12..27 {
            assert!(unevenness(1 << power) < 0.05, "2^{power}: {}", unevenness(1 << power));
            // A page and some lines: columns of matrices with padded rows.
            for lines in [1, 2, 3, 4, 5, 8, 16, 32] {
                let stride = (1 << power) + lines * 64;
                assert!(unevenness(stride) < 0.15, "2^{power} and {lines} lines: {}", unevenness(stride));
            }
        }
        let any: Vec<f64> = (0..1000).map(|i| unevenness(64 + mix(i) % (1 << 15) * 8)).collect();
        let mean = any.iter().sum::<f64>() / any.len() as f64;
        let far = any.iter().filter(|&&unevenness| unevenness > 0.1).count();
        assert!(mean < 0.04 && far < 50, "strides without system: {mean} on average, {far} of 1000 beyond 0.1");
    }

    #[test]
    fn what_fits_in_a_cache_fits_in_huge_pages() {
        // 7/8 of L2, and of L3, of 16 ways, in one piece: no set is overfull.
        for sets in [1u64 << 10, 1 << 15] {
            let indexing = Indexing::new(sets as u32, SetSample::ONE);
            for start in (0..20).map(|i| mix(i) >> 30 & !0x7fff) {
                let mut count = vec![0; sets as usize];
                let lines = (start..start + sets * 14).map(Line);
                lines.for_each(|line| count[indexing.set(PageColoring::HugePages.index(line)) as usize] += 1);
                assert!(*count.iter().max().unwrap() <= 16, "{sets} sets");
            }
        }
    }

    #[test]
    fn a_sampled_cache_has_the_real_ones_sets() {
        // Lines of class 0 share a set of the sampled part if and only if they share one of the whole cache.
        for sets in [2048, 96 << 6] {
            let (all, sampled) = (Indexing::new(sets, SetSample::ONE), Indexing::new(sets, CLASSES));
            let mut pair = std::collections::HashMap::new();
            for line in (0..400_000u64).map(|i| Line(i * 13)).filter(|&line| CLASSES.of(line) == 0) {
                let index = PageColoring::SmallPages.index(line);
                assert_eq!(*pair.entry(sampled.set(index)).or_insert(all.set(index)), all.set(index));
            }
            assert_eq!(pair.len() as u32, sets / 32);
        }
    }

    #[test]
    fn odd_set_counts_are_filled_evenly() {
        let mut count = vec![0u32; 1536];
        let indexing = Indexing::new(1536, SetSample::ONE);
        (0..153_600u64).for_each(|i| count[indexing.set(PageColoring::SmallPages.index(Line(i))) as usize] += 1);
        let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
        assert!(*least > 50 && *most < 160, "{least}..{most}");
    }
    #[test]
    fn frames_and_huge_pages_spread_strides_alike() {
        // 4096 lines 64 KiB apart, in huge pages that lie anywhere; 32,768 sets.
        let lines = || (0..4096u64).map(|i| Line(i << 10));
        let frame = |line: Line| line.page() & 0x1ff | mix(line.page() >> 9) << 9;
        let (sets, different) =
            (1 << 15, |sets: Vec<u32>| sets.into_iter().collect::<std::collections::HashSet<_>>().len());
        let indexing = Indexing::new(sets, SetSample::ONE);
        let placed = different(lines().map(|line| indexing.set(PageColoring::HugePages.index(line))).collect());
        let at = |line: Line| line.in_page() | frame(line) << PAGE_LINES_SHIFT;
        let found = different(lines().map(|line| indexing.of_frames().set(at(line))).collect());
        assert!((placed as f64 / found as f64 - 1.0).abs() < 0.1, "{placed} sets as placed, {found} by frames");
        assert!(
            different(lines().map(|line| indexing.set(at(line))).collect()) * 4 < found,
            "a cache that is not sliced"
        );
    }
}
