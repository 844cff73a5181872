//! Ceilings of the network between ranks of one host, and the needs of measuring them.

use std::process::Output;

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};
use crate::jobs::{LIBRARIES, any_with, is_full, launched, program, turn_to_measure};

/// The ceilings that `rprof machine --mpi --json` printed.
pub fn network(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)))
}

/// Points of the curve `name` of `of`.
fn points<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of[name].as_array().unwrap()
}

#[test]
fn the_network_between_ranks_of_one_host_is_measured_and_kept() {
    let _alone = turn_to_measure();
    for library in LIBRARIES {
        let Some(program) = program(library, "names") else { continue };
        let sandbox = Sandbox::new();
        let wanted = r#"{"collectives": [{"call": "MPI_Allreduce", "members": 2, "bytes": [8, 4096]},
            {"call": "MPI_Allgatherv", "members": null, "bytes": [64]}, {"call": "MPI_Win_fence", "members": null, "bytes": [0]}],
            "largest_message": 100000}"#;
        sandbox.file("wanted.json", wanted, 0o644);
        // `names` is no program of MPI: the launcher's library is used.
        let run = |more: &str| {
            let script = format!(
                "export XDG_CACHE_HOME=$PWD/cache; \"${{launch[@]}}\" $rprof machine --mpi --json -o out {more} -- {}",
                program.display()
            );
            let output = launched(&sandbox, library, 2, &script);
            assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
            (network(&output), stderr(&output))
        };
        let (first, told) = run("--wanted wanted.json");
        let is_doubt = |line: &&str| line.starts_with("rprof: the program loads no MPI library when it starts");
        assert_eq!(told.lines().filter(is_doubt).count(), 1, "{library}: {told}");
        assert_eq!(told.lines().count(), 2, "{library}: one line of progress, one doubt: {told}");
        assert_eq!(first["library_of"], "launcher");
        assert_eq!(first["hosts"][0]["ranks"], serde_json::json!([0, 1]));
        assert_eq!(first["pairs"].as_array().unwrap().len(), 1);
        let pair = &first["pairs"][0];
        assert_eq!((pair["distance"].as_str(), pair["at_once"].as_u64()), (Some("same-host"), Some(1)));
        assert!(pair["latency_s"].as_f64().unwrap() > 0.0 && pair["bytes_per_s"].as_f64().unwrap() > 1e6, "{pair}");
        assert!(points(pair, "one_way").len() > 10 && points(pair, "exchange").len() > 10, "{pair}");
        let collectives = first["collectives"].as_array().unwrap();
        let known: Vec<(&str, usize)> =
            collectives.iter().map(|c| (c["call"].as_str().unwrap(), points(c, "cost").len())).collect();
        assert_eq!(known, [("MPI_Allgatherv", 1), ("MPI_Allreduce", 2)]);
        assert!(first["missing"][0].as_str().unwrap().starts_with("MPI_Win_fence"), "{}", first["missing"]);
        let written: Value =
            serde_json::from_slice(&std::fs::read(sandbox.path().join("out/network.json")).unwrap()).unwrap();
        assert_eq!(written, first);
        if !is_full() && library != LIBRARIES[0] {
            continue;
        }
        let (second, told) = run("--wanted wanted.json");
        assert_eq!((&second, told.lines().count()), (&first, 1), "{library}: what was kept is read: {told}");
        sandbox.file("wanted.json", wanted.replace("[8, 4096]", "[8, 512]"), 0o644);
        let (third, _) = run("--wanted wanted.json");
        assert_eq!(third["pairs"], first["pairs"], "{library}: only what is missing is measured");
        assert_eq!(points(&third["collectives"][1], "cost").len(), 3);
    }
}

#[test]
fn a_library_that_fails_costs_the_ceilings_alone() {
    let sandbox = Sandbox::new();
    let fails = |name: &str, library: &str| {
        sandbox.file("library.c", library, 0o644);
        sandbox.file("program.c", "int PMPI_Init(void *, void *); int main(void) { return PMPI_Init(0, 0); }", 0o644);
        let build = format!(
            "cc -shared -fPIC -o {name}.so library.c && cc -o {name} program.c ./{name}.so -Wl,-rpath,'$ORIGIN'"
        );
        let built = sandbox.shell(&build).output().unwrap();
        assert_eq!(status(&built), 0, "{}", stderr(&built));
        let run = format!("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 $RPROF machine --mpi -- ./{name}");
        let output = sandbox.shell(&run).output().unwrap();
        assert_eq!((status(&output), stdout(&output).as_str()), (125, ""));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        stderr(&output)
    };
    let crash = fails("crash", "int PMPI_Init(void *a, void *b) { *(volatile int *)0 = 0; return 0; }");
    assert!(crash.contains("PMPI_Init: the library ended its process by SIGSEGV"), "{crash}");
    let ok = "int PMPI_Init(void *a, void *b) { return 0; }";
    let odd = fails("odd", &format!("{ok} int PMPI_Type_size(long t, int *n) {{ *n = 4; return 0; }}"));
    assert!(odd.contains("no known family") && odd.contains("is 4"), "{odd}");
    let refused = fails("refused", "int PMPI_Init(void *a, void *b) { return 13; }");
    assert!(refused.contains("failed with code 13"), "{refused}");
    let few = fails("few", ok);
    assert!(few.contains("has no PMPI_Type_size"), "{few}");
}

#[test]
fn machine_mpi_says_what_it_needs() {
    let sandbox = Sandbox::new();
    let line = |script: &str| {
        let output = sandbox.shell(script).output().unwrap();
        assert_ne!(status(&output), 0);
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        stderr(&output)
    };
    assert!(line("$RPROF machine --mpi").contains("start it with a launcher"));
    assert!(line("$RPROF machine --mpi --gpu").contains("--gpu"));
    let help = stdout(&sandbox.run(["machine", "--help"]));
    assert!(help.contains("--mpi") && !help.contains("--wanted"), "an internal option is in the help: {help}");
    let rank = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2";
    assert!(line(&format!("{rank} $RPROF machine --mpi -- ./nothing")).contains("no such program"));
    assert!(line(&format!("{rank} $RPROF machine --mpi --wanted /dev/null")).contains("--wanted /dev/null"));
    if let Some(inside) = program("mpich", "calls_static") {
        let told = line(&format!("{rank} $RPROF machine --mpi -- {}", inside.display()));
        assert!(told.contains("linked statically"), "{told}");
    }
    if let Some((library, _)) = any_with("names") {
        let output = launched(&sandbox, library, 1, "\"${launch[@]}\" $rprof machine --mpi");
        assert!(stderr(&output).contains("a job of one rank has no network"), "{}", stderr(&output));
    }
}
