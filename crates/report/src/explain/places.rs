//! Tables of the parts of one function: loops, source lines, inlined functions, branches, threads.

use crate::disassembly::{SKID, executions, hot_loops, missing};
use crate::number::{percent, seconds, si};
use crate::regions::Rows;
use crate::{View, name, table};
use rprof_profile::disassembly::LoopInstruction;
use rprof_profile::function::LineFacts;
use rprof_profile::{Function, Profile};

use super::ROWS;

/// Characters of a name in a table.
const NAME_WIDTH: usize = 34;
/// Instructions of a loop.
const INSTRUCTIONS: usize = 24;
/// Characters of one.
const WIDTH: usize = 60;

fn cell(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}

fn count(n: Option<u64>) -> String {
    cell(n.map(|n| si(n as f64, "")))
}

/// `… and 7 more` if a table has not all.
fn cut(all: usize) -> Vec<String> {
    if all > ROWS { vec![format!("… and {} more in profile.json", all - ROWS)] } else { Vec::new() }
}

fn at(path: Option<&str>, line: Option<u32>) -> String {
    name::place(path, line).or_else(|| line.map(|line| format!("line {line}"))).unwrap_or_else(|| "–".into())
}

/// Loops with their nested ones, in their order, indented.
pub fn loops(f: &Function) -> Option<Rows> {
    let mut all: Vec<(usize, &Function)> = Vec::new();
    fn collect<'a>(f: &'a Function, depth: usize, all: &mut Vec<(usize, &'a Function)>) {
        for inner in &f.loops {
            all.push((depth, inner));
            collect(inner, depth + 1, all);
        }
    }
    collect(f, 0, &mut all);
    let unit = |f: &Function| format!("{}/s", table::operations(f.analysis.axis.as_deref()));
    let row = |(depth, inner): &(usize, &Function)| {
        let a = &inner.analysis;
        vec![
            format!("{}{}", "  ".repeat((*depth).min(4)), name::shorten(&inner.name, NAME_WIDTH)),
            cell(inner.cpu_s.map(seconds)),
            cell(a.flop_rate.map(|r| si(r, &unit(inner)))),
            table::class(inner),
            cell(a.roof_fraction.map(|at| format!("{}{}", table::at_least(inner), percent(at)))),
            count(inner.instructions),
        ]
    };
    (!all.is_empty()).then(|| Rows {
        title: "Loops".into(),
        titles: vec!["loop", "CPU time", "rate", "held by", "at", "instr."],
        rows: all.iter().take(ROWS).map(row).collect(),
        words: vec![3],
        notes: cut(all.len()),
    })
}

/// Source lines with most time, else most instructions.
pub fn lines(f: &Function) -> Option<Rows> {
    let mut all: Vec<&LineFacts> = f.lines.iter().collect();
    let key = |l: &LineFacts| (l.cpu_s.unwrap_or(0.0), l.instructions.unwrap_or(0));
    all.sort_by(|a, b| key(b).0.total_cmp(&key(a).0).then(key(b).1.cmp(&key(a).1)));
    let row = |l: &&LineFacts| {
        vec![
            at(l.file.as_deref().or(f.file.as_deref()), Some(l.line)),
            cell(l.cpu_s.map(seconds)),
            cell(l.cpu_s.zip(f.cpu_s.filter(|s| *s > 0.0)).map(|(part, whole)| percent(part / whole))),
            count(l.instructions),
            count(l.flops),
            cell(l.dram_bytes.map(|b| si(b as f64, "B"))),
        ]
    };
    (!all.is_empty()).then(|| Rows {
        title: "Source lines".into(),
        titles: vec!["line", "CPU time", "share", "instr.", "FLOPs", "DRAM"],
        rows: all.iter().take(ROWS).map(row).collect(),
        words: Vec::new(),
        notes: cut(all.len()),
    })
}

