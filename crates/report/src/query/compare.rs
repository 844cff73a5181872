//! `rprof query OLD compare NEW`: functions that changed by more than the error of their figures.

use serde_json::{Value, json};

use crate::View;
use crate::diff::{self, Change, Figure};
use rprof_profile::Profile;

/// As JSON.
pub fn json(old: &Profile, new: &Profile, limit: usize) -> Value {
    let diff = diff::compare(old, new);
    let changed = diff.changed().count();
    let one = |c: &Change<'_>| {
        let pair = |figure: Figure| json!([c.difference(figure).old.value(), c.difference(figure).new.value()]);
        let time = c.difference(Figure::Time);
        json!({
            "name": c.name(), "module": c.module(),
            "time_s": pair(Figure::Time), "difference_s": time.absolute(), "ci95_s": time.half(),
            "class": [c.class.0.class, c.class.1.class], "roof_fraction": pair(Figure::RoofFraction),
            "instructions": pair(Figure::Instructions), "flops": pair(Figure::Flops), "bytes_dram": pair(Figure::Dram),
        })
    };
    let items = diff.changed().take(limit).map(one).collect();
    json!({
        "old": super::run(old), "new": super::run(new),
        "changed": super::list(items, changed), "unchanged": diff.changes.len() - changed,
    })
}

/// As a table.
pub fn text(old: &Profile, new: &Profile, limit: usize, view: &View) -> String {
    let diff = diff::compare(old, new);
    let changed = diff.changed().count();
    let verdict = crate::wrap::hanging(&diff.verdict(), view.width, 0);
    let shown = diff.worth_telling().take(limit).count();
    verdict + &diff::changes_text(&diff, limit, view.width) + &super::cut(shown, changed)
}
