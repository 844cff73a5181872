//! Recordings of `perf record`, and files that are none.

use std::process::Command;

use crate::cli::{Sandbox, status, stderr, stdout};
use crate::programs::Fixture;

#[test]
fn a_recording_of_perf_has_time_by_function_and_no_counts() {
    let program = Fixture::compile("callers", &["-O2", "-g"]);
    let sandbox = Sandbox::new();
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-F", "499", "-e", "cpu-clock", "-g", "-o", "recording", "--"]).arg(&program.path);
    match perf.current_dir(sandbox.path()).output() {
        // Its status is the program's.
        Ok(_) if sandbox.path().join("recording").exists() => {}
        Ok(output) => {
            println!("SKIPPED: perf: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        Err(error) => {
            println!("SKIPPED: packages: perf record: {error}");
            return;
        }
    }
    let output = sandbox.run(["report", "--perf", "recording", "--format", "json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let timed = &profile["run"]["passes"][0];
    let (cpu_s, wall_s) = (timed["cpu_s"].as_f64().unwrap(), timed["wall_s"].as_f64().unwrap());
    assert!(cpu_s > 0.05 && wall_s > 0.05, "{timed}");
    let functions = profile["functions"].as_array().unwrap();
    let leaf = functions.iter().find(|f| f["name"] == "leaf").and_then(|f| f["cpu_s"].as_f64());
    assert!(leaf.is_some_and(|leaf_s| leaf_s > 0.8 * cpu_s), "{leaf:?} of {cpu_s} s are in the loop");
    assert!(functions.iter().all(|f| f["instructions"].is_null()), "nothing was counted");
    let said = sandbox.run(["report", "--perf", "recording", "--all"]);
    assert!(stdout(&said).contains("recording by perf"), "{}", stdout(&said));
}

#[test]
fn a_file_that_is_no_recording_gets_one_line() {
    let sandbox = Sandbox::new();
    sandbox.file("text", "no recording", 0o644);
    for name in ["text", "nowhere"] {
        let output = sandbox.run(["report", "--perf", name]);
        assert_ne!(status(&output), 0);
        let told = stderr(&output);
        assert!(told.trim_end().lines().count() == 1 && told.contains(name), "{told}");
    }
    let both = sandbox.run(["report", "profile.json", "--perf", "text"]);
    assert!(stderr(&both).contains("--perf"), "{}", stderr(&both));
}
