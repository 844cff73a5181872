//! The default: a first run that is the user's own, and a second one that counts, and has no effect twice.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::cli::{Sandbox, function, status, stderr, stdout};
use serde_json::Value;

/// FLOPs of each half of `fixtures/cli/effects.c`.
const HALF: f64 = 195_312.0 * 1024.0 * 2.0;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.fixture("effects");
    sandbox
}

/// Runs `effects WORDS` with default passes.
fn run(sandbox: &Sandbox, words: &[&str]) -> Output {
    // Files that were there before must be older than the first run, by the clock of the file system.
    std::thread::sleep(Duration::from_millis(40));
    sandbox.run([&["-o", "r", "--", "./effects"], words].concat())
}

fn passes(profile: &Value) -> Vec<&str> {
    profile["run"]["passes"].as_array().unwrap().iter().filter_map(|pass| pass["kind"].as_str()).collect()
}

fn flops(profile: &Value, name: &str) -> Option<f64> {
    function(profile, name)["flops"]["total"].as_f64()
}

/// The run was counted to its end, exactly.
fn assert_whole(sandbox: &Sandbox, output: &Output) {
    let told = stderr(output);
    assert_eq!(status(output), 0, "{told}");
    assert!(told.contains("runs once more to count"), "{told}");
    assert!(!told.contains("ended the second run"), "{told}");
    let profile = sandbox.profile("r");
    assert_eq!(passes(&profile), ["timed", "counted"], "{told}");
    assert_eq!(flops(&profile, "first_half"), Some(HALF));
    assert_eq!(flops(&profile, "second_half"), Some(HALF));
    assert_eq!(stdout(output).lines().count(), 2, "its output comes once");
}

/// The second run was ended before `call`, and what it counted until then is there.
fn assert_ended_before(sandbox: &Sandbox, output: &Output, call: &str) {
    let told = stderr(output);
    assert_eq!(status(output), 0, "{told}");
    let line = told.lines().find(|line| line.contains("ended the second run")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(&format!("before {call}")), "{line}");
    let profile = sandbox.profile("r");
    assert_eq!(passes(&profile), ["timed", "counted"], "{told}");
    assert_eq!(flops(&profile, "first_half"), Some(HALF));
    assert_eq!(flops(&profile, "second_half"), None, "{told}");
    assert!(sandbox.whole_report("r").contains("the second run was ended before"), "{told}");
    assert_eq!(stdout(output).lines().count(), 2, "its output comes once");
}

#[test]
fn a_short_program_runs_once_more_and_is_counted_exactly() {
    let sandbox = sandbox();
    let output = run(&sandbox, &["none"]);
    assert_whole(&sandbox, &output);
    let class = function(&sandbox.profile("r"), "first_half")["class"].as_str().map(str::to_owned);
    assert!(class.is_some_and(|class| class != "unknown"));
}

#[test]
fn effects_on_old_files_come_once() {
    for (words, call) in [
        (&["append", "old"][..], "write of"),
        (&["update", "old"], "write of"),
        (&["move", "new", "elsewhere"], ""),
        (&["move", "old", "elsewhere"], ""),
        (&["remove", "old"], ""),
    ] {
        let sandbox = sandbox();
        sandbox.file("old", "before\n", 0o644);
        sandbox.file("new", "before\n", 0o644);
        let output = run(&sandbox, words);
        let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).ok();
        match words {
            ["append", _] => assert_eq!(read("old").as_deref(), Some("before\nline\n")),
            ["update", _] => assert_eq!(read("old").as_deref(), Some("xefore\n")),
            ["move", from, to] => {
                assert_eq!((read(from), read(to).as_deref()), (None, Some("before\n")));
            }
            _ => assert_eq!(read("old"), None),
        }
        if call.is_empty() {
            // The second run does not find what the first one took away.
            let told = stderr(&output);
            assert_eq!(status(&output), 0, "{told}");
            assert!(sandbox.whole_report("r").contains("ended differently"), "{told}");
        } else {
            assert_ended_before(&sandbox, &output, call);
        }
    }
}

