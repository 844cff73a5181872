//! The user's limits (`ulimit`): they apply to the program. rprof lifts its own, or states the remedy if it may not lift them.

use std::fs;
use std::process::Output;

use crate::cli::{Sandbox, function, status, stderr, stdout};

/// `script` in a sandbox that holds the programs. `$FIRM` before a command takes the right to raise hard limits from it.
fn limited(script: &str) -> (Sandbox, Output) {
    let sandbox = Sandbox::new();
    for name in ["limits", "work", "threads"] {
        sandbox.fixture(name);
    }
    // This run stores the ceilings for the runs under the limits.
    let output = sandbox.run(["--passes", "timed", "-o", "before", "--", "/bin/true"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let firm = if nix::unistd::geteuid().is_root() { "setpriv --bounding-set=-sys_resource" } else { "" };
    let output = sandbox.shell(script).env("FIRM", firm).output().unwrap();
    (sandbox, output)
}

/// Whether rprof has CAP_SYS_RESOURCE here.
fn may_raise_limits() -> bool {
    let own = rprof::tracee::proc_status::read_status(nix::unistd::Pid::this()).unwrap();
    own.capabilities >> 24 & 1 == 1
}

#[test]
fn the_program_starts_with_what_rprof_was_given() {
    for limits in [
        "ulimit -S -f 100",
        "trap '' XFSZ; ulimit -S -f 100",
        "ulimit -H -f 10000000; ulimit -S -v 200000",
        "ulimit -S -d 100000",
        "ulimit -s 64",
        ":",
    ] {
        let (sandbox, output) = limited(&format!(
            "{limits}; ./limits >native; ulimit -S -a >native.shell
             $RPROF --quiet --passes both --between 'ulimit -S -a >between' -- ./limits >timed &&
             $RPROF --quiet --passes counted -o counted.out -- ./limits >counted"
        ));
        assert_eq!(status(&output), 0, "{limits}: {}", stderr(&output));
        let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).unwrap();
        assert_eq!((read("timed"), read("counted")), (read("native"), read("native")), "{limits}");
        assert_eq!(read("between"), read("native.shell"), "{limits}");
        assert_eq!(sandbox.profile("rprof.out")["run"]["passes"].as_array().unwrap().len(), 2, "{limits}");
    }
}

#[test]
fn files_that_may_not_be_written_are_told_and_the_others_are_there() {
    let (sandbox, output) = limited("ulimit -f 40; exec $FIRM $RPROF --quiet -- ./limits");
    let told = stderr(&output);
    assert_eq!(status(&output), 125, "{told}");
    assert!(stdout(&output).starts_with("5000 of 5000, "), "{}", stdout(&output));
    assert!(told.contains("\nTrust: "), "the report is printed all the same: {told}");
    let last = told.lines().last().unwrap_or_default();
    assert!(last.contains("rprof.out/profile.json") && last.contains("`ulimit -f`"), "{told}");
    let files = fs::read_dir(sandbox.path().join("rprof.out")).unwrap();
    let mut names: Vec<_> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.contains(&"roofline.svg".into()) && !names.contains(&"profile.json".into()), "{names:?}");
    assert!(names.iter().all(|name| !name.ends_with(".tmp")), "{names:?}");
}

#[test]
fn a_counted_pass_without_large_files_is_refused() {
    let (_, output) = limited("ulimit -f 40; exec $FIRM $RPROF --quiet --passes counted --memory off -- ./limits");
    let told = stderr(&output);
    assert_eq!((status(&output), stdout(&output)), (125, String::new()), "{told}");
    assert!(told.contains("`ulimit -f`") && told.contains("--passes timed"), "{told}");
    assert_eq!(told.trim_end().lines().count(), 1, "{told}");
}

/// rprof's own work, the measuring of ceilings foremost, takes longer than the program may.
#[test]
fn a_limit_on_cpu_time_is_the_programs_alone() {
    let script = "mkdir empty; ulimit -t 3; XDG_CACHE_HOME=$PWD/empty exec $RPROF --quiet -- ./work 300";
    let (sandbox, output) = limited(script);
    assert_eq!((status(&output), stdout(&output)), (0, "300000000\n".into()), "{}", stderr(&output));
    if may_raise_limits() {
        assert!(sandbox.profile("rprof.out")["machine"]["ceilings"].as_array().is_some_and(|c| !c.is_empty()));
    }
    // One that takes longer ends as natively.
    let (_, output) = limited("ulimit -t 1; exec $RPROF --quiet --memory off -- ./work 20000");
    assert_eq!(status(&output), 128 + libc::SIGKILL, "{}", stderr(&output));
}

