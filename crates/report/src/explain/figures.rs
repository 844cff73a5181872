//! Tables of one function's figures: account of time, ladder, memory levels, counts with their sources.

use crate::number::{or_unmeasured, percent, seconds, si, significant};
use crate::regions::Rows;
use crate::{table, traffic, words};
use rprof_profile::Function;

const ABSENT: &str = "–";
/// Smallest share of an account that has a row.
const LEAST: f64 = 0.001;

fn cell(value: Option<String>) -> String {
    value.unwrap_or_else(|| ABSENT.to_owned())
}

/// Seconds by cause as the core model replays them; `None` if nothing was replayed.
pub fn account(f: &Function) -> Option<Rows> {
    let account = f.account.as_ref().filter(|account| account.model_s > 0.0)?;
    let mut parts: Vec<_> = account.parts.iter().filter(|(_, s)| **s >= LEAST * account.model_s).collect();
    let small = account.parts.values().filter(|s| **s > 0.0).count() - parts.len();
    let small = if small > 0 { format!("; {small} more below 0.1 %") } else { String::new() };
    parts.sort_by(|a, b| b.1.total_cmp(a.1));
    let row = |(cause, s): &(&rprof_profile::account::Cause, &f64)| {
        vec![cause.name().to_owned(), seconds(**s), percent(**s / account.model_s), words::cause(**cause).to_owned()]
    };
    let measured = f.cpu_s.map_or(String::new(), |s| format!(", {} measured", seconds(s)));
    Some(Rows {
        title: "Account of time".into(),
        titles: vec!["cause", "seconds", "share", "in words"],
        rows: parts.iter().map(row).collect(),
        words: vec![3],
        notes: vec![format!("{} in all from {} bursts{measured}{small}", seconds(account.model_s), account.bursts)],
    })
}

/// A ceiling this many times above the lowest is none: a level of the caches from which a function that computes reads a few bytes.
const NO_LIMIT: f64 = 1000.0;

/// Its own ceilings, low effort first, then the memory levels; `None` if it was not counted.
pub fn ladder(f: &Function) -> Option<Rows> {
    let unit = format!("{}/s", table::operations(f.analysis.axis.as_deref()));
    let ceilings = &f.analysis.ceilings;
    let least = ceilings.iter().filter_map(|c| c.value).fold(f64::INFINITY, f64::min);
    let rate = |value: f64| if value > NO_LIMIT * least { "no limit".into() } else { si(value, &unit) };
    let rows: Vec<Vec<String>> = ceilings
        .iter()
        .filter_map(|c| {
            let value = c.value?;
            let mark = match (f.analysis.binding.as_deref() == Some(&c.id), c.refuted) {
                (_, true) => " (refuted)",
                (true, _) => " ◀ binds",
                _ => "",
            };
            let from = match c.from.len() {
                0..=2 => c.from.join(", "),
                n => format!("{}, … {} more", c.from[0], n - 1),
            };
            Some(vec![format!("{}{mark}", c.id), rate(value), cell(c.value_alone.map(rate)), from])
        })
        .collect();
    let note =
        "bound: with this and all above it removed; memory: at that level's bandwidth. alone: with only this as it is.";
    (!rows.is_empty()).then(|| Rows {
        title: "Ladder".into(),
        titles: vec!["ceiling", "bound", "alone", "from"],
        rows,
        words: vec![3],
        notes: vec![note.into()],
    })
}

/// Bytes, intensity, bandwidth and misses at each level; `None` without bytes.
pub fn memory(f: &Function) -> Option<Rows> {
    let bytes = f.bytes?;
    let (oi, misses) = (f.analysis.oi, f.cache_misses.unwrap_or_default());
    let terms = f.analysis.terms;
    let unit = format!("{}/B", table::operations(f.analysis.axis.as_deref()));
    let levels = [
        ("L1", bytes.l1, oi.l1, misses.l1, terms.l1),
        ("L2", bytes.l2, oi.l2, misses.l2, terms.l2),
        ("L3", bytes.l3, oi.l3, misses.l3, terms.l3),
        ("DRAM", bytes.dram, oi.dram, None, terms.dram),
    ];
    let row = |(level, bytes, oi, misses, term): (&str, Option<u64>, Option<f64>, Option<u64>, Option<f64>)| {
        let rate = bytes.zip(f.time_s.filter(|s| *s > 0.0)).map(|(b, s)| si(b as f64 / s, "B/s"));
        vec![
            level.to_owned(),
            cell(bytes.map(|b| si(b as f64, "B"))),
            cell(rate),
            cell(oi.map(|oi| format!("{} {unit}", significant(oi)))),
            cell(term.map(seconds)),
            cell(misses.map(|n| si(n as f64, "lines"))),
        ]
    };
    let rows: Vec<Vec<String>> = levels.into_iter().filter(|level| level.1.is_some()).map(row).collect();
    (!rows.is_empty()).then(|| Rows {
        title: "Memory".into(),
        titles: vec!["level", "bytes", "rate", "intensity", "least time", "misses"],
        rows,
        words: Vec::new(),
        notes: Vec::new(),
    })
}

