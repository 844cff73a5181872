//! The functions of one module as a sorted table of address ranges.
//!
//! ```text
//!  symbols ─▶ one per address ─▶ ranges, innermost wins ─▶ gaps filled from unwind ranges, call targets, else whole ─▶ table
//! ```

use std::cmp::Reverse;

use super::elf_symbols::CodeSymbol;

/// A part of a function's code. Parts do not overlap; a function that surrounds another has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Index into [`FunctionTable::functions`].
    pub function: u32,
}

/// A function of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its first address.
    pub start: u64,
    /// Raw symbol name; `None` if no symbol names it.
    pub name: Option<String>,
}

/// The known facts about a module's code.
#[derive(Debug, Default)]
pub struct TableInput {
    /// Symbols in any order, aliases and overlaps included.
    pub symbols: Vec<CodeSymbol>,
    /// Address ranges of functions by the unwind tables.
    pub unwind: Vec<(u64, u64)>,
    /// Places where functions begin because they are called.
    pub targets: Vec<u64>,
    /// Where code is.
    pub code: Vec<(u64, u64)>,
}

/// Functions by address.
#[derive(Debug, Default)]
pub struct FunctionTable {
    parts: Vec<Part>,
    functions: Vec<Function>,
}

impl FunctionTable {
    /// Builds the table. No input makes it fail; it skips invalid ranges.
    pub fn new(mut input: TableInput) -> Self {
        input.code.retain(|(start, end)| start < end);
        input.code.sort_unstable();
        let mut table = FunctionTable::default();
        let ranges = symbol_ranges(&mut input);
        table.add_nested(ranges);
        table.fill_gaps(&input);
        table
    }

    /// The part that holds `address`, and its function.
    pub fn find(&self, address: u64) -> Option<(Part, &Function)> {
        let part = *self.parts[..self.parts.partition_point(|p| p.start <= address)].last()?;
        (address < part.end).then(|| (part, &self.functions[part.function as usize]))
    }

    /// The addresses around `address` that belong to no function.
    pub fn gap(&self, address: u64) -> (u64, u64) {
        let after = self.parts.partition_point(|p| p.start <= address);
        let start = after.checked_sub(1).map_or(0, |before| self.parts[before].end);
        (start, self.parts.get(after).map_or(u64::MAX, |part| part.start))
    }

    /// The parts of functions with a name, by address, and that name.
    pub fn named_parts(&self) -> impl Iterator<Item = (Part, &str)> {
        let name = |part: &Part| self.functions[part.function as usize].name.as_deref();
        self.parts.iter().filter_map(move |part| Some((*part, name(part)?)))
    }

    /// All functions.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Makes functions parts of others, all at once: `into[f]` is the function that `f` belongs to.
    pub fn merge_all(&mut self, into: &[u32]) {
        for part in &mut self.parts {
            part.function = into.get(part.function as usize).copied().unwrap_or(part.function);
        }
    }

    /// Splits ranges that lie inside one another; `ranges` is sorted by start, at most one per start.
    fn add_nested(&mut self, ranges: Vec<(u64, u64, String)>) {
        let mut open: Vec<(u64, u32)> = Vec::new();
        let mut cursor = 0;
        for (start, end, name) in ranges {
            self.close_until(&mut open, &mut cursor, start);
            if let Some((_, function)) = open.last() {
                push_part(&mut self.parts, cursor, start, *function);
            }
            cursor = start;
            open.push((end, self.functions.len() as u32));
            self.functions.push(Function { start, name: Some(name) });
        }
        self.close_until(&mut open, &mut cursor, u64::MAX);
    }

    /// Emits the parts of open ranges that end at or before `limit`, innermost first.
    fn close_until(&mut self, open: &mut Vec<(u64, u32)>, cursor: &mut u64, limit: u64) {
        while let Some((end, function)) = open.last().copied().filter(|(end, _)| *end <= limit) {
            push_part(&mut self.parts, *cursor, end, function);
            *cursor = (*cursor).max(end);
            open.pop();
        }
    }

    /// Covers addresses without a symbol: by unwind range, else cut at call targets, else the gap as a whole.
    fn fill_gaps(&mut self, input: &TableInput) {
        let mut unwind: Vec<_> = input.unwind.iter().copied().filter(|(s, e)| s < e).collect();
        unwind.sort_unstable();
        let mut targets = input.targets.clone();
        targets.sort_unstable();
        targets.dedup();
        let mut added = Vec::new();
        for (start, end) in gaps(&input.code, &self.parts) {
            let mut cursor = start;
            for (from, to) in &unwind[unwind.partition_point(|(_, e)| *e <= start)..] {
                if *from >= end {
                    break;
                }
                let from = (*from).max(cursor);
                cut_at_targets(&mut added, cursor, from, &targets);
                push_range(&mut added, from, (*to).min(end));
                cursor = cursor.max((*to).min(end));
            }
            cut_at_targets(&mut added, cursor, end, &targets);
        }
        for (start, end) in added {
            self.parts.push(Part { start, end, function: self.functions.len() as u32 });
            self.functions.push(Function { start, name: None });
        }
        self.parts.sort_unstable_by_key(|p| p.start);
    }
}

