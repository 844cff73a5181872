//! Children, threads, signals and state between the runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::cli::{Sandbox, function, status, stderr, stdout};

#[test]
fn child_processes_are_followed_in_both_passes() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("family");
    let output = sandbox.run(["--passes", "both", "--memory", "off", "--", program.to_str().unwrap()]);
    assert_eq!((status(&output), stdout(&output)), (7, "200000000\n".into()), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    for name in ["parent_work", "child_work"] {
        let function = function(&profile, name);
        assert_eq!(function["flops"]["total"], 200_000_000u64, "{name}");
        assert!(function["cpu_s"].as_f64().unwrap() > 0.0, "{name}");
    }
    let pids: std::collections::BTreeSet<_> =
        profile["run"]["threads"].as_array().unwrap().iter().map(|t| t["pid"].as_u64()).collect();
    assert_eq!(pids.len(), 2);
}

#[test]
fn threads_are_followed_in_both_passes() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("threads");
    let output = sandbox.run(["--passes", "both", "--memory", "off", "--", program.to_str().unwrap()]);
    assert_eq!((status(&output), stdout(&output)), (0, "400000000\n".into()), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    for name in ["first_work", "second_work"] {
        assert_eq!(function(&profile, name)["flops"]["total"], 200_000_000u64, "{name}");
    }
    assert_eq!(profile["run"]["threads"].as_array().unwrap().len(), 3);
}

