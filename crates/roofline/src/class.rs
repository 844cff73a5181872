//! The class of a function (docs/conventions.md, Model).
//!
//! ```text
//! it was off the CPU for longer than on it              waiting
//! the kernel worked longer for it than it did itself   page-faults, system-calls
//! T ≥ 0.8 · time_s                                     that of the binding term
//! else, with an account                                its largest cause
//! T ≥ 0.6 · time_s                                     that of the binding term
//! else, where misses out of order can take the rest    private-cache-conflict, cache-latency, dram-latency
//! else                                                 unknown
//! ```
//!
//! Another module decides the confidence: [`confidence`](super::confidence).

use rprof_profile::vocabulary::Class;

use super::account::{self, Named};
use super::bound::Bound;
use super::deficiency::{Deficiency, Removed};
use super::host::Trace;
use super::metrics;
use super::terms::{Subject, TermId, chain, latency, misses, pipe};

/// A deficiency must gain this share of T for the function to be classed by it.
const GAIN: f64 = 0.03;
/// Roof fraction from which the binding ceiling limits a function.
pub const AT_ITS_BOUND: f64 = 0.8;
/// Below this roof fraction the binding ceiling does not explain the time.
pub const EXPLAINED: f64 = 0.6;
/// Above this share of the all-FMA rate a function has no FMA deficiency.
const BALANCED: f64 = 0.97;
/// Conflicts make a level's misses from this share on.
const HALF: f64 = 0.5;

/// The model's verdict on a function in one word.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// Id of the binding ceiling.
    pub binding: Option<String>,
    /// The class, `unknown` included; `None` for functions that were not counted.
    pub class: Option<Class>,
    /// For `unknown`: the class of the largest term.
    pub nearest: Option<Class>,
    /// T / time_s.
    pub roof_fraction: Option<f64>,
    /// Neither a ceiling nor an account explains the time.
    pub is_guess: bool,
}

/// Deficiencies of the core that this function can have.
fn core_candidates(subject: &Subject<'_>) -> Vec<Deficiency> {
    let all = [Deficiency::Ilp, Deficiency::Mix, Deficiency::Simd, Deficiency::DivSqrt, Deficiency::Fma];
    all.into_iter().filter(|d| is_candidate(subject, *d)).collect()
}

/// Whether a deficiency of the core can be removed from this function at all.
pub fn is_candidate(subject: &Subject<'_>, d: Deficiency) -> bool {
    match d {
        Deficiency::Simd => subject.vector.is_possible(),
        Deficiency::Ilp => chain::breakable(subject),
        Deficiency::Fma => fma_deficient(subject),
        _ => true,
    }
}

/// Whether F/T_pipe at its own widths is below 0.97 of all-FMA.
pub fn fma_deficient(subject: &Subject<'_>) -> bool {
    let mix = subject.function.work.as_ref().map_or(&[][..], |w| &w.mix);
    metrics::fma_balance(mix, subject.host).is_some_and(|b| b < BALANCED)
}

/// Parallel deficiencies, for functions with several threads, which were allowed more than one CPU while they ran. That a function
/// had one thread concerns the program: [`parallelism`](super::parallelism).
fn parallel_candidates(subject: &Subject<'_>) -> Vec<Deficiency> {
    if subject.team.size < 2 || subject.team.allowed.is_none_or(|allowed| allowed < 2) {
        return Vec::new();
    }
    // More threads than it had help only if it had fewer than CPUs.
    let room = subject.team.allowed.is_some_and(|allowed| subject.team.size < allowed);
    let threads = room.then_some(Deficiency::Threads);
    threads.into_iter().chain([Deficiency::Imbalance]).collect()
}

/// [`parallel_candidates`] without those that a deficiency of memory names better: where memory holds a function with uneven bytes, it is
/// its data that is to be shared out.
pub fn parallel_of(subject: &Subject<'_>, binding: Option<TermId>) -> Vec<Deficiency> {
    let of_data = binding == Some(TermId::Dram) && subject.spread.is_uneven();
    parallel_candidates(subject).into_iter().filter(|d| !of_data || *d != Deficiency::Imbalance).collect()
}

/// Classifies `subject` by its `bound`, its account and its time in the kernel.
pub fn verdict(subject: &Subject<'_>, bound: &Bound) -> Verdict {
    let f = subject.function;
    let by_ceiling = bound.binding.map(|(term, seconds)| named(subject, bound, term, seconds));
    let time = f.time_s.filter(|t| *t > 0.0);
    let verdict = Verdict {
        binding: by_ceiling.map(|(id, _)| id.into()),
        roof_fraction: bound.seconds().zip(time).map(|(seconds, time)| seconds / time),
        ..Verdict::default()
    };
    if let Some(kernel) = account::of_kernel(f) {
        return Verdict { class: Some(kernel), ..verdict };
    }
    let explains = |least: f64| by_ceiling.filter(|_| verdict.roof_fraction.is_some_and(|fraction| fraction >= least));
    if let Some((_, ceiling)) = explains(AT_ITS_BOUND) {
        return Verdict { class: Some(ceiling), ..verdict };
    }
    if let Some(largest) = account::largest(f).filter(|_| time.is_some()) {
        let cause = match largest {
            Named::Class(cause) => cause,
            Named::Pipes => of_pipes(subject),
        };
        return Verdict { class: Some(cause), ..verdict };
    }
    if let Some((_, ceiling)) = explains(EXPLAINED) {
        return Verdict { class: Some(ceiling), ..verdict };
    }
    let rest = time.zip(bound.seconds()).map(|(time, seconds)| time - seconds);
    if let Some(guess) = rest.and_then(|rest| of_misses(subject, rest)) {
        return Verdict { class: Some(guess), is_guess: true, ..verdict };
    }
    let counted =
        by_ceiling.is_some() || (f.work.is_some() || f.flops.is_some() || f.bytes.is_some()) && time.is_some();
    let nearest = by_ceiling.map(|(_, ceiling)| ceiling);
    Verdict { class: counted.then_some(Class::Unknown), nearest, ..verdict }
}

