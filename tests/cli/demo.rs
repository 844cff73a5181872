//! `rprof demo` as a newcomer runs it.

use std::process::Command;

use crate::cli::{Sandbox, status, stderr, stdout};

/// Seconds after which the test gives up: first touches of the demo's gigabytes take minutes on some guests, and so does the
/// model in a binary that is not optimized. `tests/bench demo` compares the demo with the minute that rprof promises.
const PATIENCE_S: &str = "1500";

#[test]
#[ignore = "minutes: all kernels under a model that is not optimized"]
fn every_kernel_of_the_demo_is_there_with_what_it_was_built_for_and_its_time() {
    let sandbox = Sandbox::new();
    let rprof = env!("CARGO_BIN_EXE_rprof");
    let listed = Command::new(rprof).args(["__demo", "--list"]).output().unwrap();
    let kernels: Vec<String> = stdout(&listed).lines().map(str::to_owned).collect();
    assert!(kernels.len() > 20, "{kernels:?}");
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let output = Command::new("timeout")
        .args(["--foreground", "-k", "5", PATIENCE_S, rprof, "demo"])
        .current_dir(sandbox.path())
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    let told = stderr(&output);
    assert_eq!(status(&output), 0, "{told}");
    let profile = sandbox.profile("rprof.out");
    let functions = profile["functions"].as_array().unwrap();
    let mut shown = 0;
    for function in functions.iter().filter(|f| f["expected"].is_string()) {
        let name = function["name"].as_str().unwrap();
        let kernel = kernels.iter().any(|kernel| name.starts_with(&format!("demo_{kernel}")));
        assert!(kernel, "{name} is no kernel");
        assert!(function["time_s"].as_f64().is_some_and(|s| s > 0.0), "{name}: {}", function["time_s"]);
        assert!(function["class"].is_string(), "{name} was not counted: {}", function["source"]);
        shown += 1;
    }
    assert_eq!(told.matches(['✓', '✗']).count(), shown, "{told}");
    // One for each class that this host can show: not all that are built in.
    assert!((10..kernels.len()).contains(&shown), "{shown} of {kernels:?}");
}