fn push_part(parts: &mut Vec<Part>, start: u64, end: u64, function: u32) {
    if start < end {
        parts.push(Part { start, end, function });
    }
}

fn push_range(ranges: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    if start < end {
        ranges.push((start, end));
    }
}

fn cut_at_targets(ranges: &mut Vec<(u64, u64)>, start: u64, end: u64, targets: &[u64]) {
    let mut cursor = start;
    for target in &targets[targets.partition_point(|t| *t <= start)..] {
        if *target >= end {
            break;
        }
        push_range(ranges, cursor, *target);
        cursor = *target;
    }
    push_range(ranges, cursor, end);
}

/// Stretches of `code` that no part covers. Both are sorted.
fn gaps(code: &[(u64, u64)], parts: &[Part]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for (start, end) in code {
        let mut cursor = *start;
        for part in &parts[parts.partition_point(|p| p.end <= *start)..] {
            if part.start >= *end {
                break;
            }
            push_range(&mut found, cursor, part.start);
            cursor = cursor.max(part.end);
        }
        push_range(&mut found, cursor, *end);
    }
    found
}

/// One range per start address: the best alias, its size completed if the symbol has none.
fn symbol_ranges(input: &mut TableInput) -> Vec<(u64, u64, String)> {
    let mut symbols = std::mem::take(&mut input.symbols);
    symbols.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| preference(b).cmp(&preference(a))));
    symbols.dedup_by(|later, first| {
        let same = later.start == first.start;
        if same {
            first.size = first.size.max(later.size);
        }
        same
    });
    let sized_end = |s: &CodeSymbol| s.start.saturating_add(s.size);
    // A label without size inside a sized function is a place in it, not a function.
    let mut covered = 0;
    symbols.retain(|s| {
        let inside = s.size == 0 && s.start < covered;
        covered = covered.max(sized_end(s));
        !inside
    });
    let mut unwind = input.unwind.clone();
    unwind.sort_unstable();
    let starts: Vec<u64> = symbols.iter().map(|s| s.start).collect();
    let completed = |i: usize, symbol: &CodeSymbol| {
        if symbol.size > 0 {
            return sized_end(symbol);
        }
        let next = starts.get(i + 1).copied().unwrap_or(u64::MAX);
        let section = input.code.iter().find(|(s, e)| *s <= symbol.start && symbol.start < *e);
        let limit = section.map_or(symbol.start, |(_, end)| next.min(*end));
        // The unwind range that it lies in ends it, and so does the next one: that is another function.
        let next_range = unwind.partition_point(|(s, _)| *s <= symbol.start);
        let around = next_range.checked_sub(1).map(|i| unwind[i].1).filter(|end| symbol.start < *end);
        let after = unwind.get(next_range).map(|(start, _)| *start);
        limit.min(around.or(after).unwrap_or(u64::MAX))
    };
    let ends: Vec<u64> = symbols.iter().enumerate().map(|(i, s)| completed(i, s)).collect();
    let ranges = symbols.into_iter().zip(ends).map(|(s, end)| (s.start, end, s.name));
    ranges.filter(|(start, end, _)| start < end).collect()
}

type Preference<'a> = ([bool; 3], u64, Reverse<(usize, bool, usize, &'a str)>);