#[test]
fn files_that_the_first_run_made_may_be_written_again_and_are_as_it_left_them() {
    for words in
        [&["make", "made"][..], &["scratch", "made"], &["empty", "made"], &["empty", "old"], &["append", "made"]]
    {
        let sandbox = sandbox();
        sandbox.file("old", "of another day\n", 0o644);
        // A file that must not be there yet is there in the second run: the program fails, which ends nothing.
        let output = run(&sandbox, words);
        let told = stderr(&output);
        let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).ok();
        let (name, content) = match words {
            ["make", name] => (*name, Some("new\n")),
            ["scratch", name] => (*name, None),
            ["append", name] => (*name, Some("line\n")),
            [_, name] => (*name, Some("result\n")),
            _ => unreachable!(),
        };
        assert_eq!(read(name).as_deref(), content, "{words:?}: {told}");
        if words[0] == "make" {
            assert!(sandbox.whole_report("r").contains("ended differently"), "{told}");
        } else {
            assert_whole(&sandbox, &output);
        }
        let files = fs::read_dir(sandbox.path()).unwrap().flatten().map(|file| file.file_name().into_string().unwrap());
        let known = ["effects", "old", "made", "r"];
        let strange: Vec<String> = files.filter(|file| !known.contains(&file.as_str())).collect();
        assert!(strange.is_empty(), "{strange:?}");
    }
}

#[test]
fn an_http_post_comes_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let posts = Arc::new(AtomicUsize::new(0));
    let seen = posts.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            seen.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        }
    });
    let sandbox = sandbox();
    let output = run(&sandbox, &["post", &port]);
    assert_ended_before(&sandbox, &output, "connect of a network socket");
    assert_eq!(posts.load(Ordering::SeqCst), 1);
}

