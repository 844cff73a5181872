//! Visits to running programs: they end with their own output and status, and what the windows met represents the whole run.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use rprof::instrument::translator::visits::Visitor;
use rprof::tracee::proc_status::children_of;
use serde_json::Value;

use crate::cli::{Sandbox, function, status, stderr, stdout};
use crate::seccomp;

/// How often a program is visited; `tests/run --full` sets the variable.
fn times() -> usize {
    if std::env::var_os("RPROF_FULL").is_some() { 200 } else { 20 }
}

fn build(folder: &Path, name: &str) -> PathBuf {
    build_with(folder, name, &[])
}

fn build_with(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/visits").join(name).with_extension("c");
    let program = folder.join(Path::new(name).file_name().unwrap());
    let status = Command::new("cc").args(["-O2", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source).status();
    assert!(status.expect("cc is needed: tests/run installs it").success());
    program
}

fn start(program: &Path, argument: &str) -> Child {
    Command::new(program).arg(argument).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Runs `program` and visits it and its children until it ends; returns its output and status, and the number of visits that counted anything.
fn visited(program: &Path, argument: &str, length: Duration, pause: Duration) -> (String, Option<i32>, usize) {
    // A shell waits for it: a tracer in the parent's process would take its status away.
    let script = format!("{} {argument} & echo $!; wait $!", program.display());
    let mut child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    let pid = Pid::from_raw(first.trim().parse().unwrap());
    let (stop, stopped) = channel::<()>();
    let visits = std::thread::spawn(move || {
        let mut visitor = Visitor::new(None, None);
        let mut counted = 0;
        while let Err(TryRecvError::Empty) = stopped.try_recv() {
            let pids: Vec<Pid> = std::iter::once(pid).chain(children_of(pid)).collect();
            counted += usize::from(visitor.visit(&pids, length, false).counted);
            visitor.settle();
            std::thread::sleep(pause);
        }
        while visitor.is_owed() {
            visitor.settle();
        }
        counted
    });
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    drop(stop);
    (said, status.code(), visits.join().unwrap())
}

/// Visits of `length` ms do not change the output of the program `name`, or that it ends with `expected`; returns how many counted anything.
fn visited_as_natively(name: &str, rounds: usize, length: u64, expected: i32) -> usize {
    visited_as_natively_with(name, &[], rounds, length, expected)
}

/// The same, built with `flags`.
fn visited_as_natively_with(name: &str, flags: &[&str], rounds: usize, length: u64, expected: i32) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (program, argument) = (&build_with(folder.path(), name, flags), &rounds.to_string());
    let natively = start(program, argument).wait_with_output().unwrap();
    let (output, status, counted) = visited(program, argument, Duration::from_millis(length), Duration::from_millis(4));
    assert_eq!(output, String::from_utf8(natively.stdout).unwrap());
    assert_eq!(status, Some(expected));
    counted
}

#[test]
fn threads_signals_and_forks_survive_visits() {
    let counted = visited_as_natively("busy", 150 * times(), 3, 42);
    assert!(counted >= times() / 4, "{counted}");
}

/// Heaps of 3 GiB and memory at fixed low addresses.
#[test]
fn memory_that_a_program_expects_is_free_during_visits() {
    for flags in [&["-no-pie", "-fno-pie"][..], &["-static"], &["-pie", "-fPIE"]] {
        let counted = visited_as_natively_with("../guests/hosted/room", flags, 20 * times(), 5, 0);
        assert!(counted >= times() / 4, "{flags:?}: {counted}");
    }
}

#[test]
fn processes_that_share_their_memory_survive_visits() {
    let counted = visited_as_natively("../guests/hosted/shared_memory", times() / 2, 3, 6);
    assert!(counted >= times() / 4, "{counted}");
}

/// None of rprof's memory is locked or populated.
#[test]
fn a_program_that_locks_its_memory_locks_its_own_alone() {
    let counted = visited_as_natively("../guests/hosted/locked_again", 2 * times(), 3, 0);
    assert!(counted >= times() / 4, "{counted}");
}

/// A visit that begins or ends at a fault neither repeats nor loses it.
#[test]
fn faults_that_the_program_handles_come_once() {
    let counted = visited_as_natively("faults", 4000 * times(), 2, 7);
    assert!(counted >= times() / 2, "{counted}");
}

/// A trap of rprof's resets the action for a moment, in which no thread may run natively.
#[test]
fn traps_that_threads_handle_all_the_time_come_once() {
    let counted = visited_as_natively("traps", 500 * times(), 2, 7);
    assert!(counted >= 1, "{counted}");
}

/// The program is not watched between visits.
#[test]
fn text_that_changed_between_visits_is_translated_anew() {
    let counted = visited_as_natively("../guests/hosted/text_changes", 40_000 * times(), 4, 0);
    assert!(counted >= times(), "{counted}");
}

#[test]
fn one_run_is_what_a_user_gets_who_asks_for_it() {
    let sandbox = Sandbox::new();
    one_run_of_a_job(&sandbox);
}

#[test]
fn one_run_is_made_where_perf_event_open_is_refused() {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    let sandbox = Sandbox::new();
    let profile = one_run_of_a_job(&sandbox);
    assert_eq!(profile["run"]["passes"][0]["source"], "ptrace");
}

/// Profiles a shell script that runs a program with known work; returns the profile.
fn one_run_of_a_job(sandbox: &Sandbox) -> Value {
    let program = build(sandbox.path(), "mixed");
    let script = format!("#!/bin/sh\necho ran >>log\n{} 3000 >exact\nexit 6\n", program.display());
    sandbox.file("job", script, 0o755);
    let output = sandbox.run(["--once", "--memory", "off", "--budget", "20%", "--", "./job"]);
    let told = stderr(&output);
    assert_eq!(status(&output), 6, "{told}");
    assert_eq!(std::fs::read_to_string(sandbox.path().join("log")).unwrap(), "ran\n", "its effects happen once");
    let profile = sandbox.profile("rprof.out");
    let passes: Vec<_> = profile["run"]["passes"].as_array().unwrap().iter().map(|p| p["kind"].as_str()).collect();
    assert_eq!(passes, [Some("timed"), Some("windows")], "{told}");
    assert!(told.contains("runs the program once: natively and sampled, and counted in short windows"), "{told}");
    let triad = function(&profile, "triad");
    let exact = std::fs::read_to_string(sandbox.path().join("exact")).unwrap();
    let exact: f64 = exact.split_whitespace().next().unwrap().parse().unwrap();
    // The suite runs beside other work, so that there may be too few windows for an interval.
    let source = &triad["source"]["flops"];
    match triad["flops"]["total"].as_f64() {
        Some(flops) => {
            assert!(source["how"] == "estimated" && (0.2..5.0).contains(&(flops / exact)), "{flops}: {told}")
        }
        None => assert_eq!(source["reason"], "too few windows met it for an interval", "{told}"),
    }
    profile
}

#[test]
fn threads_signals_and_forks_survive_visits_that_the_ptrace_sampler_makes_room_for() {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "busy");
    let rounds = (50 * times()).to_string();
    let natively = start(&program, &rounds).wait_with_output().unwrap();
    for budget in ["5%", "80%"] {
        let program = program.to_str().unwrap();
        let output = sandbox
            .run(["--once", "--quiet", "--memory", "off", "--budget", budget, "-o", "r", "--", program, &rounds]);
        assert_eq!(status(&output), 42, "{}", stderr(&output));
        assert_eq!(stdout(&output), String::from_utf8_lossy(&natively.stdout));
        let profile = sandbox.profile("r");
        assert_eq!(profile["run"]["passes"][1]["kind"], "windows", "{}", stderr(&output));
        // It runs for a second: at 5 % a window or two may have met something else.
        if budget == "80%" {
            let many = &function(&profile, "many")["source"]["instructions"];
            assert_ne!(many["reason"], "no window met it", "{many}");
        }
        std::fs::remove_dir_all(sandbox.path().join("r")).unwrap();
    }
}