/// The figures beside the model, each with its source.
pub fn measures(f: &Function) -> Rows {
    let a = &f.analysis;
    let bytes = f.bytes.unwrap_or_default();
    let count = |n: Option<u64>, unit: &'static str| or_unmeasured(n.map(|n| n as f64), move |v| si(v, unit));
    let interval = f.time_ci95_s.map_or(String::new(), |c| format!(" ± {}", seconds(c)));
    let rows: Vec<(&str, &str, String)> = vec![
        ("time", "time_s", or_unmeasured(f.time_s, seconds) + &interval),
        ("CPU time", "cpu_s", or_unmeasured(f.cpu_s, seconds)),
        ("with all it calls", "cpu_s", or_unmeasured(f.inclusive_s, seconds)),
        ("in the kernel", "kernel_s", or_unmeasured(f.kernel_s, seconds)),
        ("spinning", "waiting_s", or_unmeasured(f.waiting_s, seconds)),
        ("clock", "clock_hz", or_unmeasured(f.clock_hz, |hz| si(hz, "Hz"))),
        ("threads", "team", f.team.map_or_else(|| or_unmeasured(None, seconds), |n| n.to_string())),
        ("instructions", "instructions", count(f.instructions, "")),
        ("FLOPs", "flops", count(f.flops.map(|x| x.total), "")),
        ("integer operations", "int_ops", count(f.int_ops, "")),
        ("bytes L1", "bytes.l1", count(bytes.l1, "B")),
        ("bytes L2", "bytes.l2", count(bytes.l2, "B")),
        ("bytes L3", "bytes.l3", count(bytes.l3, "B")),
        ("bytes DRAM", "bytes.dram", count(bytes.dram, "B")),
        ("pages touched", "pages", f.pages.map_or_else(|| or_unmeasured(None, seconds), traffic::touched)),
        ("SIMD lanes used", "instructions", or_unmeasured(a.simd_use, percent)),
        ("FMA balance", "instructions", or_unmeasured(a.fma_balance, percent)),
        ("ILP", if a.ilp.is_some() { "instructions" } else { "ilp" }, or_unmeasured(a.ilp, percent)),
        ("FP fraction", "instructions", or_unmeasured(a.fp_fraction, percent)),
        ("load balance", "per_thread", or_unmeasured(a.load_balance, percent)),
    ];
    let row = |(title, key, value): (&str, &str, String)| {
        let source = f.source.get(key).map_or(String::new(), |s| {
            let error = s.error.map_or(String::new(), |e| format!(" ± {}", percent(e)));
            let reason = s.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
            format!("{}{error}{reason}", s.how)
        });
        vec![title.to_owned(), value, source]
    };
    Rows {
        title: "Figures".into(),
        titles: vec!["figure", "value", "source"],
        rows: rows.into_iter().map(row).collect(),
        words: vec![2],
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::FunctionCeiling;

    #[test]
    fn a_level_that_hardly_delivers_is_no_limit() {
        let mut f = Function::default();
        let ceiling = |id: &str, value| FunctionCeiling { id: id.into(), value: Some(value), ..Default::default() };
        f.analysis.ceilings = vec![ceiling("peak", 1e11), ceiling("dram", 9e13), ceiling("l1", 3e19)];
        let rows = ladder(&f).unwrap().rows;
        assert_eq!(rows.iter().map(|row| row[1] == "no limit").collect::<Vec<_>>(), [false, false, true], "{rows:?}");
    }
}
