//! Marked regions and user-named work, end to end: exact counts by region, seconds that add up, misuse that loses nothing.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr};

/// Compiles `fixtures/markers/NAME.c`.
fn compiled(sandbox: &Sandbox, name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join(format!("fixtures/markers/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", "-Wall", "-Werror", "-pthread", "-I"]).arg(root.join("include")).arg("-o");
    let built = cc.arg(sandbox.path().join(name)).arg(source).arg("-lm").status();
    assert!(built.expect("cc is needed: tests/run installs it").success());
}

/// Runs a fixture, and returns its profile and its messages.
fn profiled(sandbox: &Sandbox, arguments: &[&str], expected_status: i32) -> (Value, String) {
    let output = sandbox.run(arguments);
    let told = stderr(&output);
    assert_eq!(status(&output), expected_status, "{told}");
    (sandbox.profile("rprof.out"), told)
}

fn region<'p>(profile: &'p Value, name: &str) -> &'p Value {
    let regions = profile["regions"].as_array().expect("regions");
    regions.iter().find(|r| r["name"] == name).unwrap_or_else(|| {
        let names: Vec<_> = regions.iter().map(|r| r["name"].to_string()).collect();
        panic!("no region {name} among {names:?}")
    })
}

fn codes(profile: &Value) -> Vec<&str> {
    let warnings = profile["run"]["warnings"].as_array().unwrap().iter();
    warnings.filter_map(|w| w["code"].as_str()).filter(|code| code.starts_with("marker-")).collect()
}

/// FLOPs and entries of the regions of `regions ROUNDS 2 SCALE`.
fn assert_exact(profile: &Value, rounds: u64, scale: u64) {
    for (name, marker, flops, entries) in [
        ("outer", "rprof", 3000, 1),
        ("inner", "rprof", 1000, 1),
        ("team", "rprof", 8000, 2),
        ("likwid", "likwid", 500, 1),
        ("task", "itt", 200, 1),
        ("range", "nvtx", 100, 1),
        ("whole program", "program", 12_500, 0),
    ] {
        let found = region(profile, name);
        assert_eq!(found["marker"], marker);
        assert_eq!(found["flops"].as_u64(), Some(flops * rounds * scale), "{name}");
        assert_eq!(found["entries"].as_u64(), (entries > 0).then_some(entries * rounds), "{name}");
    }
    for (name, particles) in [("inner", 10.0), ("outer", 10.0), ("whole program", 15.0)] {
        let work = &region(profile, name)["work"][0];
        assert_eq!(work["unit"], "particle");
        assert_eq!(work["amount"].as_f64(), Some(particles * rounds as f64), "{name}");
    }
    assert_eq!(region(profile, "team")["work"].as_array().unwrap().len(), 0);
    assert!(codes(profile).is_empty(), "{:?}", codes(profile));
}

#[test]
fn flops_and_work_by_region_are_exact() {
    let sandbox = Sandbox::new();
    compiled(&sandbox, "regions");
    for memory in ["off", "sampled"] {
        let (profile, _) =
            profiled(&sandbox, &["--passes", "counted", "--memory", memory, "--", "./regions", "3000", "2"], 0);
        assert_exact(&profile, 3000, 1);
        let bytes = &region(&profile, "outer")["bytes"];
        assert_eq!(bytes["dram"].is_null(), memory == "off", "{bytes}");
        assert!(bytes["l1"].as_u64().is_some_and(|b| b > 0));
    }
}

