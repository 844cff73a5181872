//! Profiles that a run writes, byte figures included, and the reports that `rprof report` makes of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, function, status, stderr, stdout};
use crate::shared::filled_once;

const FILES: [&str; 4] = ["profile.json", "report.html", "roofline.svg", "flamegraph.svg"];

/// Runs `copy MIB` with these options, checks that DRAM bytes are those of arithmetic to within `tolerance`, and returns the
/// folder.
fn copied(options: &[&str], mib: &str, mode: &str, tolerance: f64) -> Sandbox {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("copy");
    let output = sandbox.run(options.iter().chain(&["--", program.to_str().unwrap(), mib]));
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let expected: f64 = stdout(&output).trim().parse().unwrap();
    let profile = sandbox.profile("rprof.out");
    let copy = function(&profile, "copy_once");
    let (dram, source) = (copy["bytes"]["dram"].as_f64().unwrap(), &copy["source"]["bytes.dram"]);
    println!("{mode}: {:.4} of the {expected} bytes by arithmetic, {source}", dram / expected);
    assert!((dram / expected - 1.0).abs() < tolerance, "{dram} and {expected} bytes, {source}");
    if source["how"] == "simulated" {
        let counted = &profile["run"]["passes"].as_array().unwrap().last().unwrap();
        assert_eq!(counted["memory"], mode);
        let placed = counted["page_placement"].as_str().unwrap();
        // Frames only if this user may see them, and all lines come.
        let told = if mode == "exact" && placed.contains("page map") { "page map" } else { "pseudo-random" };
        let report = sandbox.whole_report("rprof.out");
        assert!(placed.contains(told) && report.contains(told), "{placed}");
    }
    sandbox
}

/// The profile of a run by both passes, which is made once for all tests.
pub fn both() -> Sandbox {
    let copy =
        |from: &Path, to: &Path| assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    let made = filled_once("run-by-both-passes", |folder| {
        copy(&copied(&["--passes", "both"], "128", "sampled", 0.10).path().join("rprof.out"), folder);
    });
    let sandbox = Sandbox::new();
    copy(&made.join("rprof.out"), sandbox.path());
    sandbox
}

#[test]
fn both_passes_know_the_bytes_of_a_copy_and_write_all_four_files() {
    let both = both();
    for name in FILES {
        let text = fs::read_to_string(both.path().join("rprof.out").join(name)).unwrap();
        assert!(text.contains("copy_once"), "{name} does not tell of the function");
    }
}

#[test]
fn an_exact_model_knows_the_bytes_of_a_copy() {
    copied(&["--memory", "exact"], "16", "exact", 0.05);
}

/// Standard output of `rprof report PROFILE --format FORMAT`.
#[track_caller]
fn report(sandbox: &Sandbox, profile: &str, format: &str) -> String {
    let output = sandbox.run(["report", profile, "--format", format]);
    assert_eq!(status(&output), 0, "{format}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{format}");
    stdout(&output)
}

#[test]
fn a_report_comes_in_every_format() {
    let both = both();
    let made = |format| {
        let text = report(&both, "rprof.out", format);
        assert!(text.contains("copy_once"), "{format}: {text}");
        text
    };
    assert!(made("text").starts_with("rprof: "));
    assert!(made("md").starts_with("### `"));
    assert!(made("html").starts_with("<!DOCTYPE html>"));
    for picture in ["svg", "flamegraph"] {
        let text = made(picture);
        assert!(text.contains("<svg") && text.trim_end().ends_with("</svg>"), "{picture}");
    }
    let csv = made("csv");
    let mut rows = csv.lines().map(|line| line.split(','));
    let dram = rows.next().unwrap().position(|title| title == "bytes_dram").expect("a column of DRAM bytes");
    let copy = rows.find(|row| row.clone().next() == Some("copy_once")).unwrap();
    let profile = both.profile("rprof.out");
    assert_eq!(copy.clone().nth(dram), Some(&*function(&profile, "copy_once")["bytes"]["dram"].to_string()));
    for stack in made("folded").lines() {
        let (frames, microseconds) = stack.rsplit_once(' ').unwrap();
        assert!(!frames.is_empty() && microseconds.parse::<u64>().is_ok(), "{stack}");
    }
    let json: Value = serde_json::from_str(&made("json")).unwrap();
    assert_eq!(json["functions"], profile["functions"], "nothing changes on the way");
    let firefox: Value = serde_json::from_str(&made("firefox")).unwrap();
    assert!(firefox["threads"][0]["samples"]["length"].as_u64().unwrap() > 0);
}

#[test]
fn a_report_recomputes_the_analysis_from_the_facts() {
    // A recorded profile: one that is measured here may lack a ceiling.
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/profiles/kernels.json");
    let mut tampered: Value = serde_json::from_str(&fs::read_to_string(recorded).unwrap()).unwrap();
    let sandbox = Sandbox::new();
    let right: Value = serde_json::from_str(&report(&sandbox, recorded, "json")).unwrap();
    let functions = tampered["functions"].as_array_mut().unwrap();
    for function in functions.iter_mut() {
        for (field, wrong) in [
            ("class", "div-sqrt".into()),
            ("binding", "latency".into()),
            ("roof_fraction", 0.123.into()),
            ("ilp", 0.5.into()),
            ("savings", Value::Array(Vec::new())),
            ("ceilings", Value::Array(Vec::new())),
        ] {
            function[field] = wrong;
        }
        function["oi"]["dram"] = 1000.0.into();
        function["terms"]["dram"] = 1e-9.into();
    }
    sandbox.file("tampered.json", tampered.to_string(), 0o644);
    let read: Value = serde_json::from_str(&report(&sandbox, "tampered.json", "json")).unwrap();
    assert_eq!(read["functions"], right["functions"]);
    let is_classified = |f: &&Value| f["roof_fraction"].as_f64().is_some_and(|at| at != 0.123);
    let classified = right["functions"].as_array().unwrap().iter().filter(is_classified).count();
    assert!(classified > 5, "{classified} functions are analysed");
}

