//! The time that each ceiling of a GPU takes for the counted work of a kernel, over all its launches.
//!
//! ```text
//! dram    (read + written) / gpu.dram.{read,triad,copy,write}, by the share of writes
//! l2, l1  bytes / gpu.{l2,l1}.read           shared  128 B · wavefronts / gpu.shared.read
//! fp      2 · instructions / gpu.fp{64,32,16}.fma: an addition takes as long as an FMA       tensor  Σ over operands of operations / gpu.tensor.<operand>
//! ilp     FP32 FLOPs / the rate of one dependent chain a warp with the warps that reside
//! issue   warp instructions / (multiprocessors · 4 · clock)
//! launch  launches outside graphs · gpu.launch: the host's time, beside the kernel's
//! ```
//!
//! Work that overlaps takes no longer than the longest of these.

use rprof_profile::device::{Counts, Kernel, TensorWork, Term};
use rprof_profile::gpu::Gpu;
use rprof_profile::vocabulary::Class;

use super::occupancy::{LaunchOccupancy, SCHEDULERS};

/// Id of the derived ceiling of warp instructions.
pub const ISSUE: &str = "gpu.issue";
/// Id of the cost of a launch.
pub const LAUNCH: &str = "gpu.launch";
/// Curve of FP32 FMAs, FLOP/s over warps on a multiprocessor, with one dependent chain in each warp.
pub const CHAIN: &str = "gpu.ilp.1";
/// A kernel that is faster than a ceiling by more than this refutes it.
pub const REFUTED_ABOVE: f64 = 1.02;

/// The shares of writes of the ceilings of DRAM.
const DRAM: [(&str, f64); 5] = [
    ("gpu.dram.read", 0.0),
    ("gpu.dram.triad", 1.0 / 3.0),
    ("gpu.dram.copy", 0.5),
    ("gpu.dram.update", 0.5),
    ("gpu.dram.write", 1.0),
];

/// The terms of `kernel` by descending seconds, refuted ones included. Without counts only the launches have one.
pub fn terms(kernel: &Kernel, gpu: &Gpu) -> Vec<Term> {
    let mut terms: Vec<Term> = match &kernel.counts {
        Some(counts) => of_work(kernel, counts, gpu),
        None => Vec::new(),
    };
    terms.extend(of_launches(kernel, gpu));
    for term in &mut terms {
        term.refuted = term.ceiling != LAUNCH && term.seconds > REFUTED_ABOVE * kernel.seconds;
    }
    terms.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    terms
}

/// Counted launches represent all: by their time, if that is known, else by their number.
pub fn scale(kernel: &Kernel, counts: &Counts) -> f64 {
    match (counts.seconds > 0.0, counts.launches) {
        (true, _) => kernel.seconds / counts.seconds,
        (false, 0) => 0.0,
        (false, launches) => kernel.launches as f64 / launches as f64,
    }
}

fn of_work(kernel: &Kernel, counts: &Counts, gpu: &Gpu) -> Vec<Term> {
    let rated = |work: Option<f64>, id: &str| seconds(work?, gpu.value(id)?, id);
    let dram = counts.dram().zip(dram_ceiling(counts, gpu));
    let found = [
        dram.and_then(|(bytes, id)| rated(Some(bytes), id)),
        rated(counts.l2, "gpu.l2.read"),
        rated(counts.l1, "gpu.l1.read"),
        rated(counts.shared, "gpu.shared.read"),
        rated(as_fma(counts.fp64_instructions, counts.fp64), "gpu.fp64.fma"),
        rated(as_fma(counts.fp32_instructions, counts.fp32), "gpu.fp32.fma"),
        rated(counts.fp16, "gpu.fp16.fma"),
        tensor(&counts.tensor, gpu),
        issue(counts, gpu),
        chain(kernel, counts, gpu),
    ];
    let all = scale(kernel, counts);
    found.into_iter().flatten().map(|term| Term { seconds: term.seconds * all, ..term }).collect()
}

