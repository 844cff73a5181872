//! Ranks of real launchers: output and status as without rprof, calls and bytes by call site, folders of jobs, merged profiles.

#[path = "common/cli.rs"]
mod cli;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cli::{Sandbox, status, stderr, stdout};
use serde_json::Value;

/// No launcher may run longer.
const LIMIT_S: &str = "120";
const LIBRARIES: [&str; 2] = ["openmpi", "mpich"];
/// Functions that move no data and do not wait: their calls are not recorded.
const NOT_SEEN: [&str; 11] = [
    "MPI_Type_commit",
    "MPI_Get_address",
    "MPI_Get_count",
    "MPI_Request_free",
    "MPI_Buffer_attach",
    "MPI_Buffer_detach",
    "MPI_Cart_shift",
    "MPI_Psend_init",
    "MPI_Precv_init",
    "MPI_Pready",
    "MPI_Parrived",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mpi")
}

/// The folder with the fixtures built with `library`; `None`: it is not installed.
fn built(library: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<BTreeMap<&str, PathBuf>> = OnceLock::new();
    let all = BUILT.get_or_init(|| {
        let make = |library: &'static str| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{library}"));
            let output = Command::new(fixtures().join("make")).arg(library).arg(&folder).output().unwrap();
            output.status.success().then_some((library, folder))
        };
        LIBRARIES.into_iter().filter_map(make).collect()
    });
    if !all.contains_key(library) {
        println!("SKIPPED: packages: {library} is not installed");
    }
    all.get(library).cloned()
}

/// The program `name` of `library`; `None`: it could not be built.
fn program(library: &str, name: &str) -> Option<PathBuf> {
    let program = built(library)?.join(name);
    if !program.exists() {
        println!("SKIPPED: packages: {name} cannot be built with {library}");
        return None;
    }
    Some(program)
}

/// The first library that is installed, and its program `name`.
fn first_with(name: &str) -> Option<(&'static str, PathBuf)> {
    let library = LIBRARIES.into_iter().find(|library| built(library).is_some())?;
    Some((library, program(library, name)?))
}

/// Whether all combinations are tried; else each library with some of the programs: counting a library's start takes seconds.
fn is_full() -> bool {
    std::env::var_os("RPROF_FULL").is_some()
}

/// Held while ranks of MPICH run, which spin while they wait: those of two jobs would take each other's CPUs.
fn alone_if_it_spins(library: &str) -> Option<MutexGuard<'static, ()>> {
    static SPINS: Mutex<()> = Mutex::new(());
    (library == "mpich").then(|| SPINS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A shell command in `sandbox` with `$launch` for `ranks` ranks, and `$rprof`; under a time limit.
fn launched(sandbox: &Sandbox, library: &str, ranks: u32, script: &str) -> Output {
    let fixtures = fixtures();
    let rprof = env!("CARGO_BIN_EXE_rprof");
    let script = format!(
        "library={library}; . {}/launchers.sh; rprof={rprof}; launch=(\"${{launch[@]}}\" -np {ranks}); {script}",
        fixtures.display()
    );
    let script = sandbox.file("launch.sh", script, 0o755);
    let _alone = alone_if_it_spins(library);
    sandbox.shell(&format!("timeout {LIMIT_S} bash {}", script.display())).output().unwrap()
}

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
                (Some(_), None) => unknown += 1,
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
            // Neighbours, and messages in parts.
            assert!(unknown <= 4, "{library} {name}: {unknown} figures of bytes are not known");
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
    assert!(sandbox.profile("rprof.out")["functions"].as_array().is_some_and(|f| !f.is_empty()));
}

#[test]
fn rprof_before_a_launcher_merges_its_ranks() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for library in LIBRARIES {
        let Some(program) = program(library, "late") else { continue };
        let sandbox = Sandbox::new();
        // Long enough that waiting is most of the calls' time while other work takes the CPUs, too.
        let script = format!("$rprof --memory off -- \"${{launch[@]}}\" {} sender 10 40", program.display());
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
        let early = cli::function(&profile, "early_receive");
        assert_eq!(early["class"], "waiting-for-ranks", "{library}: {}", profile["mpi"]["functions"]);
        assert_eq!(early["savings"][0]["remove"][0], "waiting-for-ranks");
        let network = &profile["network"]["pairs"];
        assert!(network[0]["latency_s"].as_f64().is_some_and(|s| s > 0.0), "{}", profile["run"]["warnings"]);
        let functions = profile["functions"].as_array().unwrap();
        let of_launcher = functions.iter().any(|f| f["module"].as_str().unwrap().contains("mpirun"));
        assert!(!of_launcher, "functions of the launcher are in the profile");
    }
}

