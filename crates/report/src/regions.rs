//! Marked regions and user-named work as two tables, the same for text, Markdown and HTML.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};

use super::name;
use super::number::{NOT_MEASURED, percent, seconds, si, significant};
use super::plot::lines;
use rprof_profile::region::{Marker, Region, Work};
use rprof_profile::{Machine, Profile};

/// Rows that are shown at most; `profile.json` has all.
const ROWS: usize = 20;
/// The longest name in a table.
const NAME: usize = 28;
/// Least part of a region that a function must have to be named beside it.
const LEAST_PART: f64 = 0.05;

/// A table: headings and rows, words in the first column and in those that are `words`.
pub struct Rows {
    /// Its title.
    pub title: String,
    /// Headings.
    pub titles: Vec<&'static str>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// Columns of words.
    pub words: Vec<usize>,
    /// The notes below it.
    pub notes: Vec<String>,
}

/// The tables of a profile; none if the program marks nothing.
pub fn tables(profile: &Profile) -> Vec<Rows> {
    let shown = shown(profile);
    let mut tables = Vec::new();
    if profile.regions.iter().any(|r| r.marker != Marker::Program) {
        tables.push(regions(profile, &shown));
    }
    if profile.regions.iter().any(|r| !r.work.is_empty()) {
        tables.push(work(profile, &shown));
    }
    tables
}

/// The program and the regions with most time, else most instructions, in the order of their first beginning.
fn shown(profile: &Profile) -> Vec<&Region> {
    let key = |r: &Region| (r.cpu_s.unwrap_or(0.0), r.instructions.unwrap_or(0));
    let mut order: Vec<usize> = (0..profile.regions.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&profile.regions[a], &profile.regions[b]);
        key(b).0.total_cmp(&key(a).0).then(key(b).1.cmp(&key(a).1))
    });
    order.truncate(ROWS);
    order.sort_unstable();
    order.into_iter().map(|i| &profile.regions[i]).collect()
}

fn regions(profile: &Profile, shown: &[&Region]) -> Rows {
    let row = |r: &&Region| {
        let dram = r.bytes.and_then(|b| b.dram).map(|b| b as f64);
        let intensity = dram.filter(|b| *b > 0.0).zip(r.flops).map(|(b, f)| significant(f as f64 / b));
        let most = parts(r);
        vec![
            named(r),
            r.marker.name().to_owned(),
            cell(r.entries.map(|n| n.to_string()), r.marker == Marker::Program),
            cell(r.time_s.map(seconds), false),
            cell(r.cpu_s.map(seconds), false),
            cell(r.instructions.map(|n| si(n as f64, "")), false),
            cell(r.flops.map(|n| si(n as f64, "")), false),
            cell(r.flop_rate().map(|f| si(f, "FLOP/s")), false),
            cell(intensity, false),
            most,
        ]
    };
    let hidden = profile.regions.len() - shown.len();
    let mut notes = Vec::new();
    if hidden > 0 {
        notes.push(format!("… and {hidden} regions more"));
    }
    notes.push(
        "The time of a region includes what it calls and the regions within; each thread has its own regions.".into(),
    );
    notes.extend(reasons(shown));
    Rows {
        title: "Regions".into(),
        titles: vec!["region", "by", "entries", "time", "CPU time", "instr.", "FLOPs", "rate", "op/byte", "mostly"],
        rows: shown.iter().map(row).collect(),
        words: vec![1, 9],
        notes,
    }
}

fn work(profile: &Profile, shown: &[&Region]) -> Rows {
    let bandwidth = dram(&profile.machine);
    let row = |(region, work): (&Region, &Work)| {
        let (rate, per_byte) = (region.rate(work), region.per_byte(work));
        let allowed = per_byte.zip(bandwidth).map(|(p, b)| p * b);
        let at = rate.zip(allowed.filter(|a| *a > 0.0)).map(|(r, a)| percent(r / a));
        vec![
            name::shorten(&work.unit, NAME),
            named(region),
            si(work.amount, ""),
            cell(rate.map(|r| si(r, "/s")), false),
            cell(per_byte.map(|p| si(p, "/B")), false),
            cell(allowed.map(|a| si(a, "/s")), false),
            cell(at, false),
        ]
    };
    let mut rows: Vec<(&Region, &Work)> = shown.iter().flat_map(|r| r.work.iter().map(|w| (*r, w))).collect();
    rows.sort_by(|a, b| a.1.unit.cmp(&b.1.unit));
    let notes = vec!["per byte: of DRAM traffic. DRAM allows: that times the best DRAM bandwidth.".into()];
    Rows {
        title: "Work in units that the program names".into(),
        titles: vec!["unit", "in", "amount", "rate", "per byte", "DRAM allows", "at"],
        rows: rows.into_iter().map(row).collect(),
        words: vec![1],
        notes,
    }
}

