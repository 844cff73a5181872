//! `rprof gate`: the same cycles in every run, a change that only caches see, and what it refuses. No time is asserted: cycles are modelled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};

/// Compiles `fixtures/gate/NAME.c` as `app` in a folder of its own.
fn build(sandbox: &Sandbox, name: &str, folder: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/gate/{name}.c"));
    let program = sandbox.path().join(folder).join("app");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-o"]).arg(&program).arg(source).args(flags);
    assert!(cc.status().expect("cc is needed: tests/run installs it").success());
    program
}

/// Runs `folder/app` under the gate as `run/app`: both builds have one path.
fn gate(sandbox: &Sandbox, folder: &str, arguments: &[&str]) -> Output {
    fs::create_dir_all(sandbox.path().join("run")).unwrap();
    fs::copy(sandbox.path().join(folder).join("app"), sandbox.path().join("run/app")).unwrap();
    let arguments = ["gate", "--quiet"].iter().chain(arguments).chain(&["--", "run/app"]);
    sandbox.run(arguments)
}

/// The base's result in `base.json`.
fn base(sandbox: &Sandbox, folder: &str) -> Value {
    let output = gate(sandbox, folder, &["-o", "base.json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    json(&sandbox.path().join("base.json"))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn two_runs_give_the_same_file() {
    let sandbox = Sandbox::new();
    build(&sandbox, "layout", "narrow", &[]);
    let first = base(&sandbox, "narrow");
    let text = fs::read(sandbox.path().join("base.json")).unwrap();
    // Another environment of the user's is none of the program's.
    sandbox
        .rprof(["gate", "--quiet", "-o", "again.json", "--", "run/app"])
        .env("LONG", "x".repeat(5000))
        .output()
        .unwrap();
    assert!(fs::read(sandbox.path().join("again.json")).unwrap() == text, "the two files differ");
    assert_eq!(first["schema"], "rprof-gate/1");
    let walk = &first["functions"][0];
    assert_eq!((&walk["name"], &walk["module"]), (&"walk".into(), &Value::Null));
    assert!(
        walk["cycles"]["value"].as_f64().unwrap() > walk["instructions"].as_f64().unwrap(),
        "it waits for its loads"
    );
}

#[test]
fn a_wider_record_is_a_regression_by_its_misses_although_nothing_more_is_executed() {
    let sandbox = Sandbox::new();
    build(&sandbox, "layout", "narrow", &[]);
    build(&sandbox, "layout", "wide", &["-DWIDE"]);
    base(&sandbox, "narrow");
    let output = gate(&sandbox, "wide", &["--base", "base.json", "-o", "head.json", "--format", "json"]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    let comparison: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(comparison["verdict"], "regression");
    let instructions = |side: &str| comparison[format!("instructions_{side}")].as_f64().unwrap();
    assert!((instructions("after") / instructions("before") - 1.0).abs() < 0.001, "{comparison}");
    let change = &comparison["functions"][0];
    assert_eq!(change["function"], "walk");
    let cause = change["causes"][0][0].as_str().unwrap();
    assert!(["l2", "l3", "tlb"].contains(&cause), "{change}");
    assert!(comparison["change"].as_f64().unwrap() > 0.5, "{comparison}");

    // The same from the two files, as a comment, and the other way round.
    let output = sandbox.run(["gate", "--base", "base.json", "--head", "head.json", "--format", "markdown"]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    let comment = stdout(&output);
    assert!(comment.starts_with("### Modelled cycles: +") && comment.contains("| `walk` |"), "{comment}");
    let output = sandbox.run(["gate", "--base", "head.json", "--head", "base.json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).starts_with("improvement: "), "{}", stdout(&output));
    let output = sandbox.run(["gate", "--base", "base.json", "--head", "head.json", "--threshold", "1000%"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_function_that_moved_is_no_change() {
    let sandbox = Sandbox::new();
    build(&sandbox, "layout", "narrow", &[]);
    build(&sandbox, "layout", "moved", &["-DMOVED"]);
    base(&sandbox, "narrow");
    let output = gate(&sandbox, "moved", &["--base", "base.json", "--threshold", "0.5%", "--format", "json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let comparison: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(comparison["verdict"], "unchanged", "{comparison}");
    assert_eq!(comparison["functions"].as_array().unwrap().len(), 0, "{comparison}");
}

#[test]
fn the_program_is_told_of_the_reference_core() {
    let sandbox = Sandbox::new();
    build(&sandbox, "features", "features", &[]);
    let output = gate(&sandbox, "features", &["--format", "bencher", "--name", "told"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("vendor AuthenticAMD avx2 "), "{}", stderr(&output));
    assert!(stderr(&output).contains(" avx512f 0\n"), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(report["told"]["instructions"]["value"].as_f64().unwrap() > 10_000.0, "{report}");
}

#[test]
fn the_commands_of_the_page_run() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md")).unwrap();
    let block = page.split_once("<!-- run by: tests/cli/gate.rs -->\n```sh\n").unwrap().1.split_once("```").unwrap().0;
    let sandbox = Sandbox::new();
    build(&sandbox, "layout", ".", &[]);
    let output = sandbox.shell(&format!("set -e\nrprof() {{ \"$RPROF\" \"$@\"; }}\n{block}")).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("unchanged: ").count(), 2, "{}", stdout(&output));
}

/// Standard error is one line with `words` in it.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str], expected: i32, words: &[&str]) {
    let output = sandbox.run(["gate"].iter().chain(arguments));
    let text = stderr(&output);
    assert_eq!(status(&output), expected, "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "one line is wanted:\n{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    let sandbox = Sandbox::new();
    build(&sandbox, "layout", "narrow", &[]);
    let good = base(&sandbox, "narrow");
    refused(&sandbox, &["--base", "none.json", "--", "run/app"], 125, &["none.json", "No such file"]);
    refused(&sandbox, &["--base", "run", "--", "run/app"], 125, &["run: a folder", "gate -o"]);
    sandbox.file("text.json", "no JSON", 0o644);
    refused(&sandbox, &["--base", "text.json", "--", "run/app"], 125, &["text.json: not a result", "gate -o"]);
    let changed = |name: &str, pointer: &str, value: Value| {
        let mut other = good.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        sandbox.file(name, other.to_string(), 0o644);
    };
    changed("profile.json", "/schema", "rprof-profile/1".into());
    refused(&sandbox, &["--base", "profile.json", "--head", "base.json"], 125, &["profile.json: not a result"]);
    changed("later.json", "/schema", "rprof-gate/9".into());
    refused(&sandbox, &["--base", "later.json", "--head", "base.json"], 125, &["rprof-gate/9", "same version"]);
    changed("damaged.json", "/functions", 3.into());
    refused(&sandbox, &["--base", "damaged.json", "--head", "base.json"], 125, &["damaged.json: damaged"]);
    changed("poor.json", "/conditions/features", vec!["sse2".to_owned()].into());
    refused(&sandbox, &["--base", "base.json", "--head", "poor.json"], 125, &["instruction sets", "avx2"]);
    changed("core.json", "/conditions/core", "other/1".into());
    refused(&sandbox, &["--base", "base.json", "--head", "core.json"], 125, &["different cores", "other/1"]);
    refused(&sandbox, &["--", "./nothing"], 127, &["./nothing"]);
    refused(&sandbox, &["--", "/bin/false"], 125, &["exit status 1", "succeed"]);
    refused(&sandbox, &["--format", "markdown", "--", "run/app"], 2, &["--base"]);
    refused(&sandbox, &["--head", "base.json"], 2, &["--base"]);
    refused(&sandbox, &["--threshold", "-1%", "--", "run/app"], 2, &["--threshold"]);
    refused(&sandbox, &[], 2, &["PROGRAM"]);
}
