//! stress-ng, which checks its own results, for a minute (ten with `tests/run --full`): nothing wrong, no process left
//! behind, and rprof's memory grows with the code that was executed, not with time.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::stray;

/// Several stressors at once: computation with checked results, threads and processes that come and go, signals of all
/// kinds, code that faults.
const STRESSORS: &[&str] = &[
    "--cpu",
    "2",
    "--matrix",
    "1",
    "--qsort",
    "1",
    "--vecmath",
    "1",
    "--pthread",
    "1",
    "--pthread-max",
    "8",
    "--fork",
    "1",
    "--vfork",
    "1",
    "--sigsegv",
    "1",
    "--sigfpe",
    "1",
    "--sigq",
    "1",
    "--timer",
    "1",
    "--switch",
    "1",
    "--futex",
    "1",
    "--mmap",
    "1",
    "--mmap-bytes",
    "16M",
];

/// Seconds of work; `tests/run --full` sets the variable.
fn dose_s() -> u64 {
    if std::env::var_os("RPROF_FULL").is_some() { 600 } else { 60 }
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

#[test]
fn a_stressed_system_stays_as_it_is() {
    if Command::new("stress-ng").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("SKIPPED: packages: a_stressed_system_stays_as_it_is: stress-ng is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mark = stray::mark();
    let log = folder.path().join("log");
    let mut rprof = Command::new(env!("CARGO_BIN_EXE_rprof"))
        .args(["--quiet", "--passes", "counted", "--memory", "off", "-o"])
        .arg(folder.path().join("report"))
        .args(["--", "stress-ng", "--verify", "--oomable", "--temp-path"])
        .arg(folder.path())
        .args(["--timeout", &format!("{}s", dose_s())])
        .args(STRESSORS)
        .env(stray::VARIABLE, &mark)
        .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
        .stdin(Stdio::null())
        .stdout(fs::File::create(folder.path().join("out")).unwrap())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    // Memory once a second, until rprof is alone and writes its report.
    let mut memory = Vec::new();
    let status = loop {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(status) = rprof.try_wait().unwrap() {
            break status;
        }
        if stray::marked(&mark).len() > 1 {
            memory.extend(resident(rprof.id()));
        }
        assert!(memory.len() < 4 * dose_s() as usize + 60, "no end in sight:\n{}", fs::read_to_string(&log).unwrap());
    };
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    let left = stray::strays(&mark);
    assert!(left.is_empty(), "left: {left:?}");
    let text = fs::read_to_string(folder.path().join("report/profile.json")).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
    let run = &profile["run"];
    // No stressor makes code at run time, and none ends by a fault.
    let doubts: Vec<_> =
        run["warnings"].as_array().unwrap().iter().filter(|w| w["code"] != "threads-together").collect();
    assert!(doubts.is_empty(), "{doubts:?}");
    assert_eq!(run["passes"][0]["uncounted_share"], 0.0);
    let threads = run["threads"].as_array().unwrap().len();
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    assert!(memory.len() > 2, "stress-ng was not seen at work:\n{said}");
    // All code has been executed in the first third.
    let (third, last) = (memory[memory.len() / 3], memory[memory.len() - 1]);
    println!(
        "soak: {threads} threads, memory {:.1} MiB after a third, {:.1} MiB at the end",
        mebibytes(third),
        mebibytes(last)
    );
    assert!(last < third + (32 << 20), "memory grew from {third} to {last} bytes");
}
