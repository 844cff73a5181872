//! Bytes and FLOPs of launches: exact on the known kernels, summed by name on a real program.

use rprof::device::counted as counts_of_logs;
use rprof::device::groups::{
    DRAM_READ, DRAM_WRITE, INSTRUCTIONS, L1_BYTES, L2_SECTORS, SHARED_WAVEFRONTS, TENSOR, TENSOR_INSTRUCTIONS,
};
use rprof::device::log::Record;
use rprof::device::log::record::Span;
use rprof::device::{self, Log};
use rprof::machine::gpu::ptx::yard;
use rprof::profile::device::{Direction, MemoryKind};

use crate::recorded::logs::{collected, counted, devices, flops, value, values};

#[test]
fn flops_of_the_known_kernels_are_exact() {
    let devices = devices("activity-yard", &["range-yard-flops-one-call", "range-yard-tensor-one-call"]);
    let counts = |name: &str| devices.kernels.iter().find(|k| k.symbol == name).unwrap().counts.clone().unwrap();
    // Two launches each: loop, prologue and epilogue as read off the machine code.
    assert_eq!(counts("y_fp64_fma").fp64, Some(2.0 * 3_462_598_656.0));
    assert_eq!(counts("y_fp32_fma").fp32, Some(2.0 * 3_464_085_504.0));
    assert_eq!(counts("y_fp32_fma_8of32").fp32, Some(2.0 * 868_859_904.0), "lanes whose predicate fails do nothing");
    assert_eq!(counts("y_fp16_fma").fp16, Some(2.0 * 6_920_601_600.0));
    assert_eq!(counts("y_fp32_fma").fp16, None, "constants that the compiler makes with HFMA2 are no FLOPs");
    assert_eq!(counts("y_copy").fp64, Some(0.0));
    for (name, operand, operations) in [
        ("y_mma_bf16", "bf16", 55_364_812_800.0),
        ("y_mma_tf32", "tf32", 27_682_406_400.0),
        ("y_dmma", "fp64", 6_920_601_600.0),
        ("y_wgmma_bf16", "bf16", 221_459_251_200.0),
        ("y_wgmma_e4m3", "fp8", 442_918_502_400.0),
        ("y_wgmma_s8", "int8", 442_918_502_400.0),
    ] {
        let tensor = counts(name).tensor;
        assert_eq!(tensor.len(), 1, "{name}: {tensor:?}");
        assert_eq!((tensor[0].operand.as_str(), tensor[0].operations), (operand, 2.0 * operations), "{name}");
    }
}

/// A launch of each kernel and shape of a log that counts, as a log that traces.
fn launched(counted: &Log) -> Log {
    let mut records: Vec<Record> =
        counted.records.iter().filter(|r| matches!(r, Record::Name { .. })).cloned().collect();
    let ranges = counted.records.iter().filter_map(|r| match r {
        Record::Range { name, launched, .. } => Some((*name, *launched)),
        _ => None,
    });
    records.extend(ranges.zip(1u64..).map(|((name, launched), n)| Record::Kernel {
        span: Span { start: n * 2_000, end: n * 2_000 + 1_000 },
        node: 0,
        name,
        device: 0,
        launched,
        registers: 30,
        shared: 0,
        local: 0,
    }));
    Log { records, damage: None }
}

#[test]
fn moves_of_constants_are_no_half_precision() {
    let counted = counted("range-torch-flops-one-call");
    let devices = device::devices(&[launched(&counted)], &[counted], &|name| name.to_owned()).expect("a log");
    let half = |part: &str| {
        let of = devices.kernels.iter().filter(|k| k.symbol.contains(part));
        of.map(|k| k.counts.as_ref().expect("counts").fp16).collect::<Vec<_>>()
    };
    // These have millions of HFMA2 for constants: random numbers, softmax, GELU, layer norm, a product of fp32.
    for part in ["DistributionNormal", "SoftMax", "GeluCUDA", "layer_norm", "sm80_xmma"] {
        assert!(half(part).iter().all(|fp16| fp16.is_none()) && !half(part).is_empty(), "{part}: {:?}", half(part));
    }
    assert_eq!(half("sm90_xmma"), [Some(0.0)]);
    assert!(half("CUDAFunctorOnSelf_add").iter().all(|fp16| *fp16 == Some(0.0)));
}

