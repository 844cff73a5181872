//! The schema and the strict reader: a complete profile is accepted, one with any contract field removed or mistyped is
//! refused, by the file's own checker and by a complete JSON Schema validator alike.

use serde_json::{Value, json};

use super::sample;
use crate::conforms::conforms;
use crate::{ReportError, json as reader, schema};
use rprof_profile::counters::{Counter, ThreadCount};
use rprof_profile::function::Source;

/// Every field of an object and item of an array in `value`, as JSON pointers.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.replace('~', "~0").replace('/', "~1"), v)).collect(),
        // One item of a list represents all.
        Value::Array(items) => items.iter().take(1).enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let path = format!("{at}/{key}");
        out.push(path.clone());
        places(child, path, out);
    }
}

/// Fields that may be absent: added after the contract, or absent if they are empty.
fn optional(pointer: &str) -> bool {
    const NAMES: [&str; 76] = [
        "disassembly",
        "left_out",
        "callers",
        "prefetch",
        "affinity",
        "system",
        "divided",
        "faults",
        "waits_missing",
        "waiting_s",
        "kernel_s",
        "fault_s",
        "fault_time_s",
        "what_if_s",
        "branches",
        "concurrency",
        "lambda",
        "allowed_cpus",
        "exclusive_s",
        "inlined",
        "dram_bytes",
        "coherence",
        "l1_conflict",
        "l2_conflict",
        "seen_lines",
        "l1_scatter",
        "l2_scatter",
        "l3_scatter",
        "dram_write_scatter",
        "l3_seen_lines",
        "stale_lines",
        "l3_stale_lines",
        "cold_lines",
        "small_page_lines",
        "dram_overwritten",
        "dram_used_again",
        "pieces",
        "huge_page_lines",
        "unseen",
        "untracked",
        "error",
        "reason",
        "memory",
        "frequency_hz",
        "samples",
        "lost",
        "uncounted_share",
        "waiting",
        "device",
        "caches",
        "vector_bits",
        "counters",
        "counted",
        "ratio",
        "pmu",
        "raw",
        "running_share",
        "trust",
        "certified",
        "unattributed",
        "background",
        "balance",
        "pages",
        "huge_pages",
        "core_to_core",
        "page_placement",
        "kept_off_share",
        "parallelism",
        "confidence",
        "reasons",
        "remarks",
        "account",
        "what_if_s",
        "branches",
        "calls",
        "stored",
    ];
    let name = pointer.rsplit('/').next().unwrap();
    let reason_of_ceiling = pointer.starts_with("/machine/ceilings");
    let top_level = pointer.matches('/').count() == 1;
    let free = pointer.rsplit('/').nth(1) == Some("source");
    let fp_step = ["op", "precision", "width"].contains(&name) && pointer.contains("/steps/");
    if pointer.contains("/counters/") && ["how", "per_thread"].contains(&name) {
        return name == "per_thread";
    }
    if pointer.contains("/account/parts/") || pointer.contains("/account/what_if_s/") {
        return true;
    }
    if pointer.contains("/confidence/reasons/0/") {
        return name != "kind";
    }
    // Files of schema 1 have none.
    if name == "quality" && pointer.starts_with("/machine/ceilings/") {
        return true;
    }
    if name == "coherence" && pointer.contains("/traffic/") {
        return false;
    }
    let in_system = pointer.contains("/system/") && ["kernel_s", "reason"].contains(&name);
    if in_system || pointer.ends_with("/affinity/reason") {
        return false;
    }
    if name == "clock_hz" {
        return pointer.contains("/functions/");
    }
    !top_level && (free || fp_step || NAMES.contains(&name) && !(reason_of_ceiling && name == "reason"))
}

