//! Recorded outputs of a real GPU (fixtures/gpu/recorded/) as logs of the collector: what the profile says of them.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rprof::device::counted as counts_of_logs;
use rprof::device::groups::{
    DRAM_READ, DRAM_WRITE, FLOATING_POINT, GLOBAL_SECTORS, INSTRUCTIONS, L1_BYTES, L2_SECTORS, SHARED_WAVEFRONTS,
    TENSOR, TENSOR_INSTRUCTIONS, groups,
};
use rprof::device::log::Record;
use rprof::device::log::record::{Clocks, Launched, Span};
use rprof::device::{self, Log};
use rprof::machine::gpu::order;
use rprof::machine::gpu::ptx::yard;
use rprof::profile::Profile;
use rprof::profile::device::{Devices, Direction, MemoryKind};
use rprof::profile::gpu::Gpu;
use rprof::profile::machine::{Ceiling, Quality, Sweep};
use rprof::report::{View, devices as section, plot};

fn recorded(name: &str) -> String {
    let path = format!("{}/fixtures/gpu/recorded/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn three(text: &str) -> [u32; 3] {
    let mut numbers = text.split('x').map(|n| n.parse().unwrap());
    std::array::from_fn(|_| numbers.next().unwrap())
}

/// A log of the collector that counts: the `R` lines.
fn counted(name: &str) -> Log {
    let mut records = Vec::new();
    let mut names: HashMap<String, u32> = HashMap::new();
    for line in recorded(name).lines().filter_map(|line| line.strip_prefix("R\t")) {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells[0] == "us" {
            records.extend(cells[2..].iter().map(|name| Record::Metric { group: 0, name: (*name).into() }));
            continue;
        }
        let parts: Vec<&str> = cells[1].split(' ').collect();
        let next = names.len() as u32 + 1;
        let id = *names.entry(parts[2].into()).or_insert_with(|| {
            records.push(Record::Name { id: next, text: parts[2].into() });
            next
        });
        let launched = Launched { grid: three(parts[0]), block: three(parts[1]) };
        let values = cells[2..].iter().map(|n| n.parse().unwrap()).collect();
        records.push(Record::Range { group: 0, name: id, launched, values });
    }
    Log { records, damage: None }
}

/// A log of the collector that traces: the `K` and `C` lines, one record for each launch of the mean duration, one after the other.
fn traced(name: &str) -> Log {
    let mut records = Vec::new();
    let mut now = 1_000;
    for (id, line) in recorded(name).lines().filter(|line| line.starts_with("K ")).enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (launches, mean_us): (u64, f64) = (words[1].parse().unwrap(), words[3].parse().unwrap());
        let graph: u64 = words[words.iter().position(|w| *w == "graph").unwrap() + 1].parse().unwrap();
        let registers = words[words.iter().position(|w| *w == "regs").unwrap() + 1].parse().unwrap();
        let shared = words[words.iter().position(|w| *w == "smem").unwrap() + 1];
        let shared = shared.split('+').map(|n| n.parse::<u32>().unwrap()).sum();
        let at = words.len() - 3;
        let launched = Launched { grid: three(words[at]), block: three(words[at + 1]) };
        records.push(Record::Name { id: id as u32, text: words[at + 2].into() });
        for n in 0..launches {
            let span = Span { start: now, end: now + (mean_us * 1e3) as u64 };
            now = span.end + 2_000;
            let node = u64::from(n < graph);
            records.push(Record::Kernel {
                span,
                node,
                name: id as u32,
                device: 0,
                launched,
                registers,
                shared,
                local: 0,
            });
        }
    }
    records.push(Record::End { clocks: Clocks::default(), buffers: [2, 2], records: [1, 0], callback_ns: 0 });
    Log { records, damage: None }
}

fn devices(trace: &str, counts: &[&str]) -> Devices {
    let counts: Vec<Log> = counts.iter().map(|name| counted(name)).collect();
    device::devices(&[traced(trace)], &counts, &|name| name.to_owned()).expect("a log")
}

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

