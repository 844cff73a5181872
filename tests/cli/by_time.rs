//! Two runs of a program that do not do the same: because it works until a time, or because the sampler does not meet its threads.

use serde_json::Value;

use crate::cli::{Sandbox, function, status, stderr, stdout};

fn codes(profile: &Value) -> Vec<&str> {
    profile["run"]["warnings"].as_array().unwrap().iter().filter_map(|warning| warning["code"].as_str()).collect()
}

fn step(profile: &Value) -> &Value {
    let functions = profile["functions"].as_array().unwrap().iter();
    functions.max_by(|a, b| a["share"].as_f64().unwrap_or(0.0).total_cmp(&b["share"].as_f64().unwrap_or(0.0))).unwrap()
}

/// Runs `until_a_time HOW`; the profile, and the FLOPs for each second of CPU time that the program prints.
fn run(sandbox: &Sandbox, options: &[&str], how: &str) -> (Value, f64) {
    let output = sandbox.run(options.iter().chain(&["-o", "r", "--", "./until_a_time", how]));
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    std::fs::rename(sandbox.path().join("r"), sandbox.path().join(format!("r-{how}"))).unwrap();
    (sandbox.profile(&format!("r-{how}")), stdout(&output).trim().parse().unwrap())
}

#[test]
fn rates_of_a_program_that_works_until_a_time_are_those_of_windows() {
    let sandbox = Sandbox::new();
    sandbox.fixture("until_a_time");
    for how in ["clock", "timer", "sleeper"] {
        let (profile, own) = run(&sandbox, &[], how);
        let step = step(&profile);
        // On a busy host windows may not show it: then the counts are lower bounds.
        if codes(&profile).contains(&"counts-of-less-work") {
            println!("{how}: lower bounds");
            continue;
        }
        assert!(codes(&profile).contains(&"work-by-time"), "{how}: {:?}", codes(&profile));
        let error = step["source"]["flops"]["error"].as_f64().unwrap();
        let rate = step["flops"]["total"].as_f64().unwrap() / step["cpu_s"].as_f64().unwrap();
        println!("{how}: {:.3} of its own rate ± {error:.2}", rate / own);
        assert_eq!(step["source"]["flops"]["how"], "estimated");
        // Two runs differ in their speed, too.
        assert!((rate / own - 1.0).abs() < error + 0.25, "{how}: {rate:e}, {own:e}, ± {error}");
    }
}

#[test]
fn counts_of_less_work_are_lower_bounds_and_not_trusted() {
    let sandbox = Sandbox::new();
    sandbox.fixture("until_a_time");
    let both = ["--passes", "both"];
    for how in ["clock", "timer", "sleeper"] {
        let (profile, _) = run(&sandbox, &both, how);
        assert!(codes(&profile).contains(&"counts-of-less-work"), "{how}: {:?}", codes(&profile));
        let reason = step(&profile)["source"]["flops"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("a lower bound"), "{how}: {reason}");
        let folder = format!("r-{how}");
        let report = sandbox.whole_report(&folder);
        assert!(report.contains("Trust: poor") && report.contains("counts and rates are lower bounds"), "{report}");
    }
    // One that only looks at the clock does the same in both runs.
    let (profile, _) = run(&sandbox, &both, "fixed");
    assert!(!codes(&profile).contains(&"counts-of-less-work"), "{:?}", codes(&profile));
    assert_eq!(step(&profile)["flops"]["total"], 1_000_000u64 * 4096);
}

#[test]
fn exact_counts_of_threads_that_the_sampler_does_not_meet_are_kept() {
    let sandbox = Sandbox::new();
    sandbox.fixture("brief_threads");
    let output = sandbox.run(["--passes", "both", "--memory", "off", "--", "./brief_threads"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let brief = function(&profile, "brief");
    assert_eq!(brief["flops"]["total"], 3000 * 150_000 * 2, "{:#}", brief["source"]["flops"]);
    assert!(!codes(&profile).contains(&"passes-disagree"), "{:?}", codes(&profile));
    // If samples have less time than the counts take, there is no rate.
    let rate = brief["flop_rate"].as_f64();
    assert!(rate.is_none_or(|rate| rate < 3e9), "{rate:?}");
}
