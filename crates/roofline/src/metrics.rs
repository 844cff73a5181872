//! The figures that need no time: operational intensity, SIMD use, FMA balance, ILP, FP fraction, load balance.

use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Function;
use rprof_profile::function::{Flops, MixEntry, Oi};

use super::deficiency::{Deficiency, Removed};
use super::host::{Host, Trace};
use super::terms::{Subject, TermId, pipe};

/// The vertical axis: the operations that rate a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// FLOPs.
    Flop(f64),
    /// Integer operations: under 1 % floating-point instructions.
    Int(f64),
    /// Bytes loaded and stored: under 1 % floating-point instructions, and more 8-byte words moved than integer
    /// operations done.
    Byte(f64),
}

impl Axis {
    /// The axis of `function`; `None` if it was not counted.
    pub fn of(function: &Function) -> Option<Axis> {
        let flops = function.flops.map(|f| f.total as f64).unwrap_or(0.0);
        let fp = function.fp_instructions.zip(function.instructions).map(|(f, n)| f as f64 >= 0.01 * n as f64);
        if flops > 0.0 && fp.unwrap_or(true) {
            return Some(Axis::Flop(flops));
        }
        let words = function.bytes.and_then(|b| b.l1).map_or(0.0, |b| b as f64 / 8.0);
        match function.int_ops.map(|n| n as f64) {
            Some(ops) if ops > 0.0 && ops >= words => Some(Axis::Int(ops)),
            _ if words > 0.0 => Some(Axis::Byte(words * 8.0)),
            _ if flops > 0.0 => Some(Axis::Flop(flops)),
            _ => None,
        }
    }

    /// The name in the profile.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Flop(_) => "flop",
            Axis::Int(_) => "int",
            Axis::Byte(_) => "byte",
        }
    }

    /// How many operations.
    pub fn work(self) -> f64 {
        match self {
            Axis::Flop(n) | Axis::Int(n) | Axis::Byte(n) => n,
        }
    }
}

/// Operations per byte at each level: `oi = work / bytes`; `None` if bytes were not measured or are none.
pub fn oi(function: &Function, axis: Axis) -> Oi {
    per_byte(function, axis.work())
}

/// `work` per byte at each level; `None` if bytes were not measured or are none.
pub fn per_byte(function: &Function, work: f64) -> Oi {
    let bytes = function.bytes.unwrap_or_default();
    let per = |b: Option<u64>| b.filter(|b| *b > 0).map(|b| work / b as f64);
    Oi { l1: per(bytes.l1), l2: per(bytes.l2), l3: per(bytes.l3), dram: per(bytes.dram) }
}

/// `simd = lanes used / Σ FP-arithmetic instructions × lanes of the widest useful width` (A.3). A wider register than is
/// useful on this host counts with its own lanes, so that 1 means all of them used. `None` without arithmetic.
pub fn simd_use(mix: &[MixEntry], host: Host<'_>) -> Option<f64> {
    let (mut used, mut available) = (0.0, 0.0);
    for e in mix {
        let useful = host.useful_width(e.op, e.precision).unwrap_or(e.width).max(e.width);
        used += e.flops as f64 / if e.op == FpOp::Fma { 2.0 } else { 1.0 };
        available += e.instructions as f64 * f64::from(useful.lanes(e.precision));
    }
    (available > 0.0).then(|| (used / available).min(1.0))
}

/// [`simd_use`] if instructions were not counted: `F / Σ over widths of F_w · lanes of the widest useful / lanes of w`, a
/// fused operation weighing as its two FLOPs. `None` unless widths are known and one precision has all FLOPs.
pub fn simd_use_of_flops(flops: &Flops, host: Host<'_>) -> Option<f64> {
    let precision = match (flops.dp, flops.sp) {
        (dp, 0) if dp == flops.total => Precision::Dp,
        (0, sp) if sp == flops.total => Precision::Sp,
        _ => return None,
    };
    if flops.missing_parts.width || flops.missing_parts.precision {
        return None;
    }
    let useful = host.useful_width(FpOp::Fma, precision).or_else(|| host.useful_width(FpOp::Add, precision))?;
    let by = &flops.by_width;
    let parts = [(by.scalar, Width::Scalar), (by.w128, Width::W128), (by.w256, Width::W256), (by.w512, Width::W512)];
    let lanes = |width: Width| f64::from(width.lanes(precision));
    let available: f64 = parts.iter().map(|(n, w)| *n as f64 * lanes(useful.max(*w)) / lanes(*w)).sum();
    (available > 0.0).then(|| flops.total as f64 / available)
}

/// `fma_balance = (F / T_pipe) / all-FMA rate at its own widths`, over adds, multiplies and fused ones (the divider is a
/// ceiling of its own); at most 1. `None` without such arithmetic or without FMA on the host.
pub fn fma_balance(mix: &[MixEntry], host: Host<'_>) -> Option<f64> {
    let fusable: Vec<MixEntry> =
        mix.iter().filter(|e| matches!(e.op, FpOp::Add | FpOp::Mul | FpOp::Fma)).copied().collect();
    let seconds = |removed| {
        let mut trace = Trace::default();
        let demands = pipe::demands(&fusable, host, 1, removed, &mut trace);
        pipe::groups_seconds(&demands, host, &mut trace)
    };
    let own = seconds(Removed::NONE);
    let fused = seconds(Removed::only(Deficiency::Fma));
    (own > 0.0 && fused > 0.0).then(|| (fused / own).min(1.0))
}

/// `ilp = T_pipe / max(T_pipe, T_chain)`.
pub fn ilp(subject: &Subject<'_>) -> Option<f64> {
    let pipe = subject.term(TermId::Pipe, Removed::NONE).seconds?;
    let chain = subject.term(TermId::Chain, Removed::NONE).seconds?;
    (pipe > 0.0).then(|| pipe / pipe.max(chain))
}
