//! The recorded ceilings as a GPU, and the rule that marks those known to be wrong.

use rprof::machine::gpu::order;
use rprof::profile::gpu::Gpu;
use rprof::profile::machine::{Ceiling, Quality, Sweep};

use crate::recorded::logs::recorded;

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
pub fn ceilings(is_corrected: bool) -> Gpu {
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
