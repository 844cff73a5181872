//! Launchers before and behind rprof: output, status and folders.

use serde_json::{Value, json};

use crate::cli::{self, Sandbox, status, stderr, stdout};
use crate::jobs::{
    LIBRARIES, any_with, built, fixtures, is_full, launched, program, side_by_side, turn_to_measure, unasked_lines,
};

#[test]
fn a_program_s_own_functions_with_such_names_are_none_of_mpi() {
    let Some(program) = program("openmpi", "names") else { return };
    let sandbox = Sandbox::new();
    let output = sandbox.run([
        "--passes".as_ref(),
        "counted".as_ref(),
        "--memory".as_ref(),
        "off".as_ref(),
        "--quiet".as_ref(),
        "--".as_ref(),
        program.as_os_str(),
    ]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "names 30\n");
    let profile = sandbox.profile("rprof.out");
    assert!(profile["functions"].as_array().is_some_and(|f| !f.is_empty()));
    assert_eq!(profile["mpi"], Value::Null);
}

#[test]
fn rprof_before_a_launcher_merges_its_ranks() {
    let _alone = turn_to_measure();
    for library in LIBRARIES {
        if !is_full() && library != LIBRARIES[0] {
            continue;
        }
        let Some(program) = program(library, "late") else { continue };
        let sandbox = Sandbox::new();
        // Long enough that waiting is most of the calls' time while other work takes the CPUs, too.
        let script =
            format!("$rprof --passes both --memory off -- \"${{launch[@]}}\" {} sender 10 40", program.display());
        let output = launched(&sandbox, library, 2, &script);
        assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
        assert_eq!(stdout(&output).matches("early_receive").count(), 1, "one launch prints: {}", stdout(&output));
        assert!(!stderr(&output).contains("orte") && !stderr(&output).contains("[proxy"), "{}", stderr(&output));
        let profile = sandbox.profile("rprof.out");
        let ranks: Vec<u64> =
            profile["run"]["ranks"].as_array().unwrap().iter().map(|rank| rank["rank"].as_u64().unwrap()).collect();
        assert_eq!(ranks, [0, 1]);
        let kinds: Vec<&str> =
            profile["run"]["passes"].as_array().unwrap().iter().map(|pass| pass["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["timed", "counted", "timed", "counted"]);
        let sites = profile["mpi"]["sites"].as_array().unwrap();
        let receive = sites.iter().find(|site| site["caller"] == "early_receive").unwrap();
        let waiting_s = receive["waiting_s"].as_f64().unwrap();
        let answer = sandbox.run(["query", "rprof.out", "mpi", "--limit", "1", "--json"]);
        let answer: Value = serde_json::from_str(&stdout(&answer)).unwrap();
        let listed = &answer["mpi"]["sites"];
        assert!(listed["total"].as_u64().unwrap() >= 1 && listed["items"].as_array().unwrap().len() == 1, "{answer}");
        let same = sandbox.run(["diff", "rprof.out", "rprof.out"]);
        assert_eq!(status(&same), 0, "{}", stderr(&same));
        assert!(waiting_s > 0.38 && waiting_s <= receive["time_s"].as_f64().unwrap(), "waited {waiting_s} s for 0.4 s");
        let peers = profile["mpi"]["peers"].as_array().unwrap();
        let longest = &peers[0];
        let who = (&longest["rank"], &longest["peer"], &longest["caller"]);
        assert_eq!(who, (&json!(1), &json!(0), &json!("early_receive")));
        assert_eq!(longest["received"], json!({"messages": 10, "bytes": 10 << 20}));
        assert!((longest["waiting_s"].as_f64().unwrap() - waiting_s).abs() < 1e-6, "{longest}");
        let sent = peers.iter().find(|of| of["caller"] == "late_send").unwrap();
        let whole = (&sent["rank"], &sent["peer"], &sent["sent"]["messages"], &sent["received"]["messages"]);
        assert_eq!(whole, (&json!(0), &json!(1), &json!(10), &json!(0)));
        let early = cli::function(&profile, "early_receive");
        assert_eq!(early["class"], "waiting-for-ranks", "{library}: {}", profile["mpi"]["functions"]);
        let advice = early["savings"][0]["advice"].as_str().unwrap();
        assert!(advice.contains("waiting for others, 100 % of it for rank 0"), "{advice}");
        assert_eq!(early["savings"][0]["remove"][0], "waiting-for-ranks");
        let network = &profile["network"]["pairs"];
        assert!(network[0]["latency_s"].as_f64().is_some_and(|s| s > 0.0), "{}", profile["run"]["warnings"]);
        let functions = profile["functions"].as_array().unwrap();
        let of_launcher = functions.iter().any(|f| f["module"].as_str().unwrap().contains("mpirun"));
        assert!(!of_launcher, "functions of the launcher are in the profile");
    }
}

#[test]
fn ranks_are_launched_once_unless_the_user_asks_for_two_passes() {
    let Some((library, program)) = any_with("late") else { return };
    for (options, launches) in [("", 1), ("--passes both ", 2)] {
        let sandbox = Sandbox::new();
        sandbox.file("rank", format!("#!/bin/sh\necho x >>log\nexec {} sender 2 20\n", program.display()), 0o755);
        let output =
            launched(&sandbox, library, 2, &format!("$rprof {options}--memory off -- \"${{launch[@]}}\" ./rank"));
        assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
        let log = std::fs::read_to_string(sandbox.path().join("log")).unwrap();
        assert_eq!(log.lines().count(), 2 * launches, "{options}: {}", stderr(&output));
        let profile = sandbox.profile("rprof.out");
        assert_eq!(profile["run"]["ranks"].as_array().map(Vec::len), Some(2));
        let told = stderr(&output);
        assert!(launches == 2 || told.contains("of the time of the ranks; --passes both"), "{told}");
    }
}

#[test]
fn a_launcher_without_a_program_explains_itself() {
    for library in LIBRARIES {
        if built(library).is_none() {
            continue;
        }
        let scripts = ["\"${launch[@]}\" ./nothing", "$rprof -- \"${launch[@]}\" ./nothing"];
        let [(_, native), (sandbox, profiled)] = side_by_side(library, 2, scripts);
        assert_ne!(status(&native), 0);
        // MPICH's launcher may die of SIGPIPE on a busy host: natively in 4 of 320 runs.
        let as_natively =
            [&native, &profiled].map(|output| if status(output) == 128 + libc::SIGPIPE { 255 } else { status(output) });
        assert_eq!(as_natively[1], as_natively[0], "{library}: {}", stderr(&profiled));
        let told = stderr(&profiled);
        let ours: Vec<&str> = told.lines().filter(|line| line.starts_with("rprof: ")).collect();
        assert_eq!(ours.len(), 1, "{told}");
        assert!(ours[0].contains("nothing was profiled"), "{told}");
        assert!(told.contains("nothing\n") || told.contains("./nothing"), "{library} says nothing: {told}");
        assert!(!sandbox.path().join("rprof.out").exists());
    }
}

#[test]
fn a_timed_and_a_counted_launch_complete_one_another_and_another_job_is_set_aside() {
    let Some((library, program)) = any_with("ends") else { return };
    let sandbox = Sandbox::new();
    let run = |options: &str| {
        let script = format!("\"${{launch[@]}}\" $rprof {options} --memory off --quiet -- {} well", program.display());
        let output = launched(&sandbox, library, 2, &script);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
    };
    run("--passes timed");
    let some_work = |folder: &str| cli::function(&sandbox.profile(folder), "some_work").clone();
    assert!(some_work("rprof.out/rank-1")["flops"].is_null());
    run("--passes counted");
    let joined = some_work("rprof.out/rank-1");
    assert!(joined["cpu_s"].as_f64().unwrap() > 0.0);
    assert!(joined["flops"]["total"].as_u64().unwrap() >= 20_000_000, "{}", joined["flops"]);
    run("--passes timed");
    assert!(some_work("rprof.out/rank-0")["flops"].is_null(), "a third launch is another job");
    assert!(some_work("rprof.out.1/rank-0")["flops"].is_object());
    let merged = sandbox.run(["merge", "rprof.out.1/rank-0", "rprof.out/rank-1"]);
    assert_eq!(status(&merged), 125);
    assert!(stderr(&merged).contains("2 jobs"), "{}", stderr(&merged));
    let partial = sandbox.run(["merge", "rprof.out/rank-1"]);
    assert!(stderr(&partial).contains("of 2 ranks 1 is missing: 0"), "{}", stderr(&partial));
    let twice = sandbox.run(["merge", "rprof.out/rank-1", "rprof.out/rank-1"]);
    assert!(stderr(&twice).contains("rank 1 is given 2 times"), "{}", stderr(&twice));
}

#[test]
fn a_rank_starts_its_program_once() {
    for library in LIBRARIES {
        let Some(program) = program(library, "ends") else { continue };
        let sandbox = Sandbox::new();
        // Open MPI's ranks are in `a_single_pass_estimates_calls_and_finds_who_waits`, too.
        let starts = is_full() || library != LIBRARIES[0] || built(LIBRARIES[1]).is_none();
        let both = format!("\"${{launch[@]}}\" $rprof --passes both -- {} well", program.display());
        let output = launched(&sandbox, library, 2, &both);
        assert_ne!(status(&output), 0);
        assert!(stderr(&output).contains("can start its program only once"), "{}", stderr(&output));
        if !starts {
            continue;
        }
        let once = format!("\"${{launch[@]}}\" $rprof --quiet -- {} well", program.display());
        let output = launched(&sandbox, library, 2, &once);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert_eq!(unasked_lines(&output), Vec::<String>::new(), "{library}");
        assert_eq!(sandbox.profile("rprof.out")["run"]["ranks"].as_array().unwrap().len(), 2);
    }
}

/// Ways to end and to begin (fixtures/mpi/ends.c), each usually with one library: whether all ranks end well, so that they print and leave
/// profiles.
const WAYS: [(&str, &str, bool); 9] = [
    ("exit", "openmpi", false),
    ("segv", "openmpi", false),
    ("abort", "openmpi", false),
    ("spawn", "openmpi", true),
    ("never", "mpich", true),
    ("fork", "mpich", true),
    ("sessions", "mpich", true),
    ("mpmd", "mpich", true),
    ("after", "", true),
];

#[test]
fn ends_of_ranks_are_as_without_rprof() {
    compare_ends(LIBRARIES[0]);
}

#[test]
fn ends_of_ranks_are_as_without_rprof_with_mpich() {
    compare_ends(LIBRARIES[1]);
}

fn compare_ends(library: &str) {
    let (Some(program), Some(second)) = (program(library, "ends"), program(library, "second")) else { return };
    for (mode, usual, ends_well) in WAYS {
        // MPICH's spawn fails by itself, and Open MPI's library has no sessions (fixtures/mpi/README.md).
        if !is_full() && library != usual {
            continue;
        }
        let script = |rprof: &str| {
            let ends = format!("\"${{launch[@]}}\" {rprof} {} {mode}", program.display());
            let beside = format!(" : -np 1 {rprof} {}", second.display());
            if mode == "mpmd" { ends + &beside } else { ends }
        };
        // A single pass takes a third of the time.
        let is_counted = is_full() || ends_well || mode == "abort";
        let passes = if is_counted { "--passes counted" } else { "--passes single" };
        let (bare, with_rprof) = (script(""), script(&format!("$rprof {passes} --memory off --quiet --")));
        let [(_, native), (sandbox, profiled)] = side_by_side(library, 2, [bare.as_str(), with_rprof.as_str()]);
        assert_ne!(status(&profiled), 124, "{library} {mode} hangs: {}", stderr(&profiled));
        // MPICH's launcher kills what is left, rprof too, and then says 9 or the other signal.
        let is_same = status(&native) == status(&profiled);
        assert!(
            is_same || library == "mpich" && status(&native) != 0 && status(&profiled) != 0,
            "{library} {mode}: {} instead of {}: {}",
            status(&profiled),
            status(&native),
            stderr(&profiled)
        );
        if !ends_well || status(&native) != 0 {
            continue;
        }
        assert_eq!(stdout(&profiled), stdout(&native), "{library} {mode}");
        let profile = sandbox.profile("rprof.out");
        let ranks = profile["run"]["ranks"].as_array().unwrap().len();
        assert_eq!(ranks, if mode == "mpmd" { 3 } else { 2 }, "{library} {mode}");
        assert!(cli::function(&profile, "some_work")["flops"]["total"].as_u64().unwrap() >= 40_000_000, "{mode}");
        let sums = [("sessions", "add_all", 2), ("spawn", "add_all", 2), ("mpmd", "add_from_second", 1)];
        for (_, caller, calls) in sums.iter().filter(|sum| sum.0 == mode) {
            let sites = profile["mpi"]["sites"].as_array().unwrap();
            let site =
                sites.iter().find(|site| site["caller"] == *caller).unwrap_or_else(|| panic!("{mode}: {sites:?}"));
            assert_eq!((&site["calls"], &site["bytes"]), (&json!(calls), &json!(4 * calls)), "{library} {mode}");
        }
    }
}

#[test]
fn ceilings_are_measured_once_a_host_however_many_ranks_start() {
    // Measuring takes the host's CPUs for many seconds.
    if !is_full() {
        return;
    }
    let Some((library, program)) = any_with("names") else { return };
    let _alone = turn_to_measure();
    let sandbox = Sandbox::new();
    let script = format!(
        "export XDG_CACHE_HOME=$PWD/cache; {}/stub_srun -n 4 $rprof --passes counted --memory off -- {}",
        fixtures().display(),
        program.display()
    );
    let output = launched(&sandbox, library, 1, &script);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let told = stderr(&output);
    assert_eq!(told.lines().filter(|line| line.contains("measuring this machine's ceilings")).count(), 1, "{told}");
    let ceilings = |rank: u32| sandbox.profile(&format!("rprof.out/rank-{rank}"))["machine"]["ceilings"].clone();
    assert!(
        ceilings(0).as_array().is_some_and(|all| all.len() > 50) && (1..4).all(|rank| ceilings(rank) == ceilings(0))
    );
}

#[test]
fn a_stand_in_for_srun_is_a_launcher_like_others() {
    let Some((library, program)) = any_with("names") else { return };
    let sandbox = Sandbox::new();
    std::os::unix::fs::symlink(fixtures().join("stub_srun"), sandbox.path().join("srun")).unwrap();
    let script = format!("$rprof --memory off --quiet -- ./srun -n 3 {}", program.display());
    let output = launched(&sandbox, library, 1, &script);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let job: Value =
        serde_json::from_slice(&std::fs::read(sandbox.path().join("rprof.out/job.json")).unwrap()).unwrap();
    assert_eq!(job["launches"][0]["job"], "4711.0");
    assert_eq!(sandbox.profile("rprof.out")["run"]["ranks"].as_array().unwrap().len(), 3);
}