/// Recorded names of ceilings and our ids.
const CEILINGS: [(&str, &str); 31] = [
    ("fp64_fma", "gpu.fp64.fma"),
    ("fp64_add", "gpu.fp64.add"),
    ("fp64_mul", "gpu.fp64.mul"),
    ("fp32_fma", "gpu.fp32.fma"),
    ("fp32_add", "gpu.fp32.add"),
    ("fp32_mul", "gpu.fp32.mul"),
    ("fp16_fma", "gpu.fp16.fma"),
    ("bf16_fma", "gpu.bf16.fma"),
    ("dmma_k16", "gpu.tensor.fp64"),
    ("wgmma_bf16.random", "gpu.tensor.bf16"),
    ("wgmma_bf16.random.long", "gpu.tensor.bf16.sustained"),
    ("wgmma_f16.random", "gpu.tensor.f16"),
    ("wgmma_tf32.random", "gpu.tensor.tf32"),
    ("wgmma_e4m3.random", "gpu.tensor.fp8"),
    ("wgmma_e4m3.random.long", "gpu.tensor.fp8.sustained"),
    ("wgmma_s8.random", "gpu.tensor.int8"),
    ("sweep_l2.2097152K", "gpu.dram.read"),
    ("dram_copy.2x1024", "gpu.dram.copy"),
    ("dram_triad.8x256", "gpu.dram.triad"),
    ("dram_write.8x256", "gpu.dram.write"),
    ("sweep_l2.16384K", "gpu.l2.read"),
    ("l1_read.128K_per_sm", "gpu.l1.read"),
    ("shared_read", "gpu.shared.read"),
    ("shared_read_stride2", "gpu.shared.stride2"),
    ("shared_read_stride32", "gpu.shared.stride32"),
    ("lat_l1", "gpu.lat.l1"),
    ("lat_l2", "gpu.lat.l2"),
    ("lat_dram", "gpu.lat.dram"),
    ("launch.back_to_back", "gpu.launch"),
    ("h2d.pageable.64M", "gpu.link.h2d.pageable"),
    ("h2d.pinned.64M", "gpu.link.h2d.pinned"),
];

/// Names of the recorded corrections in the place of those that are known to be wrong.
const CORRECTED: [(&str, &str); 2] = [("bf16_fma", "bf16_fma_var"), ("lat_dram", "lat_dram.cold256M")];

/// Recorded figures by name, of one of their files.
fn figures(name: &str) -> Vec<(String, f64, String)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = words.get(1)?.parse().ok()?;
        Some((words[0].to_owned(), value, (*words.get(2)?).to_owned()))
    };
    recorded(name).lines().filter_map(row).collect()
}

/// The GPU of the recorded ceilings, as they are, or with the errors corrected that a later file names.
fn ceilings(is_corrected: bool) -> Gpu {
    let (first, later) = (figures("ceilings-h200-1"), figures("ceilings-h200-3-corrections"));
    let find = |name: &str| {
        let corrected = CORRECTED.iter().find(|(wrong, _)| is_corrected && *wrong == name).map(|(_, right)| *right);
        let wanted = corrected.unwrap_or(name);
        let mut rows = later.iter().filter(|_| corrected.is_some()).chain(&first);
        rows.find(|(n, ..)| n == wanted).unwrap_or_else(|| panic!("no {wanted}"))
    };
    let ceiling = |(name, id): (&str, &str)| {
        let (_, value, unit) = find(name);
        Ceiling {
            value: Some(*value),
            quality: Quality::Reproduced,
            device: "gpu0".into(),
            ..Ceiling::blank(id, unit, 0)
        }
    };
    let sizes = |family: &str| -> Vec<(f64, f64)> {
        let point = |(name, rate, _): &(String, f64, String)| {
            let size = name.strip_prefix(family)?.strip_suffix('K')?.parse::<f64>().ok()?;
            Some((size * 1024.0, *rate))
        };
        first.iter().filter_map(point).collect()
    };
    let mut staged = sizes("C_shared.");
    if is_corrected {
        let (_, right, _) = later.iter().find(|(name, ..)| name == "C_shared.64trials.1048576K").expect("a correction");
        staged.last_mut().expect("points").1 = *right;
    }
    let ilp: Vec<(f64, f64)> = first
        .iter()
        .filter_map(|(name, rate, _)| Some((name.strip_prefix("fp32_fma_ilp1.warps")?.parse().ok()?, *rate)))
        .collect();
    let curve = |id: &str, x: &str, y: &str, points| Sweep {
        id: id.into(),
        x_unit: x.into(),
        y_unit: y.into(),
        threads: 0,
        points,
    };
    Gpu {
        index: 0,
        name: "NVIDIA H200".into(),
        capability: (9, 0),
        multiprocessors: 132,
        clock_hz: 1.98e9,
        l2_bytes: 62_914_560,
        memory_bytes: 150_109_880_320,
        bus_bytes_per_s: Some(2.0 * 3_201_000e3 * 6016.0 / 8.0),
        threads_per_multiprocessor: 2048,
        registers_per_multiprocessor: 65_536,
        shared_per_multiprocessor: 233_472,
        driver: 13_000,
        ceilings: CEILINGS.into_iter().map(ceiling).collect(),
        sweeps: vec![
            curve("gpu.trials.staged", "byte", "byte/s", staged),
            curve("gpu.workingset.l2", "byte", "byte/s", sizes("sweep_l2.")),
            curve("gpu.ilp.1", "warps", "flop/s", ilp),
        ],
    }
}

