//! Ranks on several hosts, which are network namespaces: bytes that cross the network, its sustained rate, hosts that cannot reach one another.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};
use crate::jobs::{Hosts, any_with, fixtures, is_full, launched, program, turn_to_measure};
use crate::network::network;

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

/// `rank R acked A received B`, by rank.
fn kernel_counts(output: &str) -> BTreeMap<u64, [f64; 2]> {
    let lines = output.lines().filter(|line| line.starts_with("rank "));
    let numbers = lines.map(|line| {
        let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        (words[0] as u64, [words[1], words[2]])
    });
    numbers.collect()
}

/// Each of the cases, `PROGRAM ARGUMENTS`, ranks and allowed error, between two hosts.
fn compare_with_the_kernel(hosts: Option<Hosts>, library: &str, cases: &[(&str, u32, f64)]) {
    let Some(program) = program(library, "crossing") else { return };
    let Some(hosts) = hosts else { return };
    for &(what, ranks, within) in cases {
        let sandbox = Sandbox::new();
        let folder = sandbox.path().join("rprof.out");
        let paths = [folder.to_str().unwrap(), program.to_str().unwrap()];
        let options = ["--passes", "counted", "--memory", "off", "--quiet", "-o", paths[0], "--", paths[1]];
        let command: Vec<&str> = [RPROF].into_iter().chain(options).chain(what.split(' ')).collect();
        let output = hosts.run_again(&sandbox, (library, ranks), &command);
        let counts = kernel_counts(&stdout(&output));
        assert_eq!(counts.len(), ranks as usize, "{library} {what}: {}", stderr(&output));
        assert!(counts.values().map(|[acked, _]| acked).sum::<f64>() > 0.0, "{library} {what}: nothing crossed");
        for (rank, [acked, received]) in counts {
            let network = &sandbox.profile(&format!("rprof.out/rank-{rank}"))["mpi"]["network"];
            for (key, kernel) in [("sent", acked), ("received", received)] {
                let seen = network[key].as_f64().unwrap_or_else(|| panic!("{library} {what}: {network}"));
                // Bytes that follow the program's look: a barrier, and the library's end.
                let room = within * kernel + 300.0;
                assert!((seen - kernel).abs() <= room, "{library} {what}: rank {rank} {key} {seen}, kernel {kernel}");
            }
        }
        let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let of_machines = names.filter(|name| name.to_string_lossy().starts_with("machine-")).count();
        assert_eq!(of_machines, 1, "both hosts are this one, whose ceilings were measured once");
        let sites = &sandbox.profile("rprof.out")["mpi"]["sites"];
        let site = |caller: &str, call: &str| {
            let of = |site: &&Value| site["caller"] == caller && site["call"] == call;
            sites.as_array().unwrap().iter().find(of).unwrap_or_else(|| panic!("no {call} in {caller}")).clone()
        };
        if what.starts_with("bcast") {
            let bcast = site("broadcasts", "MPI_Bcast");
            let sent = bcast["network_sent"].as_f64().unwrap();
            assert!((sent - 16e6).abs() < 0.16e6, "{library}: {sent} bytes");
            assert_eq!((bcast["bytes"].as_u64(), bcast["needed"].as_f64()), (Some(8_000_000), Some(8e6)));
            let report = sandbox.run(["report", "rprof.out"]);
            assert!(stdout(&report).contains("hierarchical broadcast"), "{}", stdout(&report));
        } else {
            let send = site("ping", "MPI_Send");
            assert_eq!(send["needed"].as_f64(), send["bytes"].as_f64());
            assert!(send["network_sent"].as_f64().unwrap() >= send["bytes"].as_f64().unwrap(), "{send}");
        }
    }
}

/// Cases that usually run with one library; the others, and the other library, take as long again.
const BROADCASTS: (&str, u32, f64) = ("bcast 10 800000", 4, 0.01);
const MESSAGES: (&str, u32, f64) = ("messages 50 65536", 2, 0.01);
const SHORT_MESSAGES: (&str, u32, f64) = ("messages 1000 8", 2, 0.05);

#[test]
fn bytes_between_hosts_are_those_of_the_kernel() {
    let cases: &[_] = if is_full() { &[BROADCASTS, MESSAGES, SHORT_MESSAGES] } else { &[BROADCASTS] };
    compare_with_the_kernel(Hosts::up(2, &[]), "openmpi", cases);
}