#[test]
fn a_recorded_graph_has_the_sum_of_its_forty_kernels() {
    // Three launches of a graph of 40, each as one range: `range-torch-graph-user-range.txt` of the reference.
    let metrics = [DRAM_READ, DRAM_WRITE, L2_SECTORS, L1_BYTES, SHARED_WAVEFRONTS, INSTRUCTIONS];
    let first = [7936.0, 2304.0, 40_960.0, 1_310_720.0, 640.0, 24_960.0];
    let mut records: Vec<Record> =
        metrics.iter().map(|name| Record::Metric { group: 0, name: (*name).into() }).collect();
    records.push(Record::GraphRange { group: 0, graph: 0, values: first.into() });
    records.push(Record::Graph { graph: 0, launches: 3 });
    records.push(Record::Graph { graph: 1, launches: 9 });
    let graphs = counts_of_logs::graphs(&[Log { records, damage: None }]);
    assert_eq!(graphs.len(), 1, "one that was not counted has no zeros");
    let counts = &graphs[0].counts;
    assert_eq!((graphs[0].number, counts.launches), (1, 3));
    assert_eq!((counts.l1, counts.l2), (Some(3.0 * 40.0 * 32_768.0), Some(3.0 * 40.0 * 1024.0 * 32.0)));
    assert_eq!((counts.fp32, counts.flops()), (None, None));
}

#[test]
fn the_three_ways_of_counting_bytes_agree() {
    let ways = ["range-yard-bytes-kernel-replay", "range-yard-bytes-user-replay", "range-yard-bytes-one-batch"];
    for way in ways {
        let devices = devices("activity-yard", &[way]);
        let counts = |name: &str| devices.kernels.iter().find(|k| k.symbol == name).unwrap().counts.clone().unwrap();
        let close = |value: Option<f64>, expected: f64, error: f64, what: &str| {
            let value = value.unwrap();
            assert!((value / expected - 1.0).abs() <= error, "{way}: {what} is {value} instead of {expected}");
        };
        let (read, written) = (536_870_912.0, 268_435_456.0);
        close(counts("y_triad").dram_read, 2.0 * read, 1e-3, "read");
        close(counts("y_triad").dram_write, 2.0 * written, 0.015, "written");
        close(counts("y_triad").l1, 2.0 * (read + written), 1e-6, "L1");
        close(counts("y_triad").l2, 2.0 * (read + written), 1e-6, "L2");
        close(counts("y_l2_read").l1, 2.0 * 138_412_032.0, 1e-6, "L1");
        close(counts("y_l2_read").l2, 2.0 * 138_412_032.0, 0.015, "L2");
        close(counts("y_shared").shared, 2.0 * 2_214_592_512.0, 2e-3, "shared");
        // Lines that a launch leaves in L2 reach DRAM in a later one: six launches of streams, and those that follow.
        let streams = ["y_copy", "y_triad", "y_write"];
        let following = ["y_l2_read", "y_l1_read", "y_shared", "y_shared_stride32"];
        let all: f64 = streams.into_iter().chain(following).map(|name| counts(name).dram_write.unwrap()).sum();
        close(Some(all), 6.0 * written, 5e-3, "written in all");
        assert_eq!(devices.warnings, []);
    }
}

