//! The names of one process's code made at run time, from everything that its compilers wrote for profilers.

use crate::tracee::jit_places;

use super::perf_map::JitSymbol;
use super::{jit_dump, jit_image, perf_map};

/// Functions by address.
#[derive(Debug, Default)]
pub struct JitNames {
    /// Sorted by start.
    symbols: Vec<JitSymbol>,
}

impl JitNames {
    /// Reads what process `pid` of the program left; empty if that is nothing.
    pub fn of_process(pid: u32) -> Self {
        let left = jit_places::left_by(pid);
        let images = left.images.iter().flat_map(|bytes| jit_image::parse(bytes));
        let maps = left.maps.iter().flat_map(|bytes| perf_map::parse(&String::from_utf8_lossy(bytes)));
        let dumps = left.dumps.iter().flat_map(|bytes| jit_dump::parse(bytes));
        Self::new(images.chain(maps).chain(dumps).collect())
    }

    /// Of symbols in the order in which they were made: of several at one address the latest counts.
    pub fn new(mut symbols: Vec<JitSymbol>) -> Self {
        // The sort is stable, so the latest of one address comes last and survives.
        symbols.sort_by_key(|s| s.start);
        symbols.reverse();
        symbols.dedup_by_key(|s| s.start);
        symbols.reverse();
        JitNames { symbols }
    }

    /// The function at `address`.
    pub fn find(&self, address: u64) -> Option<&JitSymbol> {
        let before = self.symbols.partition_point(|s| s.start <= address);
        self.symbols[..before].last().filter(|s| address < s.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_symbols_win() {
        let symbol = |start, size, name| JitSymbol::new(start, size, name).unwrap();
        let names =
            JitNames::new(vec![symbol(0x2000, 0x20, "b"), symbol(0x1000, 0x20, "old"), symbol(0x1000, 0x10, "new")]);
        let name = |address| names.find(address).map(|s| s.name.as_str());
        assert_eq!(
            [0xfff, 0x100f, 0x1010, 0x2001, 0x2020, u64::MAX].map(name),
            [None, Some("new"), None, Some("b"), None, None]
        );
    }
}
