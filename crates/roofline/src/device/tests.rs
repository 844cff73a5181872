//! Kernels of known work on an H200: each has the class that it was written for, at the fraction that was measured.

use super::example::{self, h200};
use super::{analyse, class};
use crate::REFUTED;
use rprof_profile::device::{Analysis, Counts, Device, Devices, Idle, Kernel};
use rprof_profile::vocabulary::Class;

/// Analyses one kernel alone on an H200.
fn one(kernel: Kernel) -> (Analysis, Devices) {
    let device = Device { kernels_s: kernel.seconds, span_s: kernel.seconds, ..Device::default() };
    let mut devices = Devices { devices: vec![device], kernels: vec![kernel], ..Devices::default() };
    analyse(&mut devices, &[h200()]);
    (devices.kernels[0].analysis.clone().unwrap(), devices)
}

fn is_held(kernel: Kernel, class: Class, binding: &str, fraction: f64) {
    let name = kernel.name.clone();
    let (a, devices) = one(kernel);
    assert_eq!((a.class, a.binding.as_deref()), (class, Some(binding)), "{name}: {:?}", a.terms);
    assert!((a.roof_fraction.unwrap() - fraction).abs() < 0.005, "{name}: {:?}", a.roof_fraction);
    assert_eq!(a.advice.len(), 1, "{:?}", a.advice);
    assert!(devices.warnings.is_empty(), "{:?}", devices.warnings);
}

#[test]
fn kernels_of_known_work_have_the_classes_they_were_written_for() {
    is_held(example::triad(), Class::GpuDramBandwidth, "gpu.dram.triad", 0.988);
    is_held(example::fp64_fma(), Class::GpuFp64, "gpu.fp64.fma", 0.983);
    is_held(example::wgmma_bf16(), Class::GpuTensor, "gpu.tensor.bf16", 0.967);
    is_held(example::shared_stride32(), Class::GpuSharedBandwidth, "gpu.shared.read", 1.008);
    is_held(example::l2_read(), Class::GpuL2Bandwidth, "gpu.l2.read", 0.867);
}

#[test]
fn rates_are_of_all_launches() {
    let mut kernel = example::triad();
    // Only one of two launches was counted.
    let counts = kernel.counts.take().unwrap();
    let half = |x: Option<f64>| x.map(|x| x / 2.0);
    kernel.counts = Some(Counts {
        launches: 1,
        seconds: kernel.seconds / 2.0,
        fp64: half(counts.fp64),
        dram_read: half(counts.dram_read),
        dram_write: half(counts.dram_write),
        ..Counts::default()
    });
    let (a, _) = one(kernel);
    assert!((a.roof_fraction.unwrap() - 0.988).abs() < 0.005);
    assert!((a.bytes_per_s.unwrap() / 4.069e12 - 1.0).abs() < 0.001, "{:?}", a.bytes_per_s);
    assert!((a.flops_per_s.unwrap() / 351.1e9 - 1.0).abs() < 0.001 && (a.intensity.unwrap() - 0.0863).abs() < 0.001);
}

#[test]
fn counts_of_no_launch_are_no_rates() {
    let (a, _) = one(Kernel { counts: Some(Counts::default()), ..example::triad() });
    assert_eq!((a.flops_per_s, a.bytes_per_s, a.intensity, a.roof_fraction), (None, None, None, None));
    let nothing = Counts { launches: 0, seconds: 0.0, ..example::triad().counts.unwrap() };
    let (a, _) = one(Kernel { counts: Some(nothing), ..example::triad() });
    assert_eq!((a.flops_per_s, a.class), (None, Class::Unknown));
}

#[test]
fn short_kernels_in_gaps_are_launch_bound_and_only_these() {
    let mut devices = example::devices();
    analyse(&mut devices, &[h200()]);
    let class = |name: &str| {
        let kernel = devices.kernels.iter().find(|k| k.name.contains(name)).unwrap();
        kernel.analysis.as_ref().unwrap().class
    };
    assert_eq!(class("elementwise"), Class::GpuLaunch);
    assert_eq!(class("one_block"), Class::GpuLatency);
    assert_eq!(class("triad"), Class::GpuDramBandwidth);
    let device = Device { idle: Idle { launch_s: 0.003, ..Idle::default() }, ..Device::default() };
    assert!(!class::is_launch_bound(&device, &[example::small()]), "gaps of 3 ms in 7.2 ms of kernels");
    assert!(!class::is_launch_bound(
        &Device { idle: Idle { launch_s: 1.0, ..Idle::default() }, ..device },
        &[example::triad()]
    ));
}

#[test]
fn without_counts_or_ceilings_nothing_is_made_up() {
    let mut devices = example::devices();
    devices.kernels.iter_mut().for_each(|k| k.counts = None);
    analyse(&mut devices, &[]);
    for kernel in &devices.kernels {
        let a = kernel.analysis.as_ref().unwrap();
        assert_eq!(
            (a.flops_per_s, a.bytes_per_s, a.intensity, a.roof_fraction, &a.binding),
            (None, None, None, None, &None)
        );
        assert!(matches!(a.class, Class::Unknown | Class::GpuLaunch) && a.terms.is_empty(), "{a:?}");
        assert_eq!((kernel.shapes[0].occupancy, kernel.shapes[0].waves), (None, None));
    }
    let unknown = devices.kernels.iter().find(|k| k.name == "triad").unwrap().analysis.clone().unwrap();
    assert!(unknown.advice[0].text.contains("not counted (8,000 of its launches"), "{:?}", unknown.advice);
    // The shape alone says that most of the GPU is empty.
    let (a, _) = one(Kernel { counts: None, ..example::one_block() });
    assert_eq!(a.class, Class::GpuLatency);
    assert!(a.advice[0].text.contains("131 of 132 multiprocessors get no block"), "{:?}", a.advice);
}