#[test]
fn a_launcher_without_a_program_explains_itself() {
    for library in LIBRARIES {
        if built(library).is_none() {
            continue;
        }
        let sandbox = Sandbox::new();
        let native = launched(&sandbox, library, 2, "\"${launch[@]}\" ./nothing");
        let profiled = launched(&sandbox, library, 2, "$rprof -- \"${launch[@]}\" ./nothing");
        assert_ne!(status(&native), 0);
        assert_eq!(status(&profiled), status(&native), "{library}: {}", stderr(&profiled));
        let told = stderr(&profiled);
        let ours: Vec<&str> = told.lines().filter(|line| line.starts_with("rprof: ")).collect();
        assert_eq!(ours.len(), 1, "{told}");
        assert!(ours[0].contains("nothing was profiled"), "{told}");
        assert!(told.contains("nothing\n") || told.contains("./nothing"), "{library} says nothing: {told}");
        assert!(!sandbox.path().join("rprof.out").exists());
    }
}

#[test]
fn ranks_of_a_part_are_known_and_who_is_its_root() {
    let Some(program) = program("openmpi", "seven") else { return };
    let sandbox = Sandbox::new();
    // Blocks of 32 × 32 doubles; rows and columns of 2 × 2 ranks are communicators, in which nobody asks for a rank.
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

#[test]
fn a_timed_and_a_counted_launch_complete_one_another_and_another_job_is_set_aside() {
    let Some((library, program)) = first_with("ends") else { return };
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
        let both = format!("\"${{launch[@]}}\" $rprof --passes both -- {} well", program.display());
        let output = launched(&sandbox, library, 2, &both);
        assert_ne!(status(&output), 0);
        assert!(stderr(&output).contains("can start its program only once"), "{}", stderr(&output));
        let once = format!("\"${{launch[@]}}\" $rprof --quiet -- {} well", program.display());
        let output = launched(&sandbox, library, 2, &once);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "{library} prints");
        assert_eq!(sandbox.profile("rprof.out")["run"]["ranks"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn ends_of_ranks_are_as_without_rprof() {
    for library in LIBRARIES {
        let Some(program) = program(library, "ends") else { continue };
        for mode in ["exit", "segv", "abort", "never"] {
            if !is_full() && library == "mpich" && mode != "exit" {
                continue;
            }
            let sandbox = Sandbox::new();
            let native = launched(&sandbox, library, 2, &format!("\"${{launch[@]}}\" {} {mode}", program.display()));
            let run = format!(
                "\"${{launch[@]}}\" $rprof --passes counted --memory off --quiet -- {} {mode}",
                program.display()
            );
            let profiled = launched(&sandbox, library, 2, &run);
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
        }
    }
}

/// Hosts as network namespaces, until it is dropped.
struct Hosts(PathBuf);

impl Hosts {
    /// `None`: there cannot be any here.
    fn up(count: u32) -> Option<Hosts> {
        let output = Command::new(fixtures().join("hosts")).arg("up").arg(count.to_string()).output().unwrap();
        if !output.status.success() {
            println!("SKIPPED: root: no hosts as namespaces: {}", stderr(&output).trim());
            return None;
        }
        Some(Hosts(stdout(&output).trim().into()))
    }

    /// Runs `command` with so many ranks; a first run on a host measures its ceilings.
    fn run(&self, sandbox: &Sandbox, library: &str, ranks: u32, command: &[&str]) -> Output {
        let mut hosts = Command::new(fixtures().join("hosts"));
        hosts.arg("run").arg(&self.0).args([library, &ranks.to_string()]).args(command);
        // MPICH 4.0.2 sometimes hangs in MPI_Finalize between hosts (fixtures/mpi/README.md).
        let limit_s = if library == "mpich" { "60" } else { "100" };
        hosts.current_dir(sandbox.path()).env("MPI_HOSTS_TIMEOUT", limit_s);
        hosts.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        let _alone = alone_if_it_spins(library);
        hosts.stdin(std::process::Stdio::null()).output().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = Command::new(fixtures().join("hosts")).arg("down").arg(&self.0).output();
    }
}

/// `rank R acked A received B`, by rank.
fn kernel_counts(output: &str) -> BTreeMap<u64, [f64; 2]> {
    let lines = output.lines().filter(|line| line.starts_with("rank "));
    let numbers = lines.map(|line| {
        let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        (words[0] as u64, [words[1], words[2]])
    });
    numbers.collect()
}

#[test]
fn bytes_between_hosts_are_those_of_the_kernel() {
    for library in LIBRARIES {
        let Some(program) = program(library, "crossing") else { continue };
        let Some(hosts) = Hosts::up(2) else { return };
        for (what, ranks, within) in
            [("bcast 10 800000", 4, 0.01), ("messages 50 65536", 2, 0.01), ("messages 1000 8", 2, 0.05)]
        {
            if !is_full() && (library == "mpich") != (what == "messages 50 65536") {
                continue;
            }
            let sandbox = Sandbox::new();
            let folder = sandbox.path().join("rprof.out");
            let paths = [folder.to_str().unwrap(), program.to_str().unwrap()];
            let options = ["--passes", "counted", "--memory", "off", "--quiet", "-o", paths[0], "--", paths[1]];
            let command: Vec<&str> =
                [env!("CARGO_BIN_EXE_rprof")].into_iter().chain(options).chain(what.split(' ')).collect();
            // It may hang.
            let run = || hosts.run(&sandbox, library, ranks, &command);
            let output = (0..3).map(|_| run()).find(|output| output.status.success()).unwrap_or_else(run);
            let counts = kernel_counts(&stdout(&output));
            assert_eq!(counts.len(), ranks as usize, "{library} {what}: {}", stderr(&output));
            for (rank, [acked, received]) in counts {
                let network = &sandbox.profile(&format!("rprof.out/rank-{rank}"))["mpi"]["network"];
                for (key, kernel) in [("sent", acked), ("received", received)] {
                    let seen = network[key].as_f64().unwrap_or_else(|| panic!("{library} {what}: {network}"));
                    // What follows the program's look: a barrier, and the library's end.
                    let room = within * kernel + 300.0;
                    assert!(
                        (seen - kernel).abs() <= room,
                        "{library} {what}: rank {rank} {key} {seen}, kernel {kernel}"
                    );
                }
            }
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
}

#[test]
fn a_stand_in_for_srun_is_a_launcher_like_others() {
    let Some((library, program)) = first_with("names") else { return };
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

/// Held while a test measures the network: ranks of two tests would disturb each other.
static MEASURES: Mutex<()> = Mutex::new(());

/// The ceilings that `rprof machine --mpi --json` printed.
fn network(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)))
}

/// Points of the curve `name` of `of`.
fn points<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of[name].as_array().unwrap()
}

#[test]
fn the_network_between_ranks_of_one_host_is_measured_and_kept() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
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
    if let Some((library, _)) = first_with("names") {
        let output = launched(&sandbox, library, 1, "\"${launch[@]}\" $rprof machine --mpi");
        assert!(stderr(&output).contains("a job of one rank has no network"), "{}", stderr(&output));
    }
}

/// Hosts that send at most `rate` with bursts of `burst`, while `body` runs with their folder. `None`: there can be none here.
fn on_hosts<T>(rate: &str, burst: &str, body: impl FnOnce(&str) -> T) -> Option<T> {
    let hosts = |arguments: &[&str]| Command::new(fixtures().join("hosts")).args(arguments).output().unwrap();
    let up = hosts(&["up", "2", rate, burst]);
    if !up.status.success() {
        println!("SKIPPED: root: no hosts as network namespaces: {}", stderr(&up).trim());
        return None;
    }
    let folder = stdout(&up).trim().to_owned();
    let result = body(&folder);
    hosts(&["down", &folder]);
    Some(result)
}

#[test]
fn a_limited_network_has_its_sustained_rate_whatever_the_burst() {
    let Some((library, _)) = first_with("names") else { return };
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for burst in ["64k", "256k"] {
        let sandbox = Sandbox::new();
        sandbox.file(
            "wanted.json",
            r#"{"collectives": [{"call": "MPI_Bcast", "members": 2, "bytes": [1048576]}]}"#,
            0o644,
        );
        let run = |folder: &str| {
            let script = format!(
                "timeout {LIMIT_S} {}/hosts run {folder} {library} 2 $RPROF machine --mpi --json --refresh --wanted $PWD/wanted.json",
                fixtures().display()
            );
            sandbox.shell(&script).output().unwrap()
        };
        let Some(output) = on_hosts("800mbit", burst, run) else { return };
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let network = network(&output);
        assert_eq!(network["hosts"].as_array().unwrap().len(), 2, "{}", network["hosts"]);
        let pair = &network["pairs"][0];
        assert_eq!(pair["distance"], "other-host");
        let rate = pair["bytes_per_s"].as_f64().unwrap() / 1e6;
        assert!((rate - 97.0).abs() < 8.0, "burst {burst}: {rate} MB/s of 100 on the wire");
    }
}
