//! Ceilings of GPUs, with a stand-in for the driver: `fixtures/gpu/libcuda.c`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use rprof::machine::gpu::{GpuRequest, load_or_measure};
use rprof::machine::{Effort, Quiet};
use rprof::profile::gpu::Gpu;
use serde_json::Value;

use crate::shared::filled_once;
use crate::stray;

/// The stand-in, built once.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let build = |folder: &Path| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/libcuda.c");
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.join("libcuda.so.1")).arg(source);
            assert!(cc.status().expect("cc is needed: tests/run installs it").success());
        };
        filled_once("gpu-library", build).join("libcuda.so.1")
    })
}

/// A folder with the kept ceilings of the CPU, which is measured once for all tests.
fn cache() -> PathBuf {
    filled_once("gpu-cache", |folder| {
        let mut measure = Command::new(env!("CARGO_BIN_EXE_rprof"));
        let output = measure.args(["machine", "--quick"]).env("XDG_CACHE_HOME", folder).output().expect("rprof runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    })
}

/// `rprof machine --quick --json` with the stand-in in one of its modes. No process of it stays.
fn machine(mode: &str) -> (Vec<Value>, String) {
    let mark = stray::mark();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", env!("CARGO_BIN_EXE_rprof"), "machine", "--quick", "--json"]);
    command.env("XDG_CACHE_HOME", cache()).env(stray::VARIABLE, &mark);
    command.env("RPROF_LIBCUDA", library()).env("FAKE_CUDA", mode);
    let Output { status, stdout, stderr } = command.output().expect("rprof runs");
    let errors = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{mode}: {errors}");
    assert_eq!(stray::strays(&mark), Vec::<String>::new(), "{mode}");
    let machine: Value = serde_json::from_slice(&stdout).expect("JSON");
    (machine["gpus"].as_array().cloned().unwrap_or_default(), errors)
}

fn measure(effort: Effort, folder: &Path) -> (Vec<Gpu>, Quiet) {
    let mut progress = Quiet::default();
    let request =
        GpuRequest { effort, refresh: false, cache: Some(folder.to_owned()), library: Some(library().to_owned()) };
    let gpus = load_or_measure(&request, &mut progress);
    (gpus, progress)
}

#[test]
fn a_full_measurement_has_every_ceiling_and_serves_later_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gpus, progress) = measure(Effort::Full, folder.path());
    assert_eq!(progress.warnings, []);
    let [gpu] = gpus.as_slice() else { panic!("{} GPUs", gpus.len()) };
    assert_eq!((gpu.name.as_str(), gpu.multiprocessors, gpu.capability), ("NVIDIA H200", 132, (9, 0)));
    assert!(gpu.bus_bytes_per_s.is_some_and(|rate| (4.8e12..4.83e12).contains(&rate)));
    let absent: Vec<&str> = gpu.ceilings.iter().filter(|c| c.value.is_none()).map(|c| &*c.id).collect();
    assert_eq!(absent, Vec::<&str>::new());
    assert!(gpu.ceilings.iter().all(|c| c.id.starts_with("gpu.") && c.device == "gpu0" && c.threads == 0));
    // The published speeds that the stand-in has.
    for (id, value, unit) in [
        ("gpu.fp64.fma", 33.37e12, "flop/s"),
        ("gpu.fp32.fma", 66e12, "flop/s"),
        ("gpu.fp16.add", 65.4e12, "flop/s"),
        ("gpu.fp16.mul", 65.5e12, "flop/s"),
        ("gpu.bf16.add", 64.2e12, "flop/s"),
        ("gpu.bf16.mul", 64.3e12, "flop/s"),
        ("gpu.int32.mad", 33.4e12, "op/s"),
        ("gpu.mma.bf16", 648e12, "flop/s"),
        ("gpu.mma.fp64", 66.05e12, "flop/s"),
        ("gpu.tensor.fp64", 66.05e12, "flop/s"),
        ("gpu.tensor.bf16", 967e12, "flop/s"),
        ("gpu.tensor.bf16.sustained", 0.93 * 967e12, "flop/s"),
        ("gpu.tensor.f16", 960e12, "flop/s"),
        ("gpu.tensor.f16.sustained", 0.93 * 960e12, "flop/s"),
        ("gpu.tensor.int8", 1936e12, "op/s"),
        ("gpu.tensor.int8.sustained", 0.93 * 1936e12, "op/s"),
        ("gpu.dram.read", 4.54e12, "byte/s"),
        ("gpu.dram.triad", 4.12e12, "byte/s"),
        ("gpu.l2.read", 9.1e12, "byte/s"),
        ("gpu.shared.stride32", 1.04e12, "byte/s"),
        ("gpu.lat.l2", 142e-9, "s"),
        ("gpu.lat.dram", 347e-9, "s"),
    ] {
        let found = gpu.ceilings.iter().find(|c| c.id == *id).unwrap_or_else(|| panic!("no {id}"));
        let error = found.value.expect("a value") / value - 1.0;
        assert!(error.abs() < 0.01 && found.unit == unit, "{id}: {:?} {}", found.value, found.unit);
    }
    let clock = |id: &str| gpu.ceilings.iter().find(|c| c.id == *id).and_then(|c| c.clock_hz).expect("a clock");
    assert!((clock("gpu.fp32.fma") / 1.98e9 - 1.0).abs() < 0.01);
    assert!((clock("gpu.tensor.bf16.sustained") / (0.93 * 1.795e9) - 1.0).abs() < 0.01);
    let sweeps: Vec<&str> = gpu.sweeps.iter().map(|sweep| sweep.id.as_str()).collect();
    for id in [
        "gpu.workingset.l2",
        "gpu.l1.region",
        "gpu.flops-per-element.fp64.dram",
        "gpu.ilp.8",
        "gpu.trials.staged",
        "gpu.trials.launches",
        "gpu.link.d2h.pageable",
        "gpu.reuse.zerocopy",
        "gpu.reuse-8m.pinned",
        "gpu.reuse-1m.managed",
        "gpu.tensor-rate.bf16",
    ] {
        assert!(sweeps.contains(&id), "{id} in {sweeps:?}");
    }
    assert!(gpu.sweeps.iter().flat_map(|s| &s.points).all(|(x, y)| *x > 0.0 && *y > 0.0 && y.is_finite()));
    let (again, _) = measure(Effort::Quick, folder.path());
    assert_eq!(again, gpus, "a kept full measurement serves a quick request");
}

#[test]
fn a_quick_measurement_has_what_a_first_report_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gpus, _) = measure(Effort::Quick, folder.path());
    let measured: Vec<&str> = gpus[0].ceilings.iter().filter(|c| c.value.is_some()).map(|c| &*c.id).collect();
    let wanted = [
        "gpu.fp64.fma",
        "gpu.fp32.fma",
        "gpu.tensor.bf16",
        "gpu.dram.read",
        "gpu.dram.copy",
        "gpu.l2.read",
        "gpu.launch",
        "gpu.launch.wait",
        "gpu.link.h2d.pinned",
        "gpu.link.d2h.pinned",
    ];
    assert_eq!(measured, wanted);
}