#[test]
fn bytes_between_hosts_are_those_of_the_kernel_with_mpich() {
    let cases: &[_] = if is_full() { &[BROADCASTS, MESSAGES, SHORT_MESSAGES] } else { &[MESSAGES] };
    compare_with_the_kernel(Hosts::up(2, &[]), "mpich", cases);
}

#[test]
fn bytes_between_hosts_without_ipv4_are_those_of_the_kernel() {
    // As long again.
    if is_full() {
        compare_with_the_kernel(Hosts::up(2, &[]).and_then(Hosts::without_ipv4), "openmpi", &[MESSAGES]);
    }
}

#[test]
fn a_limited_network_has_its_sustained_rate_whatever_the_burst() {
    let Some((library, _)) = any_with("names") else { return };
    let _alone = turn_to_measure();
    for burst in ["64k", "256k"] {
        // A burst that is longer than the messages of a round is the harder case.
        if !is_full() && burst == "64k" {
            continue;
        }
        let Some(hosts) = Hosts::up(2, &["800mbit", burst]) else { return };
        let sandbox = Sandbox::new();
        let wanted = r#"{"collectives": [{"call": "MPI_Bcast", "members": 2, "bytes": [1048576]}]}"#;
        let wanted = sandbox.file("wanted.json", wanted, 0o644);
        let command = [RPROF, "machine", "--mpi", "--json", "--refresh", "--wanted"];
        let output = hosts.run(&sandbox, (library, 2), 60, "", &[&command[..], &[wanted.to_str().unwrap()]].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let network = network(&output);
        assert_eq!(network["hosts"].as_array().unwrap().len(), 2, "{}", network["hosts"]);
        let pair = &network["pairs"][0];
        assert_eq!(pair["distance"], "other-host");
        let rate = pair["bytes_per_s"].as_f64().unwrap() / 1e6;
        assert!((rate - 97.0).abs() < 8.0, "burst {burst}: {rate} MB/s of 100 on the wire");
    }
}

#[test]
fn hosts_that_cannot_reach_one_another_are_said_to_be_so() {
    // Its launcher kills rprof as soon as its library fails.
    let Some(program) = program("mpich", "crossing") else { return };
    let Some(hosts) = Hosts::up(2, &[]) else { return };
    hosts.set_apart();
    let sandbox = Sandbox::new();
    let machine = hosts.run(&sandbox, ("mpich", 2), 20, "", &[RPROF, "machine", "--mpi", "--refresh"]);
    let told = stderr(&machine);
    assert_ne!(status(&machine), 0, "{told}");
    assert!(!stdout(&machine).contains("sustained"), "{}", stdout(&machine));
    let is_said =
        |told: &str| told.lines().any(|line| line.starts_with("rprof: ") && line.contains("reach one another"));
    assert!(is_said(&told), "{told}");
    let folder = sandbox.path().join("own");
    let prefix = format!("{RPROF} --passes counted --memory off --quiet -o {} --", folder.display());
    let command = [program.to_str().unwrap(), "messages", "5", "8"];
    let profiled = hosts.run(&sandbox, ("mpich", 2), 20, &prefix, &command);
    let told = stderr(&profiled);
    assert_ne!(status(&profiled), 0, "{told}");
    assert!(folder.join("profile.json").exists() || is_said(&told), "{told}");
}

#[test]
fn ranks_of_a_host_without_ipv4_have_their_profiles() {
    let Some((library, program)) = any_with("ends") else { return };
    let alone = "ip link set lo up && ip -4 addr flush dev lo";
    let may = Command::new("unshare").args(["-n", "sh", "-c", alone]).status().is_ok_and(|status| status.success());
    if !may {
        println!("SKIPPED: root: no network namespaces");
        return;
    }
    let sandbox = Sandbox::new();
    let srun = fixtures().join("stub_srun").display().to_string();
    let run = format!("{srun} -n 2 $rprof --passes counted --memory off --quiet -- {} well", program.display());
    let script = format!("exec unshare -n sh -c '{alone} && exec \"$@\"' - {run}");
    let output = launched(&sandbox, library, 1, &script);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    assert_eq!(profile["run"]["ranks"].as_array().unwrap().len(), 2);
    let sites = profile["mpi"]["sites"].as_array().unwrap();
    let barrier = sites.iter().find(|site| site["caller"] == "wait_for_all").unwrap_or_else(|| panic!("{sites:?}"));
    assert_eq!((&barrier["call"], &barrier["calls"]), (&Value::from("MPI_Barrier"), &Value::from(2)));
}
