//! Maps an address to its entry of a lookup table, and writes the code that finds it.

use std::sync::LazyLock;

use super::emit::{Code, Gpr, RCX};
use super::quick::has_quick_extract;

/// How to index the table: by address bits that distinguish places in code, so that neighboring places have neighboring entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexing {
    /// By all bits of the table's [`mask`].
    Extract,
    /// By the lowest 16 of them.
    Rotate,
    /// By the lowest 16 bits of the address.
    Low,
}

/// Entries of a table of returns.
pub const RETURN_ENTRIES: u32 = 1 << 18;
/// Entries of a table of targets of indirect jumps or calls.
pub const TARGET_ENTRIES: u32 = 1 << 16;
/// Two calls are rarely closer together, and neither are two targets; functions begin at multiples of 16.
const SHIFT: u32 = 3;

/// The bits of an address that determine its entry in a table with this many entries.
pub const fn mask(entries: u32) -> u64 {
    (entries as u64 - 1) << SHIFT
}

/// The index of an address in a table with this many entries.
pub fn lookup_index(at: u64, entries: u32) -> u64 {
    index_by(indexing(), at, entries)
}

fn index_by(by: Indexing, at: u64, entries: u32) -> u64 {
    match by {
        Indexing::Extract => (at & mask(entries)) >> SHIFT,
        Indexing::Rotate => at >> SHIFT & 0xffff,
        Indexing::Low => at & 0xffff,
    }
}

fn indexing() -> Indexing {
    static INDEXING: LazyLock<Indexing> = LazyLock::new(|| {
        let rotate = || if std::arch::is_x86_feature_detected!("bmi2") { Indexing::Rotate } else { Indexing::Low };
        if has_quick_extract() { Indexing::Extract } else { rotate() }
    });
    *INDEXING
}

impl Code {
    /// Sets RCX to the index of `register` ([`lookup_index`]) in the table with its [`mask`] at `mask`.
    ///
    /// ```text
    ///  pext rcx, register, gs:[mask]
    ///  rorx rcx, register, 3; movzx ecx, cx
    ///  movzx ecx, word register
    /// ```
    pub fn lookup_index_to_rcx(&mut self, register: Gpr, mask: u32) {
        self.lookup_index_by(indexing(), register, mask);
    }

    fn lookup_index_by(&mut self, by: Indexing, register: Gpr, mask: u32) {
        match by {
            Indexing::Extract => {
                // VEX.L0.F3.0F38.W1 F5 /r
                self.raw(&[0x65, 0xc4, 0xe2, 0x82 | (15 ^ register.0) << 3, 0xf5, 0x0c, 0x25]);
                self.word(mask);
            }
            Indexing::Rotate => {
                self.rotate(RCX, register, SHIFT as u8);
                self.low_16_to_ecx(RCX);
            }
            Indexing::Low => self.low_16_to_ecx(register),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::emit::RDX;
    use super::super::emit::tests::text;
    use super::*;

    #[test]
    fn the_encodings_are_those_of_the_instructions() {
        let index = |by| text(|c| c.lookup_index_by(by, RDX, 0x7000_0000));
        assert_eq!(index(Indexing::Low), "movzx ecx,dx");
        assert_eq!(index(Indexing::Extract), "pext rcx,rdx,gs:[70000000h]");
        if std::arch::is_x86_feature_detected!("bmi2") {
            assert_eq!(index(Indexing::Rotate), "rorx rcx,rdx,3; movzx ecx,cx");
        }
    }

    #[test]
    fn addresses_that_differ_in_indexed_bits_have_entries_of_their_own() {
        for (by, step, entries) in
            [(Indexing::Extract, 8, 1 << 18), (Indexing::Rotate, 8, 1 << 16), (Indexing::Low, 1, 1 << 16)]
        {
            let index = |n: u64| index_by(by, 0x7f12_3456_7005 + n * step, RETURN_ENTRIES);
            let mut seen: Vec<u64> = (0..entries).map(index).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..entries), "{by:?}");
            assert_eq!(index(0), index(entries), "{by:?}");
        }
    }
}