#[test]
fn bytes_that_multiprocessors_receive_from_l2_are_exact() {
    let devices = devices("activity-yard", &["range-yard-l2"]);
    let mut compared = 0;
    for known in yard().iter().filter(|known| known.l2.is_some()) {
        let kernel = devices.kernels.iter().find(|k| k.symbol == known.kernel.name).expect("the kernel");
        let counts = kernel.counts.as_ref().expect("counts");
        // Two launches, each with its clock record and parameters.
        let off = counts.l2_received.expect("a figure") - 2.0 * known.l2.unwrap_or(0) as f64;
        assert!((0.0..=2.0 * 1024.0).contains(&off), "{}: {off}", kernel.symbol);
        compared += 1;
    }
    assert_eq!(compared, 5);
    let counts = |name: &str| devices.kernels.iter().find(|k| k.symbol == name).unwrap().counts.clone().unwrap();
    // Many multiprocessors read the same lines, and L2 sees fewer requests.
    assert!(counts("y_l2_read").l2 < counts("y_l2_read").l2_received.map(|bytes| 0.995 * bytes));
    // Nothing is there unasked.
    assert_eq!(counts_of_bytes("y_copy").l2_received, None);
}

/// The counts of a known kernel by the usual group of bytes.
fn counts_of_bytes(name: &str) -> rprof::profile::device::Counts {
    let devices = devices("activity-yard", &["range-yard-bytes-one-batch"]);
    devices.kernels.into_iter().find(|kernel| kernel.symbol == name).expect("the kernel").counts.expect("counts")
}

#[test]
fn metrics_that_were_added_one_at_a_time_are_refused() {
    let devices = devices("activity-yard", &["range-yard-29passes-one-by-one"]);
    assert!(devices.kernels.iter().all(|kernel| kernel.counts.is_none()));
    assert_eq!(devices.warnings.iter().map(|w| w.code.as_str()).collect::<Vec<_>>(), ["gpu-equal-counts"]);
    assert!(devices.uncounted.is_some());
}

#[test]
fn kernels_of_a_real_program_are_summed_by_name() {
    let devices = devices("activity-torch", &[]);
    assert!((devices.kernels[0].seconds - 21.0 * 2672.265e-6).abs() < 1e-6);
    let small = devices.kernels.iter().find(|k| k.launches == 8001 + 21).expect("additions of two sizes");
    assert_eq!(small.shapes.len(), 2);
    let nodes: u64 = devices.kernels.iter().map(|kernel| kernel.graph_launches).sum();
    assert_eq!(nodes, 8040, "two nodes of graphs, 4,020 times each");
    let device = &devices.devices[0];
    let all = device.kernels_s + device.copies_s + device.idle.total_s();
    assert!((device.span_s - all).abs() < 1e-9, "{} is not {all}", device.span_s);
    assert!((device.idle.launch_s - device.idle.total_s()).abs() < 1e-12, "gaps of 2 µs are those between launches");
}

#[test]
fn copies_and_waiting_are_kept_apart_by_direction_and_memory() {
    let span = |start, end| Span { start, end };
    let copy = |start, kinds| Record::Copy { span: span(start, start + 1000), bytes: 1 << 20, kinds, device: 0 };
    let records = vec![
        copy(1_000, [1, 1, 3]),
        copy(3_000, [1, 2, 3]),
        copy(5_000, [1, 1, 3]),
        copy(7_000, [2, 3, 1]),
        Record::Fill { span: span(9_000, 9_500), bytes: 64, memory: 3, device: 0 },
        Record::Wait { span: span(500, 9_600), on: 4 },
    ];
    let devices = device::devices(&[Log { records, damage: None }], &[], &|name| name.to_owned()).unwrap();
    let of = |direction, from, to| devices.copies.iter().find(|c| (c.direction, c.from, c.to) == (direction, from, to));
    let pageable = of(Direction::HostToDevice, MemoryKind::Pageable, MemoryKind::Device).unwrap();
    assert_eq!((pageable.count, pageable.bytes), (2, 2 << 20));
    assert!(of(Direction::HostToDevice, MemoryKind::Pinned, MemoryKind::Device).is_some());
    assert!(of(Direction::Fill, MemoryKind::Unknown, MemoryKind::Device).is_some());
    assert_eq!((devices.waits[0].on.as_str(), devices.waits[0].count), ("context", 1));
    assert!((devices.devices[0].copies_s - 4.5e-6).abs() < 1e-12);
}