#[test]
fn signals_job_control_and_exec_survive_visits_in_a_container() {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    let sandbox = Sandbox::new();
    let program = sandbox.path().join("signals");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sample/signals.c");
    assert!(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap().success());
    for _ in 0..times() / 4 {
        let program = program.to_str().unwrap();
        let output = sandbox.run(["--once", "--quiet", "--memory", "off", "--budget", "50%", "-o", "r", "--", program]);
        assert_eq!(status(&output), 0, "see fixtures/sample/signals.c for what the status says: {}", stderr(&output));
        std::fs::remove_dir_all(sandbox.path().join("r")).unwrap();
    }
}

#[test]
fn where_nobody_may_trace_the_program_runs_once_and_nothing_is_counted() {
    seccomp::refuse(&[libc::SYS_perf_event_open, libc::SYS_ptrace]);
    let sandbox = Sandbox::new();
    let output = sandbox.shell("exec $RPROF --once --memory off -- sh -c 'echo once; exit 5'").output().unwrap();
    assert_eq!((status(&output), stdout(&output).as_str()), (5, "once\n"), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let warnings = profile["run"]["warnings"].as_array().unwrap();
    let because = "nothing was counted: rprof may not trace it";
    assert!(warnings.iter().any(|w| w["code"] == "no-windows" && w["text"] == because), "{warnings:?}");
}

#[test]
fn filters_that_the_program_has_from_rprof_keep_nobody_out() {
    // As in a container; what is refused here is not used.
    seccomp::refuse(&[libc::SYS_swapon]);
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "mixed");
    let output = sandbox.run(["--once", "--budget", "20%", "--memory", "off", "--", program.to_str().unwrap(), "4000"]);
    let profile = sandbox.profile("rprof.out");
    assert_eq!(status(&output), 3, "{}", stderr(&output));
    assert_eq!(function(&profile, "triad")["source"]["flops"]["how"], "estimated", "{}", stderr(&output));
}

