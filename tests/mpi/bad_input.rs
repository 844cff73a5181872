//! Troubles around ranks: profiles that do not fit, ranks that are ended, folders that cannot be written, libraries that are none.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cli::{Sandbox, status, stderr, stdout};
use crate::jobs::{any_with, fixtures, launched, program};

fn recorded() -> Value {
    let path = format!("{}/fixtures/profiles/kernels.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A function of the recorded profile.
fn function(name: &str) -> Value {
    crate::cli::function(&recorded(), name).clone()
}

/// The recorded profile as that of a rank of job `job`, with few functions.
fn of_rank(rank: u32, ranks: u32, job: &str) -> Value {
    let mut profile = recorded();
    profile["functions"].as_array_mut().unwrap().truncate(2);
    for part in ["samples", "stacks", "frames"] {
        profile[part] = json!([]);
    }
    let (host, boot) = (format!("host{}", rank % 3), "b");
    profile["run"]["ranks"] = json!([{"rank": rank, "ranks": ranks, "job": job, "host": host, "boot": boot,
        "wall_s": 1.0, "cpu_s": 1.0, "exit_status": 0}]);
    for thread in profile["run"]["threads"].as_array_mut().unwrap() {
        (thread["rank"], thread["host"]) = (json!(rank), json!(host));
    }
    profile
}

/// The folder `job` with the profiles of this number of ranks.
fn job(sandbox: &Sandbox, ranks: u32) {
    for rank in 0..ranks {
        fs::create_dir_all(sandbox.path().join(format!("job/rank-{rank}"))).unwrap();
        write(sandbox, rank, &of_rank(rank, ranks, "j"));
    }
    sandbox.file("job/job.json", r#"{"schema": "rprof-job/1", "launches": [], "ranks": null, "command": []}"#, 0o644);
}

fn write(sandbox: &Sandbox, rank: u32, profile: &Value) {
    sandbox.file(&format!("job/rank-{rank}/profile.json"), profile.to_string(), 0o644);
}

/// `rprof merge job`, which fails; the one line that it prints.
fn refused(sandbox: &Sandbox) -> String {
    let output = sandbox.run(["merge", "job"]);
    assert_eq!((status(&output), stdout(&output).as_str()), (125, ""));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn many_ranks_are_one_profile() {
    let sandbox = Sandbox::new();
    job(&sandbox, 300);
    let output = sandbox.run(["merge", "job"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let whole = sandbox.profile("job");
    assert_eq!(whole["run"]["ranks"].as_array().unwrap().len(), 300);
    let cpu_s = |profile: &Value| profile["functions"][0]["cpu_s"].as_f64().unwrap();
    assert!((cpu_s(&whole) / cpu_s(&of_rank(0, 300, "j")) - 300.0).abs() < 1e-6);
    let mut other = of_rank(7, 300, "j");
    other["functions"][0]["name"] = json!("of_rank_7");
    write(&sandbox, 7, &other);
    for command in
        [&["report", "job"][..], &["query", "job", "top"], &["query", "job", "compare", "job"], &["diff", "job", "job"]]
    {
        let output = sandbox.run([command, &["--rank", "300"]].concat());
        let told = stderr(&output);
        assert_eq!((status(&output), told.lines().count()), (125, 1), "{command:?}: {told}");
        assert!(told.contains("--rank 300: job has no such rank; it has ranks 0, 1"), "{told}");
    }
    for command in [&["report", "job"][..], &["query", "job", "top"]] {
        let of = |rank: &str| stdout(&sandbox.run([command, &["--rank", rank]].concat())).contains("of_rank_7");
        assert_eq!((of("7"), of("8")), (true, false), "{command:?}");
    }
    let same = sandbox.run(["diff", "job", "job", "--rank", "7"]);
    assert_eq!(status(&same), 0, "{}", stderr(&same));
}

/// `gemm_scalar` of this number of ranks, each measured on the one CPU that it was bound to; that of a rank is 1 % faster than that of the
/// rank before.
fn roof_fraction_of_bound_ranks(ranks: u32) -> f64 {
    let sandbox = Sandbox::new();
    job(&sandbox, ranks);
    for rank in 0..ranks {
        let mut profile = of_rank(rank, ranks, "j");
        profile["functions"] = json!([function("gemm_scalar")]);
        profile["run"]["ranks"][0]["host"] = json!("host0");
        profile["run"]["threads"].as_array_mut().unwrap().iter_mut().for_each(|thread| thread["host"] = json!("host0"));
        profile["machine"]["cores"] = json!(1);
        let ceilings = profile["machine"]["ceilings"].as_array_mut().unwrap();
        ceilings.retain(|ceiling| ceiling["threads"] == 1);
        for ceiling in ceilings {
            ceiling["value"] = json!(ceiling["value"].as_f64().unwrap() * (1.0 + 0.01 * f64::from(rank)));
        }
        write(&sandbox, rank, &profile);
    }
    let output = sandbox.run(["merge", "job"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    sandbox.profile("job")["functions"][0]["roof_fraction"].as_f64().unwrap()
}

#[test]
fn ranks_on_a_cpu_each_have_the_roof_of_both() {
    let (one, two) = (roof_fraction_of_bound_ranks(1), roof_fraction_of_bound_ranks(2));
    assert!(one > 0.0 && (two / one - 1.0).abs() < 0.03, "{one} of one rank, {two} of two");
}

#[test]
fn ranks_that_do_not_fit_are_refused_in_one_line() {
    let sandbox = Sandbox::new();
    job(&sandbox, 3);
    let whole = of_rank(1, 3, "j").to_string();
    sandbox.file("job/rank-1/profile.json", &whole[..whole.len() / 2], 0o644);
    assert!(refused(&sandbox).contains("rank-1/profile.json is not a complete JSON"), "{}", refused(&sandbox));
    let partial = sandbox.run(["merge", "job", "--partial"]);
    assert_eq!(status(&partial), 0, "{}", stderr(&partial));
    let merged = sandbox.profile("job");
    let codes: Vec<&str> =
        merged["run"]["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"rank-unreadable") && codes.contains(&"ranks-missing"), "{codes:?}");
    let mut other = of_rank(1, 3, "j");
    other["schema"] = json!("rprof-profile/99");
    write(&sandbox, 1, &other);
    assert!(refused(&sandbox).contains("rprof-profile/99"), "{}", refused(&sandbox));
    write(&sandbox, 1, &of_rank(1, 3, "k"));
    assert!(refused(&sandbox).contains("2 jobs"), "{}", refused(&sandbox));
    for other in [of_rank(2, 3, "j"), recorded()] {
        write(&sandbox, 1, &other);
        assert!(refused(&sandbox).contains("profile.json: not the profile of rank 1"), "{}", refused(&sandbox));
        assert_eq!(status(&sandbox.run(["merge", "job", "--partial"])), 0);
        let output = sandbox.run(["report", "job", "--rank", "1"]);
        assert_eq!(status(&output), 125);
        assert!(stderr(&output).contains("not the profile of rank 1"), "{}", stderr(&output));
    }
    // Another program beside: ranks of one job may be of several (MPMD).
    let mut other = of_rank(1, 3, "j");
    other["run"]["command"] = json!(["./other"]);
    other["functions"][0]["name"] = json!("other_work");
    write(&sandbox, 1, &other);
    assert_eq!(status(&sandbox.run(["merge", "job"])), 0);
    let names: Vec<Value> =
        sandbox.profile("job")["functions"].as_array().unwrap().iter().map(|f| f["name"].clone()).collect();
    assert!(names.contains(&json!("other_work")) && names.len() == 3, "{names:?}");
    for (name, ranks) in [("k", json!(3)), ("j", json!(4))] {
        let launches = json!([{"job": name, "passes": "single"}]);
        let other = json!({"schema": "rprof-job/1", "launches": launches, "ranks": ranks, "command": []});
        sandbox.file("job/job.json", other.to_string(), 0o644);
        assert!(
            refused(&sandbox).contains("job.json: of another job than the ranks beside it"),
            "{}",
            refused(&sandbox)
        );
        let output = sandbox.run(["query", "job", "--rank", "1", "top"]);
        assert_eq!(status(&output), 125);
        assert!(stderr(&output).contains("not the profile of rank 1 of this job"), "{}", stderr(&output));
    }
    sandbox.file("job/job.json", r#"{"schema": "rprof-job/1", "#, 0o644);
    assert!(refused(&sandbox).contains("rprof merge job/rank-* merges those that are there"), "{}", refused(&sandbox));
    fs::remove_file(sandbox.path().join("job/job.json")).unwrap();
    assert!(refused(&sandbox).contains("job.json: missing, so nobody can say"), "{}", refused(&sandbox));
    fs::create_dir(sandbox.path().join("job/job.json")).unwrap();
    assert!(refused(&sandbox).contains("job.json: cannot be read (it is not a regular file)"), "{}", refused(&sandbox));
}

#[test]
fn files_beside_ranks_that_cannot_be_read_are_named_and_old_ones_go() {
    let sandbox = Sandbox::new();
    job(&sandbox, 2);
    sandbox.file("job/communication.svg", "<svg/>", 0o644);
    sandbox.file("job/mine.svg", "<svg/>", 0o644);
    let curve = json!([{"bytes": 0, "seconds": -1e-6, "least_s": 1e-6}]);
    let pair = json!({"distance": "same-host", "at_once": 1, "one_way": curve, "exchange": curve, "latency_s": null,
        "bytes_per_s": null, "burst_bytes": null, "rendezvous_bytes": null});
    let hosts = json!([{"name": "host0", "ranks": [0, 1]}]);
    let negative = json!({"library": "libmpi.so", "build_id": null, "hosts": hosts, "pairs": [pair]}).to_string();
    for (text, reason) in [("{", "EOF while parsing"), (&negative, "it has figures that cannot be")] {
        sandbox.file("job/network.json", text, 0o644);
        let output = sandbox.run(["merge", "job"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert!(stdout(&output).contains("network.json is left out"), "{}", stdout(&output));
        let profile = sandbox.profile("job");
        let mut warnings = profile["run"]["warnings"].as_array().unwrap().iter();
        let told = warnings.find(|warning| warning["code"] == "network-unreadable").unwrap();
        assert!(told["text"].as_str().unwrap().contains(reason) && profile["network"].is_null(), "{told}");
    }
    assert!(!sandbox.path().join("job/communication.svg").exists() && sandbox.path().join("job/mine.svg").exists());
}

/// Whether this user may have mounts of its own.
fn may_mount() -> bool {
    let may = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        println!("SKIPPED: root: no mounts of one's own");
    }
    may
}

/// Two ranks of a stand-in launcher, of which the second works in a folder that is a file system of its own, mounted with `options`.
fn beside_a_file_system(sandbox: &Sandbox, options: &str, program: &str) -> Output {
    let fixtures = fixtures();
    sandbox.file(
        "rank",
        format!(
            "#!/bin/sh\n[ $SLURM_PROCID = 0 ] && exec $RPROF --passes counted --memory off --quiet -- {program}\n\
             mkdir own && exec unshare -m sh -c 'mount -t tmpfs -o {options} none own && cd own && \
             exec $RPROF --passes counted --memory off --quiet -- {program}'\n"
        ),
        0o755,
    );
    sandbox.shell(&format!("{}/stub_srun --kill-on-bad-exit=0 -n 2 ./rank", fixtures.display())).output().unwrap()
}

#[test]
fn a_rank_whose_folder_cannot_be_written_is_told_and_the_others_are_there() {
    let Some((_, program)) = any_with("names").filter(|_| may_mount()) else { return };
    let program = program.display().to_string();
    let sandbox = Sandbox::new();
    let full = beside_a_file_system(&sandbox, "size=64k", &program);
    assert_eq!(status(&full), 0, "the program's status: {}", stderr(&full));
    assert_eq!(stdout(&full), "names 30\nnames 30\n");
    let told = stderr(&full);
    assert!(told.contains("rprof: rank 1: ") && told.contains("No space left"), "{told}");
    let profile = sandbox.profile("rprof.out/rank-0");
    assert_eq!(profile["run"]["ranks"][0]["rank"], 0);
    let sandbox = Sandbox::new();
    let read_only = beside_a_file_system(&sandbox, "ro", &program);
    let told = stderr(&read_only);
    assert_eq!(status(&read_only), 125, "{told}");
    assert!(told.contains("Read-only file system") && told.contains("rprof.out"), "{told}");
    assert_eq!(stdout(&read_only), "names 30\n", "the program of rank 1 never ran");
    assert!(sandbox.path().join("rprof.out/rank-0/profile.json").exists());
    let merged = sandbox.run(["merge", "rprof.out"]);
    assert!(stderr(&merged).contains("of 2 ranks 1 is missing: 1"), "{}", stderr(&merged));
}

/// Processes of a program in the sandbox.
fn left_over(sandbox: &Sandbox) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let programs = processes.filter_map(|process| fs::read_link(process.path().join("exe")).ok());
    programs
        .filter(|program| program.starts_with(sandbox.path()))
        .map(|program| program.display().to_string())
        .collect()
}

#[test]
fn a_job_that_is_ended_from_outside_leaves_nothing_behind() {
    let Some((library, program)) = any_with("ends") else { return };
    let sandbox = Sandbox::new();
    fs::copy(&program, sandbox.path().join("ends")).unwrap();
    // Each rank notes its own process, which is rprof's then.
    sandbox.file("noted", "#!/bin/sh\necho $$ >pid.${OMPI_COMM_WORLD_RANK-$PMI_RANK}\nexec \"$@\"\n", 0o755);
    let run = "--passes counted --memory off --quiet";
    for (case, start, end) in [
        ("rprof", format!("\"${{launch[@]}}\" ./noted $rprof {run} -- ./ends deadlock"), "kill -KILL $(cat pid.1)"),
        ("launcher", format!("\"${{launch[@]}}\" $rprof {run} -- ./ends deadlock"), "kill -TERM $pid"),
        ("before", format!("$rprof {run} -- \"${{launch[@]}}\" ./ends deadlock"), "kill -INT $pid"),
    ] {
        let script = format!(
            "trap - INT; rm -f out; set -m; {start} >out & pid=$!
             for _ in $(seq 600); do grep -q deadlock out && break; sleep 0.1; done
             {end}; wait $pid; echo \"status $?\""
        );
        let output = launched(&sandbox, library, 2, &script);
        assert_eq!(status(&output), 0, "{case} hangs: {}", stderr(&output));
        assert!(fs::read_to_string(sandbox.path().join("out")).unwrap().contains("deadlock"), "{case}");
        // MPICH's launcher says 0 or the signal's number if it was ended itself, natively too.
        if case == "rprof" {
            assert_ne!(stdout(&output), "status 0\n", "{case}: {}", stderr(&output));
        }
        for _ in 0..50 {
            if left_over(&sandbox).is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(left_over(&sandbox), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn a_library_that_only_has_the_names_is_opened_closed_and_opened_elsewhere() {
    let Some((library, program)) = any_with("opens") else { return };
    let Some(stub) = crate::jobs::program(library, "libstub.so") else { return };
    let sandbox = Sandbox::new();
    let run = ["--passes", "counted", "--memory", "off", "--quiet", "--"];
    let output = sandbox.rprof(run).arg(program).arg(stub).output().unwrap();
    assert_eq!((status(&output), stdout(&output).as_str()), (0, "opens 30 30\n"), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let sites = profile["mpi"]["sites"].as_array().unwrap();
    let [site] = &sites[..] else { panic!("{sites:?}") };
    assert_eq!((&site["call"], &site["caller"], &site["calls"]), (&json!("MPI_Send"), &json!("send_ten"), &json!(20)));
    assert_eq!((&site["bytes"], &site["unknown_calls"]), (&Value::Null, &json!(20)));
    assert!(site["source"]["bytes"]["reason"].as_str().unwrap().contains("datatype"), "{site}");
    assert!(profile["run"]["ranks"].is_null(), "{}", profile["run"]["ranks"]);
}

#[test]
fn where_no_library_of_mpi_is_there_is_no_network_to_measure() {
    if !may_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let hide = "for file in /usr/lib/*/libmpi*.so*; do mount --bind /dev/null \"$file\"; done";
    for variables in ["OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0"] {
        let script = format!("unshare -m sh -c '{hide}; {variables} exec $RPROF machine --mpi'");
        let output = sandbox.shell(&script).output().unwrap();
        assert_eq!((status(&output), stdout(&output).as_str()), (125, ""));
        let told = stderr(&output);
        assert!(told.contains("no MPI library was found") && told.lines().count() == 1, "{told}");
    }
    if let Some(program) = program("openmpi", "calls") {
        let output = sandbox
            .shell(&format!(
                "unshare -m sh -c '{hide}; OMPI_COMM_WORLD_RANK=0 exec $RPROF machine --mpi -- {}'",
                program.display()
            ))
            .output()
            .unwrap();
        assert_eq!((status(&output), stderr(&output).lines().count()), (125, 1), "{}", stderr(&output));
    }
}
