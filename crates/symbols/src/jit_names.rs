//! The names of one process's code made at run time, from everything that its compilers wrote for profilers.

use std::collections::BTreeMap;

use rprof_tracee::jit_places;

use super::perf_map::JitSymbol;
use super::{jit_dump, jit_image, perf_map};

/// Functions by address.
#[derive(Debug, Default)]
pub struct JitNames {
    /// In the order in which they were made.
    symbols: Vec<JitSymbol>,
    /// By first address: the first one after it, and the index of its symbol.
    parts: BTreeMap<u64, (u64, usize)>,
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

    /// Of symbols in the order in which they were made: the latest has all its addresses, earlier ones keep the rest of theirs.
    pub fn new(symbols: Vec<JitSymbol>) -> Self {
        let mut parts = BTreeMap::new();
        for (i, symbol) in symbols.iter().enumerate() {
            cut(&mut parts, symbol.start);
            cut(&mut parts, symbol.end);
            let covered: Vec<u64> = parts.range(symbol.start..symbol.end).map(|(start, _)| *start).collect();
            covered.iter().for_each(|start| _ = parts.remove(start));
            parts.insert(symbol.start, (symbol.end, i));
        }
        JitNames { symbols, parts }
    }

    /// The function at `address`.
    pub fn find(&self, address: u64) -> Option<&JitSymbol> {
        let (_, (end, symbol)) = self.parts.range(..=address).next_back()?;
        (address < *end).then(|| &self.symbols[*symbol])
    }
}

/// Makes two parts of one that goes on at `address`.
fn cut(parts: &mut BTreeMap<u64, (u64, usize)>, address: u64) {
    if let Some((_, (end, symbol))) = parts.range_mut(..address).next_back()
        && *end > address
    {
        let rest = (std::mem::replace(end, address), *symbol);
        parts.insert(address, rest);
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
            [None, Some("new"), Some("old"), Some("b"), None, None]
        );
    }

    #[test]
    fn earlier_symbols_keep_what_a_later_one_leaves() {
        let symbol = |start, size, name| JitSymbol::new(start, size, name).unwrap();
        let names = JitNames::new(vec![
            symbol(0x1000, 0x100, "around"),
            symbol(0x1040, 0x20, "inside"),
            symbol(0x2020, 0x10, "before"),
            symbol(0x2000, 0x100, "over"),
            symbol(0x20f0, 0x20, "end"),
        ]);
        let name = |address| names.find(address).map(|s| s.name.as_str());
        assert_eq!(
            [0x103f, 0x1040, 0x1060, 0x10ff, 0x1100].map(name),
            [Some("around"), Some("inside"), Some("around"), Some("around"), None]
        );
        assert_eq!([0x2020, 0x20ef, 0x20f0, 0x2110].map(name), [Some("over"), Some("over"), Some("end"), None]);
    }
}
