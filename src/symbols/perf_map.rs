//! Symbols of code made at run time: `/tmp/perf-<pid>.map`, which JIT compilers write for profilers.

use std::path::PathBuf;

/// Functions of one process's JIT compiler.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// (start, end, name), sorted by start.
    entries: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the map of process `pid`; empty if there is none.
    pub fn of_process(pid: u32) -> Self {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        std::fs::read(path).map(|bytes| Self::parse(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
    }

    /// Parses lines of `START SIZE NAME`, numbers in hexadecimal. Code that was replaced at the same address keeps the
    /// latest name; damaged lines are skipped.
    pub fn parse(text: &str) -> Self {
        let mut entries: Vec<(u64, u64, String)> = text.lines().filter_map(parse_line).collect();
        // The sort is stable, so the latest line of one address comes last and survives.
        entries.sort_by_key(|e| e.0);
        entries.reverse();
        entries.dedup_by_key(|e| e.0);
        entries.reverse();
        PerfMap { entries }
    }

    /// (start, end, name) of the function at `address`.
    pub fn find(&self, address: u64) -> Option<(u64, u64, &str)> {
        let (start, end, name) = self.entries[..self.entries.partition_point(|e| e.0 <= address)].last()?;
        (address < *end).then_some((*start, *end, name.as_str()))
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, String)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok();
    let (start, size) = (hex(start)?, hex(size)?);
    Some((start, start.checked_add(size)?, name.trim().to_owned())).filter(|(s, e, n)| s < e && !n.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_win_and_damage_is_left_out() {
        let map =
            PerfMap::parse("1000 10 old\n2000 20 py::f:/a b.py\nrubbish\n1000 10 new\nfffffffffffffff0 20 wraps\n");
        assert_eq!(map.find(0x100f), Some((0x1000, 0x1010, "new")));
        assert_eq!(map.find(0x1010), None);
        assert_eq!(map.find(0x2001).map(|e| e.2), Some("py::f:/a b.py"));
        assert_eq!(map.find(0xfff), None);
        assert_eq!(map.find(u64::MAX), None);
    }
}
