//! System calls by name, waiting by its reason, page faults: of programs that make known ones.

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr};

/// The profile of `calls WHAT`.
fn run(what: &str, options: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("calls");
    let options = options.iter().copied().chain(["--memory", "off", "--", program.to_str().unwrap(), what]);
    let output = sandbox.run(options);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    sandbox.profile("rprof.out")
}

fn system(profile: &Value) -> &Value {
    &profile["run"]["system"]
}

/// Number of executions of `call`.
fn count(profile: &Value, call: &str) -> Option<u64> {
    let calls = system(profile)["calls"].as_array().unwrap();
    calls.iter().find(|c| c["name"] == call)?["count"].as_u64()
}

/// Seconds off the CPU for which `wanted` holds, and all seconds off it except the wait for a CPU; `None` if the host hides them.
fn waited(profile: &Value, wanted: impl Fn(&Value) -> bool) -> Option<(f64, f64)> {
    let Some(waits) = system(profile)["waits"].as_array() else {
        println!("SKIPPED: perf: blocked threads cannot be looked at here: {}", system(profile)["waits_missing"]);
        return None;
    };
    let sum = |of: &dyn Fn(&Value) -> bool| waits.iter().filter(|w| of(w)).filter_map(|w| w["seconds"].as_f64()).sum();
    Some((sum(&wanted), sum(&|w| w["reason"] != "run-queue")))
}

fn is_pipe(wait: &Value) -> bool {
    wait["reason"] == "read" && wait["call"] == "read" && wait["file"] == "pipe"
}

#[test]
fn reads_of_a_pipe_are_counted_and_waited_for() {
    let profile = run("pipe", &["--passes", "both"]);
    // The loader's and the C library's are openat, read and pread64 of libraries: one read at least.
    let reads = count(&profile, "read").unwrap();
    assert!((301..305).contains(&reads), "{reads} reads");
    assert_eq!(count(&profile, "write"), Some(300));
    assert_eq!(count(&profile, "wait4"), Some(1));
    assert_eq!(count(&profile, "clock_nanosleep"), Some(300));
    let functions = profile["functions"].as_array().unwrap();
    let of_function = |name: &str, call: &str| {
        let function = functions.iter().find(|f| f["name"] == name)?;
        let calls = function["system"]["calls"].as_array()?;
        calls.iter().find(|c| c["name"] == call)?["count"].as_u64()
    };
    let writes = of_function("write", "write").or(of_function("__GI___libc_write", "write"));
    assert!(writes.is_none_or(|n| n == 300), "{writes:?}: of the C library's function, where it is called so");
    let Some((on_pipe, all)) = waited(&profile, is_pipe) else { return };
    let Some((asleep, _)) = waited(&profile, |w| w["reason"] == "sleep") else { return };
    // The reader waits as long as the writer sleeps, and there is nothing else.
    assert!(on_pipe > 0.3 * all && asleep > 0.3 * all, "{}", system(&profile));
}

#[test]
fn numbers_that_only_run_time_tells_are_counted_exactly() {
    let profile = run("number", &["--passes", "counted"]);
    assert_eq!(
        (count(&profile, "getppid"), count(&profile, "getuid")),
        (Some(1000), Some(500)),
        "{}",
        system(&profile)
    );
    assert!(system(&profile)["waits"].is_null(), "nobody looked");
    assert!(system(&profile)["waits_missing"].is_string());
}

#[test]
fn a_program_that_sleeps_waits_for_that() {
    let profile = run("sleep", &["--passes", "timed"]);
    assert_eq!(count(&profile, "clock_nanosleep"), None, "there was no counted pass");
    let Some((asleep, all)) = waited(&profile, |w| w["reason"] == "sleep") else { return };
    assert!(asleep > 0.5 * all && asleep > 0.3, "{}", system(&profile));
}

#[test]
fn threads_that_share_a_lock_wait_for_it() {
    let profile = run("lock", &["--passes", "timed"]);
    let Some((locked, all)) = waited(&profile, |w| w["reason"] == "lock") else { return };
    // One holds it asleep, the other waits; the first thread waits for both of them, on a futex, too.
    assert!(locked > 0.5 * all, "{}", system(&profile));
}

#[test]
fn the_kernel_counts_page_faults() {
    let profile = run("pages", &["--passes", "timed"]);
    let faults = &system(&profile)["faults"];
    let minor = faults["minor"].as_u64().unwrap();
    assert!((40_000..60_000).contains(&minor), "{faults}");
    let expected = faults["expected_s"].as_f64();
    assert!(expected.is_none_or(|s| s > 1e-3 && s < 10.0), "{faults}");
}
