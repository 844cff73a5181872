//! The ceilings as they hold for one function: a cumulative ladder in the core, the memory levels, and A.3's
//! single-feature ceilings beside them.
//!
//! ```text
//! core rung i     value = work / T_core(deficiencies 1…i removed)      never falls from rung to rung
//! memory level    value = value_alone = work / T_level                   at most work / bytes there × the best bandwidth of any stream
//! value_alone     roof × simd_use, roof × fma_balance, roof × ilp, roof × λ, work / T_issue …, at most the roof
//! ```
//!
//! The order is that of effort in A.1.3. A kernel that balances adds and multiplies by nature has `fma` at the bottom
//! (§4); imbalance is placed right below the roof or below everything else (Figures A2 and A3).

use rprof_isa::operation::Precision;
use rprof_profile::function::{Analysis, FunctionCeiling};

use super::ImbalancePosition;
use super::bound::Bound;
use super::class;
use super::deficiency::{Deficiency, Removed};
use super::host::Scaling;
use super::metrics::Axis;
use super::terms::{Subject, Term, TermId, bandwidth, pipe};

const MEMORY: [TermId; 5] = [TermId::Latency, TermId::Dram, TermId::L3, TermId::L2, TermId::L1];

/// The ceilings of one function, low effort first: parallel and core rungs, then memory from far to near.
pub fn ceilings(
    subject: &Subject<'_>,
    bound: &Bound,
    axis: Axis,
    analysis: &Analysis,
    position: ImbalancePosition,
) -> Vec<FunctionCeiling> {
    let work = axis.work();
    let roof = roof(subject, bound, axis);
    let most = most(subject, axis);
    let mut removed = Removed::NONE;
    let mut height: f64 = 0.0;
    let mut rungs = Vec::new();
    for deficiency in order(subject, position) {
        removed = removed.and(deficiency);
        let rate = bound.in_core(subject, removed).filter(|t| *t > 0.0).map(|t| work / t);
        // If nothing is left in the core, only the roof limits.
        let value = rate.or(roof).map(|v| v.min(most).max(height));
        height = value.unwrap_or(height);
        rungs.push(FunctionCeiling {
            id: deficiency.name().into(),
            kind: kind(deficiency).into(),
            value,
            value_alone: alone(subject, bound, deficiency, work, roof, analysis),
            from: from(bound, deficiency),
            refuted: own_term(deficiency).is_some_and(|t| bound.refuted.contains(&t)),
        });
    }
    rungs.push(FunctionCeiling {
        id: "peak".into(),
        kind: "core".into(),
        value: roof.map(|r| r.min(most).max(height)).or((height > 0.0).then_some(height)),
        value_alone: roof.map(|r| r.min(most)),
        from: bound.term(TermId::Pipe).trace.from.iter().cloned().collect(),
        refuted: bound.refuted.contains(&TermId::Pipe),
    });
    rungs.extend(MEMORY.into_iter().flat_map(|id| memory(subject, bound, id, work)));
    rungs
}

/// Deficiencies in the order in which the ladder removes them.
fn order(subject: &Subject<'_>, position: ImbalancePosition) -> Vec<Deficiency> {
    use Deficiency::*;
    let mut order = vec![Threads, Ilp, Mix, Simd, Fma, DivSqrt, Access];
    if !class::fma_deficient(subject) {
        order.retain(|d| *d != Fma);
        order.insert(0, Fma);
    }
    match position {
        ImbalancePosition::BelowRoof => order.push(Imbalance),
        ImbalancePosition::BelowTlp => order.insert(0, Imbalance),
    }
    order
}

fn kind(d: Deficiency) -> &'static str {
    if matches!(d, Deficiency::Threads | Deficiency::Imbalance) { "parallel" } else { "core" }
}

/// The term that a core deficiency is in.
fn own_term(d: Deficiency) -> Option<TermId> {
    match d {
        Deficiency::Ilp => Some(TermId::Chain),
        Deficiency::Mix => Some(TermId::Issue),
        Deficiency::Access => Some(TermId::Access),
        Deficiency::Simd | Deficiency::Fma | Deficiency::DivSqrt => Some(TermId::Pipe),
        _ => None,
    }
}

fn from(bound: &Bound, d: Deficiency) -> Vec<String> {
    own_term(d).map(|t| bound.term(t).trace.from.iter().cloned().collect()).unwrap_or_default()
}

/// The roof for this function: its FLOPs by precision at `{p}.fma` on every CPU that it was allowed; on the other axes the
/// rate at which the pipe term alone would allow its work.
fn roof(subject: &Subject<'_>, bound: &Bound, axis: Axis) -> Option<f64> {
    let threads = subject.team.allowed.unwrap_or(0).max(subject.team.most());
    if let (Axis::Flop(work), Some(flops)) = (axis, subject.function.flops) {
        // If the precision is not known, use the higher roof, as the term of the pipes does.
        let of_either = flops.total * u64::from(flops.missing_parts.precision);
        let parts = [
            (flops.dp + flops.x87, Precision::Dp),
            (flops.sp + of_either, Precision::Sp),
            (flops.hp, Precision::Hp),
            (flops.bf16, Precision::Bf16),
        ];
        let mut seconds = 0.0;
        for (n, precision) in parts.into_iter().filter(|(n, _)| *n > 0) {
            seconds += n as f64
                / subject.host.roof(precision, threads).or_else(|| subject.host.roof(Precision::Sp, threads))?;
        }
        return (seconds > 0.0).then(|| work / seconds);
    }
    let all: Removed = [Deficiency::Threads, Deficiency::Imbalance].into_iter().collect();
    let pipe = subject.term(TermId::Pipe, all).seconds.filter(|t| *t > 0.0 && !bound.refuted.contains(&TermId::Pipe));
    pipe.map(|t| axis.work() / t)
}