/// Orders aliases: the vdso's own names, which distinguish them from those of the C library, functions before labels, global before local,
/// longest, fewest leading underscores, strong before weak, shortest name, then by name so that the choice does not depend on the order in
/// the file.
fn preference(symbol: &CodeSymbol) -> Preference<'_> {
    let underscores = symbol.name.bytes().take_while(|b| *b == b'_').count();
    // `_Z` and `_R` begin mangled names; their underscore says nothing.
    let underscores = if symbol.name.starts_with("_Z") || symbol.name.starts_with("_R") { 0 } else { underscores };
    (
        [symbol.name.starts_with("__vdso_"), symbol.function, symbol.global],
        symbol.size,
        Reverse((underscores, symbol.weak, symbol.name.len(), symbol.name.as_str())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn symbol(start: u64, size: u64, name: &str) -> CodeSymbol {
        CodeSymbol { start, size, name: name.into(), global: true, weak: false, function: true }
    }

    fn name_at(table: &FunctionTable, address: u64) -> Option<String> {
        let (_, function) = table.find(address)?;
        Some(function.name.clone().unwrap_or_else(|| format!("{:#x}", function.start)))
    }

    #[test]
    fn aliases_prefer_global_long_and_plain() {
        let local = CodeSymbol { global: false, ..symbol(0x10, 8, "local_alias") };
        let symbols = vec![symbol(0x10, 8, "__write"), symbol(0x10, 8, "write"), local, symbol(0x10, 4, "a")];
        let table = FunctionTable::new(TableInput { symbols, code: vec![(0x10, 0x20)], ..Default::default() });
        assert_eq!(name_at(&table, 0x17).as_deref(), Some("write"));
    }

    #[test]
    fn the_strong_of_two_names_is_the_functions_unless_it_begins_with_underscores() {
        let weak = |name| CodeSymbol { weak: true, ..symbol(0x10, 8, name) };
        let name = |symbols| {
            let table = FunctionTable::new(TableInput { symbols, code: vec![(0x10, 0x20)], ..Default::default() });
            name_at(&table, 0x12)
        };
        assert_eq!(name(vec![weak("alias"), symbol(0x10, 8, "real_kernel")]).as_deref(), Some("real_kernel"));
        assert_eq!(name(vec![weak("write"), symbol(0x10, 8, "__write")]).as_deref(), Some("write"));
    }

    #[test]
    fn a_function_around_another_has_two_parts() {
        let symbols = vec![symbol(0x10, 0x30, "outer"), symbol(0x20, 0x10, "inner")];
        let table = FunctionTable::new(TableInput { symbols, code: vec![(0, 0x50)], ..Default::default() });
        let names: Vec<_> = [0x1f, 0x20, 0x2f, 0x30, 0x3f, 0x40].map(|a| name_at(&table, a).unwrap()).into();
        assert_eq!(names, ["outer", "inner", "inner", "outer", "outer", "0x40"]);
    }

    #[test]
    fn sizeless_symbols_end_at_the_next_one_and_labels_inside_functions_are_dropped() {
        let symbols = vec![symbol(0x10, 0, "a"), symbol(0x20, 0x10, "b"), symbol(0x28, 0, "loop_label")];
        let table = FunctionTable::new(TableInput { symbols, code: vec![(0x10, 0x40)], ..Default::default() });
        assert_eq!(name_at(&table, 0x1f).as_deref(), Some("a"));
        assert_eq!(name_at(&table, 0x2c).as_deref(), Some("b"));
    }

    #[test]
    fn sizeless_symbols_end_where_another_function_begins() {
        let symbols = vec![symbol(0x10, 0, "start"), symbol(0x40, 0, "asm"), symbol(0x90, 0, "last")];
        let unwind = vec![(0x10, 0x18), (0x20, 0x30), (0x60, 0x80)];
        let table = FunctionTable::new(TableInput { symbols, unwind, code: vec![(0x10, 0xa0)], ..Default::default() });
        let names: Vec<_> =
            [0x17, 0x18, 0x24, 0x48, 0x5f, 0x60, 0x84, 0x9f].map(|a| name_at(&table, a).unwrap()).into();
        assert_eq!(names, ["start", "0x18", "0x20", "asm", "asm", "0x60", "0x80", "last"]);
    }

    #[test]
    fn gaps_come_from_unwind_ranges_then_call_targets_then_whole() {
        let input = TableInput {
            symbols: vec![symbol(0x100, 0x10, "known")],
            unwind: vec![(0x20, 0x40), (0x100, 0x110)],
            targets: vec![0x30, 0x60, 0x105],
            code: vec![(0x10, 0x120)],
        };
        let table = FunctionTable::new(input);
        let names = [0x10, 0x25, 0x35, 0x41, 0x65, 0x104, 0x111].map(|a| name_at(&table, a).unwrap());
        assert_eq!(names, ["0x10", "0x20", "0x20", "0x40", "0x60", "known", "0x110"]);
        assert_eq!(name_at(&table, 0x120), None);
        assert_eq!((table.gap(0x120), table.gap(0x8)), ((0x120, u64::MAX), (0, 0x10)));
    }

    proptest! {
        #[test]
        fn every_address_in_code_has_exactly_one_part(
            raw in prop::collection::vec((0u64..500, 0u64..60), 0..40),
            unwind in prop::collection::vec((0u64..500, 0u64..500), 0..20),
            targets in prop::collection::vec(0u64..500, 0..20),
        ) {
            let symbols = raw.iter().map(|(s, z)| symbol(*s, *z, &format!("f{s}"))).collect();
            let table = FunctionTable::new(TableInput { symbols, unwind, targets, code: vec![(50, 200), (300, 450)] });
            for pair in table.parts.windows(2) {
                prop_assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start, "{:?}", pair);
            }
            for address in (50..200).chain(300..450) {
                prop_assert!(table.find(address).is_some(), "{address:#x} has no function");
            }
        }
    }
}