#[test]
fn known_errors_of_recorded_ceilings_are_marked_and_nothing_else() {
    let marked = |gpu: &Gpu| {
        let noisy = gpu.ceilings.iter().filter(|c| c.quality == Quality::Noisy);
        noisy.map(|c| (c.id.to_string(), c.reason.clone().unwrap_or_default())).collect::<Vec<_>>()
    };
    let mut wrong = ceilings(false);
    let before = wrong.clone();
    order::settle(&mut wrong);
    let found = marked(&wrong);
    // 99.8 TFLOP/s with constants that the loop builds anew, and 282 clocks, which is L2.
    assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["gpu.bf16.fma", "gpu.lat.dram"]);
    assert!(found.iter().all(|(_, reason)| reason.len() > 20), "{found:?}");
    let staged = |gpu: &Gpu| gpu.sweep("gpu.trials.staged").expect("a curve").points.clone();
    // One trial of 1 GiB is the copy into shared memory: 2.9 of 32 TB/s.
    let (kept, all) = (staged(&wrong), staged(&before));
    assert_eq!((kept.len() + 1, kept.as_slice()), (all.len(), &all[..all.len() - 1]));
    let mut right = ceilings(true);
    let before = right.clone();
    order::settle(&mut right);
    assert_eq!(right, before, "the corrected figures hold");
}

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
        let class = kernel.analysis.as_ref().expect("an analysis").class.as_str();
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
        kernel.analysis.as_ref().expect("an analysis").class.clone()
    };
    assert_eq!(class("nvjet_sm90_tst"), "gpu-tensor");
    assert_eq!(class("sm80_xmma_gemm_f32f32"), "gpu-fp32");
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
        // What a launch leaves in L2 reaches DRAM in a later one: six launches of streams, and what follows them.
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
    // What is not asked for is not there.
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
fn damaged_logs_say_so_and_keep_what_came_before() {
    let whole = {
        let mut bytes = b"RPROFGP\x01".to_vec();
        let mut put = |kind: u32, content: &[u8]| {
            bytes.extend(kind.to_ne_bytes());
            bytes.extend((content.len() as u32).to_ne_bytes());
            bytes.extend(content);
        };
        put(2, &[&7u32.to_ne_bytes()[..], b"kernel"].concat());
        put(
            6,
            &[
                &1u64.to_ne_bytes()[..],
                &2u64.to_ne_bytes(),
                &4u32.to_ne_bytes(),
                &0u32.to_ne_bytes(),
                &0u32.to_ne_bytes(),
            ]
            .concat(),
        );
        bytes
    };
    assert_eq!(Log::parse(&whole).records.len(), 2);
    for cut in 9..whole.len() {
        let log = Log::parse(&whole[..cut]);
        assert!(log.records.len() < 2);
        assert!(log.damage.is_some() || log.records.len() == 1, "cut at {cut}: {log:?}");
    }
    assert!(Log::parse(b"").damage.is_some());
    assert!(Log::parse(b"no log at all").damage.is_some());
    let mut strange = whole.clone();
    strange.extend([99, 0, 0, 0, 0, 0, 0, 0]);
    let log = Log::parse(&strange);
    assert_eq!(log.records.len(), 2);
    assert!(log.damage.unwrap().to_string().contains("kind 99"));
}

