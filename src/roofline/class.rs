//! The class of a function, from its binding term (docs/conventions.md, Model).

use super::bound::Bound;
use super::deficiency::{Deficiency, Removed};
use super::metrics;
use super::terms::{Subject, TermId, latency};

/// A deficiency must gain this share of T for the function to be classed by it.
const GAIN: f64 = 0.03;
/// Below this roof fraction the terms do not explain the time.
pub const EXPLAINED: f64 = 0.6;
/// A wider relative time interval (its full width) says too little.
const WIDEST_INTERVAL: f64 = 0.2;
/// Above this share of the all-FMA rate a function has no FMA deficiency.
const BALANCED: f64 = 0.97;

/// What the model says about a function in one word.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// Id of the binding ceiling.
    pub binding: Option<String>,
    /// The class, `unknown` included; `None` for what was not counted.
    pub class: Option<String>,
    /// For `unknown`: the class of the largest term.
    pub nearest: Option<String>,
    /// T / time_s.
    pub roof_fraction: Option<f64>,
}

/// Deficiencies of the core that this function can have.
fn core_candidates(subject: &Subject<'_>) -> Vec<Deficiency> {
    let mut all = vec![Deficiency::Ilp, Deficiency::Mix, Deficiency::Simd, Deficiency::DivSqrt];
    if fma_deficient(subject) {
        all.push(Deficiency::Fma);
    }
    all
}

/// Whether F/T_pipe at its own widths is below 0.97 of all-FMA.
pub fn fma_deficient(subject: &Subject<'_>) -> bool {
    let mix = subject.function.work.as_ref().map_or(&[][..], |w| &w.mix);
    metrics::fma_balance(mix, subject.host).is_some_and(|b| b < BALANCED)
}

/// Parallel deficiencies, for functions whose threads were allowed more than one CPU while they ran.
pub fn parallel_candidates(subject: &Subject<'_>) -> Vec<Deficiency> {
    if subject.team.allowed.is_none_or(|allowed| allowed < 2) {
        return Vec::new();
    }
    let mut all = vec![Deficiency::Threads];
    if subject.team.size > 1 {
        all.push(Deficiency::Imbalance);
    }
    all
}

/// Classifies `subject` by its `bound`.
pub fn verdict(subject: &Subject<'_>, bound: &Bound) -> Verdict {
    let Some((term, seconds)) = bound.binding else {
        let f = subject.function;
        let counted = f.work.is_some() || f.flops.is_some() || f.bytes.is_some();
        let class = (counted && f.time_s.is_some()).then(|| "unknown".into());
        return Verdict { class, ..Verdict::default() };
    };
    let (id, class) = named(subject, bound, term, seconds);
    let mut verdict = Verdict { binding: Some(id.into()), class: Some(class.into()), ..Verdict::default() };
    let Some(time) = subject.function.time_s.filter(|t| *t > 0.0) else {
        // Nothing confirms that the terms explain its time.
        verdict.nearest = verdict.class.replace("unknown".into());
        return verdict;
    };
    let fraction = seconds / time;
    verdict.roof_fraction = Some(fraction);
    let wide = subject.function.time_ci95_s.is_some_and(|ci| 2.0 * ci > WIDEST_INTERVAL * time);
    if fraction < EXPLAINED || wide {
        verdict.nearest = verdict.class.replace("unknown".into());
    }
    verdict
}

/// (ceiling id, class) of the binding term, or of the parallel deficiency that gains more than all others.
fn named(subject: &Subject<'_>, bound: &Bound, term: TermId, seconds: f64) -> (&'static str, &'static str) {
    let gain = |d: Deficiency| bound.without(subject, Removed::only(d)).map_or(0.0, |t| seconds - t);
    let most = |all: Vec<Deficiency>| {
        all.into_iter().map(|d| (d, gain(d))).filter(|(_, g)| *g >= GAIN * seconds).fold(
            None,
            |best, (d, g)| match best {
                Some((_, most)) if most >= g => best,
                _ => Some((d, g)),
            },
        )
    };
    let other = match term {
        // How far the next term is below a memory term: what removing all of it could gain.
        t if !t.in_core() || t == TermId::Access => Some((None, seconds - next_below(bound, t))),
        _ => most(core_candidates(subject)).map(|(d, g)| (Some(d), g)),
    };
    if let Some((d, gained)) = most(parallel_candidates(subject))
        && other.is_none_or(|(_, g)| gained > g)
    {
        return match d {
            Deficiency::Threads => ("threads", "threads"),
            _ => ("imbalance", "load-imbalance"),
        };
    }
    match (term, other.and_then(|(d, _)| d)) {
        (TermId::Access, _) => ("access", "l1-bandwidth"),
        (TermId::L1, _) => ("l1", "l1-bandwidth"),
        (TermId::L2, _) => ("l2", "l2-bandwidth"),
        (TermId::L3, _) => ("l3", "l3-bandwidth"),
        (TermId::Dram, _) if subject.uneven.is_some() => ("memory-imbalance", "dram-bandwidth"),
        (TermId::Dram, _) => ("dram", "dram-bandwidth"),
        (TermId::Latency, _) => ("latency", latency_class(subject)),
        (_, Some(Deficiency::Ilp)) => ("ilp", "ilp"),
        (_, Some(Deficiency::Mix)) => ("mix", "instruction-mix"),
        (_, Some(Deficiency::Simd)) => ("simd", "simd"),
        (_, Some(Deficiency::Fma)) => ("fma", "fma-balance"),
        (_, Some(Deficiency::DivSqrt)) => ("divsqrt", "div-sqrt"),
        _ => ("peak", "peak"),
    }
}

/// The largest term beside `binding` and beside the other levels of the same data path: removing a level's traffic does
/// not remove that of the levels above it.
fn next_below(bound: &Bound, binding: TermId) -> f64 {
    bound
        .terms
        .iter()
        .filter(|(id, _)| *id != binding && !bound.refuted.contains(id))
        .filter_map(|(_, t)| t.seconds)
        .fold(0.0, f64::max)
}

fn latency_class(subject: &Subject<'_>) -> &'static str {
    let mut trace = super::host::Trace::default();
    match latency::parts(subject, subject.team.most(), Removed::NONE, &mut trace) {
        Some(parts) if parts.dram >= parts.cache => "dram-latency",
        _ => "cache-latency",
    }
}