/// FLOPs that as many FMAs as there are instructions would make; without these the FLOPs.
fn as_fma(instructions: Option<f64>, flops: Option<f64>) -> Option<f64> {
    instructions.map(|n| 2.0 * n).or(flops)
}

fn seconds(work: f64, rate: f64, id: &str) -> Option<Term> {
    (work > 0.0 && rate > 0.0).then(|| Term { ceiling: id.into(), seconds: work / rate, refuted: false })
}

/// The measured ceiling of DRAM with the share of writes nearest to that of `counts`.
fn dram_ceiling(counts: &Counts, gpu: &Gpu) -> Option<&'static str> {
    let written = counts.dram_write? / counts.dram().filter(|bytes| *bytes > 0.0)?;
    let measured = DRAM.into_iter().filter(|(id, _)| gpu.value(id).is_some());
    measured.min_by(|a, b| (a.1 - written).abs().total_cmp(&(b.1 - written).abs())).map(|(id, _)| id)
}

/// The roof of an operand, a burst after a pause.
pub fn tensor_roof(operand: &str, gpu: &Gpu) -> Option<(String, f64)> {
    let id = format!("gpu.tensor.{operand}");
    gpu.value(&id).map(|value| (id, value))
}

/// All operands share the tensor cores: their times add up. Named by the operand with most of it.
fn tensor(work: &[TensorWork], gpu: &Gpu) -> Option<Term> {
    let of = |w: &TensorWork| tensor_roof(&w.operand, gpu).and_then(|(id, roof)| seconds(w.operations, roof, &id));
    let terms: Vec<Term> = work.iter().filter_map(of).collect();
    let most = terms.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?.ceiling.clone();
    Some(Term { ceiling: most, seconds: terms.iter().map(|t| t.seconds).sum(), refuted: false })
}

fn issue(counts: &Counts, gpu: &Gpu) -> Option<Term> {
    seconds(counts.instructions?, f64::from(gpu.multiprocessors * SCHEDULERS) * gpu.clock_hz, ISSUE)
}

/// FP32 work at the rate of one dependent chain in each resident warp. That is no lower bound: a kernel with more chains is
/// faster, and then has no such term.
fn chain(kernel: &Kernel, counts: &Counts, gpu: &Gpu) -> Option<Term> {
    let occupancy = LaunchOccupancy::of(kernel.shapes.first()?, gpu)?;
    let warps = occupancy.fill() * f64::from(gpu.threads_per_multiprocessor / super::occupancy::WARP);
    let rate = gpu.sweep(CHAIN)?.at(warps)?;
    // Below one point of the curve the rate falls with the warps.
    let least = gpu.sweep(CHAIN)?.points.first()?.0;
    let term = seconds(counts.fp32?, rate * (warps / least).min(1.0), CHAIN)?;
    let time = counts.seconds;
    (time > 0.0 && term.seconds <= REFUTED_ABOVE * time).then_some(term)
}

fn of_launches(kernel: &Kernel, gpu: &Gpu) -> Option<Term> {
    let direct = kernel.launches.saturating_sub(kernel.graph_launches);
    let cost = gpu.value(LAUNCH).filter(|cost| *cost > 0.0 && direct > 0)?;
    Some(Term { ceiling: LAUNCH.into(), seconds: direct as f64 * cost, refuted: false })
}

/// The class of a kernel that is held by `ceiling`.
pub fn class(ceiling: &str) -> Class {
    match ceiling.split('.').nth(1) {
        Some("dram") => Class::GpuDramBandwidth,
        Some("l2") => Class::GpuL2Bandwidth,
        Some("l1") => Class::GpuL1Bandwidth,
        Some("shared") => Class::GpuSharedBandwidth,
        Some("fp64") => Class::GpuFp64,
        Some("fp32") => Class::GpuFp32,
        Some("fp16") => Class::GpuFp16,
        Some("tensor") => Class::GpuTensor,
        Some("issue") => Class::GpuIssue,
        Some("ilp") => Class::GpuLatency,
        Some("launch") => Class::GpuLaunch,
        _ => Class::Unknown,
    }
}
