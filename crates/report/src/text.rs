//! The long text report (`--all`): a table of functions, the limits of the hottest ones with advice, and doubts.

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use rprof_profile::function::FunctionCeiling;
use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile};

use super::number::{self, NOT_MEASURED, percent, seconds, si};
use super::table::{self, COLUMNS};
use super::trust::Trust;
use super::{
    View, account, blas, counters, devices, mpi, name, regions, summary, system, traffic, verdict as program, wrap,
};

/// The whole report.
pub fn report(profile: &Profile, view: &View) -> String {
    let width = view.width.clamp(60, 200);
    let mut out = format!("rprof: {}\n", name::shorten(&profile.run.command.join(" "), width - 7));
    out += &wrap::hanging(&program::sentence(profile), width, 0);
    out += &wrap::hanging(&Trust::of(profile).line(), width, 2);
    for line in summary::lines(profile) {
        out += &wrap::hanging(&line, width, 2);
    }
    out.push('\n');
    if profile.functions.is_empty() {
        out += "No function was seen: too little to measure.\n";
    } else if view.functions(profile).next().is_none() {
        out += &format!("None of the {} functions has a name that matches.\n", profile.functions.len());
    } else {
        out += &functions(profile, view, width);
        out += &legend(profile, view, width);
    }
    out += &devices::text(profile, view, width);
    if !profile.functions.is_empty() {
        out += &explanations(profile, view, width);
    }
    let in_system = system::of_program(profile);
    if !in_system.is_empty() {
        out.push('\n');
        out.extend(in_system.iter().map(|line| wrap::hanging(line, width, 4)));
    }
    out.extend(blas::rows(profile, usize::MAX).iter().map(|rows| regions::text(rows, width)));
    out.extend(mpi::tables(profile, usize::MAX).iter().map(|rows| regions::text(rows, width)));
    out.extend(regions::tables(profile).iter().map(|rows| regions::text(rows, width)));
    let counters = counters::of_program(profile);
    if !counters.is_empty() {
        out.push('\n');
        out.extend(counters.iter().map(|line| wrap::hanging(line, width, 4)));
    }
    out + &doubts(profile, width)
}

/// The table of functions with all columns that fit.
pub fn functions(profile: &Profile, view: &View, width: usize) -> String {
    let with_expected = profile.functions.iter().any(|f| f.analysis.expected.is_some());
    let rows: Vec<(&Function, Vec<String>)> = view
        .functions(profile)
        .map(|f| {
            let mut cells: Vec<String> = COLUMNS.iter().map(|c| (c.cell)(f).unwrap_or_else(|| "–".into())).collect();
            if with_expected {
                cells.push(verdict(f));
            }
            (f, cells)
        })
        .collect();
    let mut titles: Vec<&str> = COLUMNS.iter().map(|c| c.title).collect();
    if with_expected {
        titles.push("built for");
    }
    let shown = fitting(&rows, &titles, width);
    let used: usize = shown.iter().map(|(_, w)| w + 2).sum();
    let name_width = view.name_width(width.saturating_sub(used + 1).max(12));
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    let header: Vec<Cell> = std::iter::once(Cell::new("function"))
        .chain(shown.iter().map(|(i, _)| aligned(titles[*i], *i, &right)))
        .collect();
    table.set_header(header);
    for (f, cells) in &rows {
        let row: Vec<Cell> = std::iter::once(Cell::new(name::of(f, name_width)))
            .chain(shown.iter().map(|(i, _)| aligned(&cells[*i], *i, &right)))
            .collect();
        table.add_row(row);
    }
    let drawn: String = table.to_string().lines().map(|l| format!("{}\n", l.trim_end())).collect();
    let faster = table::faster("at", rows.iter().filter_map(|(f, _)| f.analysis.roof_fraction));
    drawn + &faster.map_or(String::new(), |why| wrap::hanging(&format!(" {why}"), width, 1))
}

/// Words to the left, figures to the right.
fn aligned(text: &str, column: usize, right: &dyn Fn(&str) -> Cell) -> Cell {
    let words = column >= COLUMNS.len() || matches!(COLUMNS[column].title, "held by" | "saves");
    if words { Cell::new(text) } else { right(text) }
}