/// A log that the collector wrote on a host with an H200.
fn collected(name: &str) -> Log {
    let path = format!("{}/fixtures/gpu/recorded/{name}.log", env!("CARGO_MANIFEST_DIR"));
    let log = Log::parse(&fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")));
    assert!(log.is_complete(), "{name}: {:?}", log.damage);
    assert!(log.records.contains(&Record::Chip("GH100".into())), "{name} is of another chip");
    log
}

/// A count of each launch of a log: name, shape, metric, value.
fn shaped_values(log: &Log) -> Vec<(&str, Launched, &str, f64)> {
    let (mut names, mut metrics): (HashMap<u32, &str>, HashMap<u32, Vec<&str>>) = Default::default();
    let mut values = Vec::new();
    for record in &log.records {
        match record {
            Record::Name { id, text } => _ = names.insert(*id, text),
            Record::Metric { group, name } => metrics.entry(*group).or_default().push(name),
            Record::Range { group, name, launched, values: counts } => {
                assert_eq!(metrics[group].len(), counts.len());
                let named = metrics[group].iter().zip(counts);
                values.extend(named.map(|(metric, value)| (names[name], *launched, *metric, *value)));
            }
            _ => {}
        }
    }
    assert!(values.iter().all(|(_, _, _, value)| value.is_finite() && *value >= 0.0), "counts that are none");
    values
}

/// The same without the shape.
fn values(log: &Log) -> Vec<(&str, &str, f64)> {
    shaped_values(log).into_iter().map(|(name, _, metric, value)| (name, metric, value)).collect()
}

/// The one value of a metric of a kernel whose name contains `kernel`.
fn value(values: &[(&str, &str, f64)], kernel: &str, metric: &str) -> f64 {
    let found: Vec<f64> = values
        .iter()
        .filter(|(name, m, _)| name.contains(kernel) && *m == metric)
        .map(|(_, _, value)| *value)
        .collect();
    assert_eq!(found.len(), 1, "{kernel} {metric}: {found:?}");
    found[0]
}

/// FLOPs of a kernel by precision: fp64, fp32, half.
fn flops(values: &[(&str, &str, f64)], kernel: &str) -> [f64; 3] {
    let of = |three: &[(&str, f64)]| three.iter().map(|(metric, factor)| factor * value(values, kernel, metric)).sum();
    std::array::from_fn(|n| of(&FLOATING_POINT[3 * n..3 * n + 3]))
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
    // The condition of the third group: what has no tensor instruction was not counted for it.
    for (name, metric, _) in values.iter().filter(|(_, metric, _)| metric.contains("ops_path_tensor")) {
        let pipe = values.iter().filter(|(n, m, _)| n == name && *m == TENSOR_INSTRUCTIONS);
        assert!(pipe.clone().count() > 0 && pipe.clone().all(|(_, _, n)| *n > 0.0), "{name} {metric}");
    }
    let uncounted = log.records.iter().find_map(|r| if let Record::Uncounted(n) = r { Some(*n) } else { None });
    assert_eq!(uncounted, Some([40, 0, 50, 0, 0]), "captured, of another context, of graphs, dropped");
}

/// A launch as Nsight Compute counted it.
struct Reference {
    name: String,
    launched: Launched,
    values: HashMap<String, f64>,
}

/// Nsight Compute's table of a PyTorch program: quoted cells, thousands apart by commas, units in the second line.
fn nsight_compute() -> Vec<Reference> {
    let path = format!("{}/fixtures/gpu/recorded/ncu-torch.csv", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim_end().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).expect("quoted cells");
        inner.split("\",\"").map(str::to_owned).collect()
    };
    let shape = |cell: &str| three(&cell.trim_start_matches('(').trim_end_matches(')').replace(", ", "x"));
    let titles = cells(text.lines().next().expect("a line of titles"));
    let place = |title: &str| titles.iter().position(|other| other == title).unwrap_or_else(|| panic!("no {title}"));
    let (name, grid, block) = (place("Kernel Name"), place("Grid Size"), place("Block Size"));
    let first = place("dram__bytes_read.sum");
    let row = |line: &str| {
        let cells = cells(line);
        let launched = Launched { grid: shape(&cells[grid]), block: shape(&cells[block]) };
        let numbers = titles.iter().zip(&cells).skip(first);
        let values =
            numbers.map(|(title, cell)| (title.clone(), cell.replace(',', "").parse::<f64>().expect("a number")));
        Reference { name: cells[name].clone(), launched, values: values.collect() }
    };
    text.lines().skip(2).map(row).collect()
}

/// Parts of the names of PyTorch's kernels: mangled, and as Nsight Compute writes them.
const OF_PYTORCH: [(&str, &str); 11] = [
    ("normal_and_transformIff", "normal_and_transform<float"),
    ("normal_and_transformIN3c108BFloat16E", "normal_and_transform<c10::BFloat16"),
    ("bfloat16_copy_kernel_cuda", "bfloat16_copy_kernel_cuda"),
    ("FillFunctor", "FillFunctor"),
    ("nvjet_sm90_tst", "nvjet_sm90_tst"),
    ("sm80_xmma_gemm", "sm80_xmma_gemm"),
    ("sm90_xmma_gemm", "sm90_xmma_gemm"),
    ("layer_norm_kernel", "layer_norm_kernel"),
    ("cunn_SoftMaxForward", "cunn_SoftMaxForward"),
    ("CUDAFunctorOnSelf_add", "CUDAFunctorOnSelf_add"),
    ("GeluCUDAKernelImpl", "GeluCUDAKernelImpl"),
];

