//! The columns that every tabular report shares: one definition for text, Markdown, HTML and CSV.

use rprof_profile::Function;
use rprof_profile::confidence::{Doubt, Level};
use rprof_profile::function::Saving;

use super::number::{NOT_MEASURED, percent, seconds, si, significant};
use crate::words;

/// One column: its heading and the text of a function's cell, `None` if not measured.
pub struct Column {
    /// Heading.
    pub title: &'static str,
    /// The cell.
    pub cell: fn(&Function) -> Option<String>,
}

/// The columns after the name.
pub const COLUMNS: [Column; 7] = [
    // CPU time / CPU time of the program
    Column { title: "share", cell: |f| f.share.map(percent) },
    // elapsed time with at least one thread in it
    Column { title: "time", cell: |f| f.time_s.map(seconds) },
    // operations per second of elapsed time
    Column { title: "rate", cell: rate },
    // operational intensity at DRAM, else at the outermost level measured
    Column { title: "op/byte", cell: intensity },
    // class of the binding ceiling
    Column { title: "held by", cell: |f| Some(class(f)) },
    // least time of the binding term / measured time
    Column {
        title: "at",
        cell: |f| f.analysis.roof_fraction.map(|fraction| format!("{}{}", at_least(f), percent(fraction))),
    },
    // seconds of the most worthwhile removal
    Column { title: "saves", cell: saves },
];

/// The name of the axis's operations.
pub fn operations(axis: Option<&str>) -> &'static str {
    match axis {
        Some("int") => "op",
        Some("byte") => "B",
        _ => "FLOP",
    }
}

fn rate(f: &Function) -> Option<String> {
    let unit = operations(f.analysis.axis.as_deref());
    f.analysis.flop_rate.map(|r| si(r, &format!("{unit}/s")))
}

fn intensity(f: &Function) -> Option<String> {
    let oi = f.analysis.oi;
    let levels = [(oi.dram, ""), (oi.l3, " (L3)"), (oi.l2, " (L2)"), (oi.l1, " (L1)")];
    levels.into_iter().find_map(|(v, name)| v.map(|v| format!("{}{name}", significant(v))))
}

/// The class in words for people, `simd (low)` if little speaks for it; an uncounted function says so.
pub fn class(f: &Function) -> String {
    match (&f.analysis.class, &f.analysis.confidence) {
        (Some(class), Some(confidence)) if confidence.level == Level::Low => format!("{class} (low)"),
        (Some(class), _) => class.name().to_owned(),
        (None, _) => words::NOT_COUNTED.to_owned(),
    }
}

/// Whether little speaks for the class.
pub fn is_doubtful(f: &Function) -> bool {
    f.analysis.confidence.as_ref().is_some_and(|confidence| confidence.level == Level::Low)
}

/// The class with the doubt about it: `simd (low confidence: 12 samples)`.
pub fn class_and_doubt(f: &Function) -> String {
    match (&f.analysis.class, &f.analysis.confidence) {
        (Some(class), Some(confidence)) if confidence.level < Level::High => {
            let reasons: Vec<String> = confidence.reasons.iter().map(Doubt::words).collect();
            format!("{class} ({} confidence: {})", confidence.level.name(), reasons.join(", "))
        }
        _ => class(f),
    }
}

/// Terms that bind most functions: without one of them the bound is no more than a lower one.
const TERMS: [(&str, &str); 6] = [
    ("terms.issue", "issue"),
    ("terms.access", "loads and stores"),
    ("terms.l1", "L1"),
    ("terms.l2", "L2"),
    ("terms.l3", "L3"),
    ("terms.dram", "DRAM"),
];

/// Those of [`TERMS`] that a function has not, in words.
pub fn without(f: &Function) -> Vec<&'static str> {
    let lacks = |key: &str| f.source.get(key).is_some_and(|s| s.how == NOT_MEASURED);
    TERMS.iter().filter(|(key, _)| lacks(key)).map(|(_, name)| *name).collect()
}

/// Prefix of a function's share of its bound, if the function may be nearer to it.
pub fn at_least(f: &Function) -> &'static str {
    if without(f).is_empty() { "" } else { "≥ " }
}

/// The note on rows that are not shown, if there are any: `… and 3 more call sites`.
pub fn rest(hidden: usize, what: &str) -> Option<String> {
    let plural = if hidden == 1 { "" } else { "s" };
    (hidden > 0).then(|| format!("… and {hidden} more {what}{plural}"))
}

/// The note on shares above 1 in a column, if there are any: those shown as 100 % are none.
pub fn faster(column: &str, shares: impl IntoIterator<Item = f64>) -> Option<String> {
    shares.into_iter().any(|share| share >= 1.005).then(|| {
        format!(
            "{column} above 100 %: faster than the measured ceiling, so the ceiling (noise, a slower clock), the time or the bytes are \
             off by that much"
        )
    })
}

/// The savings of a function; none if its time is not known.
pub fn savings(f: &Function) -> &[Saving] {
    if f.time_s.is_some() { &f.analysis.savings } else { &[] }
}

fn saves(f: &Function) -> Option<String> {
    f.time_s?;
    match savings(f).first() {
        Some(s) => {
            let most = if at_least(f).is_empty() { "" } else { "≤ " };
            Some(format!("{most}{} {}", seconds(s.program_seconds.unwrap_or(s.seconds)), s.remove.join("+")))
        }
        None if f.work.is_some() => Some("nothing".into()),
        None => None,
    }
}
