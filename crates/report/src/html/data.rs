//! The data of `report.html`: columns of all functions, small enough for thousands, as JSON that is safe inside a `script` element.

use serde_json::{Value, json};

use crate::plot::axes::Axes;
use crate::words;
use crate::{View, name, palette, table};
use rprof_model::diagnosis;
use rprof_model::ranking::Gain;
use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile};

use super::rounded::rounded;
use super::{roofs, sources};

/// Characters of a name at most; fewer where the columns would be too large.
pub const NAME_WIDTHS: [usize; 4] = [120, 72, 48, 32];
/// The columns may have so many bytes.
const MOST_BYTES: usize = 440_000;
/// Functions that are in the columns; those beyond have no sample, or next to none.
const MOST: usize = 5000;

/// Data of the page: columns by name, and the width of names in them.
pub fn columns(profile: &Profile, view: &View) -> (String, usize) {
    let mut last = (String::new(), 0);
    for width in NAME_WIDTHS {
        last = (with_names(profile, view, width), width);
        if last.0.len() <= MOST_BYTES {
            break;
        }
    }
    last
}

fn with_names(profile: &Profile, view: &View, width: usize) -> String {
    let functions = &profile.functions[..profile.functions.len().min(MOST)];
    let column = |cell: &dyn Fn(&Function) -> Value| short(functions.iter().map(cell).collect());
    let number = |v: Option<f64>| v.map_or(Value::Null, rounded);
    let class = |f: &Function| words::name_of(f.analysis.class).to_owned();
    let index = |names: &[String], name: &String| json!(names.binary_search(name).unwrap_or(0));
    let classes = distinct(functions.iter().map(class));
    let colors: Vec<String> = classes.iter().map(|class| palette::hex(Class::of_name(class))).collect();
    let places = distinct(functions.iter().map(place));
    let sources = distinct(SOURCES.iter().flat_map(|(_, keys)| functions.iter().map(|f| sources::words(f, keys))));
    let by = |f: &Function| Gain::of(f).saving.map(|s| s.remove.join("+"));
    let mut columns = json!({
        "place": column(&|f| index(&places, &place(f))),
        "share": column(&|f| number(f.share)),
        "time": column(&|f| number(f.time_s)),
        "ci": column(&|f| number(f.time_ci95_s)),
        "rate": column(&|f| number(f.analysis.flop_rate)),
        "axis": column(&|f| json!(f.analysis.axis)),
        "instr": column(&|f| number(instructions(f))),
        "prec": column(&|f| json!(sources::precision(f))),
        "l1": column(&|f| number(f.analysis.oi.l1)),
        "l2": column(&|f| number(f.analysis.oi.l2)),
        "l3": column(&|f| number(f.analysis.oi.l3)),
        "dram": column(&|f| number(f.analysis.oi.dram)),
        "at": column(&|f| number(f.analysis.roof_fraction)),
        "least": column(&|f| json!(u8::from(!table::at_least(f).is_empty()))),
        "low": column(&|f| json!(u8::from(table::is_doubtful(f)))),
        "saves": column(&|f| number(Gain::of(f).saving.map(|_| Gain::of(f).seconds()))),
        "limit": column(&|f| json!(u8::from(Gain::of(f).is_limit() || !table::at_least(f).is_empty()))),
        "by": column(&|f| json!(by(f))),
        "class": column(&|f| index(&classes, &class(f))),
        "built": column(&|f| json!(f.analysis.expected.as_ref().map_or(0, |e| if Some(e) == f.analysis.class.as_ref() { 1 } else { 2 }))),
    });
    for (column_name, keys) in SOURCES {
        columns[column_name] = column(&|f| index(&sources, &sources::words(f, keys)));
    }
    let names: Vec<String> = functions.iter().map(|f| name::of(f, width)).collect();
    let mut data = json!({
        "name": names,
        "columns": columns,
        "classes": classes,
        "colors": colors,
        "places": places,
        "sources": sources,
        "all": profile.functions.len(),
        "start": start(profile, functions),
    });
    if let Value::Object(fields) = &mut data {
        fields.extend(roofs::fields(profile, view));
    }
    inert(&data.to_string())
}

/// The function that the verdict is about, which is chosen at first; −1: none of the page.
fn start(profile: &Profile, functions: &[Function]) -> i64 {
    let place = diagnosis::of(profile).and_then(|found| found.place);
    let is_it = |f: &Function| {
        place.as_ref().is_some_and(|place| place.symbol.as_ref() == Some(&f.name) && place.module == f.module)
    };
    functions.iter().position(is_it).map_or(-1, |i| i as i64)
}

/// Instructions for each of its own operations, as the roofline counts them.
fn instructions(f: &Function) -> Option<f64> {
    let place = Axes::Instructions.place(f)?;
    Some(place.rate? / f.analysis.flop_rate.filter(|r| *r > 0.0)?)
}

/// Columns of sources, and the figures whose sources they name: the first that has one.
const SOURCES: [(&str, &[&str]); 3] = [
    ("src_time", &["time_s"]),
    ("src_ops", &["flops"]),
    ("src_bytes", &["bytes.dram", "bytes.l3", "bytes.l2", "bytes.l1"]),
];

/// A column without the repetitions of its last value: functions without a sample, the last ones, have the same in most columns.
fn short(mut cells: Vec<Value>) -> Value {
    while let [.., before, last] = cells.as_slice()
        && before == last
    {
        cells.pop();
    }
    Value::Array(cells)
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = names.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn place(f: &Function) -> String {
    name::shorten(&name::place(f.file.as_deref(), f.line).unwrap_or_else(|| f.module.clone()), 48)
}

/// JSON that no HTML parser takes for markup.
pub fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").replace(['\u{2028}', '\u{2029}'], "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn columns_are_short_and_nothing_missing_is_zero() {
        let profile = sample::profile();
        let data: Value = serde_json::from_str(&columns(&profile, &View::default()).0).unwrap();
        let columns = data["columns"].as_object().unwrap();
        let cell = |key: &str, i: usize| {
            let column = columns[key].as_array().unwrap();
            column.get(i).or(column.last()).unwrap().clone()
        };
        for column in columns.values() {
            let cells = column.as_array().unwrap();
            assert!((1..=profile.functions.len()).contains(&cells.len()));
            assert!(cells.len() < 2 || cells[cells.len() - 1] != cells[cells.len() - 2]);
        }
        let jit = profile.functions.iter().position(|f| f.name == "jit_code").unwrap();
        assert!(cell("dram", jit).is_null() && cell("at", jit).is_null() && cell("saves", jit).is_null());
        for (i, f) in profile.functions.iter().enumerate() {
            assert_eq!(cell("share", i), f.share.map_or(Value::Null, rounded));
        }
    }

    #[test]
    fn no_text_ends_the_script() {
        let text = inert(&json!("</script><!--&\u{2028}").to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "</script><!--&?");
    }
}
