//! A CUDA program under rprof, with stand-ins for the driver and for CUPTI (fixtures/gpu/): what the profile says, what is refused, and
//! that the program never notices.

#[path = "common/stray.rs"]
mod stray;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

/// Threads of a launch of `scale` and of `tensor_product` (fixtures/gpu/app.c).
const SCALE: f64 = 512.0 * 256.0;
const TENSOR: f64 = 132.0 * 128.0;

fn compile(arguments: &[&str], output: &Path) {
    let built = Command::new("cc").args(arguments).arg("-o").arg(output).status();
    assert!(built.expect("cc is needed: tests/run installs it").success(), "{arguments:?}");
}

/// A folder with `app`, the driver and CUPTI, and one below it, `without`, in which CUPTI is missing.
fn folder() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = |name: &str| format!("{}/fixtures/gpu/{name}", env!("CARGO_MANIFEST_DIR"));
        let at = |name: &str| folder.path().join(name);
        compile(
            &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", &source("libcuda_traced.c"), "-ldl"],
            &at("libcuda.so.1"),
        );
        compile(&["-shared", "-fPIC", "-pthread", &source("libcupti.c")], &at("libcupti.so.13"));
        let driver = at("libcuda.so.1").display().to_string();
        compile(&["-pthread", &source("app.c"), &driver], &at("app"));
        fs::create_dir(at("without")).unwrap();
        fs::copy(&driver, at("without/libcuda.so.1")).unwrap();
        folder
    });
    folder.path()
}

/// What came of a run.
struct Ran {
    output: Output,
    profile: Value,
    out: PathBuf,
}

impl Ran {
    fn kernel(&self, symbol: &str) -> &Value {
        let kernels = self.profile["devices"]["kernels"].as_array().expect("kernels");
        kernels.iter().find(|kernel| kernel["symbol"] == symbol).unwrap_or_else(|| panic!("no {symbol}: {kernels:?}"))
    }

    fn codes(&self) -> Vec<&str> {
        let warnings = self.profile["devices"]["warnings"].as_array().into_iter().flatten();
        warnings.map(|warning| warning["code"].as_str().unwrap()).collect()
    }

    fn reason(&self) -> &str {
        self.profile["devices"]["uncounted"]["reason"].as_str().unwrap_or("")
    }
}

/// The kernels' work is counted beside a counted pass.
const BOTH: &[&str] = &["--passes", "both"];

/// Runs the app under rprof. Its output and status are those of a run without, and nothing of rprof's stays.
fn run(options: &[&str], libraries: &Path, cupti: &str, arguments: &[&str]) -> Ran {
    let own = tempfile::tempdir().unwrap().keep();
    let (out, mark) = (own.join("out"), stray::mark());
    let app = folder().join("app");
    let native =
        Command::new(&app).args(arguments).env("LD_LIBRARY_PATH", libraries).current_dir(&own).output().unwrap();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", env!("CARGO_BIN_EXE_rprof"), "--quiet", "--memory", "off", "-o"]).arg(&out);
    command.args(options).arg("--").arg(&app).args(arguments);
    command.env("LD_LIBRARY_PATH", libraries).env("FAKE_CUPTI", cupti).env(stray::VARIABLE, &mark);
    command.env("TMPDIR", &own).current_dir(&own);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected = native.status.code().unwrap_or_else(|| 128 + native.status.signal().unwrap());
    assert_eq!(output.status.code(), Some(expected), "{cupti} {arguments:?}: {errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
    assert!(!errors.contains("panicked"), "{errors}");
    assert_eq!(stray::strays(&mark), Vec::<String>::new());
    let left: Vec<_> = fs::read_dir(&own).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| name == "out" || name == "user-data.txt"), "{left:?}");
    let profile = serde_json::from_slice(&fs::read(out.join("profile.json")).unwrap()).unwrap();
    Ran { output, profile, out: own }
}

impl Drop for Ran {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.out);
    }
}

