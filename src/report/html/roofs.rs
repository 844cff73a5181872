//! The roofs of the roofline for the page's script: each ceiling and bandwidth with its interval, threads and quality.

use serde_json::{Map, Value, json};

use crate::profile::ceiling::{How, Quality};
use crate::profile::{Ceiling, Profile};
use crate::report::View;
use crate::report::plot::{lines, roofline};

use super::rounded::rounded;

/// Precisions whose ceilings a host may have.
const PRECISIONS: [&str; 2] = ["dp", "sp"];

/// The fields `roofs`, `ranges`, `precision` and `note` of the page's data.
pub fn fields(profile: &Profile, view: &View) -> Map<String, Value> {
    let machine = &profile.machine;
    let usual = roofline::precision(profile, view.precision);
    let measured = |precision: &&str| !lines::ceilings(machine, precision).is_empty();
    let mut roofs: Vec<Value> = Vec::new();
    let mut ranges = Map::new();
    for precision in PRECISIONS.into_iter().filter(|p| measured(p) || *p == usual) {
        let of_core = lines::ceilings(machine, precision).into_iter().filter_map(|c| {
            Some((
                lines::measured(machine, &c.id)?,
                json!({ "precision": precision, "label": c.label, "class": c.class }),
            ))
        });
        roofs.extend(of_core.map(|(ceiling, fields)| roof(ceiling, fields)));
        ranges.insert(precision.into(), json!(roofline::ranges(profile, view, precision)));
    }
    roofs.extend(lines::slopes(machine).into_iter().filter_map(|s| {
        let level = s.id.split('.').next().unwrap_or_default();
        Some(roof(lines::measured(machine, &s.id)?, json!({ "level": level, "label": s.label, "class": s.class })))
    }));
    let mut fields = Map::new();
    fields.insert("roofs".into(), roofs.into());
    fields.insert("ranges".into(), ranges.into());
    fields.insert("precision".into(), json!(usual));
    fields.insert("note".into(), json!(roofline::note(profile)));
    fields
}

/// `fields` with the facts of `ceiling`.
fn roof(ceiling: &Ceiling, mut fields: Value) -> Value {
    fields["id"] = json!(ceiling.id);
    fields["value"] = ceiling.value.map_or(Value::Null, rounded);
    fields["spread"] = ceiling.spread.map_or(Value::Null, rounded);
    fields["threads"] = json!(ceiling.threads);
    fields["how"] = match ceiling.how {
        How::Measured => "measured".into(),
        How::Derived => "derived".into(),
    };
    fields["quality"] = match ceiling.quality {
        Quality::Reproduced => "reproduced".into(),
        Quality::Noisy => "noisy".into(),
        Quality::Missing(_) => "missing".into(),
    };
    fields
}
