//! Bad input: rprof ends with the right exit status and one line that names the error, its object and the remedy.

use std::fs;
use std::process::Command;

use crate::cli;
use crate::cli::{Sandbox, status, stderr, stdout};

/// The status, and that standard error is one line with `words` in it.
#[track_caller]
fn refused(arguments: &[&str], sandbox: &Sandbox, expected: i32, words: &[&str]) {
    let output = sandbox.run(arguments);
    let text = stderr(&output);
    assert_eq!(status(&output), expected, "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "one line is wanted:\n{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    assert_eq!(stdout(&output), "");
}

#[test]
fn program_not_found() {
    refused(&["--", "no-such-program-here"], &Sandbox::new(), 127, &["no-such-program-here"]);
    refused(&["--", "./nothing"], &Sandbox::new(), 127, &["./nothing"]);
}

#[test]
fn program_not_executable() {
    let sandbox = Sandbox::new();
    sandbox.file("plain", "text", 0o644);
    refused(&["--", "./plain"], &sandbox, 126, &["plain", "chmod"]);
    fs::create_dir(sandbox.path().join("folder")).unwrap();
    refused(&["--", "./folder"], &sandbox, 126, &["folder"]);
    sandbox.file("noise", "neither program nor script", 0o755);
    refused(&["--", "./noise"], &sandbox, 126, &["noise"]);
}

#[test]
fn program_for_another_machine() {
    let header = |class: u8, machine: u16| {
        let mut head = vec![0u8; 64];
        head[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
        head[16] = 2;
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head
    };
    let sandbox = Sandbox::new();
    sandbox.file("bits32", header(1, 3), 0o755);
    refused(&["--", "./bits32"], &sandbox, 126, &["bits32", "32-bit"]);
    sandbox.file("arm", header(2, 183), 0o755);
    refused(&["--", "./arm"], &sandbox, 126, &["arm", "AARCH64"]);
    sandbox.file("cut", b"\x7fELF\x02\x01", 0o755);
    refused(&["--", "./cut"], &sandbox, 126, &["cut"]);
    sandbox.file("half", &fs::read("/bin/true").unwrap()[..100], 0o755);
    refused(&["--", "./half"], &sandbox, 126, &["half", "truncated"]);
    assert!(!sandbox.path().join("rprof.out").exists(), "a folder was made for nothing");
}

#[test]
fn a_script_runs_and_its_status_is_ours() {
    let sandbox = Sandbox::new();
    sandbox.file("script", "#!/bin/sh\necho \"$1\"\nexit 3\n", 0o755);
    let output = sandbox.run(["--", "./script", "hello"]);
    assert_eq!(status(&output), 3, "{}", stderr(&output));
    assert_eq!(stdout(&output), "hello\n");
    sandbox.file("lost", "#!/no/such/interpreter\n", 0o755);
    refused(&["--", "./lost"], &sandbox, 126, &["lost", "/no/such/interpreter"]);
}

#[test]
fn setuid_is_said_to_be_impossible() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: root: setuid_is_said_to_be_impossible: only root can make a setuid file of another user");
        return;
    }
    let sandbox = Sandbox::new();
    let program = sandbox.path().join("whoami");
    fs::copy("/usr/bin/whoami", &program).unwrap();
    assert!(Command::new("chmod").arg("4755").arg(&program).status().unwrap().success());
    let nobody_owned = sandbox.path().join("open");
    fs::create_dir(&nobody_owned).unwrap();
    assert!(Command::new("chmod").arg("777").arg(&nobody_owned).status().unwrap().success());
    let rprof = sandbox.path().join("rprof");
    fs::copy(env!("CARGO_BIN_EXE_rprof"), &rprof).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "timeout", "120"]).args(arguments);
        command.current_dir(&nobody_owned).env("XDG_CACHE_HOME", &nobody_owned).output().unwrap()
    };
    let native = nobody(&["../whoami"]);
    let output = nobody(&[rprof.to_str().unwrap(), "-o", "out", "--", "../whoami"]);
    assert_eq!((status(&output), stdout(&output)), (0, stdout(&native)), "{}", stderr(&output));
    assert!(stderr(&output).contains("setuid"), "{}", stderr(&output));
    // No program is executed, linked and ended within a tenth of a millisecond.
    let profile = sandbox.profile("open/out");
    let timed = &profile["run"]["passes"][0];
    assert!(timed["wall_s"].as_f64().is_some_and(|s| s > 1e-4), "{timed}");
}

