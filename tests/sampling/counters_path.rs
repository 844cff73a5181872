//! Hardware counters from opening to the written report. The kernel's breakpoint and software events replace hardware
//! ones: a breakpoint on a function of 1000 FLOPs counts its FLOPs exactly.

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::{Sandbox, function, status, stderr};
use crate::stand_in::{BREAKPOINT, EXECUTED, Event, Folder, PAGE_FAULTS, SOFTWARE, address, compile, untrapped};

/// FLOPs of one call of `flop_block`.
const FLOPS: f64 = 1000.0;

struct Run {
    sandbox: Sandbox,
    program: PathBuf,
    folder: Folder,
}

impl Run {
    fn new() -> Run {
        let sandbox = Sandbox::new();
        let program = compile(sandbox.path(), "blocks");
        let folder = Folder::new(sandbox.path());
        Run { sandbox, program, folder }
    }

    /// A breakpoint on `flop_block` replaces the FLOP event of the PMU `pmu`.
    fn flops<'a>(&self, name: &'a str) -> Event<'a> {
        let address = address(&self.program, "flop_block");
        Event { name, role: "flops", config: EXECUTED, address, weight: FLOPS }
    }

    /// Profiles the program with these arguments; `None`, with a line that says so, if this host has no breakpoints for
    /// users.
    fn profile(&self, options: &[&str], arguments: &[&str]) -> Option<Value> {
        let folder = self.folder.path.to_str().unwrap();
        let program = self.program.to_str().unwrap();
        let all = [&["--quiet", "--counters-from", folder], options, &["--", program], arguments].concat();
        let output = untrapped(|| {
            let _ = std::fs::remove_dir_all(self.sandbox.path().join("rprof.out"));
            self.sandbox.run(all.clone())
        });
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let profile = self.sandbox.profile("rprof.out");
        let flops = counter(&profile["run"], "flops");
        if flops["value"].is_null() {
            println!("SKIPPED: pmu: {}", flops["source"]["reason"]);
            return None;
        }
        Some(profile)
    }
}

fn counter<'a>(of: &'a Value, name: &str) -> &'a Value {
    let counters = of["counters"].as_array().unwrap_or_else(|| panic!("no counters in {of}"));
    counters.iter().find(|c| c["event"] == name).unwrap_or_else(|| panic!("no counter {name} among {counters:?}"))
}

#[test]
fn flops_of_threads_and_functions_agree_with_the_counted_pass() {
    let run = Run::new();
    let flops = run.flops("stand_in.flops");
    run.folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops]);
    let Some(profile) = run.profile(&["--passes", "both"], &["3", "10000"]) else { return };

    let program = counter(&profile["run"], "flops");
    assert_eq!(program["value"], 30_000.0 * FLOPS);
    assert_eq!(program["source"]["how"], "pmu");
    let ratio = program["ratio"].as_f64().expect("the counted pass has FLOPs, too");
    assert!((ratio - 1.0).abs() < 0.005, "{program}");
    let event = counter(&profile["run"], "stand_in.flops");
    assert_eq!((&event["raw"], &event["running_share"]), (&Value::from(30_000), &Value::from(1.0)));
    let threads: Vec<f64> =
        event["per_thread"].as_array().unwrap().iter().map(|t| t["value"].as_f64().unwrap()).collect();
    assert_eq!(threads, [0.0, 1e7, 1e7, 1e7], "inherited by every thread, and told apart");

    let block = counter(function(&profile, "flop_block"), "flops");
    let (value, error) = (block["value"].as_f64().unwrap(), block["source"]["error"].as_f64().unwrap_or(0.0));
    assert!((value / 3e7 - 1.0).abs() <= error + 0.001, "{block}");
    let whole: f64 = profile["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["counters"].as_array())
        .flatten()
        .filter(|c| c["event"] == "flops")
        .filter_map(|c| c["value"].as_f64())
        .sum();
    assert!(whole <= 3e7 * (1.0 + 1e-9), "functions have no more than the program: {whole}");
}

#[test]
fn a_thousand_short_threads_lose_no_count() {
    let run = Run::new();
    let flops = run.flops("stand_in.flops");
    run.folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops]);
    let Some(profile) = run.profile(&["--passes", "timed"], &["1000", "3"]) else { return };
    assert_eq!(counter(&profile["run"], "flops")["value"], 3000.0 * FLOPS);
    let event = counter(&profile["run"], "stand_in.flops");
    let threads = event["per_thread"].as_array().unwrap();
    let of_threads: f64 = threads.iter().filter_map(|t| t["value"].as_f64()).sum();
    assert_eq!(of_threads, 3000.0 * FLOPS);
    assert!(threads.len() > 900, "each of them is known: {}", threads.len());
    assert!(event["unattributed"].as_f64().is_some(), "what is in no function is stated");
}

#[test]
fn threads_at_once_are_told_apart() {
    let run = Run::new();
    let flops = run.flops("stand_in.flops");
    run.folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops]);
    let Some(profile) = run.profile(&["--passes", "timed"], &["4", "5000", "together"]) else { return };
    let event = counter(&profile["run"], "stand_in.flops");
    let threads = event["per_thread"].as_array().unwrap().iter();
    let mut threads: Vec<f64> = threads.filter_map(|t| t["value"].as_f64()).collect();
    threads.sort_by(f64::total_cmp);
    assert_eq!(threads, [0.0, 5e6, 5e6, 5e6, 5e6]);
}