#[test]
fn a_program_that_traces_its_own_children_may() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "tracer");
    let program = program.to_str().unwrap();
    let natively = Command::new(program).output().unwrap();
    for _ in 0..times() / 4 {
        let output = sandbox.run(["--once", "--quiet", "--memory", "off", "--budget", "50%", "-o", "r", "--", program]);
        assert_eq!(status(&output), 0, "rounds in which ptrace was refused: {}", stderr(&output));
        assert_eq!(stdout(&output), String::from_utf8_lossy(&natively.stdout));
        let warnings = sandbox.profile("r")["run"]["warnings"].to_string();
        assert!(warnings.contains("tracer has ptrace, so it may trace the program's processes"), "{warnings}");
        std::fs::remove_dir_all(sandbox.path().join("r")).unwrap();
    }
}

#[test]
fn a_program_that_traces_its_own_children_may_where_perf_event_open_is_refused() {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "tracer");
    let output = sandbox.run(["--once", "--quiet", "--memory", "off", "-o", "r", "--", program.to_str().unwrap()]);
    assert_eq!(status(&output), 0, "rounds in which ptrace was refused: {}", stderr(&output));
    let warnings = sandbox.profile("r")["run"]["warnings"].to_string();
    assert!(warnings.contains("it ran without being sampled"), "{warnings}");
}

#[test]
fn a_service_that_was_idle_is_visited_when_it_works() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "late");
    let output = sandbox.run([
        "--once",
        "--quiet",
        "--memory",
        "off",
        "--budget",
        "50%",
        "-o",
        "r",
        "--",
        program.to_str().unwrap(),
    ]);
    assert_eq!((status(&output), stdout(&output).as_str()), (0, "done\n"), "{}", stderr(&output));
    let profile = sandbox.profile("r");
    let late = &function(&profile, "late")["source"]["instructions"];
    // The suite runs beside other work: an interval may be missing, but windows have met it.
    assert_ne!(late["reason"], "no window met it", "{late}");
}

#[test]
fn a_part_of_a_run_that_never_began_is_told() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(["--delay", "1e9", "--memory", "off", "-o", "r", "--", "true"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let warnings = sandbox.profile("r")["run"]["warnings"].to_string();
    assert!(warnings.contains("collection was to begin after 1000000000 s"), "{warnings}");
    assert_eq!(status(&sandbox.run(["--duration", "0", "--", "true"])), 2);
}

#[test]
fn where_windows_would_not_do_the_program_runs_twice_and_rprof_says_why() {
    let sandbox = Sandbox::new();
    sandbox.file("job", "#!/bin/sh\necho ran >>log\n", 0o755);
    let twice = |option: &str, because: &str| {
        let output = sandbox.shell(&format!("rm -f log; exec $RPROF --memory off {option} -- ./job")).output().unwrap();
        let told = stderr(&output);
        assert_eq!(std::fs::read_to_string(sandbox.path().join("log")).unwrap(), "ran\nran\n", "{option}: {told}");
        assert!(told.contains("runs the program twice") && told.contains(because), "{option}: {told}");
    };
    twice("--between :", "--between restores state");
    twice("--engine single-step", "counts every instruction");
    twice("--passes both", "so effects on files and network happen twice");
}

#[test]
fn blocked_system_calls_do_not_end() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "blocked");
    let (output, status, counted) = visited(&program, "1500", Duration::from_millis(2), Duration::from_millis(3));
    assert_eq!((output.as_str(), status), ("done\n", Some(0)));
    assert!(counted >= 5, "{counted}");
}