#[test]
fn seconds_of_both_passes_stand_beside_counts_and_add_up() {
    let sandbox = Sandbox::new();
    compiled(&sandbox, "regions");
    let (profile, told) =
        profiled(&sandbox, &["--passes", "both", "--memory", "off", "--", "./regions", "500", "2", "100"], 0);
    assert!(told.contains("Regions") && told.contains("particle"), "{told}");
    for name in ["outer", "inner", "team", "likwid"] {
        assert!(region(&profile, name)["flops"].as_u64().is_some_and(|f| f > 0), "{name}");
    }
    assert!(sandbox.path().join("rprof.out/work.svg").exists());
    let (outer, inner) = (region(&profile, "outer"), region(&profile, "inner"));
    let (Some(outer_s), Some(inner_s)) = (outer["time_s"].as_f64(), inner["time_s"].as_f64()) else {
        let reason = outer["source"]["time_s"]["reason"].as_str().expect("a reason");
        println!("SKIPPED: perf: this host does not show marker calls of the timed pass: {reason}");
        return;
    };
    let (program_s, sum) = (region(&profile, "whole program")["time_s"].as_f64().unwrap(), outer_s);
    assert!(inner_s > 0.0 && inner_s < outer_s && sum < program_s, "{inner_s} {outer_s} {program_s}");
    assert_exact(&profile, 500, 100);
    let cpu = |r: &Value| r["cpu_s"].as_f64().unwrap();
    assert!(cpu(inner) <= cpu(outer) && cpu(outer) <= cpu(region(&profile, "whole program")));
}

#[test]
fn misuse_is_told_in_one_line_each_and_loses_nothing() {
    let sandbox = Sandbox::new();
    compiled(&sandbox, "misuse");
    let (profile, _) = profiled(&sandbox, &["--passes", "counted", "--memory", "off", "--", "./misuse"], 3);
    let expected =
        ["not-begun", "not-ended", "name", "names", "depth", "amount", "unknown"].map(|code| format!("marker-{code}"));
    assert_eq!(codes(&profile), expected);
    let flops = |name: &str| region(&profile, name)["flops"].as_u64();
    assert_eq!(flops("(unreadable name)"), Some(1000));
    assert_eq!(flops("left open"), Some(5000));
    assert_eq!(flops("n7"), Some(10));
    let regions = profile["regions"].as_array().unwrap();
    let of_names =
        regions.iter().filter(|r| r["name"].as_str().is_some_and(|n| n.starts_with('n') || n.starts_with("(other")));
    assert_eq!(of_names.filter_map(|r| r["flops"].as_u64()).sum::<u64>(), 30_000);
    assert_eq!(region(&profile, "whole program")["flops"].as_u64(), Some(36_000));
    let work = region(&profile, "whole program")["work"].as_array().unwrap();
    let amounts: Vec<_> = work.iter().map(|w| (w["unit"].as_str().unwrap(), w["amount"].as_f64().unwrap())).collect();
    assert_eq!(amounts, [("(unreadable name)", 3.0), ("unit", 7.0)]);
}

#[test]
fn a_program_without_markers_has_no_regions_and_the_header_compiles_as_cxx() {
    let sandbox = Sandbox::new();
    sandbox.file("plain.c", "int main(void) { return 0; }", 0o644);
    let script = "cc -o plain plain.c && \"$RPROF\" header > rprof.h && \
                  printf '#include \"rprof.h\"\\nint main() { rprof_work(\"x\", 1); }' > a.cc && \
                  printf '#include \"rprof.h\"\\nvoid f() { rprof_region_begin(\"x\"); }' > b.cc && \
                  c++ -Wall -Wextra -Werror -o both a.cc b.cc && ./both";
    assert!(sandbox.shell(script).status().unwrap().success());
    let (profile, told) = profiled(&sandbox, &["--passes", "counted", "--memory", "off", "--", "./plain"], 0);
    assert!(profile.get("regions").is_none() && !told.contains("Regions"), "{told}");
    let folder = sandbox.path().join("rprof.out");
    assert!(!folder.join("work.svg").exists());
    let refused = sandbox.run(["report", "rprof.out", "--format", "work"]);
    assert_eq!(status(&refused), 125);
    assert!(stderr(&refused).contains("names none"), "{}", stderr(&refused));
}
