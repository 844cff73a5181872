//! T_pipe: the least time in which the measured pipe groups execute the counted arithmetic.
//!
//! ```text
//! D(op)        = Σ over (precision, width) of instructions / measured instruction rate      demand on op's pipes
//! u(a, b)      = time of a measured 1:1 mix / (time of a alone + time of b alone)            1 = same pipes
//! D(G)         = Σ over op in G of D(op)            for groups G of operations with u = 1
//! T_pipe       = max( D(G),  u(G, H) · (D(G) + D(H)) where G and H overlap in part )
//! ```
//!
//! Disjoint pipes (the mix runs as fast as its slower half alone) put no joint limit. Division and square root are one
//! unit. Every face of this bound passes through a measured point, and none is tighter than the measurements.

use std::collections::BTreeMap;

use rprof_isa::facts::InstructionClass;
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::function::MixEntry;

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::{Host, Scaling, Trace, full_flops};
use super::Subject;

/// Operations with a mix time of at least this share of their summed times use the same pipes.
const SAME_PIPES: f64 = 0.97;

/// Seconds that each operation's pipes are busy, with the dominant (precision, width) by which co-issue is looked up.
pub type Demands = BTreeMap<FpOp, (f64, Precision, Width)>;

/// Multiplies and fused multiply-adds that replace one division or root: an approximation, Newton steps of two (two in double
/// precision), and the multiply by the numerator.
fn replacement(p: Precision) -> f64 {
    if p == Precision::Dp { 6.0 } else { 4.0 }
}

/// Issue slots that replacing the divisions and roots of `mix` takes more.
pub fn replacing(mix: &[MixEntry]) -> f64 {
    let divider = mix.iter().filter(|e| matches!(e.op, FpOp::Div | FpOp::Sqrt));
    divider.map(|e| e.instructions as f64 * (replacement(e.precision) - 1.0)).sum()
}

/// T_pipe at `threads`, in seconds. Leaves out arithmetic without a measured throughput, and notes that in `trace`.
pub fn seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    let Some(work) = &subject.function.work else {
        return from_flops_alone(subject, threads, trace);
    };
    let integer = integer_seconds(subject, threads, removed, trace).unwrap_or(0.0);
    let mut arithmetic = |removed| {
        let demands = demands(&work.mix, subject.host, threads, removed, trace);
        groups_seconds(&demands, subject.host, trace)
    };
    // Fusing helps only if the add pipes are not needed beside the FMA pipes.
    let unfused = arithmetic(removed.but(Deficiency::Fma));
    let best = if removed.has(Deficiency::Fma) { unfused.min(arithmetic(removed)) } else { unfused };
    Some(best.max(integer))
}

/// Seconds of the arithmetic that needs no divider.
pub fn without_divider(subject: &Subject<'_>, threads: u32) -> f64 {
    let mix = subject.function.work.as_ref().map_or(&[][..], |work| &work.mix);
    let undivided: Vec<MixEntry> = mix.iter().filter(|e| !matches!(e.op, FpOp::Div | FpOp::Sqrt)).copied().collect();
    let mut trace = Trace::default();
    let demands = demands(&undivided, subject.host, threads, Removed::NONE, &mut trace);
    let integer = integer_seconds(subject, threads, Removed::NONE, &mut trace).unwrap_or(0.0);
    groups_seconds(&demands, subject.host, &mut trace).max(integer)
}

/// Without counted instructions (PMU only): F / the roof, which is the loosest T_pipe.
fn from_flops_alone(subject: &Subject<'_>, threads: u32, trace: &mut Trace) -> Option<f64> {
    let Some(flops) = subject.function.flops else {
        trace.lacks("arithmetic not counted");
        return None;
    };
    trace.lacks("operation mix not counted: the roof is assumed");
    let mut single = flops.sp;
    if flops.missing_parts.precision {
        trace.lacks("precisions are not separated: the roof of single precision is assumed");
        single = flops.total;
    }
    let dp = subject.host.value("dp.fma", threads, Scaling::PerCore, trace)?;
    let sp = if single > 0 { subject.host.value("sp.fma", threads, Scaling::PerCore, trace)? } else { dp };
    Some((flops.total - single) as f64 / dp + single as f64 / sp)
}

