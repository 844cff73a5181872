//! Figures of an answer, each with its source and its error.

use serde_json::{Map, Value, json};

use rprof_profile::Function;

/// The figures of a function: `value` is in base SI units, `source` says how it was come by, `error` is relative (`ci95_s`: seconds), and where it is `null`,
/// `reason` says why.
pub fn of_function(f: &Function) -> Value {
    let a = &f.analysis;
    let bytes = f.bytes.unwrap_or_default();
    let count = |n: Option<u64>| n.map_or(Value::Null, |n| json!(n));
    let number = |n: Option<f64>| n.map_or(Value::Null, |n| json!(n));
    // Ratios of counts have the source of the counts.
    let rows = [
        ("time_s", "time_s", number(f.time_s)),
        ("cpu_s", "time_s", number(f.cpu_s)),
        ("instructions", "instructions", count(f.instructions)),
        ("flops", "flops", count(f.flops.map(|flops| flops.total))),
        // All levels are of one simulation.
        ("bytes.l1", "bytes.dram", count(bytes.l1)),
        ("bytes.l2", "bytes.dram", count(bytes.l2)),
        ("bytes.l3", "bytes.dram", count(bytes.l3)),
        ("bytes.dram", "bytes.dram", count(bytes.dram)),
        ("simd_use", "instructions", number(a.simd_use)),
        ("fma_balance", "instructions", number(a.fma_balance)),
        ("ilp", "instructions", number(a.ilp)),
        ("roof_fraction", "time_s", number(a.roof_fraction)),
    ];
    let figure = |(name, key, value): (&str, &str, Value)| {
        let mut row = Map::new();
        row.insert("name".into(), name.into());
        let is_missing = value.is_null();
        row.insert("value".into(), value);
        let source = f.source.get(name).or_else(|| f.source.get(key));
        row.insert("source".into(), json!(source.map(|source| &source.how)));
        if let Some(error) = source.and_then(|source| source.error) {
            row.insert("error".into(), error.into());
        }
        if let Some(ci95_s) = f.time_ci95_s.filter(|_| name == "time_s") {
            row.insert("ci95_s".into(), ci95_s.into());
        }
        if let Some(reason) = source.and_then(|source| source.reason.as_ref()).filter(|_| is_missing) {
            row.insert("reason".into(), json!(reason));
        }
        Value::Object(row)
    };
    rows.into_iter().map(figure).collect()
}
