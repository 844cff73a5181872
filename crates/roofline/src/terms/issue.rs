//! T_issue: issue slots over the rate that the front end reaches with this instruction mix and code footprint (A.1.4).
//!
//! ```text
//! T_issue = issue slots / rate(f, filler, footprint)       f = FP instructions / issue slots
//! ```
//!
//! The rate is interpolated over log2(1/f) between the measured `mix.*.{2,4,8,16}` and between filler classes by their
//! shares; the mixes are measured with the FP instructions that have the highest throughput (see `machine`).

use rprof_isa::facts::InstructionClass;
use rprof_isa::operation::{FpOp, Precision};
use rprof_profile::function::Work;

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::{Host, Scaling, Trace, full_flops};
use super::{Subject, pipe};

/// The measured FP fractions, 1/n.
const FRACTIONS: [u32; 4] = [2, 4, 8, 16];

/// T_issue at `threads`, in seconds.
pub fn seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    let Some(work) = &subject.function.work else {
        trace.lacks("instructions not counted");
        return None;
    };
    let host = subject.host;
    let shrink = if removed.has(Deficiency::Simd) { subject.vector.slots() } else { 1.0 };
    let replacing = if removed.has(Deficiency::DivSqrt) { pipe::replacing(&work.mix) } else { 0.0 };
    let rate = rate(work, host, threads, trace)?;
    Some((work.issue_slots as f64 + replacing) * shrink / rate)
}

/// Slots per second for this mix; never above `issue`.
fn rate(work: &Work, host: Host<'_>, threads: u32, trace: &mut Trace) -> Option<f64> {
    let limit = host.value(&with_footprint("issue", work.code_bytes, host), threads, Scaling::PerCore, trace);
    let mut shares = 0.0;
    let mut seconds_per_slot = 0.0;
    for (filler, share) in fillers(work) {
        if let Some(rate) = filler_rate(work, filler, host, threads, limit, trace) {
            shares += share;
            seconds_per_slot += share / rate;
        }
    }
    let mixed = (shares > 0.0 && seconds_per_slot > 0.0).then(|| shares / seconds_per_slot);
    match (mixed, limit) {
        (Some(m), Some(l)) => Some(m.min(l)),
        (m, l) => m.or(l),
    }
}

/// Fillers and their shares of the instructions that are not floating point.
fn fillers(work: &Work) -> [(&'static str, f64); 3] {
    let sum = |wanted: &[InstructionClass]| -> f64 {
        work.classes.iter().filter(|(c, _)| wanted.contains(c)).map(|(_, n)| *n as f64).sum()
    };
    let mov = sum(&[InstructionClass::Mov]);
    let alu = sum(&[InstructionClass::Alu, InstructionClass::Branch, InstructionClass::Other]);
    let load = sum(&[InstructionClass::Load, InstructionClass::Store]);
    let total = mov + alu + load;
    if total <= 0.0 {
        return [("mov", 0.0), ("alu", 0.0), ("load", 0.0)];
    }
    [("mov", mov / total), ("alu", alu / total), ("load", load / total)]
}

fn filler_rate(
    work: &Work,
    filler: &str,
    host: Host<'_>,
    threads: u32,
    limit: Option<f64>,
    trace: &mut Trace,
) -> Option<f64> {
    let fp: f64 = work.classes.iter().filter(|(c, _)| *c == InstructionClass::Fp).map(|(_, n)| *n as f64).sum();
    let slots = work.issue_slots as f64;
    if slots <= 0.0 {
        return None;
    }
    let wanted = (slots / fp.max(slots / 1e6)).log2();
    let points: Vec<(f64, f64)> = FRACTIONS
        .into_iter()
        .filter_map(|n| point(filler, n, work.code_bytes, host, threads, trace).map(|r| (f64::from(n).log2(), r)))
        .collect();
    let after = points.iter().position(|(x, _)| *x >= wanted);
    match after {
        None => points.last().map(|(_, r)| *r),
        // More floating point than any measured mix.
        Some(0) => points.first().map(|(_, r)| *r).or(limit),
        Some(i) => {
            let ((x0, r0), (x1, r1)) = (points[i - 1], points[i]);
            Some(r0 + (r1 - r0) * (wanted - x0) / (x1 - x0))
        }
    }
}

/// The measured rate at FP fraction 1/n.
fn point(filler: &str, n: u32, code_bytes: u64, host: Host<'_>, threads: u32, trace: &mut Trace) -> Option<f64> {
    let id = with_footprint(&format!("mix.{filler}.{n}"), code_bytes, host);
    let value = host.value(&id, threads, Scaling::PerCore, trace)?;
    if host.unit(&id) != Some("flop/s") {
        return Some(value);
    }
    // A ceiling in FLOP/s states the rate of its FMA, one in n instructions.
    let width = host.useful_width(FpOp::Fma, Precision::Dp)?;
    Some(value / full_flops(FpOp::Fma, Precision::Dp, width) * f64::from(n))
}

/// The id for this code footprint: `.l1i` and `.l2` forms if the host has them and the code is that large.
fn with_footprint(id: &str, code_bytes: u64, host: Host<'_>) -> String {
    let l1i = host.machine().caches.iter().find(|c| c.level == 1).map_or(32 << 10, |c| c.size.min(32 << 10));
    let suffix = match code_bytes {
        b if b > l1i => "l2",
        b if b > l1i / 2 => "l1i",
        _ => "opcache",
    };
    let specific = format!("{id}.{suffix}");
    if host.has(&specific) { specific } else { id.to_owned() }
}
