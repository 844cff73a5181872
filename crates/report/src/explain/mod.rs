//! Everything about one function, in parts that text and HTML share: what holds it, its account of time, ladder, memory, figures, loops,
//! lines, inlined functions, threads.
//!
//! ```text
//! Function ─▶ parts (lines and tables) ─┬▶ text, `--function NAME`
//!                                       ├▶ report.html
//!                                       └▶ rprof query explain
//! ```

mod figures;
mod places;

use std::collections::BTreeMap;

use rprof_profile::{Function, Profile};

use super::number::{self, NOT_MEASURED, percent, seconds};
use super::regions::{self, Rows};
use super::{View, account, brief, counters, name, system, table, text, traffic, verdict, words, wrap};

pub use figures::measures;

/// Rows of a table at most; `profile.json` has all.
pub const ROWS: usize = 12;
/// Functions that are shown at full length if several match.
const SHOWN: usize = 3;

/// Title of the part that has the instructions of a loop; the text has it only if there are no source lines.
pub const INSTRUCTIONS: &str = "Instructions of its hottest loop";

/// A part: sentences, then a table.
pub struct Part {
    pub title: &'static str,
    pub lines: Vec<String>,
    pub rows: Option<Rows>,
}

/// The functions that match, the first few at full length.
pub fn text(profile: &Profile, view: &View) -> String {
    let width = view.width.clamp(60, 200);
    let all: Vec<&Function> = view.kept(profile).collect();
    if all.is_empty() {
        let near = suggestions(profile);
        return format!("None of the {} functions has a name that matches.{near}\n", profile.functions.len());
    }
    // Functions that take time come first; without one, the first alone.
    let sampled = all.iter().filter(|f| f.share.is_some()).count();
    let shown = sampled.clamp(1, SHOWN);
    let mut out: String = all.iter().take(shown).map(|f| one(profile, f, view, width)).collect::<Vec<_>>().join("\n");
    if all.len() > shown {
        let others: Vec<String> = all[shown..].iter().take(4).map(|f| name::of(f, 40)).collect();
        let more = if all.len() > shown + 4 { ", …" } else { "" };
        let line = format!("… and {} more that match: {}{more}", all.len() - shown, others.join(", "));
        out += &format!("\n{}", wrap::hanging(&line, width, 2));
    }
    out
}

/// The hottest functions, for a name that nothing has.
fn suggestions(profile: &Profile) -> String {
    let hottest: Vec<String> = profile.functions.iter().take(3).map(|f| name::of(f, 40)).collect();
    if hottest.is_empty() { String::new() } else { format!(" The hottest are {}.", hottest.join(", ")) }
}

fn one(profile: &Profile, f: &Function, view: &View, width: usize) -> String {
    let mut out = wrap::hanging(&name::printable(f.full_name.as_deref().unwrap_or(&f.name)), width, 2);
    out += &wrap::hanging(&format!("  {}", place(f)), width, 4);
    // Lines of the source say it shorter.
    let shown = |part: &Part| part.title != INSTRUCTIONS || f.lines.is_empty();
    for part in parts(profile, f, view).into_iter().filter(shown) {
        out += &format!("\n{}\n", part.title);
        out.extend(part.lines.iter().map(|line| wrap::hanging(&format!("  {line}"), width, 4)));
        if let Some(rows) = &part.rows {
            out += &regions::table(rows, width);
        }
    }
    out
}

/// `kernels.cpp:12, in app`
pub fn place(f: &Function) -> String {
    let module = name::printable(&f.module);
    match (&f.file, f.line) {
        (Some(file), Some(line)) => format!("{}:{line}, in {module}", name::printable(file)),
        _ => format!("in {module}"),
    }
}

