//! Symbols of code made at run time: `/tmp/perf-<pid>.map`, which JIT compilers write for profilers.

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
pub fn parse(text: &str) -> Vec<JitSymbol> {
    text.lines().filter_map(parse_line).collect()
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
    fn damaged_lines_are_left_out() {
        let found = parse("1000 10 old\n0x2000 20 py::f:/a b.py\nrubbish\n3000 0 empty\nfffffffffffffff0 20 wraps\n");
        let found: Vec<_> = found.iter().map(|s| (s.start, s.end, s.name.as_str())).collect();
        assert_eq!(found, [(0x1000, 0x1010, "old"), (0x2000, 0x2020, "py::f:/a b.py")]);
    }
}
