//! Hardware counters on a CPU that has them. If it has none, each test prints the reason.

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};
use crate::stand_in::compile;

/// FLOPs of one call of `flop_block`, double precision, scalar.
const FLOPS: f64 = 1000.0;
/// Relative error, beyond the stated one, that a certified event may have if it was on the PMU all the time.
const ANALYTIC: f64 = 0.001;
const COUNTED: f64 = 0.005;

#[test]
fn flops_are_those_of_the_program() {
    let sandbox = Sandbox::new();
    compile(sandbox.path(), "blocks");
    let output = sandbox.run(["--quiet", "--passes", "both", "--", "./blocks", "2", "100000"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let counters = profile["run"]["counters"].as_array().unwrap();
    let events: Vec<&Value> = counters.iter().filter(|c| c["role"] == "flops" && c["event"] != "flops").collect();
    let sum = counters.iter().find(|c| c["event"] == "flops").expect("FLOPs are always asked for");
    let Some(value) = sum["value"].as_f64() else {
        println!("SKIPPED: pmu: no FLOPs from hardware: {}", sum["source"]["reason"]);
        return;
    };
    if let Some(doubted) = events.iter().find(|e| e["certified"] != true) {
        println!("SKIPPED: pmu: {} is not certified here: {}", doubted["event"], doubted["trust"]);
        return;
    }
    let stated = sum["source"]["error"].as_f64().unwrap_or(0.0);
    let analytic = 200_000.0 * FLOPS;
    assert!((value / analytic - 1.0).abs() <= ANALYTIC + 3.0 * stated, "{value} of {analytic} ± {stated}");
    let ratio = sum["ratio"].as_f64().expect("the counted pass has FLOPs, too");
    assert!((ratio - 1.0).abs() <= COUNTED + 3.0 * stated, "{sum}");
}

#[test]
fn the_check_fails_for_what_it_refuted_alone() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(["events", "--check", "--json"]);
    let listing: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    let events = listing["events"].as_array().unwrap();
    let verdict = |e: &Value| e["certificate"]["verdict"].as_str().unwrap_or("none").to_owned();
    let refuted = events.iter().filter(|e| verdict(e) == "refuted").count();
    assert_eq!(status(&output), i32::from(refuted > 0), "{events:?}");
    for event in events {
        match verdict(event).as_str() {
            "not-checked" => assert!(event["certificate"]["why"].as_str().is_some_and(|w| !w.is_empty()), "{event}"),
            "trusted" | "corrected" | "refuted" => {
                let comparisons = event["certificate"]["comparisons"].as_array().unwrap();
                assert!(!comparisons.is_empty(), "a verdict rests on something: {event}");
            }
            other => panic!("{other}: {event}"),
        }
    }
    if !events.iter().any(|e| verdict(e) == "trusted") {
        println!("SKIPPED: pmu: no event of this host could be certified: {}", listing["table"]);
    }
}

#[test]
fn doctor_says_what_each_lack_costs_and_what_helps() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(["doctor", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let diagnosis: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let tier = diagnosis["tier"].as_str().unwrap();
    assert!(["full PMU", "core PMU", "no PMU", "sandbox"].contains(&tier), "{tier}");
    for finding in diagnosis["findings"].as_array().unwrap() {
        for field in ["id", "what", "answer", "gain", "instead"] {
            assert!(finding[field].as_str().is_some_and(|t| !t.is_empty()), "{field} of {finding}");
        }
        let works = finding["works"].as_bool().unwrap_or_else(|| panic!("{finding}"));
        assert!(!works || finding["enable"] == "", "what works needs nothing: {finding}");
    }
}