/// The parts that have something to say.
pub fn parts(profile: &Profile, f: &Function, view: &View) -> Vec<Part> {
    let all = [
        Part { title: "What holds it", lines: holds(profile, f), rows: None },
        Part { title: "What would help", lines: helps(f), rows: None },
        Part { title: "Where its time goes", lines: time(f), rows: figures::account(f) },
        Part { title: "Ladder of its ceilings", lines: Vec::new(), rows: figures::ladder(f) },
        Part { title: "Memory", lines: traffic::of_function(f), rows: figures::memory(f) },
        Part { title: "Loops", lines: Vec::new(), rows: places::loops(f) },
        Part { title: "Source lines", lines: Vec::new(), rows: places::lines(f) },
        Part { title: INSTRUCTIONS, lines: places::loop_code(f), rows: places::instructions(f) },
        Part { title: "Inlined in it", lines: Vec::new(), rows: places::inlined(f, view) },
        Part { title: "Branches that cost most", lines: Vec::new(), rows: places::branches(f) },
        Part { title: "Threads", lines: Vec::new(), rows: places::threads(profile, f) },
        Part {
            title: "Figures",
            lines: counters::of_function(f).into_iter().collect(),
            rows: Some(figures::measures(f)),
        },
        Part { title: "Not measured", lines: unmeasured(f), rows: None },
    ];
    all.into_iter().filter(|part| !part.lines.is_empty() || part.rows.is_some()).collect()
}

/// The argument for its class.
fn holds(profile: &Profile, f: &Function) -> Vec<String> {
    let share = f.share.map(|share| format!("{} of the CPU time", percent(share)));
    let rank =
        rank(profile, f).filter(|_| f.share.is_some()).map(|n| format!("number {n} of {}", profile.functions.len()));
    let place: Vec<String> = share.into_iter().chain(rank).collect();
    let timed = profile.run.passes.iter().any(|pass| pass.kind == "timed");
    let first = match f.share {
        Some(_) => format!("{}; {}.", place.join(", "), verdict::held_by(f)),
        None if timed => "No sample met it, so that its time is not known.".into(),
        None => "Times were not measured.".into(),
    };
    vec![first, text::holding(f)]
}

/// Its place among the functions by CPU time.
fn rank(profile: &Profile, f: &Function) -> Option<usize> {
    profile.functions.iter().position(|other| std::ptr::eq(other, f)).map(|i| i + 1)
}

fn helps(f: &Function) -> Vec<String> {
    let line = |s: &rprof_profile::function::Saving| {
        let range = number::range(s.seconds, s.seconds_max);
        let whole = match s.program_seconds {
            Some(p) if p < 0.95 * s.seconds => format!(", {} of the program", seconds(p)),
            _ => String::new(),
        };
        format!("→ {} ({range}{whole}): {}", s.remove.join(" + "), s.advice)
    };
    table::savings(f).iter().map(line).chain(f.analysis.remarks.iter().map(|remark| format!("· {remark}"))).collect()
}

fn time(f: &Function) -> Vec<String> {
    account::lines(f).into_iter().chain(system::of_function(f)).collect()
}

/// Reasons why figures are missing: figures with the same reason share a line.
fn unmeasured(f: &Function) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, source) in &f.source {
        let Some(reason) = source.reason.as_deref().filter(|_| source.how == NOT_MEASURED) else { continue };
        by_reason.entry(reason).or_default().push(key);
    }
    by_reason.into_iter().map(|(reason, figures)| format!("{} ({reason})", figures.join(", "))).collect()
}

/// The same in one paragraph of plain words, for `rprof query explain`.
pub fn argument(profile: &Profile, f: &Function) -> Vec<String> {
    let phrases = brief::phrases(f);
    let saves = match phrases.len() {
        0 if f.instructions.is_none() => {
            "Its work was not counted, so that nothing is known of what would save time.".to_owned()
        }
        0 => "No change was found that saves 5 % of its bound.".to_owned(),
        _ => format!("Of the program this would save: {}.", phrases.join("; ")),
    };
    let class = f.analysis.class.map(|class| format!("Its class is {class}: {}.", words::class(class)));
    holds(profile, f).into_iter().chain(class).chain([saves]).chain(time(f)).chain(helps(f)).collect()
}
