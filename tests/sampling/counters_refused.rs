//! A counter that the kernel refuses ends in "not measured, because …": never in 0, never in a panic, and the report is complete.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};
use crate::stand_in::{BREAKPOINT, EXECUTED, Event, Folder, PAGE_FAULTS, RAW, SOFTWARE, TRACEPOINT, address, compile};

fn event(name: &str, config: u64, address: u64) -> Event<'_> {
    Event { name, role: "flops", config, address, weight: 1000.0 }
}

/// The report is complete, no counter is 0, and each says `reason`.
fn not_measured(sandbox: &Sandbox, output: &Output, reason: &str) {
    let text = stderr(output);
    assert_eq!(status(output), 0, "{text}");
    assert!(!text.contains("panicked"), "{text}");
    let profile = sandbox.profile("rprof.out");
    let counters = profile["run"]["counters"].as_array().expect("what was asked for is listed");
    assert!(!counters.is_empty());
    for counter in counters {
        assert_eq!(counter["value"], Value::Null, "{counter}");
        let told = counter["source"]["reason"].as_str().unwrap_or_default();
        assert!(told.contains(reason), "{told:?} instead of {reason:?}");
    }
    let all = stdout(&sandbox.run(["report", "rprof.out", "--all"]));
    let line = all.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("hardware counters: not measured, because"), "{text}");
    assert_eq!(profile["run"]["passes"][0]["kind"], "timed", "the timed report stands");
}

fn run(sandbox: &Sandbox, before: &str, folder: &Path, after: &str) -> Output {
    let script = format!(
        "exec {before} \"$RPROF\" --quiet --passes timed --counters-from {} -- ./blocks {after}",
        folder.display()
    );
    sandbox.shell(&script).output().unwrap()
}

fn with_events(kind: u32, events: &[Event]) -> (Sandbox, Folder) {
    let sandbox = Sandbox::new();
    compile(sandbox.path(), "blocks");
    let folder = Folder::new(sandbox.path());
    folder.pmu("stand_in", kind, None, None).table("table.toml", "stand_in", events);
    (sandbox, folder)
}

#[test]
fn an_event_that_the_host_does_not_have() {
    if Path::new("/sys/bus/event_source/devices/cpu").exists() {
        println!("SKIPPED: pmu: this host has a PMU, which takes any raw event");
        return;
    }
    let (sandbox, folder) = with_events(RAW, &[event("raw", 0x1c7, 0)]);
    let output = run(&sandbox, "", &folder.path, "1 1000");
    not_measured(&sandbox, &output, "this CPU (or its hypervisor) does not offer the event");
}

#[test]
fn a_pmu_that_the_kernel_does_not_list() {
    let (sandbox, folder) = with_events(RAW, &[event("raw", 0x1c7, 0)]);
    let devices = folder.path.join("sysfs/bus/event_source/devices");
    std::fs::rename(devices.join("stand_in"), devices.join("another")).unwrap();
    let output = run(&sandbox, "", &folder.path, "1 1000");
    not_measured(&sandbox, &output, "the kernel lists no PMU stand_in");
}

#[test]
fn a_list_of_pmus_that_cannot_be_read() {
    let (sandbox, folder) = with_events(RAW, &[event("raw", 0x1c7, 0)]);
    std::fs::remove_dir_all(folder.path.join("sysfs")).unwrap();
    let output = run(&sandbox, "", &folder.path, "1 1000");
    let why = "the kernel's list of PMUs (/sys/bus/event_source/devices) is empty or cannot be read";
    not_measured(&sandbox, &output, why);
}

#[test]
fn a_folder_without_tables() {
    let (sandbox, folder) = with_events(RAW, &[event("raw", 0x1c7, 0)]);
    std::fs::remove_file(folder.path.join("table.toml")).unwrap();
    let output = run(&sandbox, "", &folder.path, "1 1000");
    not_measured(&sandbox, &output, "the folder given with --counters-from holds no event table (*.toml)");
}

#[test]
fn a_refuted_event_is_the_exit_status_of_the_check() {
    let check = |role: &str| {
        let faults = Event { role, weight: 1.0, ..event("faults", PAGE_FAULTS, 0) };
        let (sandbox, folder) = with_events(SOFTWARE, &[faults]);
        let arguments = ["events", "--check", "--json", "--counters-from", folder.path.to_str().unwrap()];
        let output = sandbox.run(arguments);
        let listing: Value = serde_json::from_slice(&output.stdout).unwrap();
        (status(&output), listing["events"][0]["certificate"].clone())
    };
    // No kernel of known work predicts how often a queue is full.
    let (status, certificate) = check("queue_full");
    assert_eq!((status, &certificate["verdict"]), (0, &"not-checked".into()), "{certificate}");
    let (status, certificate) = check("flops");
    if certificate["verdict"] == "not-checked" {
        println!("SKIPPED: pmu: {}", certificate["why"]);
        return;
    }
    assert_eq!((status, &certificate["verdict"]), (1, &"refuted".into()), "page faults are no FLOPs: {certificate}");
}

