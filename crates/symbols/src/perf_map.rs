//! Symbols of code made at run time: `/tmp/perf-<pid>.map`, which JIT compilers write for profilers.

use std::collections::{BTreeSet, HashMap};

/// How many symbols at one place are compared with the next.
const MOST_AT_ONE_PLACE: usize = 64;

/// A function of a JIT compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitSymbol {
    /// First run-time address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Its name, as the compiler gives it.
    pub name: String,
}

impl JitSymbol {
    /// `None` without code or name.
    pub fn new(start: u64, size: u64, name: &str) -> Option<Self> {
        let (end, name) = (start.checked_add(size)?, name.trim());
        (start < end && !name.is_empty()).then(|| JitSymbol { start, end, name: name.to_owned() })
    }
}

/// Parses lines of `START SIZE NAME`, numbers in hexadecimal, in their order. Damaged lines are skipped.
///
/// Lines have no times. If a compiler put a function over others, the name says that it may be one of them.
pub fn parse(text: &str) -> Vec<JitSymbol> {
    let mut symbols: Vec<JitSymbol> = text.lines().filter_map(parse_line).collect();
    for (i, name) in doubtful_names(&symbols) {
        symbols[i].name = name;
    }
    symbols
}

/// New names of symbols, by their index, that overlap earlier ones of other names.
fn doubtful_names(symbols: &[JitSymbol]) -> Vec<(usize, String)> {
    let mut by_start: Vec<usize> = (0..symbols.len()).collect();
    by_start.sort_by_key(|&i| symbols[i].start);
    let mut earlier: HashMap<usize, BTreeSet<&str>> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    for i in by_start {
        open.retain(|&j| symbols[j].end > symbols[i].start);
        for &j in &open {
            let (new, old) = (i.max(j), i.min(j));
            if symbols[new].name != symbols[old].name {
                earlier.entry(new).or_default().insert(&symbols[old].name);
            }
        }
        open.push(i);
        if open.len() > MOST_AT_ONE_PLACE {
            open.remove(0);
        }
    }
    let named = |(i, others): (usize, BTreeSet<&str>)| {
        let own = &symbols[i].name;
        let name = match others.first() {
            Some(other) if others.len() == 1 => format!("{own} or {other}"),
            _ => format!("{own} or {} others", others.len()),
        };
        (i, name)
    };
    earlier.into_iter().map(named).collect()
}

fn parse_line(line: &str) -> Option<JitSymbol> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok();
    JitSymbol::new(hex(start)?, hex(size)?, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_used_again_has_the_names_of_all() {
        let names = |text| parse(text).into_iter().map(|s| s.name).collect::<Vec<_>>();
        assert_eq!(names("1000 40 a\n1000 40 b\n2000 10 c\n"), ["a", "b or a", "c"]);
        assert_eq!(names("1000 40 a\n1020 40 b\n1010 30 c\n1040 1 b\n"), ["a", "b or a", "c or 2 others", "b"]);
        assert_eq!(names("1000 40 a\n1000 20 a\n1040 20 b\n"), ["a", "a", "b"]);
    }

    #[test]
    fn damaged_lines_are_left_out() {
        let found = parse("1000 10 old\n0x2000 20 py::f:/a b.py\nrubbish\n3000 0 empty\nfffffffffffffff0 20 wraps\n");
        let found: Vec<_> = found.iter().map(|s| (s.start, s.end, s.name.as_str())).collect();
        assert_eq!(found, [(0x1000, 0x1010, "old"), (0x2000, 0x2020, "py::f:/a b.py")]);
    }
}
