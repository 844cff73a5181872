//! `--format pprof`, read by Go's `pprof`, which knows nothing of rprof.

use std::process::Command;

use crate::cli::{Sandbox, function, status, stderr, stdout};
use crate::report::both;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/profiles/kernels.json");

/// `go tool pprof ARGUMENTS` in the sandbox; `None` where there is no Go.
fn pprof(sandbox: &Sandbox, arguments: &[&str]) -> Option<String> {
    if Command::new("go").arg("version").output().is_err() {
        println!("SKIPPED: packages: golang-go is not installed");
        return None;
    }
    let mut go = Command::new("go");
    go.args(["tool", "pprof", "-symbolize=none"]).args(arguments).current_dir(sandbox.path());
    let output = go.env("PPROF_TMPDIR", sandbox.path()).env("HOME", sandbox.path()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    Some(stdout(&output))
}

/// Writes `profile` as `p.pb.gz`.
fn written(sandbox: &Sandbox, profile: &str) {
    let output = sandbox.run(["report", profile, "--format", "pprof", "-o", "p.pb.gz"]);
    assert_eq!((status(&output), stdout(&output), stderr(&output)), (0, String::new(), String::new()));
}

#[test]
fn a_measured_profile_has_its_figures_files_and_labels_in_pprof() {
    let sandbox = both();
    written(&sandbox, "rprof.out");
    let Some(raw) = pprof(&sandbox, &["-raw", "p.pb.gz"]) else { return };
    let types = raw.lines().find(|line| line.contains("cpu/nanoseconds")).unwrap();
    assert_eq!(
        types.split_whitespace().collect::<Vec<_>>(),
        [
            "cpu/nanoseconds[dflt]",
            "lost/nanoseconds",
            "waiting/nanoseconds",
            "instructions/count",
            "flops/count",
            "dram/bytes"
        ]
    );
    let profile = sandbox.profile("rprof.out");
    let module = profile["run"]["modules"].as_array().unwrap().iter().find(|m| m["name"] == "copy").unwrap();
    let (path, build_id) = (module["path"].as_str().unwrap(), module["build_id"].as_str().unwrap());
    let mappings = raw.split("Mappings\n").nth(1).unwrap();
    let mapping = mappings.lines().find(|line| line.contains(path)).unwrap_or_else(|| panic!("{path}: {mappings}"));
    assert!(mapping.starts_with("1: ") && mapping.contains(build_id), "{mapping}");
    assert!(raw.contains("thread:[") && raw.contains("class:["), "{raw}");
    for (figure, wanted) in [
        ("instructions", &function(&profile, "copy_once")["instructions"]),
        ("dram", &function(&profile, "copy_once")["bytes"]["dram"]),
    ] {
        let unit = if figure == "dram" { "-unit=bytes" } else { "-unit=count" };
        let index = format!("-sample_index={figure}");
        let top = pprof(&sandbox, &["-top", "-nodecount=10000", "-nodefraction=0", &index, unit, "p.pb.gz"]).unwrap();
        let row = top.lines().find(|line| line.ends_with(" copy_once")).unwrap_or_else(|| panic!("{top}"));
        let flat: f64 = row.split_whitespace().next().unwrap().trim_end_matches('B').parse().unwrap();
        assert_eq!(flat, wanted.as_f64().unwrap(), "{top}");
    }
}

#[test]
fn inlined_functions_and_lost_time_are_pprofs_too() {
    let sandbox = Sandbox::new();
    written(&sandbox, RECORDED);
    let Some(top) = pprof(&sandbox, &["-top", "-nodefraction=0", "-sample_index=lost", "p.pb.gz"]) else { return };
    assert!(top.contains("Type: lost") && top.contains("branchy"), "{top}");
    let tags = pprof(&sandbox, &["-tags", "p.pb.gz"]).unwrap();
    assert!(tags.contains(" class: ") && tags.contains("dram-bandwidth") && tags.contains(" thread: "), "{tags}");
    let focused = pprof(&sandbox, &["-top", "-tagfocus=class=dram-bandwidth", "p.pb.gz"]).unwrap();
    assert!(focused.contains("triad") && !focused.contains("branchy"), "{focused}");
}

#[test]
fn a_terminal_is_not_shown_what_is_no_text() {
    let sandbox = Sandbox::new();
    let output = sandbox.shell(&format!("script -qec '$RPROF report {RECORDED} --format pprof' /dev/null")).output();
    let output = output.unwrap();
    let told = stdout(&output);
    assert_eq!((status(&output), told.lines().count()), (2, 1), "{told}");
    assert!(told.contains("--format pprof is no text for a terminal: give -o FILE"), "{told}");
    let piped = sandbox.run(["report", RECORDED, "--format", "pprof"]);
    assert_eq!(&piped.stdout[..2], [0x1f, 0x8b], "gzip");
    let refused = sandbox.run(["report", ".", "--format", "pprof", "-o", "p.pb.gz"]);
    assert_eq!((status(&refused), stderr(&refused).lines().count()), (125, 1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("cannot read ./profile.json"), "{}", stderr(&refused));
}