#[test]
fn refusals_are_one_line_each_and_leave_no_process() {
    for (mode, gpus, text) in [
        ("no-device", 0, "there is no GPU that this process may use (CUDA_ERROR_NO_DEVICE, 100)"),
        ("old-driver", 0, "the CUDA driver is too old: it knows CUDA 11.4, 11.8 is needed"),
        ("oom", 1, "the memory is used up (CUDA_ERROR_OUT_OF_MEMORY, 2)"),
        ("lost", 1, "a kernel failed; the context is lost (CUDA_ERROR_LAUNCH_FAILED, 719)"),
        ("crash", 1, "the driver ended its process by SIGABRT"),
        ("crowded", 1, "measuring takes at most half of the GPU's free memory, and only 100 MiB are free"),
    ] {
        let (found, errors) = machine(mode);
        assert_eq!(found.len(), gpus, "{mode}: {errors}");
        let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("rprof: ")).collect();
        assert!(lines.iter().any(|line| line.contains(text)), "{mode}: {errors}");
        // What is missing says why.
        for gpu in found {
            let ceilings = gpu["ceilings"].as_array().expect("ceilings");
            let gaps = ceilings.iter().filter(|c| c["value"].is_null());
            assert!(gaps.clone().count() > 10 && gaps.clone().all(|c| c["reason"].is_string()), "{mode}");
        }
    }
}

#[test]
fn slices_are_told_and_several_gpus_are_measured_one_after_another() {
    let (found, errors) = machine("mig");
    assert_eq!(found.len(), 1);
    assert!(errors.contains("is a MIG slice"), "{errors}");
    let (found, errors) = machine("two");
    let devices: Vec<&Value> = found.iter().map(|gpu| &gpu["ceilings"][0]["device"]).collect();
    assert_eq!(devices, ["gpu0", "gpu1"], "{errors}");
    assert!(found.iter().all(|gpu| gpu["ceilings"][0]["value"].is_number()));
}

/// `rprof machine --gpu` with the stand-in in one of its modes and nothing kept: its GPU, and its output.
fn measured_anew(mode: &str, effort: &[&str]) -> (Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rprof"));
    command.args(["machine", "--gpu", "--json"]).args(effort);
    command.env("XDG_CACHE_HOME", tempfile::tempdir().expect("a folder").path());
    let output = command.env("RPROF_LIBCUDA", library()).env("FAKE_CUDA", mode).output().expect("rprof runs");
    let machine: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (machine["gpus"][0].clone(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_gpu_that_others_use_is_told_and_half_of_its_free_memory_is_left_to_them() {
    let (gpu, errors) = measured_anew("mps", &["--quick"]);
    assert!(gpu["ceilings"][0]["value"].is_number() && errors.contains("is shared by an MPS server"), "{errors}");
    // This driver gives no more than half of the 600 MiB that are free.
    let (gpu, errors) = measured_anew("small", &[]);
    let ceilings = gpu["ceilings"].as_array().expect("ceilings");
    let absent: Vec<&Value> = ceilings.iter().filter(|c| c["value"].is_null()).collect();
    assert!(absent.is_empty(), "{absent:?}");
    assert!(errors.contains("half of its free memory leaves 228 MiB") && errors.contains("are taken"), "{errors}");
}

#[test]
fn without_a_driver_there_is_no_gpu_and_no_word_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut progress = Quiet::default();
    let (cache, library) = (Some(folder.path().to_owned()), Some(folder.path().join("libcuda.so.1")));
    let request = GpuRequest { effort: Effort::Full, refresh: false, cache, library };
    assert_eq!(load_or_measure(&request, &mut progress), []);
    assert_eq!(progress.warnings, []);
}