#[test]
fn kernels_copies_and_counts_of_a_program() {
    let ran = run(BOTH, folder(), "", &["20"]);
    let scale = ran.kernel("_Z5scalePdi");
    assert_eq!((scale["name"].as_str(), scale["launches"].as_u64()), (Some("scale(double*, int)"), Some(20)));
    assert_eq!(scale["shapes"][0]["grid"], serde_json::json!([512, 1, 1]));
    assert!((scale["seconds"].as_f64().unwrap() - 20.0 * 5e-6).abs() < 1e-12);
    let counts = &scale["counts"];
    let is = |what: &str, expected: f64| assert_eq!(counts[what].as_f64(), Some(expected), "{what}: {counts}");
    // A thread of the stand-in executes one DFMA, two FADD and 16 bytes of each level.
    is("fp64", 20.0 * 2.0 * SCALE);
    is("fp32", 20.0 * 2.0 * SCALE);
    is("dram_read", 20.0 * 16.0 * SCALE);
    is("l2", 20.0 * 16.0 * SCALE);
    assert_eq!(counts["tensor"].as_array().unwrap().len(), 0);
    let tensor = &ran.kernel("tensor_product")["counts"]["tensor"];
    assert_eq!(
        (tensor[0]["operand"].as_str(), tensor[0]["operations"].as_f64()),
        (Some("bf16"), Some(20.0 * 1024.0 * TENSOR))
    );
    let copies = ran.profile["devices"]["copies"].as_array().unwrap();
    assert_eq!(copies.iter().map(|c| c["bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [1 << 20, 1 << 20]);
    assert_eq!(ran.profile["devices"]["waits"][0]["on"], "context");
    assert_eq!(ran.codes(), [""; 0]);
    let text = String::from_utf8_lossy(&ran.output.stderr).into_owned();
    assert!(text.contains("scale(double*, int)") && text.contains("pageable"), "{text}");
    assert_eq!(ran.profile["machine"]["gpus"][0]["name"], "NVIDIA H200");
}

#[test]
fn counts_of_several_threads_are_those_of_their_own_launches() {
    let ran = run(BOTH, folder(), "", &["80", "threads"]);
    let scale = ran.kernel("_Z5scalePdi");
    // Four threads with 100 n blocks of 32 n threads each, and the 80 launches of the main thread.
    let threads: f64 = (1..=4).map(|n| f64::from(100 * n * 32 * n)).sum::<f64>() * 80.0 + 80.0 * SCALE;
    assert_eq!(scale["launches"].as_u64(), Some(5 * 80));
    assert_eq!(scale["counts"]["launches"].as_u64(), Some(5 * 80), "all shapes were counted: {scale}");
    assert_eq!(scale["counts"]["fp64"].as_f64(), Some(2.0 * threads));
    assert_eq!(ran.codes(), [""; 0]);
}

#[test]
fn a_launch_that_fails_costs_no_counts() {
    let ran = run(BOTH, folder(), "", &["40", "badlaunch"]);
    assert_eq!(ran.kernel("_Z5scalePdi")["counts"]["fp64"].as_f64(), Some(40.0 * 2.0 * SCALE));
    assert_eq!(ran.codes(), [""; 0]);
}

#[test]
fn a_program_that_closes_our_descriptors_gets_nothing_of_ours_in_its_files() {
    let ran = run(&["--gpu-counts", "off"], folder(), "", &["20", "closeall"]);
    assert_eq!(fs::read_to_string(ran.out.join("user-data.txt")).unwrap(), "hello\n");
    assert_eq!(ran.kernel("_Z5scalePdi")["launches"].as_u64(), Some(20));
    assert_eq!(ran.codes(), [""; 0]);
}

#[test]
fn launches_in_graphs_have_times_but_no_counts_and_that_is_said() {
    let ran = run(BOTH, folder(), "", &["20", "capture"]);
    let scale = ran.kernel("_Z5scalePdi");
    assert_eq!((scale["launches"].as_u64(), scale["graph_launches"].as_u64()), (Some(23), Some(3)));
    assert_eq!(scale["counts"]["launches"].as_u64(), Some(20), "the graph's shape was not counted: {scale}");
    assert_eq!(ran.codes(), ["gpu-graphs-uncounted"]);
}

#[test]
fn each_refusal_is_named_with_its_fix_and_costs_the_program_nothing() {
    for (cupti, code) in [
        ("refuse=enable:14", "gpu-refused"),
        ("refuse=register:999", "gpu-refused"),
        ("other-client", "gpu-other-client"),
        ("lost=5", "gpu-lost-records"),
        ("clock=10000000000", "gpu-clock"),
    ] {
        let ran = run(&["--gpu-counts", "off"], folder(), cupti, &["3"]);
        assert!(ran.codes().contains(&code), "{cupti}: {:?}", ran.codes());
    }
    for (cupti, reason) in [
        ("refuse=subscribe:39", "another profiler has subscribed"),
        ("refuse=initialize:35", "insufficient privileges"),
        ("refuse=chip:2", "invalid device"),
        ("refuse=add:1", "invalid parameter"),
        ("refuse=config:1", "invalid parameter"),
        ("refuse=start:8", "out of memory"),
        ("refuse=stop:999", "unknown error"),
        ("refuse=decode:999", "unknown error"),
        ("refuse=evaluate:999", "unknown error"),
        ("equal", "contradict"),
        ("drop", "fewer ranges"),
    ] {
        let ran = run(BOTH, folder(), cupti, &["3"]);
        assert!(ran.reason().contains(reason), "{cupti}: {}", ran.profile["devices"]["uncounted"]);
        assert!(ran.kernel("tensor_product")["counts"].is_null());
        let fix = ran.profile["devices"]["uncounted"]["fix"].as_str().unwrap();
        assert!(fix.len() > 10, "{cupti}: {fix}");
    }
}

#[test]
fn without_cupti_the_program_runs_and_the_report_says_how_to_get_it() {
    let ran = run(BOTH, &folder().join("without"), "", &["3"]);
    assert_eq!(ran.codes(), ["gpu-no-cupti"]);
    assert!(String::from_utf8_lossy(&ran.output.stderr).contains("nvidia-cuda-cupti"));
}

#[test]
fn programs_that_fork_or_end_in_their_own_way_keep_it() {
    let forks = run(&["--gpu-counts", "off"], folder(), "", &["3", "fork"]);
    assert_eq!(forks.kernel("_Z5scalePdi")["launches"].as_u64(), Some(3), "the child's exit handlers write nothing");
    let leaves = run(&["--gpu-counts", "off"], folder(), "", &["3", "exit"]);
    assert!(leaves.codes().contains(&"gpu-cut-log"), "{:?}", leaves.codes());
    let dies = run(&["--gpu-counts", "off"], folder(), "", &["3", "crash"]);
    assert!(dies.codes().contains(&"gpu-cut-log"), "{:?}", dies.codes());
}

#[test]
fn one_run_counts_no_kernels_and_says_how_to() {
    let ran = run(&[], folder(), "", &["20"]);
    if ran.profile["run"]["passes"][1]["kind"] == "windows" {
        assert!(ran.kernel("_Z5scalePdi")["counts"].is_null());
        assert!(ran.reason().contains("in runs of their own"), "{}", ran.reason());
    }
}

#[test]
fn counting_can_be_left_out_and_other_injections_are_respected() {
    let ran = run(&["--gpu-counts", "off"], folder(), "", &["3"]);
    assert!(ran.kernel("_Z5scalePdi")["counts"].is_null());
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rprof"));
    command
        .args(["--quiet", "--passes", "timed", "-o"])
        .arg(out.path().join("out"))
        .arg("--")
        .arg(folder().join("app"))
        .arg("3");
    command.env("LD_LIBRARY_PATH", folder()).env("CUDA_INJECTION64_PATH", "/nonexistent.so");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("CUDA_INJECTION64_PATH"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