/// The best bandwidth of DRAM, in bytes a second.
fn dram(machine: &Machine) -> Option<f64> {
    lines::slopes(machine).into_iter().find(|s| s.class == "rf-dram").map(|s| s.value)
}

fn named(region: &Region) -> String {
    name::shorten(&name::printable(&region.name), NAME)
}

fn cell(text: Option<String>, none: bool) -> String {
    text.unwrap_or_else(|| if none { String::new() } else { "–".into() })
}

/// The functions that have most of a region.
fn parts(region: &Region) -> String {
    let by_time = region.cpu_s.filter(|s| *s > 0.0);
    let whole = by_time.or(region.instructions.map(|n| n as f64)).unwrap_or(0.0);
    let share = |part: &rprof_profile::region::RegionPart| match by_time {
        Some(_) => part.cpu_s.unwrap_or(0.0) / whole,
        None => part.instructions.unwrap_or(0) as f64 / whole,
    };
    let large = region.functions.iter().filter(|p| whole > 0.0 && share(p) >= LEAST_PART).take(2);
    large.map(|p| format!("{} {}", name::shorten(&p.name, 18), percent(share(p)))).collect::<Vec<_>>().join(", ")
}

/// Why figures are missing, each reason once.
fn reasons(shown: &[&Region]) -> Vec<String> {
    let mut told: Vec<(String, String)> = Vec::new();
    for (field, source) in shown.iter().flat_map(|r| &r.source).filter(|(_, s)| s.how == NOT_MEASURED) {
        let Some(reason) = &source.reason else { continue };
        let what = if field.ends_with("_s") { "time" } else { field.split('.').next().unwrap_or(field) };
        let known = (what.to_owned(), reason.clone());
        if !told.contains(&known) {
            told.push(known);
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (_, reason) in &told {
        if !seen.contains(&reason.as_str()) {
            seen.push(reason);
            let fields: Vec<&str> = told.iter().filter(|(_, r)| r == reason).map(|(f, _)| f.as_str()).collect();
            lines.push(format!("{NOT_MEASURED}: {} ({reason})", fields.join(", ")));
        }
    }
    lines
}

/// A table as plain text of at most `width` columns: the last columns go first if there is no room.
pub fn text(rows: &Rows, width: usize) -> String {
    format!("\n{}\n{}", rows.title, table(rows, width))
}

/// [`text`] without the title.
pub fn table(rows: &Rows, width: usize) -> String {
    let widest = |i: usize| {
        let cells = rows.rows.iter().map(|r| r[i].chars().count());
        cells.chain([rows.titles[i].chars().count()]).max().unwrap_or(0) + 2
    };
    let mut columns = rows.titles.len();
    while columns > 2 && (0..columns).map(widest).sum::<usize>() > width {
        columns -= 1;
    }
    let aligned = |i: usize, text: &str| {
        let words = i == 0 || rows.words.contains(&i);
        Cell::new(text).set_alignment(if words { CellAlignment::Left } else { CellAlignment::Right })
    };
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(rows.titles[..columns].iter().enumerate().map(|(i, t)| aligned(i, t)).collect::<Vec<_>>());
    for row in &rows.rows {
        table.add_row(row[..columns].iter().enumerate().map(|(i, t)| aligned(i, t)).collect::<Vec<_>>());
    }
    let table: String = table.to_string().lines().map(|l| format!("{}\n", l.trim_end())).collect();
    let notes: String = rows.notes.iter().map(|n| super::wrap::hanging(n, width, 2)).collect();
    format!("{table}{notes}")
}
