//! Recorded activity and counts as golden profiles and pictures.

use std::fs;

use rprof::device;
use rprof::profile::Profile;
use rprof::profile::device::Devices;
use rprof::report::{View, devices as section, plot};

use crate::recorded::ceilings::ceilings;
use crate::recorded::logs::{collected, devices, traced};

/// Compares with a golden file; `RPROF_BLESS=1` writes it.
fn golden(name: &str, text: &str) {
    let path = format!("{}/fixtures/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RPROF_BLESS").is_some() {
        return fs::write(&path, text).expect("writing a golden file");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}; RPROF_BLESS=1 writes it"));
    assert!(wanted == text, "{name} differs from the golden file; RPROF_BLESS=1 blesses this:\n{text}");
}

/// Recorded activity and counts on the recorded GPU as a profile: its text and its roofline are golden.
fn golden_profile(name: &str, devices: Devices) -> Profile {
    let mut profile = Profile { devices: Some(devices), ..Profile::default() };
    profile.machine.gpus = vec![ceilings(true)];
    rprof::roofline::analyse(&mut profile);
    golden(&format!("gpu-{name}.txt"), &section::text(&profile, &View::default(), 120));
    let pictures = plot::gpu::pictures(&profile, &View::default());
    assert_eq!(pictures.len(), 1);
    golden(&format!("gpu-{name}.svg"), &pictures[0]);
    profile
}

#[test]
fn recorded_known_kernels_become_a_golden_profile_with_their_classes() {
    let counts = ["range-yard-bytes-one-batch", "range-yard-flops-one-call", "range-yard-tensor-one-call"];
    let profile = golden_profile("recorded-yard", devices("activity-yard", &counts));
    let devices = profile.devices.expect("devices");
    golden("gpu-recorded-yard.json", &(serde_json::to_string_pretty(&devices).expect("JSON") + "\n"));
    let mut judged = 0;
    for kernel in &devices.kernels {
        let Some(expected) = rprof::machine::gpu::known::expected(&kernel.symbol) else { continue };
        let class = kernel.analysis.as_ref().expect("an analysis").class;
        assert_eq!(class, expected, "{}", kernel.symbol);
        judged += 1;
    }
    assert!(judged >= 18, "{judged}");
}

#[test]
fn a_recorded_program_becomes_a_golden_profile() {
    let (log, trace) = (collected("collector-torch"), traced("activity-torch"));
    let devices = device::devices(&[trace], &[log], &|name| {
        rprof::symbols::demangle::demangle(name, rprof::symbols::demangle::Dialect::default())
    });
    let profile = golden_profile("recorded-torch", devices.expect("a log"));
    let class = |part: &str| {
        let devices = profile.devices.as_ref().expect("devices");
        let kernel = devices.kernels.iter().find(|k| k.symbol.contains(part)).expect("the kernel");
        kernel.analysis.as_ref().expect("an analysis").class.name()
    };
    assert_eq!(class("nvjet_sm90_tst"), "gpu-tensor");
    assert_eq!(class("sm80_xmma_gemm_f32f32"), "gpu-fp32");
}