#[test]
fn a_user_without_rights() {
    let (sandbox, folder) = with_events(TRACEPOINT, &[event("tracepoint", 1, 0)]);
    std::fs::set_permissions(sandbox.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent XDG_CACHE_HOME=/nonexistent";
    let may = sandbox.shell(&format!("{nobody} true")).output().unwrap();
    let reach = sandbox.shell(&format!("{nobody} \"$RPROF\" --version")).output().unwrap();
    if !may.status.success() || !reach.status.success() {
        println!("SKIPPED: root: cannot run rprof as another user: {}{}", stderr(&may), stderr(&reach));
        return;
    }
    let output = run(&sandbox, nobody, &folder.path, "1 1000");
    not_measured(&sandbox, &output, "the kernel does not allow it to this user");
}

#[test]
fn a_sandbox_that_forbids_the_call() {
    let answers = [
        (libc::EPERM, "does not allow it"),
        (libc::EACCES, "does not allow it"),
        (libc::ENOSYS, "perf_event_open is not available here"),
        (libc::ENOENT, "does not offer the event"),
        (libc::EOPNOTSUPP, "the PMU cannot count it this way"),
        (libc::EMFILE, "the limit of open files is reached"),
    ];
    let (sandbox, folder) = with_events(SOFTWARE, &[event("faults", 2, 0), event("switches", 3, 0)]);
    compile(sandbox.path(), "no_perf");
    for (errno, reason) in answers {
        let output = run(&sandbox, &format!("./no_perf {errno}"), &folder.path, "1 1000");
        not_measured(&sandbox, &output, reason);
        std::fs::remove_dir_all(sandbox.path().join("rprof.out")).unwrap();
    }
}

#[test]
fn too_few_descriptors() {
    let (sandbox, folder) = with_events(SOFTWARE, &[event("faults", 2, 0), event("switches", 3, 0)]);
    let output = run(&sandbox, "prlimit --nofile=32:32", &folder.path, "1 1000");
    not_measured(
        &sandbox,
        &output,
        " more open files and the limit leaves 0: raise the hard limit (as root: ulimit -n ",
    );
}

#[test]
fn as_many_descriptors_as_the_events_need() {
    let (sandbox, folder) = with_events(SOFTWARE, &[event("faults", 2, 0), event("switches", 3, 0)]);
    let cpus = std::thread::available_parallelism().unwrap().get();
    let output = run(&sandbox, &format!("prlimit --nofile={0}:{0}", 100 + 8 * cpus), &folder.path, "1 1000");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let counters = &sandbox.profile("rprof.out")["run"]["counters"];
    assert!(counters.as_array().unwrap().iter().all(|c| c["value"].is_number()), "{counters}");
}

#[test]
fn more_breakpoints_than_there_are() {
    let (sandbox, folder) = with_events(BREAKPOINT, &[]);
    let at = address(&sandbox.path().join("blocks"), "flop_block");
    let names: Vec<String> = (0..8).map(|i| format!("breakpoint_{i}")).collect();
    let events: Vec<Event> = names.iter().enumerate().map(|(i, n)| event(n, EXECUTED, at + i as u64)).collect();
    folder.table("table.toml", "stand_in", &events);
    let output = run(&sandbox, "", &folder.path, "1 1000");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let counters = profile["run"]["counters"].as_array().unwrap();
    let refused: Vec<&Value> = counters.iter().filter(|c| c["value"].is_null()).collect();
    assert!(refused.iter().any(|c| c["source"]["reason"] == "no counter is free"), "{counters:?}");
    let sum = counters.iter().find(|c| c["event"] == "flops").unwrap();
    assert_eq!(sum["value"], Value::Null, "a part of the events is not their sum");
}

#[test]
fn a_part_of_the_run_has_no_counts_of_all_of_it() {
    let (sandbox, folder) = with_events(SOFTWARE, &[event("faults", 2, 0)]);
    let folder = folder.path.to_str().unwrap();
    let output = sandbox.run([
        "--quiet",
        "--passes",
        "timed",
        "--to",
        "0.1",
        "--counters-from",
        folder,
        "--",
        "./blocks",
        "1",
        "1000",
    ]);
    not_measured(&sandbox, &output, "with --from or --to");
}

#[test]
fn a_broken_table_is_told_by_name() {
    let (sandbox, folder) = with_events(SOFTWARE, &[]);
    std::fs::write(folder.path.join("table.toml"), "[cpu]\nname = 3\n").unwrap();
    let output = run(&sandbox, "", &folder.path, "1 1");
    assert_eq!(status(&output), 125);
    assert!(stderr(&output).contains("table.toml"), "{}", stderr(&output));
}

#[test]
fn doctor_tells_of_too_low_a_limit_of_open_files() {
    let sandbox = Sandbox::new();
    let output = sandbox.shell("exec prlimit --nofile=32:32 \"$RPROF\" doctor --json").output().unwrap();
    let diagnosis: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    let limit = finding(&diagnosis, "open-files");
    assert_eq!(limit["works"], false, "{limit}");
    assert!(limit["enable"].as_str().unwrap().starts_with("as root: ulimit -n "), "{limit}");
}

#[test]
fn doctor_says_what_is_done_where_even_the_clock_is_refused() {
    let sandbox = Sandbox::new();
    compile(sandbox.path(), "no_perf");
    for errno in [libc::EPERM, libc::ENOSYS] {
        let script = format!("exec ./no_perf {errno} \"$RPROF\" doctor --json");
        let output = sandbox.shell(&script).output().unwrap();
        let diagnosis: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
        let cycles = finding(&diagnosis, "cycles");
        assert!(cycles["instead"].as_str().unwrap().starts_with("samples through ptrace for time"), "{cycles}");
        let enable = finding(&diagnosis, "timed")["enable"].as_str().unwrap();
        assert!(enable.contains("in a container: start it with --cap-add PERFMON, by which Docker"), "{enable}");
        assert!(!enable.contains("command -v"), "{enable}");
    }
}

fn finding<'d>(diagnosis: &'d Value, id: &str) -> &'d Value {
    let findings = diagnosis["findings"].as_array().unwrap();
    findings.iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("no {id} in {findings:?}"))
}