/// Which loop [`instructions`] are of, or why there are none.
pub fn loop_code(f: &Function) -> Vec<String> {
    let sentence = match hot_loops(f).first() {
        Some(hot) => Some(hot.title()),
        None => missing(f).map(|reason| format!("not disassembled: {}", name::printable(reason))),
    };
    sentence.into_iter().collect()
}

/// Instructions of its hottest loop.
pub fn instructions(f: &Function) -> Option<Rows> {
    let loops = hot_loops(f);
    let hot = loops.first()?;
    let shown = hot.code.hottest(INSTRUCTIONS);
    let all = hot.code.instructions.len() + hot.code.left_out as usize;
    let more = all - shown.len();
    let row = |i: &LoopInstruction| {
        vec![
            format!("{:#x}", i.offset),
            cell(i.cpu_s.map(seconds)),
            cell(i.executions.map(executions)),
            name::printable(&i.text).chars().take(WIDTH).collect(),
        ]
    };
    let cut = (more > 0).then(|| format!("… and {more} more that took less"));
    Some(Rows {
        title: "Instructions".into(),
        titles: vec!["address", "CPU time", if hot.is_estimated() { "executed (est.)" } else { "executed" }, ""],
        rows: shown.iter().map(row).collect(),
        words: vec![3],
        notes: cut.into_iter().chain([SKID.to_owned()]).collect(),
    })
}

/// Functions that the compiler put into it.
pub fn inlined(f: &Function, view: &View) -> Option<Rows> {
    let row = |inner: &rprof_profile::function::InlineFacts| {
        vec![
            name::shorten(&inner.name, view.name_width(NAME_WIDTH)),
            at(inner.file.as_deref(), inner.line),
            cell(inner.cpu_s.map(seconds)),
            count(inner.instructions),
            count(inner.flops),
        ]
    };
    (!f.inlined.is_empty()).then(|| Rows {
        title: "Inlined functions".into(),
        titles: vec!["function", "from", "CPU time", "instr.", "FLOPs"],
        rows: f.inlined.iter().take(ROWS).map(row).collect(),
        words: vec![1],
        notes: cut(f.inlined.len()),
    })
}

/// Branches that are predicted wrongly.
pub fn branches(f: &Function) -> Option<Rows> {
    let all = &f.account.as_ref()?.branches;
    let row = |b: &rprof_profile::account::HotBranch| {
        let place = if b.line.is_some() { at(b.file.as_deref(), b.line) } else { format!("{:#x}", b.offset) };
        vec![place, percent(b.mispredicted), seconds(b.seconds)]
    };
    (!all.is_empty()).then(|| Rows {
        title: "Branches".into(),
        titles: vec!["branch", "mispredicted", "costs"],
        rows: all.iter().take(ROWS).map(row).collect(),
        words: Vec::new(),
        notes: cut(all.len()),
    })
}

/// Its threads, the busiest first; `None` if there was one.
pub fn threads(profile: &Profile, f: &Function) -> Option<Rows> {
    let mut all: Vec<_> = f.per_thread.iter().collect();
    all.sort_by(|a, b| b.cpu_s.unwrap_or(0.0).total_cmp(&a.cpu_s.unwrap_or(0.0)));
    let tid = |i: u32| profile.run.threads.get(i as usize).map_or(format!("{i}"), |t| format!("{i} ({})", t.tid));
    let row = |t: &&rprof_profile::function::PerThread| {
        vec![
            tid(t.thread),
            cell(t.cpu_s.map(seconds)),
            count(t.instructions),
            count(t.flops),
            cell(t.dram_bytes.map(|b| si(b as f64, "B"))),
        ]
    };
    let notes = f.lambda.map(|l| format!("load balance: {} of the busiest thread's time on average", percent(l)));
    (all.len() > 1).then(|| Rows {
        title: "Threads".into(),
        titles: vec!["thread", "CPU time", "instr.", "FLOPs", "DRAM"],
        rows: all.iter().take(ROWS).map(row).collect(),
        words: Vec::new(),
        notes: notes.into_iter().chain(cut(all.len())).collect(),
    })
}