#[test]
fn what_may_not_be_observed_has_its_time_all_the_same() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: root: what_may_not_be_observed_has_its_time_all_the_same: root reads every file");
        return;
    }
    let sandbox = Sandbox::new();
    let (program, rprof, open) =
        (sandbox.path().join("nap"), sandbox.path().join("rprof"), sandbox.path().join("open"));
    fs::copy("/bin/sleep", &program).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_rprof"), &rprof).unwrap();
    fs::create_dir(&open).unwrap();
    for (mode, path) in [("111", &program), ("777", &open)] {
        assert!(Command::new("chmod").arg(mode).arg(path).status().unwrap().success());
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "timeout", "-k", "5", "120"])
        .arg(&rprof)
        .args(["--passes", "both", "--memory", "off", "--", "../nap", "0.8"])
        .current_dir(&open)
        .env("XDG_CACHE_HOME", &open)
        .output()
        .unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("open/rprof.out");
    let timed = &profile["run"]["passes"][0];
    assert!(timed["wall_s"].as_f64().unwrap() >= 0.8, "{timed}");
    assert!(profile["run"]["warnings"].to_string().contains("no-counted-pass"), "{}", profile["run"]["warnings"]);
}

#[test]
fn an_unwritable_output_folder_is_said_before_the_program_runs() {
    let sandbox = Sandbox::new();
    sandbox.file("mark", "#!/bin/sh\ntouch ran\n", 0o755);
    refused(&["-o", "/proc/nowhere/out", "--", "./mark"], &sandbox, 125, &["/proc/nowhere/out"]);
    sandbox.file("taken", "a file", 0o644);
    refused(&["-o", "taken/out", "--", "./mark"], &sandbox, 125, &["taken/out"]);
    assert!(!sandbox.path().join("ran").exists(), "the program ran");
}

#[test]
fn what_cannot_be_counted_can_be_timed() {
    let sandbox = Sandbox::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/guests/hosted/trap_flag.c");
    assert_eq!(status(&sandbox.shell(&format!("cc -O2 -w -o steps '{source}'")).output().unwrap()), 0);
    let counted = ["--quiet", "--passes", "counted", "--memory", "off", "--", "./steps"];
    refused(&counted, &sandbox, 125, &["sets the trap flag", "--passes timed leaves the counted pass out"]);
}

#[test]
fn too_little_to_measure_is_said() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(["--", "/bin/true"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let told = stderr(&output);
    let first = told.split_once("rprof: /bin/true\n").unwrap().1;
    assert!(first.starts_with("Too little to measure"), "it is not said first: {told}");
    assert!(!told.contains('→'), "savings of what has no time: {told}");
    assert_eq!(sandbox.profile("rprof.out")["run"]["exit_status"], 0);
}

#[test]
fn a_crash_passes_its_signal_on_and_the_report_comes() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("crash");
    let output = sandbox.run(["--passes", "both", "--", program.to_str().unwrap()]);
    assert_eq!(status(&output), 128 + 11, "{}", stderr(&output));
    assert_eq!(stdout(&output), "200000000\n");
    let profile = sandbox.profile("rprof.out");
    assert_eq!(profile["run"]["signal"], 11);
    let crash = profile["run"]["warnings"].as_array().unwrap().iter().find(|w| w["code"] == "crashed").unwrap();
    assert!(crash["hint"].as_str().unwrap().contains("the native run ended by the same signal"), "{crash}");
    let share = cli::function(&profile, "before_the_crash")["share"].as_f64().unwrap();
    assert!(share > 0.5, "share {share}");
}

#[test]
fn what_a_run_has_written_can_be_read_again() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("work");
    for passes in ["single", "timed", "counted", "both"] {
        let run = sandbox.run(["--passes", passes, "-o", passes, "--", program.to_str().unwrap(), "100"]);
        assert_eq!(status(&run), 0, "{}", stderr(&run));
        let read = sandbox.run(["report", passes, "--format", "text"]);
        assert_eq!(status(&read), 0, "{passes}: {}", stderr(&read));
        let profile = format!("{passes}/profile.json");
        refused(&["report", passes, "-o", &profile], &sandbox, 125, &[&profile]);
    }
}

