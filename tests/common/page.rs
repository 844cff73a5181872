//! A page of the book: its blocks, and its commands run in an empty folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Beginnings of lines that come whatever a machine is like: the report's first line and the headings of its tables.
const MUST_COME: [&str; 7] = ["rprof: ", " function ", " cause ", " figure ", " region ", " ceiling ", " class "];

/// A fenced block with the comments right before it.
pub struct Block {
    pub language: String,
    pub body: String,
    notes: Vec<(String, String)>,
}

impl Block {
    /// The value of the comment `<!-- NAME: VALUE -->` before the block.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Commands with the output that is shown below each; none if the block is not run.
    pub fn commands(&self) -> Vec<(&str, Vec<&str>)> {
        if self.language != "console" || self.note("not run").is_some() {
            return Vec::new();
        }
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in self.body.lines() {
            match (line.strip_prefix("$ "), all.last_mut()) {
                (Some(command), _) => all.push((command, Vec::new())),
                (None, Some((_, shown))) => shown.push(line),
                (None, None) => {}
            }
        }
        all
    }
}

/// A page as far as its commands are concerned.
pub struct Page {
    pub blocks: Vec<Block>,
    needs: Vec<(String, String)>,
}

/// What came of a page.
pub enum Run {
    /// The host lacks something; a line that says what.
    Lacks(String),
    Done {
        /// What went otherwise than the page says.
        wrong: Vec<String>,
        /// For each `<!-- class: NAME -->`: the class, and whether the function `before` got it.
        classes: Vec<(String, bool)>,
    },
}

/// `<!-- NAME: VALUE -->`.
fn note(line: &str) -> Option<(String, String)> {
    let inner = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    inner.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()))
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (mut blocks, mut notes, mut needs) = (Vec::new(), Vec::new(), Vec::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some((name, value)) = note(line) {
                if name == "needs" {
                    needs.push(note(&format!("<!-- {value} -->")).expect("needs: TAG: COMMAND"));
                } else {
                    notes.push((name, value));
                }
            } else if let Some(language) = line.strip_prefix("```") {
                let body: String = lines.by_ref().take_while(|l| *l != "```").map(|l| format!("{l}\n")).collect();
                blocks.push(Block { language: language.to_owned(), body, notes: std::mem::take(&mut notes) });
            } else {
                notes.clear();
            }
        }
        Page { blocks, needs }
    }

    /// Writes the page's files and runs its commands, in order, in a new folder.
    pub fn run(&self) -> Run {
        let place = Place::new();
        for (tag, command) in &self.needs {
            if !place.run(command).status.success() {
                return Run::Lacks(format!("SKIPPED: {tag}: `{command}` fails"));
            }
        }
        let (mut wrong, mut classes) = (Vec::new(), Vec::new());
        for block in &self.blocks {
            if let Some(name) = block.note("file") {
                fs::write(place.folder.path().join(name), &block.body).unwrap();
            }
            let commands = block.commands();
            let count = commands.len();
            for (i, (command, shown)) in commands.into_iter().enumerate() {
                let expected = if i + 1 == count { block.note("exits").unwrap_or("0") } else { "0" };
                let output = place.run(command);
                let may_be_empty = block.note("may be empty").is_some();
                wrong.extend(different(command, &shown, &output, (expected, may_be_empty)));
                if let Some(class) = block.note("class").filter(|_| i + 1 == count) {
                    classes.push((class.to_owned(), is_class_of_before(&output, class)));
                }
            }
        }
        Run::Done { wrong, classes }
    }
}

/// Whether the report in `output` has `class` in the row of the function `before`.
fn is_class_of_before(output: &Output, class: &str) -> bool {
    let report = String::from_utf8_lossy(&output.stderr);
    let mut rows = report.lines().filter(|line| line.trim_start().starts_with("before"));
    rows.any(|row| row.split_whitespace().any(|word| word == class))
}

/// A line without its alignment, which follows the width of the figures in other rows, and without whole numbers, such as how long a second
/// run will take.
fn shape(line: &str) -> String {
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    line.split_whitespace().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

/// What of `output` is not as the page has it. `expected`: the exit status, and whether there may be no output on some machines.
fn different(command: &str, shown: &[&str], output: &Output, expected: (&str, bool)) -> Vec<String> {
    let (expected, may_be_empty) = expected;
    let real = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let ended = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
    let mut wrong = Vec::new();
    if ended != expected {
        wrong.push(format!("`{command}` ended with {ended}, not {expected}:\n{real}"));
    }
    let lines: Vec<String> = real.lines().map(shape).collect();
    // A comparison without a difference has no table.
    let is_table = !real.contains("No function's time differs");
    for line in shown.iter().filter(|line| MUST_COME.iter().any(|beginning| line.starts_with(beginning))) {
        if is_table && !lines.contains(&shape(line)) {
            wrong.push(format!("`{command}` did not print `{line}`:\n{real}"));
        }
    }
    if !may_be_empty && lines.is_empty() && shown.iter().any(|line| !line.is_empty()) {
        wrong.push(format!("`{command}` printed nothing"));
    }
    wrong
}

/// An empty folder with rprof on the path.
struct Place {
    folder: tempfile::TempDir,
    path: String,
}

impl Place {
    fn new() -> Place {
        let rprof = PathBuf::from(env!("CARGO_BIN_EXE_rprof"));
        let path = std::env::var("PATH").unwrap_or_default();
        Place { folder: tempfile::tempdir().unwrap(), path: format!("{}:{path}", rprof.parent().unwrap().display()) }
    }

    fn run(&self, command: &str) -> Output {
        let mut shell = Command::new("timeout");
        shell.args(["--foreground", "-k", "5", "300", "bash", "-c", command]).current_dir(self.folder.path());
        shell.stdin(Stdio::null()).env("PATH", &self.path);
        shell.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        shell.output().unwrap()
    }
}