/// Columns and their widths; the least important go first if the terminal is too narrow for a name of 16 characters.
fn fitting(rows: &[(&Function, Vec<String>)], titles: &[&str], width: usize) -> Vec<(usize, usize)> {
    let widest = |i: usize| {
        rows.iter().map(|(_, cells)| cells[i].chars().count()).chain([titles[i].chars().count()]).max().unwrap_or(0)
    };
    let mut shown: Vec<(usize, usize)> = (0..titles.len()).map(|i| (i, widest(i))).collect();
    for dispensable in ["op/byte", "saves", "rate", "time"] {
        let used: usize = shown.iter().map(|(_, w)| w + 2).sum();
        if used + 18 <= width {
            break;
        }
        shown.retain(|(i, _)| titles[*i] != dispensable);
    }
    shown
}

/// For the demo: the class it was built for, and whether the model found it.
fn verdict(f: &Function) -> String {
    match f.analysis.expected {
        None => String::new(),
        Some(expected) if f.analysis.class.is_none() => expected.name().to_owned(),
        Some(expected) if f.analysis.class == Some(expected) => format!("{expected} ✓"),
        Some(expected) => format!("{expected} ✗"),
    }
}

/// `… and 12 functions below 0.5 %`, empty if the table has all.
pub fn left_out(profile: &Profile, view: &View) -> String {
    let left_out = |sampled: bool| {
        let of_kind = |f: &&Function| f.share.is_some() == sampled;
        profile.functions.iter().filter(of_kind).count() - view.functions(profile).filter(of_kind).count()
    };
    let (small, unsampled) = (left_out(true), left_out(false));
    let kinds = match view.keep {
        Some(_) => vec![(small + unsampled, "with other names".to_owned())],
        None => vec![(small, format!("below {}", percent(view.least_share))), (unsampled, "without a sample".into())],
    };
    let told: Vec<String> =
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} functions {why}")).collect();
    if told.is_empty() { String::new() } else { format!("… and {}\n", told.join(", ")) }
}

fn legend(profile: &Profile, view: &View, width: usize) -> String {
    let mut out = left_out(profile, view);
    let gap =
        view.functions(profile).any(|f| f.work.is_none() || f.time_s.is_none() || f.analysis.roof_fraction.is_none());
    let note = "at: least time of the binding ceiling / measured time. saves: the time that removing it would save.";
    let bounds = view.functions(profile).any(|f| f.analysis.roof_fraction.is_some() && !table::at_least(f).is_empty());
    let bounds = if bounds { " ≥, ≤: the bound lacks a term." } else { "" };
    out += &wrap::hanging(&format!("{note}{}{bounds}", if gap { " –: not measured." } else { "" }), width, 0);
    out
}

fn explanations(profile: &Profile, view: &View, width: usize) -> String {
    view.explained(profile).map(|f| explanation(f, width)).collect()
}

/// One function's limit, its distance from it, the next limit, and advice.
fn explanation(f: &Function, width: usize) -> String {
    let place = name::place(f.file.as_deref(), f.line).unwrap_or_else(|| f.module.clone());
    let place = format!(" ({place})");
    let mut out = format!("\n{}{place}\n", name::of(f, width.saturating_sub(place.chars().count() + 1)));
    out += &wrap::hanging(&format!("  {}", holding(f)), width, 4);
    for line in account::lines(f).into_iter().chain(system::of_function(f)) {
        out += &wrap::hanging(&format!("  {line}"), width, 4);
    }
    for s in table::savings(f).iter().take(3) {
        let range = number::range(s.seconds, s.seconds_max);
        let whole = match s.program_seconds {
            Some(p) if p < 0.95 * s.seconds => format!(", {} of the program", seconds(p)),
            _ => String::new(),
        };
        out += &wrap::hanging(&format!("  → {} ({range}{whole}): {}", s.remove.join(" + "), s.advice), width, 4);
    }
    for remark in &f.analysis.remarks {
        out += &wrap::hanging(&format!("  · {remark}"), width, 4);
    }
    for line in traffic::of_function(f).into_iter().chain(counters::of_function(f)) {
        out += &wrap::hanging(&format!("  {line}"), width, 4);
    }
    for reason in unmeasured(f) {
        out += &wrap::hanging(&format!("  {reason}"), width, 4);
    }
    out
}

