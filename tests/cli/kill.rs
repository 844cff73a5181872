//! rprof is killed at a random moment: no process of the counted run is left, and no file is half-written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::stray;

/// Number of kills; `tests/run --full` sets the variable.
fn times() -> u64 {
    if std::env::var_os("RPROF_FULL").is_some() { 200 } else { 20 }
}

/// Numbers that the printed seed repeats.
struct Random(u64);

impl Random {
    fn new(test: &str) -> Random {
        let chosen = std::env::var("RPROF_SEED").ok().and_then(|s| s.parse().ok());
        let seed = chosen.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1);
        println!("{test}: RPROF_SEED={seed}");
        Random(seed)
    }

    /// Below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn fixture(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs").join(name).with_extension("c");
    let program = folder.join(name);
    let status = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(status.expect("cc is needed: tests/run installs it").success());
    program
}

/// `command` with the tests' cache of ceilings, and nothing to read or to print to.
fn alone(mut command: Command) -> Command {
    command
        .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The counted pass of `program`, into `folder/report`.
fn counted(folder: &Path, program: &[&str]) -> Command {
    let mut command = alone(Command::new(env!("CARGO_BIN_EXE_rprof")));
    command.args(["--quiet", "--passes", "counted", "--memory", "off", "-o"]);
    command.arg(folder.join("report")).arg("--").args(program);
    command
}

/// Starts rprof on `program`, kills it after `delay`; returns the leftovers that had to be cleaned away.
fn killed_after(folder: &Path, program: &[&str], delay: Duration) -> Vec<String> {
    let mark = stray::mark();
    let mut rprof = counted(folder, program).env(stray::VARIABLE, &mark).spawn().unwrap();
    std::thread::sleep(delay);
    // It may have ended by itself.
    let _ = rprof.kill();
    rprof.wait().unwrap();
    stray::strays(&mark)
}

/// Panics if the output folder holds anything but whole files.
fn check_files(folder: &Path, when: &str) {
    let Ok(entries) = fs::read_dir(folder.join("report")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).unwrap();
        // A file may be complete, but not have got its last name (NAME.PID.tmp); an empty probe says nothing wrong.
        let kind = name.strip_suffix(".tmp").and_then(|n| n.rsplit_once('.')).map_or(name.as_str(), |(first, _)| first);
        let whole = match kind.rsplit_once('.').map(|(_, extension)| extension) {
            Some("writable") => text.is_empty(),
            Some("json") => serde_json::from_str::<serde_json::Value>(&text).is_ok(),
            Some("html") => text.trim_end().ends_with("</html>"),
            Some("svg") => text.trim_end().ends_with("</svg>"),
            _ => false,
        };
        assert!(whole, "{when}: {name} is left with {} bytes", text.len());
    }
}

#[test]
fn no_process_outlives_a_killed_counted_pass() {
    let folder = tempfile::tempdir().unwrap();
    let family = fixture(folder.path(), "family");
    let mut random = Random::new("no_process_outlives_a_killed_counted_pass");
    for n in 0..times() {
        let delay = Duration::from_micros(random.below(1_000_000));
        let left = killed_after(folder.path(), &[family.to_str().unwrap()], delay);
        assert!(left.is_empty(), "kill {n} after {delay:?}: left {left:?}");
        check_files(folder.path(), &format!("kill {n} after {delay:?}"));
        // A killed run's folder is not worth keeping beside the next one's.
        let _ = fs::remove_dir_all(folder.path().join("report"));
    }
}

#[test]
fn no_file_is_half_written_by_a_killed_run() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "seq 1000 | sort -rn | tail -n 1"];
    let mut random = Random::new("no_file_is_half_written_by_a_killed_run");
    // Time of one whole run here and now, so that some kills fall into its end, too.
    let start = std::time::Instant::now();
    let whole = killed_when_done(folder.path(), &command);
    let length = start.elapsed().as_micros() as u64;
    assert!(whole, "rprof cannot profile {command:?}");
    for n in 0..times() {
        let delay = Duration::from_micros(length / 2 + random.below(length / 2));
        let left = killed_after(folder.path(), &command, delay);
        assert!(left.is_empty(), "kill {n} after {delay:?}: left {left:?}");
        check_files(folder.path(), &format!("kill {n} after {delay:?} of {length} us"));
        let _ = fs::remove_dir_all(folder.path().join("report"));
    }
}

#[test]
fn no_file_is_half_written_by_a_run_that_is_killed_while_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    // The kernel kills a process that writes more than 4 KiB into a file; a profile with ceilings is larger.
    let script = "ulimit -f 8; exec \"$0\" --quiet --passes timed -o \"$1\" -- true";
    let status =
        alone(Command::new("sh")).args(["-c", script, env!("CARGO_BIN_EXE_rprof")]).arg(&report).status().unwrap();
    assert!(!status.success(), "it was to be killed");
    check_files(folder.path(), "killed while it wrote");
    assert!(!report.join("profile.json").exists());
}

/// A run that is not killed: whether it wrote a profile.
fn killed_when_done(folder: &Path, program: &[&str]) -> bool {
    let status = counted(folder, program).status().unwrap();
    check_files(folder, "a whole run");
    status.success() && folder.join("report/profile.json").exists()
}
