//! The timed run has the program's streams; the counted run gets the same input and its output is not seen.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use crate::cli::{Sandbox, function, status, stderr, stdout};

const INPUT: &str = "alpha\nbeta\ngamma\n";
const OUTPUT: &str = "1:alpha\n2:beta\n3:gamma\n";

/// Instructions that the counted pass saw in `main`: they show whether it had the same input.
fn instructions_of_main(sandbox: &Sandbox) -> u64 {
    let profile = sandbox.profile("rprof.out");
    function(&profile, "main")["instructions"].as_u64().unwrap_or_else(|| panic!("{:#}", profile["run"]))
}

#[test]
fn input_from_a_file_is_read_by_both_runs_from_the_same_offset() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("lines");
    sandbox.file("input", INPUT, 0o644);
    let output = sandbox
        .rprof(["--passes", "both", "--memory", "off", "--", program.to_str().unwrap()])
        .stdin(File::open(sandbox.path().join("input")).unwrap())
        .output()
        .unwrap();
    assert_eq!((status(&output), stdout(&output)), (0, OUTPUT.into()), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("lines 3").count(), 1, "the counted run's output is sunk:\n{}", stderr(&output));
    let whole = instructions_of_main(&sandbox);

    let shifted = Sandbox::new();
    let program = shifted.fixture("lines");
    let path = shifted.file("input", INPUT, 0o644);
    // The shell's `read` leaves the offset after the first line, as the program that runs before ours may.
    let script = format!("read first; exec $RPROF --passes both --memory off -- {}", program.display());
    let output = shifted.shell(&script).stdin(File::open(path).unwrap()).output().unwrap();
    assert_eq!((status(&output), stdout(&output)), (0, "1:beta\n2:gamma\n".into()), "{}", stderr(&output));
    assert!(instructions_of_main(&shifted) < whole);
}

#[test]
fn input_from_a_pipe_is_recorded_and_replayed() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("lines");
    let mut child = sandbox
        .rprof(["--passes", "both", "--memory", "off", "--", program.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(INPUT.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), stdout(&output)), (0, OUTPUT.into()), "{}", stderr(&output));
    let piped = instructions_of_main(&sandbox);

    let empty = Sandbox::new();
    let program = empty.fixture("lines");
    let output = empty.run(["--passes", "both", "--memory", "off", "--", program.to_str().unwrap()]);
    assert_eq!((status(&output), stdout(&output)), (0, String::new()));
    assert!(instructions_of_main(&empty) < piped, "the replayed lines were counted");
}

#[test]
fn a_reader_that_leaves_early_does_not_hang_us() {
    let sandbox = Sandbox::new();
    let output = sandbox.shell("yes | $RPROF --quiet --passes both --memory off -- head -n 2").output().unwrap();
    assert_eq!((status(&output), stdout(&output)), (0, "y\ny\n".into()), "{}", stderr(&output));
}

#[test]
fn the_program_has_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.file("tty", "#!/bin/sh\ntest -t 0 && test -t 1 && test -t 2 && echo on-a-terminal\n", 0o755);
    let output =
        sandbox.shell("script -qec '$RPROF --quiet --passes both --memory off -- ./tty' /dev/null").output().unwrap();
    if status(&output) == 127 {
        println!("SKIPPED: packages: the_program_has_the_terminal: script(1) is not installed");
        return;
    }
    assert_eq!(status(&output), 0, "{}", stdout(&output));
    assert_eq!(stdout(&output).matches("on-a-terminal").count(), 1, "{}", stdout(&output));
}

#[test]
fn a_single_pass_has_the_streams() {
    for pass in ["timed", "counted"] {
        let sandbox = Sandbox::new();
        let program = sandbox.fixture("work");
        let output = sandbox.run(["--passes", pass, "--memory", "off", "--", program.to_str().unwrap(), "50", "9"]);
        assert_eq!((status(&output), stdout(&output)), (9, "50000000\n".into()), "{pass}: {}", stderr(&output));
        let profile = sandbox.profile("rprof.out");
        let passes = profile["run"]["passes"].as_array().unwrap();
        assert_eq!(passes.iter().map(|p| p["kind"].as_str().unwrap()).collect::<Vec<_>>(), [pass]);
        let work = function(&profile, "add_up");
        assert_eq!(work["time_s"].is_null(), pass == "counted", "{work:#}");
        assert_eq!(work["flops"].is_null(), pass == "timed", "{work:#}");
    }
}

#[test]
fn a_program_whose_reader_leaves_ends_by_sigpipe_as_without_us() {
    let sandbox = Sandbox::new();
    // The status of the first command of a pipe is written to a file, as a shell without arrays has no other way.
    let script = |command: &str| format!("{{ {command}; echo $? >status; }} | head -n 1");
    let status_of = |command: &str| {
        // Whatever the tests' own parent ignores, the program is to begin with the default.
        let output =
            sandbox.shell(&format!("exec env --default-signal=PIPE sh -c '{}'", script(command))).output().unwrap();
        assert_eq!(stdout(&output), "y\n", "{}", stderr(&output));
        fs::read_to_string(sandbox.path().join("status")).unwrap()
    };
    assert_eq!(status_of("timeout 20 yes"), "141\n");
    for arguments in ["--passes timed", "--memory off", "--passes counted --memory off", "--passes both --memory off"] {
        let command = format!("timeout -k 5 60 $RPROF --quiet {arguments} -- yes");
        assert_eq!(status_of(&command), "141\n", "{arguments}");
    }
    let warnings = sandbox.profile("rprof.out")["run"]["warnings"].to_string();
    assert!(warnings.contains("no-counted-pass") && warnings.contains("left"), "{warnings}");
    // Signals that the program's caller ignores stay ignored.
    let ignored = "exec env --ignore-signal=PIPE $RPROF --quiet --passes timed -- grep SigIgn /proc/self/status";
    let output = sandbox.shell(ignored).output().unwrap();
    assert!(stdout(&output).trim_end().ends_with("1000"), "{}", stdout(&output));
}

#[test]
fn input_typed_ahead_is_said_to_be_missing_in_the_second_run() {
    let sandbox = Sandbox::new();
    let script = "echo hello | script -qec '$RPROF --passes both --memory off -- head -n 1' /dev/null";
    let output = sandbox.shell(script).output().unwrap();
    if status(&output) == 127 {
        println!(
            "SKIPPED: packages: input_typed_ahead_is_said_to_be_missing_in_the_second_run: script(1) is not installed"
        );
        return;
    }
    let warnings = sandbox.profile("rprof.out")["run"]["warnings"].to_string();
    assert!(warnings.contains("terminal-input"), "{warnings}\n{}", stdout(&output));
}
