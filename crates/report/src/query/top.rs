//! `rprof query PROFILE top`: the first functions by what the program would save, by time, or by distance from their bound.

use serde_json::{Value, json};

use crate::number::{percent, seconds};
use crate::regions::{self, Rows};
use crate::{View, name, table, verdict};
use rprof_model::ranking::{self, Gain};
use rprof_profile::{Function, Profile};

/// The order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Seconds of the program that the best change saves.
    Saving,
    /// CPU time.
    Time,
    /// CPU time above its bound.
    Lost,
}

fn ranked(profile: &Profile, by: By) -> Vec<Gain<'_>> {
    let mut all = ranking::by_gain(profile.functions.iter().filter(|f| f.share.is_some() || f.time_s.is_some()));
    let cpu = |f: &Function| f.cpu_s.unwrap_or(0.0);
    let lost = |f: &Function| cpu(f) * (1.0 - f.analysis.roof_fraction.unwrap_or(1.0)).max(0.0);
    match by {
        By::Saving => {}
        By::Time => all.sort_by(|a, b| cpu(b.function).total_cmp(&cpu(a.function))),
        By::Lost => all.sort_by(|a, b| lost(b.function).total_cmp(&lost(a.function))),
    }
    all
}

/// One function in a few fields.
pub fn summary(gain: &Gain<'_>) -> Value {
    let f = gain.function;
    let a = &f.analysis;
    let saving = gain.saving.map(|s| {
        json!({
            "remove": s.remove, "program_seconds": s.program_seconds, "seconds": s.seconds, "seconds_max": s.seconds_max,
            "advice": s.advice,
        })
    });
    json!({
        "name": f.name, "module": f.module, "file": f.file, "line": f.line,
        "share": f.share, "time_s": f.time_s, "time_ci95_s": f.time_ci95_s, "cpu_s": f.cpu_s, "kernel_s": f.kernel_s,
        "class": a.class, "confidence": a.confidence, "binding": a.binding, "roof_fraction": a.roof_fraction,
        "bound_is_lower": !table::at_least(f).is_empty(),
        "rate": a.flop_rate, "axis": a.axis, "held_by": verdict::held_by(f), "best_saving": saving,
    })
}

/// As JSON.
pub fn json(profile: &Profile, by: By, limit: usize) -> Value {
    let all = ranked(profile, by);
    let items = all.iter().take(limit).map(summary).collect();
    json!({ "run": super::run(profile), "functions": super::list(items, all.len()) })
}

/// As a table.
pub fn text(profile: &Profile, by: By, limit: usize, view: &View) -> String {
    let all = ranked(profile, by);
    let cell = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let row = |gain: &Gain<'_>| {
        let f = gain.function;
        vec![
            name::of(f, view.name_width(40)),
            cell(gain.saving.map(|_| seconds(gain.seconds()))),
            cell(f.share.map(percent)),
            cell(f.time_s.map(seconds)),
            table::class(f),
            cell(f.analysis.roof_fraction.map(|at| format!("{}{}", table::at_least(f), percent(at)))),
            cell(gain.saving.map(|s| s.remove.join("+"))),
        ]
    };
    let rows = Rows {
        title: String::new(),
        titles: vec!["function", "saves", "share", "time", "held by", "at", "by"],
        rows: all.iter().take(limit).map(row).collect(),
        words: vec![4, 6],
        notes: Vec::new(),
    };
    format!(
        "{}\n{}{}",
        verdict::sentence(profile),
        regions::table(&rows, view.width),
        super::cut(rows.rows.len(), all.len())
    )
}