#[test]
fn a_broken_profile_is_named_with_its_field() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("work");
    let output = sandbox.run(["--passes", "timed", "--", program.to_str().unwrap(), "100"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = fs::read_to_string(sandbox.path().join("rprof.out/profile.json")).unwrap();
    let report = |name: &str| ["report".to_owned(), name.to_owned(), "--format".to_owned(), "text".to_owned()];

    sandbox.file("cut.json", &text[..text.len() / 2], 0o644);
    sandbox.file("foreign.json", "{\"schema\": \"something-else/3\"}", 0o644);
    sandbox.file("noise.json", "not json at all", 0o644);
    let mut profile = sandbox.profile("rprof.out");
    profile["run"]["command"] = 7.into();
    sandbox.file("mistyped.json", profile.to_string(), 0o644);
    let mut profile = sandbox.profile("rprof.out");
    profile["run"]["threads"][0]["pid"] = 1e308.into();
    sandbox.file("too_large.json", profile.to_string(), 0o644);
    for (name, words) in [
        ("cut.json", &["cut.json"][..]),
        ("foreign.json", &["foreign.json", "schema"]),
        ("noise.json", &["noise.json"]),
        ("mistyped.json", &["mistyped.json", "command"]),
        ("too_large.json", &["too_large.json", "run.threads[0].pid"]),
        ("absent.json", &["absent.json", "name a profile.json"]),
    ] {
        refused(&report(name).each_ref().map(String::as_str), &sandbox, 125, words);
    }
}

#[test]
fn a_broken_event_table_is_named_with_the_line() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("events")).unwrap();
    let arguments = ["--quiet", "--counters-from", "events", "--", "/bin/true"];
    for (text, words) in [
        ("# mine\n\n[cpu\nname = 'x'\n", ["events/mine.toml:3: ", "look at the folder"]),
        ("[cpu]\nname = 7\n", ["events/mine.toml:2: ", "string"]),
        ("", ["events/mine.toml:1: ", "missing"]),
    ] {
        sandbox.file("events/mine.toml", text, 0o644);
        refused(&arguments, &sandbox, 125, &words);
        let told = stderr(&sandbox.run(arguments));
        assert!(!told.contains("\\n") && !told.contains('|'), "{told}");
    }
}

#[test]
fn a_foreign_proc_is_refused_before_the_program_runs() {
    let sandbox = Sandbox::new();
    for (namespace, words) in [
        ("unshare -mpf sh -c 'umount -l /proc && mount -t tmpfs none /proc || exit 99;", "/proc/self"),
        ("unshare -pf sh -c '", "another namespace"),
    ] {
        let script = format!("{namespace} exec timeout -s KILL 60 $RPROF --quiet -- sh -c \"echo ran\"'");
        let output = sandbox.shell(&script).output().unwrap();
        let told = stderr(&output);
        if status(&output) == 99 || told.starts_with("unshare:") {
            println!("SKIPPED: kernel: a /proc of another kind: {told}");
            continue;
        }
        assert_eq!((status(&output), stdout(&output)), (125, String::new()), "{told}");
        assert!(told.contains(words) && told.contains("mount -t proc"), "{told}");
        assert_eq!(told.trim_end().lines().count(), 1, "{told}");
    }
}

#[test]
fn an_output_folder_from_before_is_kept() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("rprof.out")).unwrap();
    sandbox.file("rprof.out/mine", "precious", 0o644);
    for _ in 0..2 {
        let output = sandbox.run(["--passes", "timed", "--", "/bin/true"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
    }
    let kept = |n: usize| sandbox.path().join(format!("rprof.out.{n}"));
    assert!(kept(1).is_dir() && kept(2).is_dir() && !kept(3).exists());
    let mine = [kept(1), kept(2)].iter().filter(|p| p.join("mine").exists()).count();
    assert_eq!(mine, 1, "the folder from before is there, under another name");
    assert_eq!(sandbox.profile("rprof.out")["run"]["exit_status"], 0);
}

#[test]
fn what_is_no_folder_or_is_needed_is_not_set_aside() {
    let sandbox = Sandbox::new();
    sandbox.file("mine", "precious", 0o644);
    refused(&["-o", "mine", "--", "/bin/true"], &sandbox, 125, &["mine", "not a folder"]);
    fs::create_dir(sandbox.path().join("build")).unwrap();
    sandbox.file("build/app", "#!/bin/sh\ntouch ran\n", 0o755);
    refused(&["-o", "build", "--", "build/app"], &sandbox, 125, &["build", "app"]);
    refused(&["-o", ".", "--", "build/app"], &sandbox, 125, &["cannot be set aside"]);
    refused(&["-o", "build", "--", "/bin/true"], &sandbox, 125, &["build", "other things"]);
    assert_eq!(fs::read_to_string(sandbox.path().join("mine")).unwrap(), "precious");
    assert!(!sandbox.path().join("ran").exists(), "the program ran");
}

#[test]
fn the_rank_of_an_mpi_process_is_kept() {
    let sandbox = Sandbox::new();
    let output = sandbox.rprof(["--passes", "timed", "--", "/bin/true"]).env("PMI_RANK", "3").output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(sandbox.profile("rprof.out/rank-3")["run"]["threads"][0]["rank"], 3);
}

#[test]
fn a_bad_option_is_2() {
    let backwards = &["--from", "2", "--to", "1", "--", "/bin/true"];
    let nowhere = &["--from", "nan", "--", "/bin/true"];
    let needless = &["--memory", "exact", "--passes", "timed", "--", "/bin/true"];
    for arguments in
        [&["--no-such-option"][..], &["--passes", "three", "--", "/bin/true"], backwards, nowhere, needless, &[]]
    {
        assert_eq!(status(&Sandbox::new().run(arguments)), 2, "{arguments:?}");
    }
}
