//! Source text of a function's hot lines with their time and operations, from the files that are there when the report is made.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::name;
use crate::number::{seconds, si};
use rprof_profile::Function;
use rprof_profile::function::LineFacts;

use super::escape;

/// Hot lines of a function that are shown.
const HOT: usize = 8;
/// Lines shown before and after a hot one.
const AROUND: u32 = 2;
/// Characters of a line.
const WIDTH: usize = 120;
/// Larger files are not read, in bytes.
const LARGEST: u64 = 4 << 20;
/// Files that a page reads.
const MOST_FILES: usize = 100;

/// Source files that were read for a page; `None` for those that cannot be.
#[derive(Debug, Default)]
pub struct Files {
    read: RefCell<BTreeMap<String, Option<Vec<String>>>>,
}

impl Files {
    /// Line `number` of `path`, and whether that file is there.
    fn with<T>(&self, path: &str, ask: impl FnOnce(&[String]) -> T) -> Option<T> {
        let mut read = self.read.borrow_mut();
        if !read.contains_key(path) && read.len() >= MOST_FILES {
            return None;
        }
        let lines = read.entry(path.to_owned()).or_insert_with(|| lines_of(path));
        lines.as_deref().map(ask)
    }
}

/// The lines of a regular text file; `None` for anything else, and for relative paths, which depend on where the report is made.
fn lines_of(path: &str) -> Option<Vec<String>> {
    let path = Path::new(path);
    let facts = fs::metadata(path).ok().filter(|f| path.is_absolute() && f.is_file() && f.len() <= LARGEST)?;
    let bytes = fs::read(path).ok().filter(|bytes| facts.len() > 0 && !bytes.contains(&0))?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

/// The hottest lines of `f` with those around them; empty where no source file is there.
pub fn markup(f: &Function, files: &Files) -> String {
    let mut hot: Vec<&LineFacts> = f.lines.iter().filter(|l| l.line > 0).collect();
    hot.sort_by(|a, b| heat(b).0.total_cmp(&heat(a).0).then(heat(b).1.cmp(&heat(a).1)));
    let mut shown: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for line in hot.into_iter().filter(|l| heat(l) > (0.0, 0)).take(HOT) {
        let Some(path) = line.file.as_deref().or(f.file.as_deref()) else { continue };
        if files.with(path, |lines| line.line as usize <= lines.len()) != Some(true) {
            continue;
        }
        if !order.contains(&path) {
            order.push(path);
        }
        let near = line.line.saturating_sub(AROUND).max(1)..=line.line + AROUND;
        shown.entry(path).or_default().extend(near);
    }
    let listings = order.into_iter().filter_map(|path| files.with(path, |lines| listing(f, path, lines, &shown[path])));
    listings.collect()
}

fn heat(line: &LineFacts) -> (f64, u64) {
    (line.cpu_s.unwrap_or(0.0), line.instructions.unwrap_or(0))
}

/// A table of lines: number, time, FLOPs, text; a gap where lines are left out.
fn listing(f: &Function, path: &str, lines: &[String], numbers: &BTreeSet<u32>) -> String {
    let mut out = format!(
        "<p class=\"place\">{}, as it is now</p><table class=\"source\"><tr><th>line<th>time<th>FLOPs<th>instr.<th>",
        escape(&name::shorten(path, 160))
    );
    let mut before = None;
    for number in numbers {
        let Some(text) = lines.get(*number as usize - 1) else { continue };
        if before.is_some_and(|b| b + 1 < *number) {
            out += "<tr><td>⋮";
        }
        before = Some(*number);
        let own = |l: &&LineFacts| l.line == *number && l.file.as_deref().or(f.file.as_deref()) == Some(path);
        let facts: Vec<&LineFacts> = f.lines.iter().filter(own).collect();
        let time = facts.iter().filter_map(|l| l.cpu_s).reduce(|a, b| a + b).map(seconds);
        let sum = |of: fn(&LineFacts) -> Option<u64>| facts.iter().filter_map(|l| of(l)).reduce(|a, b| a + b);
        let count =
            |n: Option<u64>| n.filter(|n| *n > 0).map(|n| si(n as f64, "").trim().to_owned()).unwrap_or_default();
        let text = text.replace('\t', "    ");
        let _ = write!(
            out,
            "<tr{}><td>{number}<td>{}<td>{}<td>{}<td>{}",
            if facts.is_empty() { "" } else { " class=\"hot\"" },
            time.unwrap_or_default(),
            count(sum(|l| l.flops)),
            count(sum(|l| l.instructions)),
            escape(&name::shorten(&text, WIDTH))
        );
    }
    out + "</table>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(file: &str) -> Function {
        let line = |line: u32, cpu_s: Option<f64>, flops: u64| LineFacts {
            file: None,
            line,
            cpu_s,
            instructions: Some(10 * flops),
            flops: Some(flops),
            dram_bytes: None,
        };
        let lines =
            vec![line(12, Some(0.5), 4000), line(40, Some(0.25), 0), line(9999, Some(1.0), 1), line(41, None, 0)];
        Function { file: Some(file.into()), lines, ..Function::default() }
    }

    #[test]
    fn hot_lines_are_shown_with_their_surroundings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        let text: String = (1..=50).map(|i| format!("x[{i}] = </script> & y;\n")).collect();
        fs::write(&path, text).unwrap();
        let out = markup(&function(path.to_str().unwrap()), &Files::default());
        assert!(
            out.contains("<tr class=\"hot\"><td>12<td>500 ms<td>4.00 k<td>40.0 k<td>x[12] = &lt;/script&gt; &amp; y;"),
            "{out}"
        );
        assert!(out.contains("<tr><td>10<td><td><td><td>x[10]") && out.contains("<tr><td>⋮") && !out.contains("x[9]"));
        assert!(out.contains("x[42]") && !out.contains("x[43]"), "{out}");
    }

    #[test]
    fn nothing_is_shown_of_files_that_are_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("b");
        fs::write(&binary, [b'\n', 0].repeat(100)).unwrap();
        for path in [binary.to_str().unwrap(), "relative.c", "/nonexistent/file.c", "/dev/zero", "/proc/self/mem", "/"]
        {
            assert_eq!(markup(&function(path), &Files::default()), "", "{path}");
        }
    }
}