#[test]
fn counts_of_pytorchs_kernels_equal_those_of_nsight_compute() {
    let reference = nsight_compute();
    assert_eq!(reference.len(), 36);
    // The first launch of a kernel and shape, like the ranges.
    let same = |symbol: &str, launched: Launched| {
        let (_, name) = OF_PYTORCH.into_iter().find(|(mangled, _)| symbol.contains(*mangled))?;
        reference.iter().find(|row| row.name.contains(name) && row.launched == launched)
    };
    // 13 kernels with nine metrics of floating point; three products with these and six of the tensor cores.
    let logs = [(counted("range-torch-flops-one-call"), 13 * 9), (collected("collector-torch"), 3 * (9 + 6))];
    for (log, wanted) in &logs {
        let mut compared = 0;
        for (symbol, launched, metric, value) in shaped_values(log) {
            if !metric.contains("_pred_on") && !metric.contains("ops_path_tensor") {
                continue;
            }
            let Some(row) = same(symbol, launched) else { continue };
            assert_eq!(value, row.values[metric], "{symbol} {launched:?} {metric}");
            compared += 1;
        }
        assert_eq!(compared, *wanted);
    }
}

/// Chips by compute capability.
const CHIPS: [(&str, u32, u32); 7] = [
    ("TU102", 7, 5),
    ("GA100", 8, 0),
    ("GA102", 8, 6),
    ("AD102", 8, 9),
    ("GH100", 9, 0),
    ("GB100", 10, 0),
    ("GB202", 12, 0),
];

/// CUPTI's answers: passes of metrics that are counted together on a chip; `None`: the chip lacks one.
fn answers() -> HashMap<(String, String), Option<u32>> {
    let path = format!("{}/fixtures/gpu/metrics.tsv", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let passes = (cells[2] != "unknown").then(|| cells[2].parse().unwrap());
        ((cells[0].to_owned(), cells[1].to_owned()), passes)
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

#[test]
fn groups_ask_each_chip_for_the_metrics_that_it_has() {
    let answers = answers();
    let passes = |chip: &str, metrics: &str| {
        let answer = answers.get(&(chip.to_owned(), metrics.to_owned()));
        *answer.unwrap_or_else(|| panic!("{chip} {metrics}: add it to metrics.tsv (fixtures/gpu/metrics.py)"))
    };
    for (chip, major, minor) in CHIPS {
        let groups = groups(major, minor);
        let asked: Vec<&str> = groups.iter().flat_map(|group| group.metrics.iter().copied()).collect();
        assert!(asked.contains(&GLOBAL_SECTORS));
        for ((_, metric), known) in answers.iter().filter(|((c, metrics), _)| c == chip && !metrics.contains(' ')) {
            assert_eq!(asked.contains(&metric.as_str()), known.is_some(), "{chip} {metric}");
        }
        for metric in asked {
            assert!(passes(chip, metric).is_some(), "{chip} lacks {metric}");
        }
        let each: Vec<_> = groups.iter().map(|group| passes(chip, &group.metrics.join(" "))).collect();
        let expected = match chip {
            "TU102" => [2, 1, 1],
            "GA100" => [2, 1, 6],
            "AD102" => [1, 1, 7],
            "GB202" => [1, 1, 5],
            // GH100 among them: bytes and FLOPs take one pass each.
            _ => [1, 1, 6],
        };
        assert_eq!(each, expected.map(Some), "{chip}");
    }
}

#[test]
fn nvidias_library_answers_about_metrics_as_it_did() {
    let test = "nvidias_library_answers_about_metrics_as_it_did";
    let Some(folder) = std::env::var_os("RPROF_NVPERF").map(PathBuf::from) else {
        println!("SKIPPED: pypi: {test}: RPROF_NVPERF is not set; tests/run gets the libraries");
        return;
    };
    let fixture = |name: &str| format!("{}/fixtures/gpu/{name}", env!("CARGO_MANIFEST_DIR"));
    let asked = fs::File::open(fixture("metrics.tsv")).expect("metrics.tsv");
    let output = Command::new("python3")
        .arg(fixture("metrics.py"))
        .arg(folder.join("libcupti.so.13"))
        .env("LD_LIBRARY_PATH", &folder)
        .stdin(asked)
        .output()
        .expect("python3 is needed: tests/run installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = fs::read_to_string(fixture("metrics.tsv")).expect("metrics.tsv");
    let answers = String::from_utf8(output.stdout).expect("text");
    let differing: Vec<_> = kept.lines().zip(answers.lines()).filter(|(kept, now)| kept != now).collect();
    assert!(kept.lines().count() == answers.lines().count() && differing.is_empty(), "{differing:?}");
}