/// The class of misses that prefetchers do not foresee, if they can take these `seconds`, one after the other.
fn of_misses(subject: &Subject<'_>, seconds: f64) -> Option<Class> {
    let t = subject.function.work.as_ref()?.traffic?;
    let (cache, dram) = misses::out_of_order_s(subject, &t);
    if cache + dram < seconds {
        return None;
    }
    let conflicts = t.l1_conflict > HALF * t.l1_misses || t.l2_conflict > HALF * t.l2_misses;
    Some(match cache >= dram {
        true if conflicts => Class::PrivateCacheConflict,
        true => Class::CacheLatency,
        false => Class::DramLatency,
    })
}

/// The deficiency of the pipes that shortens them most when removed.
fn of_pipes(subject: &Subject<'_>) -> Class {
    let seconds = |removed| subject.term(TermId::Pipe, removed).seconds.unwrap_or(0.0);
    let before = seconds(Removed::NONE);
    let all =
        [(Deficiency::Simd, Class::Simd), (Deficiency::Fma, Class::FmaBalance), (Deficiency::DivSqrt, Class::DivSqrt)];
    let gains = all.into_iter().filter(|(d, _)| is_candidate(subject, *d)).map(|(d, class)| {
        let gain = before - seconds(Removed::only(d));
        (class, gain)
    });
    let most = gains.filter(|(_, gain)| *gain > GAIN * before).max_by(|a, b| a.1.total_cmp(&b.1));
    let arithmetic = subject.function.work.as_ref().is_some_and(|work| !work.mix.is_empty());
    most.map_or(if arithmetic { Class::Peak } else { Class::InstructionMix }, |(class, _)| class)
}

/// (ceiling id, class) of the binding term, or of the parallel deficiency that gains more than all others.
fn named(subject: &Subject<'_>, bound: &Bound, term: TermId, seconds: f64) -> (&'static str, Class) {
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
    // Distance to the next term: the gain from removing all of a term.
    let alone = seconds - next_below(bound, term);
    let other = match term {
        t if !t.in_core() || t == TermId::Access => Some((None, alone)),
        // Also if nothing can remove it.
        TermId::Chain if alone >= GAIN * seconds => Some((Some(Deficiency::Ilp), alone)),
        TermId::Pipe if of_divider(subject, bound, seconds) >= GAIN * seconds => {
            Some((Some(Deficiency::DivSqrt), of_divider(subject, bound, seconds)))
        }
        _ => most(core_candidates(subject)).map(|(d, g)| (Some(d), g)),
    };
    if let Some((d, gained)) = most(parallel_of(subject, Some(term)))
        && other.is_none_or(|(_, g)| gained > g)
    {
        return match d {
            Deficiency::Threads => ("threads", Class::Threads),
            _ => ("imbalance", Class::LoadImbalance),
        };
    }
    match (term, other.and_then(|(d, _)| d)) {
        (TermId::Access, _) => ("access", Class::L1Bandwidth),
        (TermId::L1, _) => ("l1", Class::L1Bandwidth),
        (TermId::L2, _) => ("l2", Class::L2Bandwidth),
        (TermId::L3, _) => ("l3", Class::L3Bandwidth),
        (TermId::Dram, _) if subject.uneven.is_some() || subject.spread.is_uneven() => {
            ("memory-imbalance", Class::DramBandwidth)
        }
        (TermId::Dram, _) => ("dram", Class::DramBandwidth),
        (TermId::Latency, _) => ("latency", latency_class(subject)),
        (_, Some(Deficiency::Ilp)) => ("ilp", Class::Ilp),
        (_, Some(Deficiency::Mix)) => ("mix", Class::InstructionMix),
        (_, Some(Deficiency::Simd)) => ("simd", Class::Simd),
        (_, Some(Deficiency::Fma)) => ("fma", Class::FmaBalance),
        (_, Some(Deficiency::DivSqrt)) => ("divsqrt", Class::DivSqrt),
        _ => ("peak", Class::Peak),
    }
}

/// Seconds that the divider alone makes the binding `seconds` of the pipes longer, whatever would replace it.
fn of_divider(subject: &Subject<'_>, bound: &Bound, seconds: f64) -> f64 {
    let undivided = subject.team.seconds(|k| Some(pipe::without_divider(subject, k)));
    seconds - next_below(bound, TermId::Pipe).max(undivided.unwrap_or(0.0))
}

/// The largest term beside `binding` and beside the other levels of the same data path: removing a level's traffic does
/// not remove that of the levels above it.
fn next_below(bound: &Bound, binding: TermId) -> f64 {
    bound
        .terms
        .iter()
        .filter(|(id, _)| *id != binding && bound.may_bind(*id))
        .filter_map(|(_, t)| t.seconds)
        .fold(0.0, f64::max)
}

fn latency_class(subject: &Subject<'_>) -> Class {
    let mut trace = Trace::default();
    match latency::parts(subject, subject.team.most(), Removed::NONE, &mut trace) {
        Some(parts) if parts.dram >= parts.cache => Class::DramLatency,
        _ => Class::CacheLatency,
    }
}
