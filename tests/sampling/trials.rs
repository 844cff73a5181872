//! `--try`: changes tried in copies, and the program as it would be without.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};

fn loops(sandbox: &Sandbox) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/trials/loops.c");
    let program = sandbox.path().join("loops");
    let status = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&program).arg(source).status();
    assert!(status.expect("cc is needed: tests/run installs it").success());
    program
}

#[test]
fn divisions_are_tried_and_the_program_is_unharmed() {
    let sandbox = Sandbox::new();
    let program = loops(&sandbox);
    let arguments = ["divide", "1", "8000"];
    let plain = Command::new(&program).args(arguments).output().unwrap();
    let all = ["--try", "-o", "out", "--", "./loops"].into_iter().chain(arguments);
    let output = sandbox.rprof(all).env("RPROF_TRY", "no-divisions,flush-denormals").output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).starts_with(std::str::from_utf8(&plain.stdout).unwrap()), "{}", stdout(&output));
    let profile = sandbox.profile("out");
    let trials = &profile["trials"];
    let reasons = trials["reasons"].to_string();
    if reasons.contains("perf_event_open") || reasons.contains("breakpoints") {
        eprintln!("skipped: {reasons}");
        return;
    }
    let made = trials["made"].as_array().unwrap();
    let of = |change: &str| made.iter().find(|t| t["change"] == change).unwrap();
    let most = |trial: &Value| trial["ratio"]["most"].as_f64().unwrap_or_else(|| panic!("{trials:#}"));
    assert!(most(of("no-divisions")) < 0.95, "{trials:#}");
    assert!(trials["copies"].as_u64().unwrap() > 10);
    let text = stderr(&output);
    assert!(text.contains("tried: multiplications instead of divisions in divide"), "{text}");
    let verdict = sandbox.run(["query", "out", "verdict", "--json"]);
    let verdict: Value = serde_json::from_slice(&verdict.stdout).unwrap();
    assert_eq!(verdict["cause"], "div-sqrt", "{verdict:#}");
    assert!(verdict["because"][0].as_str().unwrap().contains("tried in"), "{verdict:#}");
    let threads = profile["run"]["threads"].as_array().unwrap().len();
    assert_eq!(threads, 1, "copies are no threads of the program");
}

#[test]
fn a_program_that_is_not_copied_is_told_why() {
    let sandbox = Sandbox::new();
    loops(&sandbox);
    let script = "$RPROF --try -o out -- sh -c './loops compute 1 500; :'";
    let output = sandbox.shell(script).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("out");
    let trials = &profile["trials"];
    assert_eq!(trials["made"].as_array().map(Vec::len), Some(0));
    assert!(!trials["reasons"].as_array().unwrap().is_empty(), "{trials}");
    assert!(stderr(&output).contains("not tried: "), "{}", stderr(&output));
    let refused = sandbox.run(["--try", "--passes", "counted", "--", "true"]);
    assert_eq!(stderr(&refused).lines().count(), 1, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--try"), "{}", stderr(&refused));
}
