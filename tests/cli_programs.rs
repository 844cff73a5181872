//! Real programs by both passes, with the memory model.

#[path = "common/cli.rs"]
mod cli;

use std::path::Path;
use std::process::Command;

use cli::{Sandbox, function, status, stderr, stdout};

#[test]
fn gzip_writes_the_same_bytes_and_its_report_comes() {
    let sandbox = Sandbox::new();
    let numbers: String =
        (0..600_000u64).map(|i| format!("{}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)).collect();
    sandbox.file("numbers", &numbers, 0o644);
    let native = Command::new("gzip").args(["-c", "numbers"]).current_dir(sandbox.path()).output().unwrap();
    assert!(native.status.success() && native.stdout.len() > 1 << 20, "{} bytes", native.stdout.len());
    let output = sandbox.run(["--passes", "both", "--", "gzip", "-c", "numbers"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(output.stdout == native.stdout, "{} bytes, natively {}", output.stdout.len(), native.stdout.len());
    let profile = sandbox.profile("rprof.out");
    let hottest = &profile["functions"][0];
    assert_eq!(hottest["module"], "gzip", "{}", stderr(&output));
    for figure in [&hottest["time_s"], &hottest["instructions"], &hottest["int_ops"], &hottest["bytes"]["l1"]] {
        assert!(figure.as_f64().is_some_and(|v| v > 0.0), "{hottest:#}");
    }
    // Debian's gzip is stripped: the report says so in words that do not sound like a failure.
    if hottest["name"].as_str().unwrap().starts_with("gzip+0x") {
        let report = sandbox.whole_report("rprof.out");
        assert!(report.contains("in code without symbols"), "{report}");
    }
}

#[test]
fn a_fortran_program_with_two_threads_has_its_flops_and_its_names() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cli/columns.f90");
    let mut compiler = Command::new("gfortran");
    compiler.args(["-O2", "-fno-inline", "-g", "-fopenmp", "-o", "columns"]).arg(source).current_dir(sandbox.path());
    assert!(compiler.status().expect("gfortran is needed: tests/run installs it").success());
    let output = sandbox.run(["--passes", "both", "--", "./columns"]);
    assert_eq!((status(&output), stdout(&output).trim()), (0, "200000000.0"), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let add = function(&profile, "columns::add_multiple");
    assert_eq!(add["flops"]["total"], 800_000_000u64, "{add:#}");
    assert_eq!((&add["flops"]["dp"], &add["team"]), (&800_000_000u64.into(), &2.into()));
    assert!(add["file"].as_str().unwrap().ends_with("columns.f90"), "{}", add["file"]);
    assert!(add["time_s"].as_f64().unwrap() > 0.0 && add["bytes"]["dram"].is_number());
}