#[test]
fn windows_stand_for_the_whole_run() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "mixed");
    let output = sandbox.run([
        "--passes",
        "single",
        "--memory",
        "off",
        "--budget",
        "20%",
        "-o",
        "r",
        "--",
        program.to_str().unwrap(),
        "3000",
    ]);
    assert_eq!(status(&output), 3, "{}", stderr(&output));
    let printed = stdout(&output);
    let exact: Vec<f64> = printed.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let profile = sandbox.profile("r");
    for (name, exact) in [("triad", exact[0]), ("dot", exact[1])] {
        let flops = &function(&profile, name)["flops"]["total"];
        let source = &function(&profile, name)["source"]["flops"];
        assert_eq!(source["how"], "estimated");
        let ratio = flops.as_f64().unwrap() / exact;
        assert!((0.2..5.0).contains(&ratio), "{name}: {ratio}");
        // The suite runs beside other work: a wide interval, or none, is right then.
        match source["error"].as_f64() {
            Some(error) if error < 0.4 => assert!((ratio - 1.0).abs() < 2.0 * error, "{name}: {ratio} ± {error}"),
            error => println!("{name}: {ratio} ± {error:?}, too disturbed to be judged"),
        }
    }
    assert!(function(&profile, "branchy")["instructions"].as_f64().unwrap() > exact[2]);
    let windows = profile["run"]["passes"].as_array().unwrap().iter().find(|p| p["kind"] == "windows").unwrap();
    assert_eq!(windows["source"], "windows");
}

#[test]
fn a_process_is_attached_to_and_left_as_it_was() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "mixed");
    // The process should not have to wait for the ceilings.
    assert_eq!(status(&sandbox.run(["--quiet", "--passes", "timed", "-o", "first", "--", "true"])), 0);
    let child = start(&program, "4000");
    let pid = child.id();
    let output = sandbox.run(["--pid", &pid.to_string(), "--duration", "1.5", "--memory", "off", "-o", "r"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let about = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(about.contains("TracerPid:\t0"), "{about}");
    let profile = sandbox.profile("r");
    assert_eq!(profile["run"]["exit_status"], Value::Null, "nobody has seen its end");
    let triad = function(&profile, "triad");
    match triad["flops"]["total"].as_f64() {
        Some(flops) => assert!(flops > 0.0, "0 is no estimate"),
        // On a busy host hardly a window may meet it.
        None => {
            assert!(triad["source"]["flops"]["reason"].as_str().is_some_and(|why| why.contains("window")), "{triad}")
        }
    }
    let again = sandbox.run(["report", "r", "--function", "triad"]);
    assert!(status(&again) == 0 && stdout(&again).contains("triad"), "{}", stderr(&again));
    assert!(profile["run"]["command"][0].as_str().unwrap().ends_with("mixed"));
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert!(String::from_utf8(ended.stdout).unwrap().ends_with(" 1\n"));
}

#[test]
fn a_program_runs_on_when_rprof_is_asked_to_leave() {
    runs_on_when_rprof_is_asked_to_leave();
}

#[test]
fn a_program_that_ptrace_samples_runs_on_when_rprof_is_asked_to_leave() {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    runs_on_when_rprof_is_asked_to_leave();
}

fn runs_on_when_rprof_is_asked_to_leave() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "mixed");
    for attempt in 0..times() / 4 {
        let signal = if attempt % 4 == 3 { Signal::SIGHUP } else { Signal::SIGTERM };
        let mut run = SingleRun::start(&sandbox, &program, attempt);
        kill(Pid::from_raw(run.rprof.id() as i32), signal).unwrap();
        assert_eq!(run.rprof.wait().unwrap().code(), Some(128 + signal as i32));
        assert!(run.has_run_on(), "attempt {attempt}, {signal}");
        assert!(run.folder.join("profile.json").exists());
    }
    println!("asked to leave: the program ran on in {0} of {0} runs", times() / 4);
}

/// rprof in a single run of a program, at one of its moments.
struct SingleRun {
    rprof: Child,
    /// The program's output and its status.
    ended: PathBuf,
    folder: PathBuf,
}

impl SingleRun {
    /// Each `attempt` is at another moment.
    fn start(sandbox: &Sandbox, program: &Path, attempt: usize) -> SingleRun {
        let [ended, folder] = ["ended", "r"].map(|name| sandbox.path().join(format!("{name}{attempt}")));
        let script = format!("{} 900 > {ended}; echo $? >> {ended}", program.display(), ended = ended.display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_rprof"));
        command.current_dir(sandbox.path()).stdin(Stdio::null()).stderr(Stdio::null());
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.args(["--quiet", "--passes", "single", "--memory", "off", "--budget", "50%", "-o"]).arg(&folder);
        // SAFETY: a system call. A caller like nohup ignores the signal, and rprof would, too.
        unsafe { command.pre_exec(|| Ok(signal(Signal::SIGHUP, SigHandler::SigDfl).map(drop)?)) };
        let rprof = command.args(["--", "sh", "-c", &script]).spawn().unwrap();
        while !ended.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100 + 37 * attempt as u64 % 600));
        SingleRun { rprof, ended, folder }
    }

    /// Whether the program came to its own end, with its own output.
    fn has_run_on(&self) -> bool {
        let ended = || std::fs::read_to_string(&self.ended).unwrap();
        let in_time = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            ended().ends_with("\n3\n")
        });
        in_time && ended().ends_with(" 1\n3\n")
    }
}

