//! `rprof query OLD compare NEW`: functions whose time changed by more than its interval.

use serde_json::{Value, json};

use crate::profile::Profile;
use crate::report::View;
use crate::report::diff::{self, Change};

/// As JSON.
pub fn json(old: &Profile, new: &Profile, limit: usize) -> Value {
    let (real, same): (Vec<Change>, Vec<Change>) = diff::changes(old, new).into_iter().partition(Change::is_real);
    let one = |c: &Change| {
        json!({
            "name": c.name, "module": c.module,
            "time_s": [c.time_s.0, c.time_s.1], "difference_s": c.seconds(), "ci95_s": c.ci95_s,
            "class": [c.class.0, c.class.1], "roof_fraction": [c.roof_fraction.0, c.roof_fraction.1],
            "flops": [c.flops.0, c.flops.1], "bytes_dram": [c.dram.0, c.dram.1],
        })
    };
    let items = real.iter().take(limit).map(one).collect();
    json!({
        "old": super::run(old), "new": super::run(new),
        "changed": super::list(items, real.len()), "unchanged": same.len(),
    })
}

/// As a table.
pub fn text(old: &Profile, new: &Profile, limit: usize, view: &View) -> String {
    let all = diff::changes(old, new);
    let total = all.iter().filter(|c| c.is_real()).count();
    let mut left = limit;
    let shown: Vec<Change> = all
        .into_iter()
        .filter(|c| {
            let keep = !c.is_real() || left > 0;
            left -= usize::from(c.is_real() && left > 0);
            keep
        })
        .collect();
    diff::text(&shown, view.width) + &super::cut(total.min(limit), total)
}
