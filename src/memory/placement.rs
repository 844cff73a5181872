//! Where the operating system put a page: the part of a physical address that L2 and last-level caches index by.
//!
//! L1 is indexed by virtual address. The levels behind it are indexed by physical address, which the model does not
//! know; it places pages pseudo-randomly, the same way in every run. The low four bits of a page's colour are linear in
//! its number: any 16 consecutive pages take 16 different colours, as pages from one huge page or one run of free memory
//! do, and the sampling of sets (`sampling.rs`) can be decided from the virtual address alone.

use super::line::Line;

/// log2 of the classes that lines are divided into for sampling.
pub const CLASS_BITS: u32 = 4;

/// How pages are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// 2 MiB runs stay together: what transparent huge pages give.
    HugePages,
    /// Each 4 KiB page for itself.
    SmallPages,
    /// Physical = virtual: for comparison with simulators that do so.
    Identity,
}

impl Placement {
    /// The colour bits of `line`'s page, as many as any cache needs.
    pub fn color(self, line: Line) -> u64 {
        let page = line.page();
        match self {
            Placement::Identity => page,
            Placement::HugePages => fold(page) | ((page ^ mix(page >> 9)) & !0xf),
            Placement::SmallPages => fold(page) | (mix(page) & !0xf),
        }
    }

    /// The number that a cache's set is taken from: position in the page, colour above it.
    pub fn index(self, line: Line) -> u64 {
        line.in_page() | self.color(line) << 6
    }
}

/// The low colour bits: the exclusive or of bits 0–3, 6–9 and 12–15 of the page number (12–15, 18–21 and 24–27 of the
/// address).
fn fold(page: u64) -> u64 {
    (page ^ page >> 6 ^ page >> 12) & 0xf
}

/// The class of `line`, 0 to 15: every 4 KiB page has four lines of each class, and a set of a cache with at least 1,024
/// sets holds lines of one class only.
///
/// `class = bits 6–9 ^ bits 12–15 ^ bits 18–21 ^ bits 24–27` of the virtual address.
pub fn class(line: Line) -> u32 {
    ((line.0 ^ fold(line.page())) & 0xf) as u32
}

/// Spreads the bits of `x` over 64 bits (splitmix64's finaliser).
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How a cache finds its set: its number of sets, and whether only lines of class 0 come to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexing {
    sets: u32,
    one_class: bool,
}

impl Indexing {
    /// For a cache of `sets` sets that sees all lines.
    pub fn all(sets: u32) -> Self {
        Indexing { sets: sets.max(1), one_class: false }
    }

    /// For the sixteenth of a cache of `sets` sets that lines of class 0 use.
    pub fn one_class(sets: u32) -> Self {
        Indexing { sets: (sets >> CLASS_BITS).max(1), one_class: true }
    }

    /// Sets that it tells apart.
    pub fn sets(self) -> u32 {
        self.sets
    }

    /// The set of a line with this [`Placement::index`] (L1: with its virtual line number).
    ///
    /// Powers of two take the low bits. Other counts (sliced last-level caches) hash, keeping classes in sets of their
    /// own. In class 0 the low four bits of the position in the page equal those of the colour, and tell nothing.
    #[inline]
    pub fn set(self, index: u64) -> u32 {
        if self.sets.is_power_of_two() {
            let index = if self.one_class { index >> CLASS_BITS } else { index };
            return (index & u64::from(self.sets - 1)) as u32;
        }
        let hash = if self.one_class { mix(index) } else { (index ^ index >> 6) << 60 | mix(index) >> CLASS_BITS };
        ((u128::from(hash) * u128::from(self.sets)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_four_lines_of_each_class() {
        for page in [0u64, 1, 77, 0x7_fff1_2345] {
            let mut count = [0; 16];
            (0..64).for_each(|i| count[class(Line(page * 64 + i)) as usize] += 1);
            assert_eq!(count, [4; 16]);
        }
    }

    #[test]
    fn a_set_holds_lines_of_one_class() {
        for placement in [Placement::HugePages, Placement::SmallPages] {
            let mut class_of = vec![None; 1024];
            for line in (0..2_000_000u64).step_by(7).map(Line) {
                let set = Indexing::all(1024).set(placement.index(line)) as usize;
                assert_eq!(*class_of[set].get_or_insert(class(line)), class(line));
            }
        }
    }

    #[test]
    fn power_of_two_strides_meet_all_classes() {
        for stride in [1u64 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 20] {
            let mut count = [0u32; 16];
            (0..1024u64).for_each(|i| count[class(Line::of(i * stride, 0)) as usize] += 1);
            assert!(count.iter().all(|&n| n == 64), "stride {stride}: {count:?}");
        }
    }

    #[test]
    fn a_sampled_cache_has_the_real_ones_sets() {
        // Lines of class 0 share a set of the sixteenth if and only if they share one of the whole cache.
        let lines: Vec<Line> = (0..200_000u64).map(|i| Line(i * 13)).filter(|&line| class(line) == 0).collect();
        let (all, sampled) = (Indexing::all(2048), Indexing::one_class(2048));
        let mut pair = std::collections::HashMap::new();
        for line in lines {
            let index = Placement::SmallPages.index(line);
            assert_eq!(*pair.entry(sampled.set(index)).or_insert(all.set(index)), all.set(index));
        }
        assert_eq!(pair.len(), 128);
    }

    #[test]
    fn odd_set_counts_are_filled_evenly() {
        let mut count = vec![0u32; 1536];
        (0..153_600u64)
            .for_each(|i| count[Indexing::all(1536).set(Placement::SmallPages.index(Line(i))) as usize] += 1);
        let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
        assert!(*least > 50 && *most < 160, "{least}..{most}");
    }
}