#[test]
fn one_function_everything_and_questions_are_one_command_away() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/profiles/kernels.json");
    let sandbox = Sandbox::new();
    let told = |arguments: &[&str]| {
        let output = sandbox.run(arguments);
        assert_eq!(status(&output), 0, "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    let brief = told(&["report", recorded]);
    assert!(brief.contains(&format!("More: rprof report {recorded}")) && !brief.contains("Ladder"), "{brief}");
    assert!(told(&["report", recorded, "--function", "triad"]).contains("Ladder of its ceilings"));
    let nosuch = sandbox.run(["report", recorded, "--function", "tirad"]);
    assert_eq!((status(&nosuch), stdout(&nosuch).as_str()), (2, ""));
    assert_eq!(stderr(&nosuch).lines().count(), 1, "{}", stderr(&nosuch));
    assert!(stderr(&nosuch).contains("has a name that matches; the hottest are"), "{}", stderr(&nosuch));
    assert!(told(&["report", recorded, "--all"]).contains("\nmachine: "));
    assert!(told(&["report", recorded, "--format", "svg", "--function", "triad"]).contains("its own roofline"));
    assert!(told(&["report", recorded, "--format", "svg", "--function", "gemm"]).contains("Roofline of"), "two match");
    let csv = told(&["report", recorded, "--format", "csv", "--function", "^triad$"]);
    assert_eq!(csv.lines().count(), 2, "a header and one function: {csv}");
    let whole = sandbox.run(["report", recorded, "--format", "json", "--function", "triad"]);
    assert_eq!((status(&whole), stdout(&whole).as_str(), stderr(&whole).lines().count()), (2, "", 1));
    assert!(stderr(&whole).contains("--format json has the whole profile"), "{}", stderr(&whole));
    assert!(
        told(&["report", recorded, "--format", "flamegraph", "--by", "lost"]).contains("Time lost below the bound")
    );
    assert!(told(&["diff", recorded, recorded, "--format", "flamegraph"]).contains("longer than before: +0 s"));
    let top: Value = serde_json::from_str(&told(&["query", recorded, "top", "--limit", "2", "--json"])).unwrap();
    assert_eq!((top["functions"]["items"].as_array().unwrap().len(), &top["functions"]["cut"]), (2, &9.into()));
    assert!(told(&["query", recorded, "explain", "triad"]).contains("memory bandwidth"));
    assert!(told(&["query", recorded, "ceilings", "dp."]).contains("dp.fma"));
    assert!(told(&["query", recorded, "compare", recorded]).contains("No change: 11 functions within the error"));
    let refused = sandbox.run(["query", recorded, "explain", "nothing"]);
    assert_eq!((status(&refused), stderr(&refused).lines().count()), (125, 1), "{}", stderr(&refused));
}

#[test]
fn names_that_are_equal_when_shortened_differ_in_a_report_and_are_accepted_as_they_are_printed() {
    let sandbox = Sandbox::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/profiles/kernels.json");
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(recorded).unwrap()).unwrap();
    let operand = "expression_of_two_operands<left_operand_of_the_expression, right_operand_of_the_expression>";
    let name = |n: usize| format!("double evaluate<{operand}, {n}>(long)");
    for (n, f) in profile["functions"].as_array_mut().unwrap().iter_mut().take(3).enumerate() {
        f["name"] = name(n).into();
    }
    sandbox.file("alike.json", profile.to_string(), 0o644);
    let made = |arguments: &[&str]| {
        let output = sandbox.run(["report", "alike.json"].iter().chain(arguments));
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    for (format, begin) in
        [(&["--format", "text"][..], "double evaluate<"), (&["--format", "md"], "| `double evaluate<")]
    {
        let report = made(format);
        let rows = report.lines().map(str::trim_start).filter(|line| line.starts_with(begin));
        let mut printed: Vec<&str> =
            rows.map(|row| row.trim_start_matches("| `").split([')', '#']).next().unwrap()).collect();
        assert_eq!(printed.len(), 3, "{report}");
        assert!((0..3).all(|n| printed.iter().any(|name| name.contains(&format!("{n}>(")))), "{report}");
        for short in &printed {
            let answer = made(&["--function", &format!("{short})")]).replace(['\n', ' '], "");
            let meant = (0..3).filter(|n| answer.contains(&name(*n).replace(' ', "")));
            assert_eq!(meant.count(), 1, "{short}: {answer}");
        }
        printed.sort_unstable();
        printed.dedup();
        assert_eq!(printed.len(), 3, "{report}");
    }
    // The text between the pieces of a name may be anything.
    let all = made(&["--function", "double evaluate<…>(long)", "--all"]);
    assert!((0..3).all(|n| all.contains(&format!(", {n}>("))), "{all}");
}
