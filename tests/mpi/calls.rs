//! Calls and bytes by call site.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::cli::{self, Sandbox, status, stderr, stdout};
use crate::jobs::{LIBRARIES, fixtures, is_full, launched, program, unasked_lines};

/// Functions that move no data and do not wait: their calls are not recorded.
const NOT_SEEN: [&str; 9] = [
    "MPI_Type_commit",
    "MPI_Get_address",
    "MPI_Get_count",
    "MPI_Request_free",
    "MPI_Buffer_attach",
    "MPI_Buffer_detach",
    "MPI_Cart_shift",
    "MPI_Pready",
    "MPI_Parrived",
];

#[derive(serde::Deserialize)]
struct Expected {
    site: Vec<ExpectedSite>,
}

#[derive(serde::Deserialize)]
struct ExpectedSite {
    function: String,
    mpi: String,
    calls: Vec<u64>,
    sent: Option<Vec<u64>>,
}

fn expected(source: &str, ranks: u32, has_mpi4: bool) -> Vec<ExpectedSite> {
    let mut command = Command::new(fixtures().join("expected"));
    command.arg(fixtures().join(source)).arg(ranks.to_string());
    let output = command.args(has_mpi4.then_some("--mpi4")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    toml::from_str::<Expected>(&stdout(&output)).unwrap().site
}

/// Calls and bytes by (caller, function of MPI); bytes are `None` if some are not known.
fn counted(profile: &Value) -> BTreeMap<(String, String), (u64, Option<u64>)> {
    let mut sites = BTreeMap::new();
    for site in profile["mpi"]["sites"].as_array().unwrap() {
        let text = |key: &str| site[key].as_str().unwrap().to_owned();
        let sum = sites.entry((text("caller"), text("call"))).or_insert((0, Some(0)));
        sum.0 += site["calls"].as_u64().unwrap();
        sum.1 = sum.1.zip(site["bytes"].as_u64()).map(|(a, b)| a + b);
    }
    sites
}

/// Whether a site says why its bytes are not known.
fn has_reason(profile: &Value, of: &ExpectedSite) -> bool {
    let is_it = |site: &&Value| site["caller"] == of.function && site["call"] == of.mpi && site["bytes"].is_null();
    let mut sites = profile["mpi"]["sites"].as_array().unwrap().iter().filter(is_it);
    sites.all(|site| site["source"]["bytes"]["reason"].is_string())
}

/// Compares the profiles of `ranks` ranks with what is expected. Returns how many figures of bytes are not known.
fn compare(sandbox: &Sandbox, ranks: u32, expected: &[ExpectedSite]) -> usize {
    let mut unknown = 0;
    for rank in 0..ranks {
        let profile = sandbox.profile(&format!("rprof.out/rank-{rank}"));
        let (found, at_least) = (counted(&profile), profile["mpi"]["at_least"] == true);
        for site in expected.iter().filter(|site| {
            let is_file = site.mpi.starts_with("MPI_File");
            !NOT_SEEN.contains(&site.mpi.as_str()) && !is_file
        }) {
            let what = format!("rank {rank}: {} in {}", site.mpi, site.function);
            let key = (site.function.clone(), site.mpi.clone());
            let (calls, bytes) = found.get(&key).copied().unwrap_or((0, Some(0)));
            if at_least {
                assert!(calls <= site.calls[rank as usize], "{what}: {calls} calls");
                continue;
            }
            assert_eq!(calls, site.calls[rank as usize], "{what}: calls");
            match (&site.sent, bytes) {
                (Some(sent), Some(bytes)) => assert_eq!(bytes, sent[rank as usize], "{what}: bytes"),
                (Some(_), None) => {
                    assert!(has_reason(&profile, site), "{what}: null without a reason");
                    unknown += 1
                }
                (None, _) => {}
            }
        }
    }
    unknown
}

#[test]
fn calls_and_bytes_of_each_call_site_are_exact_in_c() {
    for library in LIBRARIES {
        for name in ["calls", "calls_static"] {
            // MPICH's functions are the same inside the program.
            if !is_full() && (library, name) == ("mpich", "calls") {
                continue;
            }
            let Some(program) = program(library, name) else { continue };
            let sites = stdout(&Command::new(&program).arg("list").output().unwrap());
            let has_mpi4 = sites.contains("counts_of_64_bits");
            let sandbox = Sandbox::new();
            let words = sites.split_whitespace().collect::<Vec<_>>().join(" ");
            let script = format!(
                "\"${{launch[@]}}\" $rprof --passes counted --memory off --quiet -- {} {words}",
                program.display()
            );
            let output = launched(&sandbox, library, 2, &script);
            assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
            assert!(stdout(&output).ends_with("right\n"), "{}", stdout(&output));
            let unknown = compare(&sandbox, 2, &expected("calls.c", 2, has_mpi4));
            // Neighbours.
            assert!(unknown <= 2, "{library} {name}: {unknown} figures of bytes are not known");
        }
    }
}

#[test]
fn calls_and_bytes_of_each_call_site_are_exact_in_fortran() {
    for library in LIBRARIES {
        for name in ["calls_f90", "calls_f08"] {
            if !is_full() && (library == "mpich") != (name == "calls_f90") {
                continue;
            }
            let Some(program) = program(library, name) else { continue };
            let sandbox = Sandbox::new();
            let run = "--passes counted --memory off --quiet";
            let output =
                launched(&sandbox, library, 2, &format!("\"${{launch[@]}}\" $rprof {run} -- {}", program.display()));
            assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
            let source = name.replace("calls_f08", "calls_f08.f90").replace("calls_f90", "calls.f90");
            assert_eq!(compare(&sandbox, 2, &expected(&source, 2, false)), 0, "{library} {name}");
        }
    }
}

#[test]
fn calls_and_bytes_of_python_are_exact() {
    // Python's start alone takes seconds.
    if !is_full() {
        return;
    }
    for library in LIBRARIES {
        let Some(python) = program(library, "python") else { continue };
        let sandbox = Sandbox::new();
        let source = fixtures().join("calls.py");
        let run = format!("$rprof --passes counted --memory off --quiet -- {} {}", python.display(), source.display());
        let output = launched(&sandbox, library, 2, &format!("\"${{launch[@]}}\" {run}"));
        assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
        assert_eq!(stdout(&output), "calls.py right\n");
        // The callers are mpi4py's own functions, and a library of MPI 4 is called by its forms with large counts.
        let expected = expected("calls.py", 2, false);
        for rank in 0..2 {
            let profile = sandbox.profile(&format!("rprof.out/rank-{rank}"));
            let mut found: BTreeMap<String, (u64, Option<u64>)> = BTreeMap::new();
            for ((_, call), (calls, bytes)) in counted(&profile) {
                let sum = found.entry(call.trim_end_matches("_c").to_owned()).or_insert((0, Some(0)));
                *sum = (sum.0 + calls, sum.1.zip(bytes).map(|(a, b)| a + b));
            }
            for site in &expected {
                let sent = site.sent.as_ref().map_or(0, |sent| sent[rank]);
                assert_eq!(
                    found.get(&site.mpi),
                    Some(&(site.calls[rank], Some(sent))),
                    "{library} {rank}: {}",
                    site.mpi
                );
            }
        }
    }
}

#[test]
fn a_single_pass_estimates_calls_and_finds_who_waits() {
    for library in LIBRARIES {
        if !is_full() && library != LIBRARIES[0] {
            continue;
        }
        let Some(program) = program(library, "late") else { continue };
        let sandbox = Sandbox::new();
        // Rank 1 comes 10 ms late to each of 150 calls of 8 bytes.
        let script =
            format!("\"${{launch[@]}}\" $rprof --memory off --quiet -- {} allreduce 150 10", program.display());
        let output = launched(&sandbox, library, 2, &script);
        assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
        assert_eq!(unasked_lines(&output), Vec::<String>::new(), "{library}");
        let profile = sandbox.profile("rprof.out");
        assert_eq!(profile["run"]["ranks"].as_array().unwrap().len(), 2);
        let mpi = &profile["mpi"];
        let site = mpi["sites"].as_array().unwrap().iter().find(|site| site["caller"] == "late_allreduce").unwrap();
        assert_eq!(site["call"], "MPI_Allreduce");
        let how = |figure: &str| site["source"][figure]["how"].as_str().unwrap_or_default();
        assert_eq!(how("time_s"), "sampled", "{site}");
        // The late rank is in the call for some milliseconds in all: on a busy host neither sample nor window may meet it there.
        let is_met = !site["waiting_s"].is_null();
        if is_met {
            assert_eq!(how("waiting_s"), "estimated", "{site}");
            let [time_s, waiting_s] = ["time_s", "waiting_s"].map(|figure| site[figure].as_f64().unwrap());
            let error = site["source"]["waiting_s"]["error"].as_f64().unwrap_or(0.0);
            let most = waiting_s * (1.0 + error);
            assert!(
                most > 0.5 * time_s && waiting_s <= time_s,
                "{library}: waits {waiting_s} s ± {error} of {time_s} s"
            );
        } else {
            assert!(site["source"]["waiting_s"]["reason"].as_str().unwrap().contains("seen to call there"), "{site}");
        }
        match site["calls"].as_u64() {
            Some(calls) => {
                assert!(calls > 0, "0 is no estimate: {site}");
                assert_eq!((how("calls"), how("bytes")), ("estimated", "estimated"));
                let each = site["bytes"].as_f64().unwrap() / calls as f64;
                assert!((each - 8.0).abs() < 0.1, "{each} bytes a call");
                assert_eq!(site["members"], 2);
            }
            None => assert!(site["source"]["calls"]["reason"].as_str().unwrap().contains("window"), "{site}"),
        }
        for counted_alone in ["network_sent", "network_received", "needed", "received"] {
            assert_eq!(site[counted_alone], Value::Null, "{counted_alone}");
        }
        assert_eq!(mpi["network"], Value::Null);
        let class = if is_met { "waiting-for-ranks" } else { "unknown" };
        assert_eq!(cli::function(&profile, "late_allreduce")["class"], class, "{library}");
    }
}

#[test]
fn ranks_of_a_part_are_known_and_who_is_its_root() {
    let Some(program) = program("openmpi", "seven") else { return };
    let sandbox = Sandbox::new();
    // Blocks of 32 × 32 doubles; rows and columns of 2 × 2 ranks are communicators, in which no rank is asked for.
    let script =
        format!("\"${{launch[@]}}\" $rprof --passes counted --memory off --quiet -- {} summa 64 1", program.display());
    let output = launched(&sandbox, "openmpi", 4, &script);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let sites = profile["mpi"]["sites"].as_array().unwrap();
    for caller in ["summa_share_a", "summa_share_b"] {
        let site = sites.iter().find(|site| site["caller"] == caller).unwrap();
        let calls = site["calls"].as_u64().unwrap();
        assert!(calls >= 8, "{site}");
        assert_eq!(
            (site["members"].as_u64(), site["bytes"].as_u64()),
            (Some(2), Some(calls / 2 * 32 * 32 * 8)),
            "{site}"
        );
        assert!(site["waiting_s"].is_f64(), "{site}");
        assert_eq!(site["needed"].as_f64(), Some(0.0), "all ranks are on one host: {site}");
    }
    let network = &profile["mpi"]["network"];
    assert_eq!((network["sent"].as_u64(), network["received"].as_u64()), (Some(0), Some(0)), "{network}");
    assert_eq!(network["missing"], Value::Null);
}
