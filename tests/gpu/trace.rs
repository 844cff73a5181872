//! A CUDA program under rprof, with stand-ins for the driver and for CUPTI (fixtures/gpu/): what the profile says, what is refused, and
//! that the program never notices.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

use crate::shared::filled_once;
use crate::stray;

/// Threads of a launch of `scale` and of `tensor_product` (fixtures/gpu/app.c).
const SCALE: f64 = 512.0 * 256.0;
const TENSOR: f64 = 132.0 * 128.0;

fn compile(arguments: &[&str], output: &Path) {
    let built = Command::new("cc").args(arguments).arg("-o").arg(output).status();
    assert!(built.expect("cc is needed: tests/run installs it").success(), "{arguments:?}");
}

/// A folder with `app`, the driver and CUPTI, and two below it: `without`, in which CUPTI is missing, and `old`, with one that cannot count.
fn folder() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| filled_once("gpu-programs", build))
}

fn build(folder: &Path) {
    let source = |name: &str| format!("{}/fixtures/gpu/{name}", env!("CARGO_MANIFEST_DIR"));
    let at = |name: &str| folder.join(name);
    compile(
        &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", &source("libcuda_traced.c"), "-ldl"],
        &at("libcuda.so.1"),
    );
    compile(&["-shared", "-fPIC", "-pthread", &source("libcupti.c")], &at("libcupti.so.13"));
    let driver = at("libcuda.so.1").display().to_string();
    compile(&["-pthread", &source("app.c"), &driver], &at("app"));
    for other in ["without", "old"] {
        fs::create_dir(at(other)).unwrap();
        fs::copy(&driver, at(other).join("libcuda.so.1")).unwrap();
    }
    compile(&["-shared", "-fPIC", "-pthread", "-DOLD", &source("libcupti.c")], &at("old/libcupti.so.13"));
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
    assert!(counts["l2_received"].is_null(), "only on demand: {counts}");
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
fn what_multiprocessors_receive_from_l2_is_counted_on_demand() {
    for passes in ["timed", "both"] {
        let ran = run(&["--passes", passes, "--gpu-counts", "l2"], folder(), "", &["60"]);
        for (symbol, threads) in [("_Z5scalePdi", SCALE), ("tensor_product", TENSOR)] {
            let counts = &ran.kernel(symbol)["counts"];
            let bytes = |what: &str| counts[what].as_f64();
            assert_eq!(bytes("l2_received"), Some(60.0 * 32.0 * threads), "{symbol}, {passes}: {counts}");
            // The usual figures stay.
            assert_eq!((bytes("l2"), bytes("fp64")), (Some(60.0 * 16.0 * threads), Some(60.0 * 2.0 * threads)));
        }
        assert_eq!(ran.codes(), [""; 0]);
    }
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
fn launches_in_graphs_have_times_and_the_graph_is_counted_as_a_whole() {
    let ran = run(BOTH, folder(), "", &["20", "capture"]);
    let scale = ran.kernel("_Z5scalePdi");
    assert_eq!((scale["launches"].as_u64(), scale["graph_launches"].as_u64()), (Some(29), Some(9)));
    assert_eq!(scale["counts"]["launches"].as_u64(), Some(20), "the graph's shape was not counted: {scale}");
    assert_eq!(ran.codes(), [""; 0]);
    let graphs = ran.profile["devices"]["graphs"].as_array().unwrap();
    assert_eq!((graphs.len(), graphs[0]["launches"].as_u64()), (1, Some(3)));
    // Three launches of three kernels of 64 × 256 threads.
    let threads = 9.0 * 64.0 * 256.0;
    let counts = &graphs[0]["counts"];
    assert_eq!((counts["fp64"].as_f64(), counts["dram_read"].as_f64()), (Some(2.0 * threads), Some(16.0 * threads)));
    assert_eq!(counts["tensor"].as_array().unwrap().len(), 0);
    let text = String::from_utf8_lossy(&ran.output.stderr).into_owned();
    assert!(text.contains("CUDA graphs, counted as a whole"), "{text}");
    let refused = run(BOTH, folder(), "refuse=push:7", &["20", "capture"]);
    assert!(refused.profile["devices"]["graphs"].is_null(), "not measured is not 0");
    assert_eq!(refused.kernel("_Z5scalePdi")["counts"]["fp64"].as_f64(), Some(20.0 * 2.0 * SCALE));
    assert_eq!(refused.codes(), ["gpu-graphs-uncounted"]);
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
        ("refuse=context:43", "MIG slice"),
        ("refuse=context:26", "hardware busy"),
        ("vgpu", "the virtual GPU does not let its guests count"),
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
fn a_cupti_from_before_the_range_profiler_traces_and_says_that_it_cannot_count() {
    let ran = run(BOTH, &folder().join("old"), "", &["3"]);
    assert_eq!(ran.kernel("_Z5scalePdi")["launches"].as_u64(), Some(3));
    assert!(ran.kernel("_Z5scalePdi")["counts"].is_null());
    assert!(ran.reason().contains("this version of CUPTI lacks a function"), "{}", ran.reason());
    assert!(ran.profile["devices"]["uncounted"]["fix"].as_str().unwrap().contains("12.6"));
}

#[test]
fn counting_never_breaks_a_capture_nor_needs_a_current_context() {
    // A session that begins or ends meanwhile would break the capture, and the program with it.
    let elsewhere = run(BOTH, folder(), "", &["20", "elsewhere"]);
    let scale = elsewhere.kernel("_Z5scalePdi");
    let counts = &scale["counts"];
    assert_eq!(
        counts["launches"].as_u64(),
        Some(20 + 1),
        "not those beside the capture, but the one after it: {scale}"
    );
    assert_eq!(counts["fp64"].as_f64(), Some(2.0 * (20.0 * SCALE + 66.0 * 256.0)));
    assert_eq!(elsewhere.codes(), [""; 0]);
    // A session is open when the program ends.
    let detached = run(BOTH, folder(), "", &["2", "detach"]);
    assert_eq!(detached.kernel("_Z5scalePdi")["counts"]["fp64"].as_f64(), Some(2.0 * 2.0 * SCALE));
    assert_eq!(detached.codes(), [""; 0]);
}

#[test]
fn each_gpu_has_its_own_kernels_and_those_of_the_second_context_are_not_counted() {
    let ran = run(BOTH, folder(), "", &["20", "two"]);
    let devices = ran.profile["devices"]["devices"].as_array().unwrap();
    assert_eq!(devices.iter().map(|d| d["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
    let kernels = ran.profile["devices"]["kernels"].as_array().unwrap();
    let of = |device: u64| kernels.iter().find(|k| k["device"] == device && k["symbol"] == "_Z5scalePdi").unwrap();
    assert_eq!((of(0)["launches"].as_u64(), of(1)["launches"].as_u64()), (Some(20), Some(4)));
    assert_eq!(of(0)["counts"]["fp64"].as_f64(), Some(20.0 * 2.0 * SCALE));
    assert!(of(1)["counts"].is_null(), "{}", of(1));
    assert_eq!(ran.codes(), ["gpu-contexts-uncounted"]);
    let text = String::from_utf8_lossy(&ran.output.stderr).into_owned();
    assert!(text.contains("GPU 1") && text.contains("1: scale"), "{text}");
}

#[test]
fn a_name_of_4000_characters_is_kept_whole_and_shown_short() {
    let ran = run(BOTH, folder(), "", &["3", "longname"]);
    let long = format!("_Z3993{}v", "k".repeat(3993));
    assert_eq!(long.len(), 4000);
    assert_eq!(ran.kernel(&long)["launches"].as_u64(), Some(1));
    assert!(!ran.kernel(&long)["counts"].is_null());
    let text = String::from_utf8_lossy(&ran.output.stderr).into_owned();
    assert!(!text.contains(&"k".repeat(200)), "{text}");
}

#[test]
fn a_program_that_never_waits_keeps_its_end_and_launches_without_times_are_named() {
    let ran = run(&["--gpu-counts", "off"], folder(), "", &["20", "nosync"]);
    assert_eq!((ran.kernel("_Z5scalePdi")["launches"].as_u64(), ran.codes()), (Some(20), vec![]));
    let ran = run(&["--gpu-counts", "off"], folder(), "unfinished", &["20", "nosync"]);
    assert_eq!(ran.codes(), ["gpu-untimed"]);
    let said = ran.profile["devices"]["warnings"][0].to_string();
    assert!(said.contains("40 launches have no times"), "{said}");
    assert_eq!(ran.profile["devices"]["kernels"].as_array().unwrap().len(), 0);
}

#[test]
fn a_program_that_is_killed_or_loses_its_gpu_ends_as_it_would_alone() {
    let killed = run(&["--gpu-counts", "off"], folder(), "", &["1000000", "kill"]);
    assert_eq!(killed.output.status.code(), Some(128 + 9));
    assert!(killed.codes().contains(&"gpu-cut-log"), "{:?}", killed.codes());
    let lost = run(BOTH, folder(), "", &["20", "lost"]);
    assert_eq!(lost.output.status.code(), Some(3));
    assert_eq!(lost.kernel("_Z5scalePdi")["launches"].as_u64(), Some(11), "launches before it");
}

#[test]
fn a_profiler_of_cuda_programs_is_left_alone_and_that_is_said() {
    let own = tempfile::tempdir().unwrap();
    fs::copy(folder().join("app"), own.path().join("nsys")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rprof"));
    command.args(["--quiet", "--passes", "timed", "-o"]).arg(own.path().join("out")).arg("--");
    command.arg(own.path().join("nsys")).arg("3").env("LD_LIBRARY_PATH", folder());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("nsys puts a library of its own into CUDA programs"), "{errors}");
}

#[test]
fn without_leave_for_counters_times_stand_and_the_fix_is_named() {
    let own = tempfile::tempdir().unwrap();
    fs::write(own.path().join("params"), "RmProfilingAdminOnly: 1\n").unwrap();
    let rprof = |arguments: &[&str]| {
        // Without the capabilities that would permit it all the same.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_admin,-perfmon", "--inh-caps", "-all", env!("CARGO_BIN_EXE_rprof")]);
        command.args(arguments).env("LD_LIBRARY_PATH", folder()).env("RPROF_NVIDIA_PARAMS", own.path().join("params"));
        command.output().expect("setpriv of util-linux")
    };
    let (out, app) = (own.path().join("out"), folder().join("app"));
    let (out, app) = (out.to_str().unwrap(), app.to_str().unwrap());
    let output =
        rprof(&["--quiet", "--memory", "off", "--passes", "timed", "--gpu-counts", "on", "-o", out, "--", app, "3"]);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let profile: Value = serde_json::from_slice(&fs::read(Path::new(out).join("profile.json")).unwrap()).unwrap();
    let devices = &profile["devices"];
    assert!(devices["kernels"].as_array().unwrap().iter().all(|k| k["counts"].is_null() && k["launches"] == 3));
    let fix = devices["uncounted"]["fix"].as_str().unwrap();
    for words in ["NVreg_RestrictProfilingToAdminUsers=0", "CAP_PERFMON", "--cap-add"] {
        assert!(fix.contains(words), "{fix}");
    }
    let doctor = String::from_utf8_lossy(&rprof(&["doctor"]).stdout).into_owned();
    for words in ["NVIDIA H200 (9.0), driver for CUDA 13.0", "libcupti.so.13", "NVreg_RestrictProfilingToAdminUsers=0"]
    {
        assert!(doctor.contains(words), "{doctor}");
    }
}

#[test]
fn the_demo_runs_every_known_kernel_and_says_which_class_it_was_built_for() {
    let own = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", env!("CARGO_BIN_EXE_rprof"), "demo", "--gpu", "--quiet", "-o"]);
    command.arg(own.path().join("out")).env("LD_LIBRARY_PATH", folder()).env("TMPDIR", own.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile: Value = serde_json::from_slice(&fs::read(own.path().join("out/profile.json")).unwrap()).unwrap();
    let kernels = profile["devices"]["kernels"].as_array().unwrap();
    let known: Vec<&Value> = kernels.iter().filter(|k| k["symbol"].as_str().unwrap().starts_with("y_")).collect();
    assert_eq!(known.len(), 23);
    assert!(known.iter().all(|k| k["launches"] == 2 && !k["counts"].is_null()));
    let expected = kernels.iter().filter(|k| k["analysis"]["expected"].is_string()).count();
    assert!(expected >= 22, "{expected}");
    // One thread's chase is held by its latency here, too: nothing is counted that would explain its time.
    let errors = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(errors.contains(" ✓") || errors.contains(" ✗"), "{errors}");
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
