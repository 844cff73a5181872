//! `rprof machine` under real limits: CPUs, CPU time and memory as taskset and cgroups impose them; a cache that cannot be
//! kept, or that another machine or a killed process left. Each gives one clear line and a usable result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rprof::profile::Machine;

use crate::cgroup::{Cgroup, Limit};
use crate::cli::{Sandbox, status, stderr, stdout};

const MEASURE: &str = "exec \"$RPROF\" machine --quick --json";

/// `script` with a cache folder of its own.
fn measured(sandbox: &Sandbox, script: &str) -> (Machine, String) {
    let output = with_cache(sandbox.shell(script), &sandbox.path().join("cache"));
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    (serde_json::from_str(&stdout(&output)).expect("a machine"), stderr(&output))
}

fn with_cache(mut command: Command, cache: &Path) -> Output {
    command.env("XDG_CACHE_HOME", cache).output().expect("runs")
}

/// The lines that report a doubt: `text (effect; hint)`.
fn doubts(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|l| l.ends_with(')') && l.contains("; ")).collect()
}

#[track_caller]
fn one_doubt(stderr: &str, about: &str) {
    let told = doubts(stderr).into_iter().filter(|l| l.contains(about)).count();
    assert_eq!(told, 1, "one line about {about:?} is wanted:\n{stderr}");
}

/// Checks that the core and the near caches are measured, on one thread at least. On a busy host a line may say that one of them
/// did not fit the time and is left to a later run.
#[track_caller]
fn usable(machine: &Machine) {
    for id in ["dp.fma", "sp.fma", "l1.read", "l2.read", "issue"] {
        let ceiling = machine.ceilings.iter().find(|c| c.is(id, 1)).expect("an entry");
        let late = ceiling.reason.as_deref().is_some_and(|r| r.starts_with("did not fit the time"));
        assert!(ceiling.value.is_some() || late, "{ceiling:?}");
    }
}

#[track_caller]
fn on_one_thread(machine: &Machine) {
    assert!(machine.ceilings.iter().all(|c| c.threads == 1), "ceilings of more threads than may run");
}

/// The script that joins `group` and measures, or a line that says why that is not tested.
fn joined(test: &str, limit: Limit) -> Option<(Cgroup, String)> {
    match Cgroup::new(limit) {
        Ok(group) => {
            let script = format!("echo $$ > '{}' && {MEASURE}", group.procs().display());
            Some((group, script))
        }
        Err(why) => {
            println!("SKIPPED: cgroups: {test}: {why}");
            None
        }
    }
}

#[test]
fn one_cpu_by_taskset() {
    let sandbox = Sandbox::new();
    let first = rprof::machine::host::limits::Limits::read().cpus[0];
    let (machine, _) = measured(&sandbox, &format!("exec taskset -c {first} \"$RPROF\" machine --quick --json"));
    assert_eq!(machine.cores, 1);
    on_one_thread(&machine);
    usable(&machine);
}

#[test]
fn one_cpu_by_cpuset() {
    let Some((_group, script)) = joined("one_cpu_by_cpuset", Limit::OneCpu) else { return };
    let (machine, _) = measured(&Sandbox::new(), &script);
    assert_eq!(machine.cores, 1);
    on_one_thread(&machine);
    usable(&machine);
}

#[test]
fn a_quota_of_half_a_cpu() {
    let Some((_group, script)) = joined("a_quota_of_half_a_cpu", Limit::HalfACpu) else { return };
    let (machine, told) = measured(&Sandbox::new(), &script);
    if rprof::machine::host::limits::Limits::read().cpus.len() > 1 {
        one_doubt(&told, "the time of 0.50 CPUs");
    }
    on_one_thread(&machine);
    usable(&machine);
}

#[test]
fn sixty_four_mebibytes() {
    let Some((_group, script)) = joined("sixty_four_mebibytes", Limit::Memory(64 << 20)) else { return };
    let (machine, told) = measured(&Sandbox::new(), &script);
    one_doubt(&told, "of memory are available");
    usable(&machine);
    for id in ["dram.read", "lat.dram"] {
        let ceiling = machine.ceilings.iter().find(|c| c.id == id).expect("an entry");
        assert!(ceiling.value.is_none() && ceiling.reason.as_deref().is_some_and(|r| r.contains("memory")));
    }
}

#[test]
fn a_cache_that_cannot_be_kept() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "", 0o644);
    // The second would be below a file: it can neither be read nor made. Root may write anywhere, but not in /proc.
    for cache in [Path::new("/proc/nothing").to_owned(), sandbox.path().join("file")] {
        let output = with_cache(sandbox.shell(MEASURE), &cache);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        one_doubt(&stderr(&output), "cache of ceilings");
        one_doubt(&stderr(&output), "XDG_CACHE_HOME");
        usable(&serde_json::from_str(&stdout(&output)).expect("a machine"));
    }
}

/// The cache file of a measurement.
fn kept(sandbox: &Sandbox) -> PathBuf {
    measured(sandbox, MEASURE);
    let folder = sandbox.path().join("cache/rprof");
    fs::read_dir(&folder).expect("kept").next().expect("a file").expect("entry").path()
}

#[test]
fn a_cache_file_that_never_ends() {
    let sandbox = Sandbox::new();
    let file = kept(&sandbox);
    for make in [&["ln", "-s", "/dev/zero"][..], &["mkfifo"]] {
        fs::remove_file(&file).expect("removed");
        assert!(Command::new(make[0]).args(&make[1..]).arg(&file).status().expect("coreutils").success());
        let (machine, told) = measured(&sandbox, MEASURE);
        one_doubt(&told, "is no file of ceilings");
        usable(&machine);
        let now = fs::symlink_metadata(&file).expect("kept again");
        assert!(now.is_file(), "{make:?}: it has been replaced");
    }
}

#[test]
fn a_cache_half_written_and_one_of_another_machine() {
    let sandbox = Sandbox::new();
    let file = kept(&sandbox);
    let text = fs::read_to_string(&file).expect("JSON");
    let foreign = text.replacen("\"cpu\":\"", "\"cpu\":\"another ", 1);
    assert_ne!(foreign, text);
    for (content, about) in [(&text[..text.len() / 2], "is broken"), (&foreign, "another machine")] {
        fs::write(&file, content).expect("write");
        let (machine, told) = measured(&sandbox, MEASURE);
        one_doubt(&told, about);
        assert!(!machine.cpu.starts_with("another "));
        usable(&machine);
        // It has been replaced: the next run is silent about it.
        assert_eq!(doubts(&measured(&sandbox, MEASURE).1).iter().filter(|l| l.contains("cache of")).count(), 0);
    }
}