#[test]
fn a_program_runs_on_when_rprof_is_killed() {
    runs_on_when_rprof_is_killed();
}

#[test]
fn a_program_that_ptrace_samples_runs_on_when_rprof_is_killed() {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    runs_on_when_rprof_is_killed();
}

fn runs_on_when_rprof_is_killed() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "mixed");
    for attempt in 0..times() / 4 {
        let mut run = SingleRun::start(&sandbox, &program, attempt);
        run.rprof.kill().unwrap();
        run.rprof.wait().unwrap();
        assert!(run.has_run_on(), "attempt {attempt}");
    }
    println!("killed: the program ran on in {0} of {0} runs", times() / 4);
}

#[test]
fn what_cannot_be_attached_to_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    let refused = |pid: &str| {
        let output = sandbox.run(["--pid", pid, "-o", "r"]);
        assert_eq!(status(&output), 125);
        stderr(&output)
    };
    assert!(refused("4194303").contains("there is no such process"), "{}", refused("4194303"));
    assert!(refused("2").contains("thread of the kernel") || refused("2").contains("no such process"));
    let mut traced = Command::new("strace").args(["-o", "/dev/null", "sleep", "30"]).spawn();
    if let Ok(traced) = &mut traced {
        std::thread::sleep(Duration::from_millis(500));
        let child = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", traced.id())).unwrap();
        let child = child.trim();
        assert!(refused(child).contains("traces it"), "{}", refused(child));
        let _ = kill(Pid::from_raw(child.parse().unwrap()), Signal::SIGKILL);
        traced.wait().unwrap();
    }
    for bad in ["0", "-5", "200%", "much"] {
        let output = sandbox.run(["--budget", bad, "--", "true"]);
        assert_eq!(status(&output), 2, "{bad}: {}", stderr(&output));
    }
}

#[test]
fn a_stopped_process_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    let output = sandbox.run(["--pid", &pid.to_string(), "--duration", "0.5", "-o", "r"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(stat.contains(") T "), "it is still stopped: {stat}");
    kill(pid, Signal::SIGKILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn time_in_stops_and_in_native_code_is_no_time_of_what_a_window_counted() {
    let sandbox = Sandbox::new();
    for name in ["unmade_frame", "fixed_page"] {
        let program = build(sandbox.path(), name);
        let folder = format!("r-{name}");
        let output = sandbox.run(["--once", "-o", &folder, "--", program.to_str().unwrap()]);
        assert_eq!(status(&output), 0, "{name}: {}", stderr(&output));
        let profile = sandbox.profile(&folder);
        let stage = function(&profile, "stage");
        let source = &stage["source"]["flops"];
        match stage["flops"]["total"].as_f64() {
            Some(flops) => {
                let error = source["error"].as_f64().unwrap();
                println!("{name}: {:.3} of 800 million ± {error:.2}", flops / 8e8);
                assert!((8e8 - flops).abs() <= error * flops, "{name}: {flops:e} ± {error}");
            }
            None => assert!(source["reason"].is_string(), "{name}: {source}"),
        }
    }
}

#[test]
fn the_workers_of_a_process_that_is_attached_to_are_sampled() {
    let sandbox = Sandbox::new();
    let program = build(sandbox.path(), "workers");
    assert_eq!(status(&sandbox.run(["--quiet", "--passes", "timed", "-o", "first", "--", "true"])), 0);
    let mut master = start(&program, "2");
    let pid = master.id().to_string();
    let output = sandbox.run(["--pid", &pid, "--duration", "1.5", "--memory", "off", "-o", "r"]);
    let runs_on = master.try_wait().unwrap().is_none();
    kill(Pid::from_raw(master.id() as i32), Signal::SIGTERM).unwrap();
    let _ = master.wait();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("r");
    let serve = function(&profile, "serve");
    assert!(serve["share"].as_f64().unwrap() > 0.8, "{}", serve["share"]);
    assert_eq!(serve["per_thread"].as_array().unwrap().len(), 2, "{}", serve["per_thread"]);
    assert!(runs_on && !stderr(&output).contains("ended"), "{}", stderr(&output));
}
