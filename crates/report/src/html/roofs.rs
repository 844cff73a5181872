//! The roofs of the roofline for the page's script: each ceiling and bandwidth with its interval, threads and quality.

use serde_json::{Map, Value, json};

use crate::View;
use crate::plot::axes::Axes;
use crate::plot::{lines, roofline};
use rprof_profile::ceiling::{How, Quality};
use rprof_profile::{Ceiling, Profile};

use super::rounded::rounded;

/// The fields `roofs`, `ranges`, `precision` and `note` of the page's data.
pub fn fields(profile: &Profile, view: &View) -> Map<String, Value> {
    let machine = &profile.machine;
    let usual = Axes::of(profile, view.precision);
    let measured = |axes: &Axes| !lines::ceilings(machine, *axes).is_empty();
    let mut roofs: Vec<Value> = Vec::new();
    let mut ranges = Map::new();
    for axes in Axes::ALL.into_iter().filter(|axes| measured(axes) || *axes == usual) {
        let of_core = lines::ceilings(machine, axes).into_iter().filter_map(|c| {
            Some((
                lines::measured(machine, &c.id)?,
                json!({ "precision": axes.name(), "label": c.label, "class": c.class }),
            ))
        });
        roofs.extend(of_core.map(|(ceiling, fields)| roof(ceiling, fields)));
        ranges.insert(axes.name().into(), json!(roofline::ranges(profile, view, axes)));
    }
    roofs.extend(lines::slopes(machine).into_iter().filter_map(|s| {
        let level = s.id.split('.').next().unwrap_or_default();
        Some(roof(lines::measured(machine, &s.id)?, json!({ "level": level, "label": s.label, "class": s.class })))
    }));
    let mut fields = Map::new();
    fields.insert("roofs".into(), roofs.into());
    fields.insert("ranges".into(), ranges.into());
    fields.insert("precision".into(), json!(usual.name()));
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