/// The limit of all bounds: the machine's peak, adds beside fused multiply-adds included; on the axis of bytes the bandwidth of L1.
fn most(subject: &Subject<'_>, axis: Axis) -> f64 {
    let threads = subject.team.allowed.unwrap_or(0).max(subject.team.most());
    let flops = subject.function.flops.unwrap_or_default();
    let ids: &[&str] = match axis {
        Axis::Flop(_) if flops.sp + flops.hp + flops.bf16 == 0 && !flops.missing_parts.precision => {
            &["dp.fma", "dp.peak"]
        }
        Axis::Flop(_) if flops.hp + flops.bf16 == 0 => &["sp.fma", "sp.peak"],
        Axis::Byte(_) => &["l1.read", "l1.triad", "l1.copy", "l1.update", "l1.write"],
        _ => &[],
    };
    let rates = ids.iter().filter_map(|id| subject.host.peek(id, threads, Scaling::PerCore));
    rates.reduce(f64::max).unwrap_or(f64::INFINITY)
}

/// A.3's single-feature ceiling: the roof with this one deficiency as measured and everything else perfect.
fn alone(
    subject: &Subject<'_>,
    bound: &Bound,
    d: Deficiency,
    work: f64,
    roof: Option<f64>,
    analysis: &Analysis,
) -> Option<f64> {
    let by_term = |id: TermId| {
        let seconds = bound.term(id).seconds?;
        if seconds > 0.0 { Some((work / seconds).min(roof?)) } else { roof }
    };
    match d {
        Deficiency::Simd => Some(roof? * analysis.simd_use?),
        Deficiency::Fma => Some(roof? * analysis.fma_balance?),
        Deficiency::Ilp => Some(roof? * analysis.ilp?),
        Deficiency::Imbalance => Some(roof? * subject.function.lambda?),
        Deficiency::Threads => {
            let had = subject.host.roof(Precision::Dp, subject.team.most())?;
            let could = subject.host.roof(Precision::Dp, subject.team.allowed?.max(subject.team.most()))?;
            Some(roof? * (had / could).min(1.0))
        }
        Deficiency::Mix => by_term(TermId::Issue),
        Deficiency::Access => by_term(TermId::Access),
        Deficiency::DivSqrt => divider_alone(subject, work, roof?),
        _ => None,
    }
}

fn divider_alone(subject: &Subject<'_>, work: f64, roof: f64) -> Option<f64> {
    use rprof_isa::operation::FpOp;
    let mix = &subject.function.work.as_ref()?.mix;
    let divider: Vec<_> = mix.iter().filter(|e| matches!(e.op, FpOp::Div | FpOp::Sqrt)).copied().collect();
    let mut trace = super::host::Trace::default();
    let seconds = subject.team.seconds(|k| {
        let demands = pipe::demands(&divider, subject.host, k, Removed::NONE, &mut trace);
        Some(pipe::groups_seconds(&demands, subject.host, &mut trace))
    })?;
    Some(if seconds > 0.0 { (work / seconds).min(roof) } else { roof })
}

/// The rate at which all bytes of a level come at the best bandwidth that was measured there: a term may leave some of them out, such as
/// lines that the kernel had just zeroed.
fn most_of_level(subject: &Subject<'_>, id: TermId, work: f64) -> f64 {
    let bytes = subject.function.bytes.unwrap_or_default();
    let (level, bytes) = match id {
        TermId::L1 => ("l1", bytes.l1),
        TermId::L2 => ("l2", bytes.l2),
        TermId::L3 => ("l3", bytes.l3),
        _ => ("dram", bytes.dram),
    };
    let best = bandwidth::best(level, subject.team.most(), subject.host);
    bytes.filter(|bytes| *bytes > 0).zip(best).map_or(f64::INFINITY, |(bytes, best)| work / bytes as f64 * best)
}

/// The ceiling of a memory level; of memory itself two if its controllers, or its threads' bytes, were uneven.
fn memory(subject: &Subject<'_>, bound: &Bound, id: TermId, work: f64) -> Vec<FunctionCeiling> {
    let most = most_of_level(subject, id, work);
    let ceiling = |name: &str, term: &Term| {
        // A level without traffic, or a function without misses, sets no ceiling.
        let value = term.seconds.filter(|t| *t > 0.0).map(|t| (work / t).min(most));
        FunctionCeiling {
            id: name.into(),
            kind: "memory".into(),
            value,
            value_alone: value,
            from: term.trace.from.iter().cloned().collect(),
            refuted: bound.refuted.contains(&id),
        }
    };
    if id != TermId::Dram || subject.uneven.is_none() && !subject.spread.is_uneven() {
        return vec![ceiling(id.name(), bound.term(id))];
    }
    let even = subject.term(id, Removed::only(Deficiency::MemoryImbalance));
    vec![ceiling(Deficiency::MemoryImbalance.name(), bound.term(id)), ceiling(id.name(), &even)]
}