#[test]
fn the_collectors_log_of_the_known_kernels_has_their_exact_counts() {
    let log = collected("collector-flops-and-tensor");
    let values = values(&log);
    for known in yard() {
        let (name, launch) = (known.kernel.name.as_str(), known.launch);
        let exactly = |name: &str| values.iter().filter(|(other, _, _)| *other == name).copied().collect::<Vec<_>>();
        let values = exactly(name);
        let [fp64, fp32, fp16] = flops(&values, name);
        assert_eq!((fp64, fp32), (known.flops_fp64 as f64, known.flops_fp32 as f64), "{name}");
        // The compiler makes the constant of single and half precision with one HFMA2 a thread, which counts as FMA of two lanes.
        let constant = 4.0 * f64::from(launch.blocks * launch.threads);
        let has_constant = known.flops_fp32 + known.flops_fp16 > 0;
        let moves = if has_constant { constant } else { 0.0 };
        assert_eq!(fp16, known.flops_fp16 as f64 + moves, "{name}");
        let tensor = TENSOR.iter().filter(|(_, metric)| values.iter().any(|(_, m, _)| m == metric));
        let operations: f64 = tensor.map(|(_, metric)| value(&values, name, metric)).sum();
        assert_eq!(operations, known.flops_tensor as f64, "{name}");
    }
    let passes =
        |group| log.records.iter().find(|r| matches!(r, Record::Passes { group: g, .. } if *g == group)).cloned();
    assert_eq!(passes(0), Some(Record::Passes { group: 0, passes: 1 }));
    assert_eq!(passes(1), Some(Record::Passes { group: 1, passes: 6 }));
}

#[test]
fn the_collectors_log_of_pytorch_has_the_work_of_its_products() {
    let log = collected("collector-torch");
    let values = values(&log);
    let product = 2.0 * 4096f64.powi(3);
    let tensor = |kernel: &str| -> Vec<(&str, f64)> {
        let asked = TENSOR.iter().filter(|(_, metric)| values.iter().any(|(_, m, _)| m == metric));
        asked
            .map(|(operand, metric)| (*operand, value(&values, kernel, metric)))
            .filter(|(_, operations)| *operations > 0.0)
            .collect()
    };
    assert_eq!(product, 137_438_953_472.0);
    let (bf16, tf32, fp32) = ("nvjet_sm90_tst", "sm90_xmma_gemm_f32f32_tf32f32", "sm80_xmma_gemm_f32f32_f32f32");
    assert_eq!(tensor(bf16), [("bf16", product)]);
    assert_eq!(tensor(tf32), [("tf32", product)]);
    assert_eq!(tensor(fp32), [], "HFMA2 for constants uses the tensor pipe");
    assert_eq!(flops(&values, bf16), [0.0; 3]);
    // The product, and a multiplication and an addition for each element of the result.
    assert_eq!(flops(&values, fp32)[..2], [0.0, product + 2.0 * 4096f64.powi(2)]);
    // The condition of the third group: a kernel without tensor instructions was not counted for it.
    for (name, metric, _) in values.iter().filter(|(_, metric, _)| metric.contains("ops_path_tensor")) {
        let pipe = values.iter().filter(|(n, m, _)| n == name && *m == TENSOR_INSTRUCTIONS);
        assert!(pipe.clone().count() > 0 && pipe.clone().all(|(_, _, n)| *n > 0.0), "{name} {metric}");
    }
    let uncounted = log.records.iter().find_map(|r| if let Record::Uncounted(n) = r { Some(*n) } else { None });
    assert_eq!(uncounted, Some([40, 0, 50, 0, 0]), "captured, of another context, of graphs, dropped");
}