/// If rprof may not lift it, the program runs all the same, and rprof names the ceilings that could not be measured.
#[test]
fn a_hard_limit_on_cpu_time_leaves_the_program_its_result() {
    let script = "mkdir empty; ulimit -t 3; XDG_CACHE_HOME=$PWD/empty exec $FIRM $RPROF -- ./work 30";
    let (_, output) = limited(script);
    let told = stderr(&output);
    assert_eq!((status(&output), stdout(&output)), (0, "30000000\n".into()), "{told}");
    assert!(told.contains("ulimit -t"), "{told}");
}

#[test]
fn a_small_address_space_is_shared_with_the_program() {
    let (sandbox, output) = limited("ulimit -S -v 100000; exec $RPROF --quiet --passes counted -- ./work 1");
    assert_eq!((status(&output), stdout(&output)), (0, "1000000\n".into()), "{}", stderr(&output));
    assert_eq!(function(&sandbox.profile("rprof.out"), "add_up")["flops"]["total"], 1_000_000u64);
}

/// Small code caches are full soon. Python's own text is linked to low addresses, that of its modules is not, and each full cache is followed by
/// one for the text that a thread asks for.
#[test]
fn full_code_caches_are_followed_by_others_near_the_text() {
    let sandbox = Sandbox::new();
    let modules = "import json, re, decimal, hashlib, ctypes, unittest, email.parser, http.client, sqlite3, asyncio, logging.config";
    sandbox.file("many.py", format!("{modules}\nprint(len(json.__name__))\n"), 0o644);
    for _ in 0..5 {
        let script = "ulimit -S -v 700000; exec $RPROF --quiet --passes counted -o r -- /usr/bin/python3 many.py";
        let output = sandbox.shell(script).output().unwrap();
        assert_eq!((status(&output), stdout(&output)), (0, "4\n".into()), "{}", stderr(&output));
    }
}

#[test]
fn a_descendant_with_a_small_limit_of_its_own_is_counted() {
    let small = "ulimit -S -v 40000; exec ./limits";
    let (sandbox, output) = limited(&format!(
        "sh -c '{small}' >native; $RPROF --quiet --passes counted --memory off -- sh -c \"sh -c '{small}'; ./work 1\" >counted"
    ));
    let told = stderr(&output);
    assert_eq!(status(&output), 0, "{told}");
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).unwrap();
    assert_eq!(read("counted"), read("native") + "1000000\n");
    assert_eq!(sandbox.profile("rprof.out")["run"]["warnings"].as_array().unwrap().len(), 0, "a warning: {told}");
    assert_eq!(function(&sandbox.profile("rprof.out"), "add_up")["flops"]["total"], 1_000_000u64);
}

#[test]
fn too_little_address_space_is_told() {
    for (script, words) in [
        ("ulimit -S -v 100000; exec $RPROF --passes counted --memory off --quiet -- ./threads", "one more thread"),
        (
            "ulimit -S -v 100000; exec $RPROF --passes counted --memory off --quiet -- sh -c '/bin/true; :'",
            "one more thread",
        ),
        ("ulimit -S -v 40000; exec $RPROF --passes counted --memory off --quiet -- ./limits", "mmap"),
        ("ulimit -v 100000; exec $FIRM $RPROF --quiet -- ./limits", "97 MiB"),
    ] {
        let (_, output) = limited(script);
        let told = stderr(&output);
        assert_eq!((status(&output), stdout(&output)), (125, String::new()), "{script}: {told}");
        assert!(told.contains(words) && told.contains("`ulimit") && told.trim_end().lines().count() == 1, "{told}");
    }
}

#[test]
fn a_small_stack_is_the_programs_alone() {
    let (sandbox, output) = limited("ulimit -s 64; exec $RPROF --quiet --passes both -- ./work 1");
    assert_eq!((status(&output), stdout(&output)), (0, "1000000\n".into()), "{}", stderr(&output));
    assert_eq!(function(&sandbox.profile("rprof.out"), "add_up")["flops"]["total"], 1_000_000u64);
    for command in ["report rprof.out", "doctor", "man"] {
        let output = sandbox.shell(&format!("ulimit -s 64; exec $RPROF {command}")).output().unwrap();
        assert_eq!(status(&output), 0, "{command}: {}", stderr(&output));
    }
}
