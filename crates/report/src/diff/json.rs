//! The comparison as JSON: base SI units, `null` for figures that were not measured, every list with its whole length. Its schema is
//! `diff.schema.json`.

use serde_json::{Value, json};

use crate::verdict as of_profile;
use rprof_profile::{Profile, names};

use super::Diff;
use super::change::{Change, Presence};
use super::class::{ClassOutcome, Held};
use super::condition::Condition;
use super::difference::{Difference, Outcome};
use super::judge::Judgement;
use super::mpi::{CallsChange, Sides};
use super::notes;
use super::reading::Reading;
use super::verdict::{self, Counts};

/// The schema name that a comparison of this version carries.
pub const SCHEMA: &str = "rprof-diff/1";

/// Functions that are listed at most.
const FUNCTIONS: usize = 200;
/// Loops of a function.
const LOOPS: usize = 8;
/// Kernels of GPUs.
const KERNELS: usize = 100;
/// Calls of MPI.
const CALLS: usize = 100;
/// Limits.
const NOTES: usize = 40;
/// Lines of a condition that holds.
const LINES: usize = 20;
/// Characters of a name.
const NAME: usize = 2000;

/// All of it, with the answers to `--fail-if`.
pub fn json(diff: &Diff<'_>, judged: &[(Condition, Judgement)]) -> Value {
    let counts = Counts::of(diff);
    let all_notes = notes::of(diff);
    let told = all_notes.iter().take(NOTES).map(|note| json!({ "code": note.code(), "text": note.to_string() }));
    let kernels = diff.kernels.iter().take(KERNELS).map(|kernel| {
        json!({
            "name": name(kernel.name), "symbol": name(kernel.symbol),
            "time": difference(&kernel.time), "launches": [kernel.launches.0, kernel.launches.1],
        })
    });
    let totals = diff.totals.iter().map(|total| {
        let mut of = difference(&total.difference);
        of["left_out"] = json!(total.left_out);
        (total.difference.figure.name().to_owned(), of)
    });
    json!({
        "schema": SCHEMA,
        "old": run(diff.old), "new": run(diff.new),
        "verdict": verdict::sentence(diff),
        "counts": {
            "slower": counts.slower, "faster": counts.faster, "other_work": counts.otherwise,
            "new": counts.new, "gone": counts.gone, "unchanged": counts.unchanged,
        },
        "program": totals.collect::<serde_json::Map<_, _>>(),
        "changed": list(diff.changed().take(FUNCTIONS).map(of_change).collect(), counts.changed()),
        "kernels": list(kernels.collect(), diff.kernels.len()),
        "mpi": list(diff.mpi.iter().take(CALLS).map(of_calls).collect(), diff.mpi.len()),
        "notes": list(told.collect(), all_notes.len()),
        "conditions": judged.iter().map(|(condition, judgement)| of_judgement(condition, judgement)).collect::<Vec<_>>(),
    })
}

/// A name in at most [`NAME`] characters.
fn name(text: &str) -> String {
    names::shorten(text, NAME)
}

fn list(items: Vec<Value>, total: usize) -> Value {
    json!({ "total": total, "cut": total - items.len(), "items": items })
}

fn run(profile: &Profile) -> Value {
    json!({
        "command": profile.run.command.iter().map(|word| name(word)).take(100).collect::<Vec<_>>(),
        "cpu": profile.machine.cpu,
        "wall_s": of_profile::wall_s(profile),
        "threads": profile.run.threads.len(),
        "passes": profile.run.passes.iter().map(|pass| &pass.kind).take(20).collect::<Vec<_>>(),
        "exit_status": profile.run.exit_status,
        "signal": profile.run.signal,
    })
}

fn of_change(change: &Change<'_>) -> Value {
    let mut out = figures(change);
    let changed = || change.loops.iter().filter(|inner| inner.is_changed());
    out["loops"] = list(changed().take(LOOPS).map(figures).collect(), changed().count());
    out["module"] = json!(change.module());
    out["old_module"] = json!(change.old.map(|f| &f.module));
    let file = change.function().and_then(|f| f.file.as_ref());
    out["file"] = json!(file.map(|file| name(file)));
    out["line"] = json!(change.function().and_then(|f| f.line));
    out
}

fn figures(change: &Change<'_>) -> Value {
    let presence = match change.presence() {
        Presence::Both => "both",
        Presence::New => "new",
        Presence::Gone => "gone",
    };
    let class_outcome = match change.class_outcome() {
        ClassOutcome::Same => "unchanged",
        ClassOutcome::Changed => "changed",
        ClassOutcome::Doubtful => "doubtful",
        ClassOutcome::Unknown => "unknown",
    };
    let class = |held: &Held| json!({ "class": held.class, "confidence": held.level.map(|level| level.name()) });
    let of = change.differences.iter().map(|d| (d.figure.name().to_owned(), difference(d)));
    json!({
        "name": name(change.name()), "presence": presence,
        "figures": of.collect::<serde_json::Map<_, _>>(),
        "class": { "outcome": class_outcome, "old": class(&change.class.0), "new": class(&change.class.1) },
    })
}

fn of_calls(change: &CallsChange<'_>) -> Value {
    let sides = |[old, new]: &Sides<'_>| json!({ "old": reading(old), "new": reading(new) });
    json!({
        "call": name(change.call), "caller": name(change.caller), "changed": change.is_changed(),
        "calls": sides(&change.calls), "bytes": sides(&change.bytes), "time": sides(&change.time), "waiting": sides(&change.waiting),
    })
}

fn difference(d: &Difference<'_>) -> Value {
    let outcome = match d.outcome() {
        Outcome::Unchanged => "unchanged",
        Outcome::Grew => "grew",
        Outcome::Fell => "fell",
        Outcome::Unknown(_) => "unknown",
    };
    json!({
        "outcome": outcome, "old": reading(&d.old), "new": reading(&d.new),
        "difference": d.absolute(), "relative": d.relative(), "ci95": d.half(),
    })
}

fn reading(reading: &Reading<'_>) -> Value {
    match *reading {
        Reading::Exact(value) => json!({ "known": "exactly", "value": value, "ci95": 0 }),
        Reading::Within { value, half } => json!({ "known": "within", "value": value, "ci95": half }),
        Reading::NoInterval(value) => json!({ "known": "without-error", "value": value, "ci95": null }),
        Reading::AtLeast(value) => json!({ "known": "at-least", "value": null, "ci95": null, "limit": value }),
        Reading::AtMost(value) => json!({ "known": "at-most", "value": null, "ci95": null, "limit": value }),
        Reading::Missing(why) => json!({ "known": "not-measured", "value": null, "ci95": null, "reason": why }),
    }
}

fn of_judgement(condition: &Condition, judgement: &Judgement) -> Value {
    let (result, lines, why) = match judgement {
        Judgement::Holds(lines) => ("holds", &lines[..], None),
        Judgement::Not => ("does-not-hold", &[][..], None),
        Judgement::Unknown(why) => ("unknown", &[][..], Some(why)),
    };
    json!({
        "condition": condition.text, "result": result, "reason": why,
        "of": list(lines.iter().take(LINES).map(|line| json!(line)).collect(), lines.len()),
    })
}