/// `dram-bandwidth at 95 % of its ceiling 47.9 GFLOP/s (dram.triad); next: simd at 120 GFLOP/s`
pub fn holding(f: &Function) -> String {
    let a = &f.analysis;
    let unit = format!("{}/s", table::operations(a.axis.as_deref()));
    let Some(fraction) = a.roof_fraction else {
        return match f.time_s {
            Some(_) => format!("{}: its time is known, its counts are not", table::class(f)),
            None => format!("{}: its counts are known, its time is not", table::class(f)),
        };
    };
    let binding = a.ceilings.iter().find(|c| Some(&c.id) == a.binding.as_ref());
    let bound = a.flop_rate.map(|r| format!(" {}", si(r / fraction, &unit))).unwrap_or_default();
    let from = binding.map(sources).unwrap_or_default();
    let least = table::at_least(f);
    let place = match a.class {
        Some(Class::Unknown) => format!("not explained: at {least}{} of its bound{bound}{from}", percent(fraction)),
        _ => format!("{}: at {least}{} of its bound{bound}{from}", table::class_and_doubt(f), percent(fraction)),
    };
    let without = table::without(f);
    let without =
        if without.is_empty() { String::new() } else { format!("; not in the bound: {}", without.join(", ")) };
    let rate = a.flop_rate.map_or(String::new(), |r| format!("{}; ", si(r, &unit)));
    format!("{rate}{place}{}{without}", next(f, &unit))
}

fn sources(c: &FunctionCeiling) -> String {
    match c.from.len() {
        0 => String::new(),
        1..=3 => format!(" (from {})", c.from.join(", ")),
        n => format!(" (from {}, … {} more)", c.from[..2].join(", "), n - 2),
    }
}

/// The term that would bind next.
fn next(f: &Function, unit: &str) -> String {
    let t = f.analysis.terms;
    let mut terms = [
        ("arithmetic pipes", t.pipe),
        ("dependency chains", t.chain),
        ("issue", t.issue),
        ("loads and stores", t.access),
        ("L1", t.l1),
        ("L2", t.l2),
        ("L3", t.l3),
        ("DRAM", t.dram),
        ("latency", t.latency),
    ]
    .into_iter()
    .filter_map(|(name, s)| s.filter(|s| *s > 0.0).map(|s| (name, s)))
    .collect::<Vec<_>>();
    terms.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rate = |s: f64| f.analysis.flop_rate.zip(f.time_s).map(|(r, time)| si(r * time / s, unit));
    match terms.get(1) {
        Some((name, s)) => rate(*s).map_or(String::new(), |r| format!("; next: {name}, {r}")),
        None => String::new(),
    }
}

/// Reasons why headline figures are missing: figures with the same reason share a line.
fn unmeasured(f: &Function) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, source) in &f.source {
        let Some(reason) = source.reason.as_deref().filter(|_| source.how == NOT_MEASURED) else { continue };
        // `bytes.l1`, `bytes.l2` … are one figure here; terms follow from the others.
        let figure = match key.as_str() {
            "flops.by_op" => "FLOPs by operation",
            "flops.by_width" => "FLOPs by width",
            "flops.dp" => "FLOPs by precision",
            "flops.x87" => "FLOPs of rare precisions",
            _ => key.split('.').next().unwrap_or(key),
        };
        let figures = by_reason.entry(reason).or_default();
        if figure != "terms" && !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    by_reason.retain(|_, figures| !figures.is_empty());
    by_reason
        .into_iter()
        .map(|(reason, figures)| format!("{NOT_MEASURED}: {} ({reason})", figures.join(", ")))
        .take(3)
        .collect()
}

fn doubts(profile: &Profile, width: usize) -> String {
    let mut out = String::new();
    for w in &profile.run.warnings {
        out += &wrap::hanging(&format!("! {}", summary::doubt(w)), width, 2);
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}
