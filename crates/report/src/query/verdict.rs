//! `rprof query PROFILE verdict`: what the first lines of a report say, as one object.

use serde_json::{Value, json};

use rprof_model::diagnosis::{self, Candidate, Diagnosis, Interval, Place};
use rprof_profile::Profile;

use crate::{View, words, wrap};

/// The JSON Schema of the answer.
pub const SCHEMA: &str = include_str!("verdict.schema.json");

/// As JSON; its fields are those of [`SCHEMA`].
pub fn json(profile: &Profile, source: &str) -> Value {
    let Some(found) = diagnosis::of(profile) else {
        return json!({
            "cause": "unknown", "where": null, "advice": null, "saves_s": null, "of_s": crate::verdict::wall_s(profile),
            "confidence": "low", "because": [], "ruled_out": [], "others": [], "next": next(None, source),
        });
    };
    let ruled_out = found.ruled_out.iter().map(|(class, why)| json!({ "cause": class.name(), "why": why }));
    json!({
        "cause": found.cause.name(),
        "where": place(found.place.as_ref()),
        "advice": found.advice,
        "saves_s": interval(found.saves_s),
        "of_s": found.of_s,
        "confidence": found.confidence.name(),
        "because": found.because,
        "ruled_out": ruled_out.collect::<Vec<_>>(),
        "others": found.others.iter().map(other).collect::<Vec<_>>(),
        "next": next(Some(&found), source),
    })
}

/// As text.
pub fn text(profile: &Profile, view: &View) -> String {
    let Some(found) = diagnosis::of(profile) else { return format!("{}\n", crate::verdict::sentence(profile)) };
    let width = view.width;
    let mut out = wrap::hanging(&crate::verdict::sentence_of(profile, Some(&found)), width, 2);
    if let Some(advice) = &found.advice {
        out += &wrap::hanging(&format!("→ {advice}"), width, 2);
    }
    for because in &found.because {
        out += &wrap::hanging(&format!("because {because}"), width, 2);
    }
    for (class, why) in &found.ruled_out {
        out += &wrap::hanging(&format!("not {}: {why}", words::class(*class)), width, 2);
    }
    out + &format!("more: {}\n", next(Some(&found), &view.source))
}

fn other(candidate: &Candidate) -> Value {
    json!({
        "cause": candidate.class.name(), "where": place(candidate.place.as_ref()), "advice": candidate.advice,
        "saves_s": interval(candidate.saves_s), "held_s": candidate.held_s, "confidence": candidate.confidence.name(),
    })
}

fn place(place: Option<&Place>) -> Value {
    place.map_or(
        Value::Null,
        |p| json!({ "function": p.function, "symbol": p.symbol, "module": p.module, "file": p.file, "line": p.line }),
    )
}

fn interval(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |i| json!([i.least, i.most]))
}

/// The command that shows more.
fn next(found: Option<&Diagnosis>, source: &str) -> String {
    match found.and_then(|found| found.place.as_ref()?.symbol.as_deref()) {
        Some(name) => format!("rprof report {source} --function '{name}'"),
        None => format!("rprof report {source} --all"),
    }
}