/// The recorded profile with a refuted, saving, looping function first, so that one item a list shows every field.
fn analysed() -> Value {
    let mut value = serde_json::to_value(sample::profile()).unwrap();
    let functions = value["functions"].as_array_mut().unwrap();
    let rich = functions.iter().position(|f| !f["loops"].as_array().unwrap().is_empty()).unwrap();
    functions.swap(0, rich);
    functions[0]["counters"] = json!([counter()]);
    functions[0]["clock_hz"] = json!(3e9);
    functions[0]["loops"][0]["disassembly"] = json!({
        "instructions": [{"offset": 4416, "length": 4, "text": "add rax,0x8", "executions": 1000, "cpu_s": 0.25}],
        "left_out": 3,
    });
    functions[0]["pages"] = json!({"touched": 16384, "at_least": true});
    functions[0]["confidence"] = json!({"level": "low", "reasons": [{"kind": "few-samples", "samples": 12}]});
    functions[0]["remarks"] = json!(["nothing to block"]);
    functions[0]["account"] = json!({
        "model_s": 1.5, "error": 0.04, "parts": {"base": 1.0, "mispredict": 0.5}, "bursts": 31, "instructions": 1000000,
        "what_if_s": {"perfect-prediction": 1.1},
        "branches": [{"offset": 64, "file": "kernels.cpp", "line": 14, "mispredicted": 0.3, "seconds": 0.4}],
    });
    let system = json!({
        "calls": [{"name": "read", "count": 1000, "kernel_s": 0.3, "divided": true}],
        "waits": [{"reason": "read", "call": "read", "file": "pipe", "seconds": 1.2}],
        "callers": [{"name": "main", "seconds": 1.5}],
        "waits_missing": "not allowed",
        "faults": {"minor": 20000, "major": 1, "expected_s": 0.1, "sampled_s": 0.2, "sampled_ci95_s": 0.05},
    });
    functions[0]["system"] = system.clone();
    let work = functions[0]["work"].as_object_mut().unwrap();
    work.insert("calls".into(), json!(3));
    work["chains"] = json!([{
        "header": 4096, "line": 14, "iterations": 10, "entries": 1, "threads": 1, "fp_per_iteration": 1.0, "restart_every": 2.0,
        "stored": true, "cycles": [{"distance": 1, "steps": [{"kind": "load"}]}],
    }]);
    value["run"]["system"] = system;
    value["run"]["affinity"] = json!({"nodes": 2, "remote_share": 0.25, "reason": null});
    value["functions"][0]["prefetch"] = json!({"lines": 10.0, "foreseen": 5.0, "computable": 3.0, "chased": 2.0});
    value["run"]["parallelism"] = json!({"used": 1.6, "allowed": 2});
    value["run"]["passes"][0]["kept_off_share"] = json!(0.1);
    value["run"]["passes"][0]["page_placement"] = json!("pseudo-random");
    value["machine"]["core_to_core"] = json!([4.5e-8]);
    value["run"]["counters"] = json!([counter()]);
    value["run"]["pages"] = json!({"touched": 20000, "at_least": false});
    value
}

/// A hardware counter that shows every field.
fn counter() -> Counter {
    Counter {
        event: "fp_arith".into(),
        role: "flops".into(),
        unit: "flop".into(),
        value: Some(2e9),
        source: Source { how: "pmu, scaled".into(), error: Some(0.02), reason: Some("watchdog".into()) },
        counted: Some(2e9),
        ratio: Some(1.0),
        pmu: Some("cpu".into()),
        raw: Some(1),
        running_share: Some(0.5),
        trust: Some("trusted".into()),
        certified: true,
        unattributed: Some(0.01),
        background: Some(0.5),
        balance: Some(0.9),
        per_thread: vec![ThreadCount { thread: 0, value: 2e9 }],
    }
}

#[test]
fn the_schema_accepts_what_is_written() {
    let value = analysed();
    schema::check(&value).unwrap();
    let full: Value = serde_json::from_str(schema::TEXT).unwrap();
    jsonschema::meta::validate(&full).unwrap();
    jsonschema::validate(&full, &value).unwrap();
}