/// Demand on each operation's pipes at `threads`, with SIMD, FMA or divider deficiencies in `removed` gone.
pub fn demands(mix: &[MixEntry], host: Host<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Demands {
    let mut demands = Demands::new();
    for entry in mix {
        let replaced = removed.has(Deficiency::DivSqrt) && matches!(entry.op, FpOp::Div | FpOp::Sqrt);
        let entry = if replaced { &MixEntry { op: FpOp::Mul, ..*entry } } else { entry };
        let times = if replaced { replacement(entry.precision) } else { 1.0 };
        let (op, width, instructions) =
            idealised(entry, host, if replaced { removed.but(Deficiency::Fma) } else { removed });
        let instructions = instructions * times;
        let Some(rate) = host.instructions(op, entry.precision, width, threads, trace) else { continue };
        let seconds = instructions / rate;
        let slot = demands.entry(op).or_insert((0.0, entry.precision, width));
        if seconds > slot.0 {
            (slot.1, slot.2) = (entry.precision, width);
        }
        slot.0 += seconds;
    }
    demands
}

/// (operation, width, instructions) of `entry` after the removal of SIMD and FMA deficiencies.
///
/// SIMD: `instructions = FLOPs / (FLOPs of one full instruction of the widest useful width)`, never more than before.
/// FMA: an add or multiply becomes half a fused one at its width.
fn idealised(entry: &MixEntry, host: Host<'_>, removed: Removed) -> (FpOp, Width, f64) {
    let MixEntry { op, precision, width, .. } = *entry;
    let fuse = removed.has(Deficiency::Fma)
        && matches!(op, FpOp::Add | FpOp::Mul)
        && host.peek_instructions(FpOp::Fma, precision, width, 1).is_some();
    let target = if fuse { FpOp::Fma } else { op };
    let fused = if fuse { 0.5 } else { 1.0 };
    let unchanged = (target, width, entry.instructions as f64 * fused);
    if !removed.has(Deficiency::Simd) {
        return unchanged;
    }
    let Some(useful) = host.useful_width(target, precision) else { return unchanged };
    let wide = useful.max(width);
    let full = entry.flops as f64 / full_flops(op, precision, wide);
    (target, wide, full.min(entry.instructions as f64) * fused)
}

/// Factor by which the removal of the SIMD deficiency shrinks the number of arithmetic instructions; 1 if there is none.
///
/// `s = Σ instructions after / Σ instructions before`
pub fn simd_shrink(mix: &[MixEntry], host: Host<'_>) -> f64 {
    let before: f64 = mix.iter().map(|e| e.instructions as f64).sum();
    if before <= 0.0 {
        return 1.0;
    }
    let removed = Removed::only(Deficiency::Simd);
    let after: f64 = mix.iter().map(|e| idealised(e, host, removed).2).sum();
    (after / before).clamp(0.0, 1.0)
}

/// The bound of the module's docstring over `demands`.
pub fn groups_seconds(demands: &Demands, host: Host<'_>, trace: &mut Trace) -> f64 {
    let ops: Vec<FpOp> = demands.keys().copied().collect();
    let mut group: Vec<usize> = (0..ops.len()).collect();
    let mut partial = Vec::new();
    for i in 0..ops.len() {
        for j in i + 1..ops.len() {
            let overlap = overlap(ops[i], ops[j], demands, host, trace);
            if overlap >= SAME_PIPES {
                let (from, to) = (group[j], group[i]);
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            } else if overlap > 0.0 {
                partial.push((i, j, overlap));
            }
        }
    }
    let total = |g: usize| -> f64 { (0..ops.len()).filter(|i| group[*i] == g).map(|i| demands[&ops[i]].0).sum() };
    let mut bound = group.iter().map(|g| total(*g)).fold(0.0, f64::max);
    for (i, j, overlap) in partial {
        if group[i] != group[j] {
            bound = bound.max(overlap * (total(group[i]) + total(group[j])));
        }
    }
    bound
}

/// u(a, b): 1 for the same pipes, 0 for disjoint ones, between for pipe groups that overlap in part.
fn overlap(a: FpOp, b: FpOp, demands: &Demands, host: Host<'_>, trace: &mut Trace) -> f64 {
    let divider = |op| matches!(op, FpOp::Div | FpOp::Sqrt);
    match (divider(a), divider(b)) {
        (true, true) => return 1.0,
        (true, false) | (false, true) => return 0.0,
        _ => {}
    }
    let heavier = if demands[&a].0 >= demands[&b].0 { demands[&a] } else { demands[&b] };
    let (_, precision, width) = heavier;
    let fused = |op: FpOp| if op == FpOp::Other { FpOp::Mul } else { op };
    let (a, b) = (fused(a), fused(b));
    if a == b || [a, b] == [FpOp::Mul, FpOp::Fma] || [a, b] == [FpOp::Fma, FpOp::Mul] {
        return 1.0;
    }
    match host_overlap(a, b, precision, width, host, trace) {
        Some(u) => u,
        None => {
            trace.lacks(format!("co-issue of {} and {} not measured: taken as shared pipes", a.name(), b.name()));
            1.0
        }
    }
}

/// u from the measured 1:1 mix: `(1/r_ab) / (1/r_a + 1/r_b)` with rates per pair; 0 if the mix is as fast as its slower half.
fn host_overlap(a: FpOp, b: FpOp, p: Precision, w: Width, host: Host<'_>, trace: &mut Trace) -> Option<f64> {
    let p = if p == Precision::X87 { Precision::Dp } else { p };
    let pairs = pair_rate(a, b, p, w, host, trace)?;
    let alone_a = 1.0 / host.peek_instructions(a, p, w, 1)?;
    let alone_b = 1.0 / host.peek_instructions(b, p, w, 1)?;
    let together = 1.0 / pairs;
    if together <= alone_a.max(alone_b) * 1.03 {
        return Some(0.0);
    }
    Some((together / (alone_a + alone_b)).min(1.0))
}

/// Pairs (one a, one b) per second on one thread, from `*.coissue.*`, else from the ceilings that are such a mix.
fn pair_rate(a: FpOp, b: FpOp, p: Precision, w: Width, host: Host<'_>, trace: &mut Trace) -> Option<f64> {
    let flops = full_flops(a, p, w) + full_flops(b, p, w);
    let name = |x: FpOp, y: FpOp| format!("{}.coissue.{}+{}.{}", p.name(), x.name(), y.name(), w.name());
    for id in [name(a, b), name(b, a)] {
        if let Some(value) = host.peek(&id, 1, Scaling::PerCore) {
            let per_pair = if host.unit(&id) == Some("flop/s") { flops } else { 2.0 };
            trace.from.insert(id);
            return Some(value / per_pair);
        }
    }
    let add_mul = [a, b] == [FpOp::Add, FpOp::Mul];
    let useful = host.useful_width(if add_mul { FpOp::Add } else { FpOp::Fma }, p)?;
    let id = format!("{}.{}", p.name(), if add_mul { "balance.addmul" } else { "peak" });
    let value = host.peek(&id, 1, Scaling::PerCore)?;
    trace.from.insert(id);
    let flops = full_flops(a, p, useful) + full_flops(b, p, useful);
    let scale = host.peek_instructions(a, p, w, 1)? / host.peek_instructions(a, p, useful, 1)?;
    Some(value / flops * scale)
}

/// Integer arithmetic of this function at the integer pipes' rate, as vectors without SIMD deficiency; `None` if the host
/// has no such ceiling.
fn integer_seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    let work = subject.function.work.as_ref()?;
    let executed: u64 = work.classes.iter().filter(|(c, _)| *c == InstructionClass::Alu).map(|(_, n)| *n).sum();
    let first = |ids: &[&str]| ids.iter().copied().find(|id| subject.host.has(id)).map(str::to_owned);
    let scalar = first(&["int.alu.scalar", "int.alu", "int.add.scalar", "int.add"])?;
    let vectors = removed.has(Deficiency::Simd) && subject.vector.integers().is_some() && subject.vector.is_possible();
    let bits = subject.host.machine().vector_bits.unwrap_or(128);
    let (id, left) = match vectors.then(|| first(&[&format!("int.add.{bits}")])) {
        Some(wide) => (wide.unwrap_or(scalar), subject.vector.slots()),
        None => (scalar, 1.0),
    };
    Some(executed as f64 * left / subject.host.value(&id, threads, Scaling::PerCore, trace)?)
}