#[test]
fn a_signal_to_others_comes_once_and_what_stays_within_the_program_may_come_twice() {
    let mut other = std::process::Command::new("sh")
        .args(["-c", "trap 'echo signalled' USR1; echo ready; while :; do sleep 0.01; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    other.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let sandbox = sandbox();
    let output = run(&sandbox, &["signal", &other.id().to_string()]);
    assert_ended_before(&sandbox, &output, "kill of process");
    std::thread::sleep(Duration::from_millis(200));
    other.kill().unwrap();
    let said = String::from_utf8(other.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(said, "signalled\n");
    for words in ["sockets", "fork"] {
        let output = run(&sandbox, &[words]);
        assert_whole(&sandbox, &output);
        fs::remove_dir_all(sandbox.path().join("r")).unwrap();
    }
}

#[test]
fn a_database_insert_comes_once() {
    let sandbox = sandbox();
    let script =
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('insert into t values (1)')\nc.commit()\n";
    sandbox.file("insert.py", script, 0o644);
    let sql = |text: &str| {
        let code = format!(
            "import sqlite3; print(sqlite3.connect('x.db', isolation_level=None).execute('{text}').fetchall())"
        );
        let output = sandbox.shell(&format!("/usr/bin/python3 -c \"{code}\"")).output().unwrap();
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    sql("create table t (a)");
    std::thread::sleep(Duration::from_millis(40));
    let output = sandbox.run(["-o", "r", "--", "/usr/bin/python3", "insert.py", "x.db"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("ended the second run before"), "{}", stderr(&output));
    assert_eq!(sql("select count(*) from t"), "[(1,)]\n");
    assert_eq!(sql("pragma integrity_check"), "[('ok',)]\n");
}

/// Why a program is not run again is said, and the first run's report is there.
#[test]
fn programs_that_cannot_be_repeated_run_once() {
    let sandbox = sandbox();
    let once = |script: &str, why: &str| {
        let output = sandbox.shell(&format!("{script} >log")).output().unwrap();
        let told = stderr(&output);
        assert!(!told.contains("runs once more"), "{script}: {told}");
        assert!(sandbox.whole_report("r").contains(why), "{script}: {told}");
        assert!(passes(&sandbox.profile("r")).starts_with(&["timed"]), "{script}");
        fs::remove_dir_all(sandbox.path().join("r")).unwrap();
        told
    };
    once("$RPROF -o r -- sh -c './effects none; kill -SEGV $$'", "signal 11 ended it");
    once(
        "head -c 70000000 /dev/zero | $RPROF -o r -- sh -c 'cat >/dev/null; ./effects none'",
        "its input cannot be replayed",
    );
    once("$RPROF -o r --repeat-below 0.01 -- ./effects none", "only programs below 0.01 s are run again");
    let told = once("RPROF_ONCE=1 $RPROF -o r -- ./effects none", "in");
    assert!(told.contains("runs the program once"), "{told}");
    let told = once("$RPROF --once -o r -- ./effects none", "in");
    assert!(told.contains("runs the program once"), "{told}");
    let both = sandbox.run(["--once", "--passes", "both", "--", "./effects", "none"]);
    assert_eq!((status(&both), stderr(&both).lines().count()), (2, 1), "{}", stderr(&both));
}

#[test]
fn input_that_was_read_from_a_pipe_is_there_again() {
    let sandbox = sandbox();
    let script = "printf 'none\\n' | $RPROF -o r -- sh -c 'read word; ./effects $word; cat'";
    let output = sandbox.shell(script).output().unwrap();
    assert_whole(&sandbox, &output);
}

/// Descriptors beside the standard ones have no second effect, either.
#[test]
fn descriptors_that_the_program_inherits_are_written_once() {
    let sandbox = sandbox();
    let script = "exec 7>>shared; $RPROF -o r -- sh -c './effects none; echo once >&7'";
    let output = sandbox.shell(script).output().unwrap();
    assert_whole(&sandbox, &output);
    assert_eq!(fs::read_to_string(sandbox.path().join("shared")).unwrap(), "once\n");
}

/// Windows begin after ten seconds. What was sampled before stays.
#[test]
fn the_samples_of_the_time_before_windows_stay() {
    let sandbox = Sandbox::new();
    let busy = "import time\nend = time.monotonic() + 11.5\nwhile time.monotonic() < end: pass\n";
    sandbox.file("busy.py", busy, 0o644);
    let output = sandbox.run(["-o", "r", "--", "/usr/bin/python3", "busy.py"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("r");
    let samples = profile["samples"].as_array().unwrap();
    let seconds: f64 = samples.iter().filter_map(|sample| sample["weight_s"].as_f64()).sum();
    let timed = &profile["run"]["passes"][0];
    let cpu_s = timed["cpu_s"].as_f64().unwrap();
    assert!(timed["wall_s"].as_f64().unwrap() > 10.0 && seconds > 0.7 * cpu_s, "{seconds} of {cpu_s} s");
}

#[test]
fn short_failing_and_forking_programs_get_one_clear_line() {
    let sandbox = sandbox();
    let output = sandbox.run(["-o", "r", "--", "true"]);
    assert_eq!(status(&output), 0);
    assert!(stderr(&output).contains("Too little to measure"), "{}", stderr(&output));
    // It fails the second time only.
    sandbox.file("once", "#!/bin/sh\n./effects none\n[ -e mark ] && exit 3\n: >mark\n", 0o755);
    let output = sandbox.run(["-o", "r", "--", "./once"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(sandbox.whole_report("r").contains("ended differently: with exit status 3"), "{}", stderr(&output));
    assert!(function(&sandbox.profile("r"), "first_half")["cpu_s"].as_f64().is_some_and(|s| s > 0.0));
    // The first run's daemon lives on, that of the second one does not.
    sandbox.file("daemon", "#!/bin/sh\n./effects none\nsetsid sleep 654 >/dev/null 2>&1 </dev/null &\n", 0o755);
    let output = sandbox.run(["-o", "r", "--", "./daemon"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let sleepers = sleepers("654");
    for pid in &sleepers {
        let _ = nix::sys::signal::kill(*pid, nix::sys::signal::Signal::SIGKILL);
    }
    assert_eq!(sleepers.len(), 1);
}

fn sleepers(seconds: &str) -> Vec<nix::unistd::Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_one = |pid: &i32| {
        let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
        line == format!("sleep\0{seconds}\0").as_bytes()
    };
    numbers.filter(is_one).map(nix::unistd::Pid::from_raw).collect()
}