#[test]
fn any_removed_or_mistyped_field_is_refused() {
    let whole = analysed();
    let full = jsonschema::validator_for(&serde_json::from_str(schema::TEXT).unwrap()).unwrap();
    let mut all = Vec::new();
    places(&whole, String::new(), &mut all);
    assert!(all.len() > 250, "only {} fields found", all.len());
    for pointer in &all {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut removed = whole.clone();
        if let Some(Value::Object(fields)) = removed.pointer_mut(parent) {
            fields.remove(&key.replace("~1", "/").replace("~0", "~"));
            assert_eq!(schema::check(&removed).is_err(), !full.is_valid(&removed), "{pointer} removed");
            assert_eq!(schema::check(&removed).is_err(), !optional(pointer), "{pointer} removed");
            assert_eq!(
                conforms(removed.to_string().as_bytes()),
                is_quickly_right(&removed, pointer),
                "{pointer} removed"
            );
        }
        let mut mistyped = whole.clone();
        let slot = mistyped.pointer_mut(pointer).unwrap();
        *slot = if slot.is_boolean() { json!("yes") } else { json!(true) };
        let verdict = schema::check(&mistyped);
        assert_eq!(
            conforms(mistyped.to_string().as_bytes()),
            is_quickly_right(&mistyped, pointer),
            "{pointer} mistyped"
        );
        assert_eq!(verdict.is_err(), !full.is_valid(&mistyped), "{pointer} mistyped");
        let named = verdict.expect_err(pointer).field.replace('[', ".").replace(']', "");
        let expected = pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/");
        assert_eq!(named, expected, "names another field");
        assert!(reader::parse(&mistyped).is_err(), "{pointer} mistyped is read");
    }
}

/// The verdict of the quick check, which leaves samples to the parser.
fn is_quickly_right(value: &Value, pointer: &str) -> bool {
    schema::check(value).is_ok() || pointer.starts_with("/samples/")
}

#[test]
fn a_mutant_schema_would_be_noticed() {
    let mut value = analysed();
    value["functions"][0]["terms"].as_object_mut().unwrap().remove("chain");
    assert_eq!(schema::check(&value).unwrap_err().field, "functions[0].terms.chain");
    let mut unknown = analysed();
    unknown["functions"][0]["class"] = json!("gpu-bound");
    assert_eq!(schema::check(&unknown).unwrap_err().field, "functions[0].class");
    let mut negative = analysed();
    negative["functions"][0]["time_s"] = json!(-1.0);
    assert!(schema::check(&negative).is_err());
    for wrong in [value, unknown, negative] {
        assert!(!conforms(wrong.to_string().as_bytes()));
    }
    assert!(conforms(analysed().to_string().as_bytes()));
    assert!(!conforms(format!("{} {{}}", analysed()).as_bytes()), "two values");
}

#[test]
fn unknown_fields_are_accepted() {
    let mut value = analysed();
    value["functions"][0]["energy_j"] = json!(3.5);
    reader::parse(&value).unwrap();
}

#[test]
fn truncated_and_foreign_files_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let text = std::fs::read_to_string(sample::path()).unwrap();
    let refused = |content: &str| -> String {
        std::fs::write(&path, content).unwrap();
        let error = reader::read(&path).unwrap_err();
        let line = error.to_string();
        assert!(line.contains("profile.json") && !line.contains('\n'), "{line}");
        line
    };
    for part in [0, 1, 1000, text.len() / 2, text.len() - 3] {
        assert!(refused(&text[..part]).contains("not a complete JSON"), "{part}");
    }
    let cut = text.find("\"time_s\"").unwrap() + 12;
    assert!(refused(&text[..cut]).contains("within functions[0].source.time_s"), "{}", refused(&text[..cut]));
    assert!(refused("machine: fast").contains("is not JSON"));
    assert!(refused("[]").contains("file: is a list"));
    assert!(refused("{}").contains("schema: is missing"));
    assert!(refused(r#"{"schema": "speedscope"}"#).contains("schema: is \"speedscope\""));
    assert!(refused(r#"{"schema": "rprof-profile/1"}"#).contains("model_version: is missing"));
    assert!(refused(&text.replace("\"cpu_s\":", "\"cpus\":")).contains("cpu_s: is missing"));
    let missing = reader::read(&folder.path().join("none.json")).unwrap_err();
    assert!(matches!(missing, ReportError::Read { .. }) && missing.to_string().contains("none.json"));
}

#[test]
fn indices_out_of_range_are_refused() {
    for (pointer, bad) in
        [("/stacks/0/frame", 9999), ("/stacks/1/parent", 1), ("/samples/0/stack", 9999), ("/samples/0/thread", 77)]
    {
        let mut value = sample::value();
        *value.pointer_mut(pointer).unwrap() = json!(bad);
        let violation = reader::parse(&value).unwrap_err();
        assert!(violation.problem.contains("out of range"), "{pointer}: {violation:?}");
    }
}

#[test]
fn writing_and_reading_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.json");
    let profile = sample::profile();
    std::fs::write(&path, reader::text(&profile).unwrap()).unwrap();
    assert_eq!(reader::read(&path).unwrap(), profile);
}