#[test]
fn forked_processes_are_counted_like_threads() {
    let run = Run::new();
    let flops = run.flops("stand_in.flops");
    run.folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops]);
    let Some(profile) = run.profile(&["--passes", "timed"], &["5", "4000", "forked"]) else { return };
    assert_eq!(counter(&profile["run"], "flops")["value"], 20_000.0 * FLOPS);
    let event = counter(&profile["run"], "stand_in.flops");
    let mut processes: Vec<f64> =
        event["per_thread"].as_array().unwrap().iter().filter_map(|t| t["value"].as_f64()).collect();
    processes.sort_by(f64::total_cmp);
    assert_eq!(processes, [0.0, 4e6, 4e6, 4e6, 4e6, 4e6], "the parent has none");
}

#[test]
fn kinds_of_events_stand_side_by_side_on_two_kinds_of_cores() {
    let run = Run::new();
    let flops = run.flops("standin.core_flops");
    let faults = Event { name: "stand_in.faults", role: "l1_fill", config: PAGE_FAULTS, address: 0, weight: 64.0 };
    // CPU 0 is of one kind, all others are of the other.
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let last = cpus.trim().rsplit(['-', ',']).next().and_then(|c| c.parse::<u32>().ok()).unwrap_or(0);
    if last == 0 {
        println!("SKIPPED: cpus: one CPU cannot be of two kinds");
        return;
    }
    run.folder.pmu("stand_core", BREAKPOINT, Some("0"), None).table("core.toml", "stand_core", &[flops]);
    let others = format!("1-{last}");
    let again = run.flops("standin.atom_flops");
    run.folder.pmu("stand_atom", BREAKPOINT, Some(&others), None).table("atom.toml", "stand_atom", &[again]);
    run.folder.pmu("stand_soft", SOFTWARE, None, None).table("soft.toml", "stand_soft", &[faults]);
    let Some(profile) = run.profile(&["--passes", "timed"], &["8", "2000", "together"]) else { return };
    assert_eq!(counter(&profile["run"], "flops")["value"], 16_000.0 * FLOPS, "the sum over both kinds of cores");
    let faults = counter(&profile["run"], "stand_in.faults");
    assert!(faults["value"].as_f64().unwrap() > 0.0 && faults["unit"] == "line", "{faults}");
}

#[test]
fn memory_controllers_are_read_once_a_socket_less_the_background() {
    let run = Run::new();
    let flops = run.flops("stand_in.flops");
    let at = address(&run.program, "integer_block");
    run.folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops]);
    // Two boxes on one CPU: the second sees the same, as a second controller would see its own.
    let cpu = stay_on_this_cpu().to_string();
    run.folder.pmu("stand_imc_0", BREAKPOINT, None, Some(&cpu)).pmu("stand_imc_1", BREAKPOINT, None, Some(&cpu));
    run.folder.uncore("table.toml", "stand_imc", EXECUTED, at, 64.0);
    let Some(profile) = run.profile(&["--passes", "timed"], &["1", "20000"]) else { return };
    let reads = counter(&profile["run"], "stand_in.reads");
    let Some(bytes) = reads["value"].as_f64() else {
        println!("SKIPPED: pmu: {}", reads["source"]["reason"]);
        return;
    };
    assert_eq!(bytes, 2.0 * 20_000.0 * 64.0, "nothing else runs this code, so the background is nothing");
    assert_eq!(reads["background"], 0.0);
    assert_eq!(reads["source"]["how"], "uncore, background subtracted");
    let share = counter(function(&profile, "integer_block"), "stand_in.reads");
    assert_eq!(share["source"]["how"], "uncore, split by time");
}

#[test]
fn memory_controllers_that_count_nothing_are_not_measured() {
    let run = Run::new();
    let flops = run.flops("stand_in.flops");
    run.folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops]);
    run.folder.pmu("stand_imc_0", BREAKPOINT, None, Some("0")).pmu("stand_imc_1", BREAKPOINT, None, Some("0"));
    // No instruction begins one byte into the first one.
    let unmet = address(&run.program, "integer_block") + 1;
    run.folder.uncore("table.toml", "stand_imc", EXECUTED, unmet, 64.0);
    let Some(profile) = run.profile(&["--passes", "timed"], &["1", "20000"]) else { return };
    let reads = counter(&profile["run"], "stand_in.reads");
    assert_eq!(reads["value"], Value::Null, "never 0: {reads}");
    let reason = reads["source"]["reason"].as_str().unwrap();
    if reason.contains("not allow") || reason.contains("no counter is free") {
        println!("SKIPPED: pmu: {reason}");
        return;
    }
    assert_eq!(reason, "the memory controllers counted nothing");
}

/// Keeps this thread, and all that it starts, on its present CPU.
fn stay_on_this_cpu() -> usize {
    let cpu = nix::sched::sched_getcpu().unwrap();
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
    cpu
}