#[test]
fn a_child_that_cannot_be_followed_runs_natively() {
    let sandbox = Sandbox::new();
    // `_exit(7)`.
    sandbox.file("small.s", ".globl _start\n_start: movl $1, %eax\nmovl $7, %ebx\nint $0x80\n", 0o644);
    let built = sandbox.shell("as --32 small.s -o small.o && ld -m elf_i386 small.o -o small").output().unwrap();
    if status(&built) != 0 {
        println!(
            "SKIPPED: packages: a_child_that_cannot_be_followed_runs_natively: binutils here cannot make a 32-bit program"
        );
        return;
    }
    sandbox.file("parent", "#!/bin/sh\n./small\necho status $?\n", 0o755);
    let output = sandbox.run(["--passes", "both", "--memory", "off", "--", "./parent"]);
    assert_eq!((status(&output), stdout(&output)), (0, "status 7\n".into()), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    assert_eq!(profile["run"]["passes"].as_array().unwrap().len(), 2, "the rest is counted");
    let warnings = profile["run"]["warnings"].to_string();
    assert!(warnings.contains("child-not-counted") && warnings.contains("32-bit"), "{warnings}");
}

#[test]
fn a_setuid_child_runs_natively() {
    let sandbox = Sandbox::new();
    let unprivileged = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let prepare =
        "cp /bin/false false && chown root false && chmod 4755 false && cp \"$RPROF\" rprof && mkdir -m 777 open";
    let prepared = sandbox.shell(&format!("{prepare} && {unprivileged} true")).output().unwrap();
    if status(&prepared) != 0 {
        println!("SKIPPED: root: a_setuid_child_runs_natively: only root can make a setuid file of another user");
        return;
    }
    sandbox.file("parent", "#!/bin/sh\n../false\necho status $?\nexit 3\n", 0o755);
    let run = "XDG_CACHE_HOME=$PWD ../rprof --passes counted --memory off --quiet -- ../parent";
    let output = sandbox.shell(&format!("cd open && exec {unprivileged} env {run}")).output().unwrap();
    assert_eq!((status(&output), stdout(&output)), (3, "status 1\n".into()), "{}", stderr(&output));
    let profile = sandbox.profile("open/rprof.out");
    let warnings = profile["run"]["warnings"].as_array().unwrap();
    let told: Vec<_> = warnings.iter().filter(|w| w["code"] == "child-not-counted").collect();
    assert_eq!(told.len(), 1, "{warnings:?}");
    assert!(told[0]["text"].as_str().is_some_and(|t| t.contains("(false)") && t.contains("setuid")), "{told:?}");
    assert!(
        profile["functions"].as_array().unwrap().iter().any(|f| f["instructions"].as_u64() > Some(0)),
        "the rest is counted"
    );
}

#[test]
fn a_tracer_is_refused_without_a_trace() {
    let sandbox = Sandbox::new();
    if status(&sandbox.shell("strace -V && gdb -v").output().unwrap()) != 0 {
        println!("SKIPPED: packages: a_tracer_is_refused_without_a_trace: strace or gdb is not installed");
        return;
    }
    for tracer in ["strace -f -o /dev/null /bin/true", "gdb -batch -ex run -ex quit /bin/true"] {
        let output = sandbox.shell(&format!("$RPROF --passes both --memory off -- {tracer}")).output().unwrap();
        assert_eq!(status(&output), 0, "{tracer}: {}", stderr(&output));
        let warnings = sandbox.profile("rprof.out")["run"]["warnings"].to_string();
        assert!(warnings.contains("no-counted-pass") && warnings.contains("ptrace"), "{tracer}: {warnings}");
    }
}

#[test]
fn between_runs_between_the_passes() {
    let sandbox = Sandbox::new();
    // Fails if it has run before: only `--between` lets the counted pass succeed.
    sandbox.file("once", "#!/bin/sh\necho run >>log\nmkdir state || exit 9\n", 0o755);
    let output = sandbox.run(["--memory", "off", "--between", "echo between >>log; rmdir state", "--", "./once"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(fs::read_to_string(sandbox.path().join("log")).unwrap(), "run\nbetween\nrun\n");

    let output = sandbox.run(["--memory", "off", "-o", "failed", "--between", "rmdir state; exit 4", "--", "./once"]);
    assert_eq!(status(&output), 9, "the timed run's own status\n{}", stderr(&output));
    assert!(stderr(&output).contains("--between"), "{}", stderr(&output));
}

#[test]
fn a_program_that_is_gone_at_the_second_run_has_its_first() {
    for (name, undo) in [("gone", "rm one"), ("forbidden", "chmod 0 one")] {
        let sandbox = Sandbox::new();
        fs::copy("/bin/true", sandbox.path().join("one")).unwrap();
        let output = sandbox.run(["--memory", "off", "-o", name, "--between", undo, "--", "./one"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let passes = &sandbox.profile(name)["run"]["passes"];
        assert_eq!((passes[0]["kind"].as_str(), passes[1].is_null()), (Some("timed"), true), "{passes}");
        assert!(stderr(&output).contains("cannot execute ./one"), "{}", stderr(&output));
    }
}

#[test]
fn a_standard_error_that_takes_nothing_stops_nothing() {
    for quiet in [&[][..], &["--quiet"]] {
        let sandbox = Sandbox::new();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run =
            sandbox.rprof(["--passes", "timed"]).args(quiet).args(["--", "sh", "-c", "exit 7"]).stderr(full).status();
        assert_eq!(run.unwrap().code(), Some(7));
        assert_eq!(sandbox.profile("rprof.out")["run"]["exit_status"], 7);
    }
}

#[test]
fn a_counted_run_that_ends_otherwise_gives_no_counts() {
    let sandbox = Sandbox::new();
    sandbox.file("once", "#!/bin/sh\nmkdir state || exit 9\n", 0o755);
    let output = sandbox.run(["--passes", "both", "--memory", "off", "--", "./once"]);
    assert_eq!(status(&output), 0, "the status is the timed run's\n{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    assert!(!profile["run"]["warnings"].as_array().unwrap().is_empty(), "the difference is not said");
    for function in profile["functions"].as_array().unwrap() {
        assert!(function["instructions"].is_null(), "{function:#}");
    }
}

/// Starts `rprof OPTIONS -- ./endless [ARGUMENT]` in a process group of its own and waits until the program is ready.
fn endless(sandbox: &Sandbox, options: &[&str], arguments: &[&str]) -> Child {
    let program = sandbox.fixture("endless");
    let mut all = options.to_vec();
    all.extend(["--", program.to_str().unwrap()]);
    all.extend(arguments);
    let mut child = sandbox.rprof(&all).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    child
}

#[test]
fn ctrl_c_ends_the_program_and_the_report_comes() {
    let (timed, both) = (&["--passes", "timed"][..], &["--passes", "both"][..]);
    let single = &["--passes", "single", "--memory", "off"][..];
    for (options, arguments, expected, signal) in [
        (timed, &[][..], 128 + 2, Some(2)),
        (timed, &["catch"], 5, None),
        (both, &["catch"], 5, None),
        (both, &[], 130, Some(2)),
        (single, &["catch"], 5, None),
        (single, &[], 130, Some(2)),
    ] {
        let sandbox = Sandbox::new();
        let child = endless(&sandbox, options, arguments);
        killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), expected, "{}", stderr(&output));
        let profile = sandbox.profile("rprof.out");
        assert_eq!(profile["run"]["signal"].as_i64(), signal);
        assert!(function(&profile, "work_on")["share"].as_f64().unwrap() > 0.5);
        assert_ne!(profile["run"]["passes"][1]["kind"], "counted", "it ran again after an interruption");
    }
}

#[test]
fn ctrl_c_in_a_counted_pass_alone_ends_it_and_the_counts_come() {
    for (arguments, expected, signal) in [(&[][..], 128 + 2, Some(2)), (&["catch"], 5, None)] {
        let sandbox = Sandbox::new();
        let child = endless(&sandbox, &["--passes", "counted", "--memory", "off"], arguments);
        killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), expected, "{}", stderr(&output));
        let profile = sandbox.profile("rprof.out");
        assert_eq!(profile["run"]["signal"].as_i64(), signal);
        assert!(function(&profile, "work_on")["flops"]["total"].as_u64().unwrap() > 1_000_000);
    }
}

#[test]
fn ctrl_c_in_the_second_run_leaves_the_first_ones_report() {
    let sandbox = Sandbox::new();
    sandbox.file("second", "#!/bin/sh\nmkdir first 2>/dev/null && exit 3\ntouch again\nwhile :; do :; done\n", 0o755);
    let mut command = sandbox.rprof(["--passes", "both", "--memory", "off", "--", "./second"]);
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let since = std::time::Instant::now();
    while !sandbox.path().join("again").exists() && since.elapsed().as_secs() < 100 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 3, "the status is the timed run's\n{}", stderr(&output));
    let run = &sandbox.profile("rprof.out")["run"];
    assert_eq!((&run["exit_status"], run["passes"][1].is_null()), (&3.into(), true), "{run}");
    assert!(run["warnings"].to_string().contains("the counted pass was interrupted"), "{run}");
}

#[test]
fn sigterm_is_passed_on() {
    let sandbox = Sandbox::new();
    let child = endless(&sandbox, &["--passes", "timed"], &["catch"]);
    // `timeout` starts rprof and passes the signal on.
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let profile = sandbox.profile("rprof.out");
    assert_eq!(profile["run"]["exit_status"], 5, "{}", stderr(&output));
}