#[test]
fn lanes_that_are_switched_off_leave_instructions_to_explain_the_time() {
    let counts =
        Counts { fp32: Some(2.0 * 868_859_904.0), instructions: Some(2.0 * 58_899_461.0), ..Counts::default() };
    is_held(example::twice("fp32_fma_8of32", (528, 256), 24, 58.5e-6, counts), Class::GpuIssue, "gpu.issue", 0.963);
    // With all lanes the multiply-adds are named, though they are as many instructions.
    let counts =
        Counts { fp32: Some(2.0 * 3_464_085_504.0), instructions: Some(2.0 * 55_511_813.0), ..Counts::default() };
    is_held(example::twice("fp32_fma", (528, 256), 24, 54.5e-6, counts), Class::GpuFp32, "gpu.fp32.fma", 0.963);
}

#[test]
fn one_chain_in_few_warps_is_latency() {
    // 4 warps a multiprocessor: 16.3 of 66 TFLOP/s.
    let counts = Counts { fp32: Some(2.0 * 1.6e9), ..Counts::default() };
    is_held(example::twice("chain", (132, 128), 24, 100e-6, counts.clone()), Class::GpuLatency, "gpu.ilp.1", 0.982);
    // Twice as fast: it has more chains than one, and its warps are still few.
    let (a, _) = one(example::twice("two chains", (132, 128), 24, 50e-6, counts));
    assert_eq!((a.class, a.binding.as_deref()), (Class::GpuLatency, Some("gpu.fp32.fma")));
    assert!(a.advice[0].text.contains("132×128 threads fill 6.2 %"), "{:?}", a.advice);
}

#[test]
fn a_kernel_faster_than_a_ceiling_refutes_it() {
    let mut kernel = example::triad();
    let counts = kernel.counts.take().unwrap();
    kernel.counts = Some(Counts { dram_read: counts.dram_read.map(|x| 2.0 * x), ..counts });
    let (a, devices) = one(kernel);
    assert_eq!(devices.warnings.len(), 1);
    assert_eq!(devices.warnings[0].code, REFUTED);
    assert!(a.terms[0].refuted && a.binding.as_deref() == Some("gpu.l2.read"), "{a:?}");
    let mut again = devices.clone();
    analyse(&mut again, &[h200()]);
    assert_eq!(again, devices, "twice the same");
}

#[test]
fn the_last_wave_is_told_where_no_ceiling_holds() {
    let counts = Counts { dram_read: Some(1e8), dram_write: Some(0.0), ..Counts::default() };
    let (a, devices) = one(example::twice("waves", (1267, 256), 32, 100e-6, counts));
    let tail = a.advice.iter().find(|advice| advice.cause == "tail").unwrap();
    assert!((tail.seconds.unwrap() - 0.4 * 200e-6).abs() < 1e-6, "{tail:?}");
    assert!(a.advice[1].text.contains("1.20 waves"), "{:?}", a.advice);
    assert_eq!(devices.kernels[0].shapes[0].waves.map(|w| (w * 100.0).round()), Some(120.0));
    // A kernel at its roof has no time left for a tail.
    assert!(one(example::fp64_fma()).0.advice.iter().all(|advice| advice.cause != "tail"));
}

#[test]
fn the_ladder_goes_down_from_the_bound_to_the_last_term() {
    let ladder = |kernel| {
        one(kernel).0.ladder.into_iter().map(|r| (r.without, (r.seconds * 1e7).round() / 10.0)).collect::<Vec<_>>()
    };
    let of = |words: &str, us: f64| (words.to_owned(), us);
    let triad = ladder(example::triad());
    assert_eq!(triad[..2], [of("gpu-latency", 390.9), of("gpu-dram-bandwidth", 177.0)], "{triad:?}");
    assert!(triad.is_sorted_by(|a, b| a.1 >= b.1) && triad.len() == 5, "{triad:?}");
    let counts = Counts { dram_read: Some(1e8), dram_write: Some(0.0), ..Counts::default() };
    let waves = ladder(example::twice("waves", (1267, 256), 32, 100e-6, counts));
    assert_eq!(waves, [of("tail", 120.0), of("gpu-latency", 22.0)]);
    assert!(ladder(example::small()).is_empty());
}

#[test]
fn findings_have_the_seconds_that_can_be_saved() {
    let mut devices = example::devices();
    analyse(&mut devices, &[h200()]);
    let of = |words: &str| devices.findings.iter().find(|f| f.advice.contains(words)).unwrap();
    let pageable = of("Page-lock");
    assert_eq!(pageable.cause, "gpu-copy");
    assert!((pageable.seconds - 0.034 * (1.0 - 8.0 / 54.3)).abs() < 1e-6);
    assert!(pageable.advice.contains("took 34.0 ms at 7.90 GB/s") && pageable.advice.contains("54.3 GB/s"));
    assert_eq!((of("waited").cause.as_str(), of("waited").seconds), ("gpu-launch", 0.0902));
    assert!(of("waited").advice.contains("8000 of 8012 launches"), "{}", of("waited").advice);
    assert_eq!(of("no thread waited").cause, "gpu-idle");
    assert!(of("only copied").seconds <= 0.0405 && of("stream, 12 calls").seconds == 0.0024);
    let seconds: Vec<f64> = devices.findings.iter().map(|f| f.seconds).collect();
    assert!(seconds.is_sorted_by(|a, b| a >= b), "{seconds:?}");
}
