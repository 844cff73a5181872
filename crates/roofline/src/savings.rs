//! The time that removing deficiencies would save.
//!
//! ```text
//! seconds         = T − T_without                         in parts of the time where T exceeds it: (1 − T_without / T) · time_s
//! seconds_max     = seconds + min(time_s − T, own − seconds)
//! own             = Σ over terms of (term − term without) + latency of the misses that are avoided
//! program_seconds = seconds × share of its time in which no other function runs
//! ```
//!
//! No saving exceeds the elapsed time in which the function ran (its page faults apart, in which it was in the kernel), nor that of the run.
//!
//! own is the cost of the deficiency if nothing overlaps: no more of the unexplained time can be due to it. Savings from an account
//! replace the differences of bounds ([`what_if`](super::what_if)). If no ceiling explains the time, those of the core do not limit the
//! function, and their removal is not listed. Single deficiencies that gain at least 5 % of T; if there is none, the smallest pair that
//! does.

use rprof_profile::function::Saving;

use super::advice;
use super::bound::Bound;
use super::class::{self, EXPLAINED, Verdict};
use super::deficiency::{Deficiency, Removed};
use super::memory_side;
use super::order;
use super::prefetch;
use super::reuse::Reuse;
use super::terms::{Subject, misses};
use super::what_if;

/// A removal is listed if it gains this share of T.
const WORTHWHILE: f64 = 0.05;

/// The savings of one function, in [order](super::order). Deficiencies that neither bind nor are next gain nothing and are not among them.
/// `wall_s`: elapsed seconds of the run, if they are known.
pub fn savings(subject: &Subject<'_>, bound: &Bound, verdict: &Verdict, wall_s: Option<f64>) -> Vec<Saving> {
    let mut all = what_if::savings(subject);
    all.extend(prefetch::saving(subject));
    // A change that gained nothing in the replay gains nothing by a difference of bounds, either.
    let mut replaced: Vec<String> = all.iter().flat_map(|saving| saving.remove.clone()).collect();
    replaced.extend(what_if::replayed(subject));
    let is_told = |saving: &Saving| saving.remove.iter().any(|name| replaced.contains(name));
    all.extend(by_bound(subject, bound).into_iter().filter(|saving| !is_told(saving)));
    let most = wall_s.unwrap_or(f64::INFINITY);
    let mut all: Vec<Saving> = all.into_iter().map(|saving| saving.within(most)).collect();
    all.retain(|saving| saving.seconds_max > 0.0);
    order::put_in_order(&mut all, verdict.class);
    all
}

fn by_bound(subject: &Subject<'_>, bound: &Bound) -> Vec<Saving> {
    let Some(before) = bound.seconds() else { return Vec::new() };
    let candidates = candidates(subject, bound);
    let room = memory_side::room(subject);
    let without = |set: &[Deficiency]| {
        let mut after = bound.without(subject, set.iter().copied().collect::<Removed>())?;
        if let Some(room) = room.filter(|_| set.contains(&Deficiency::Latency)) {
            // Queues that are full already cannot hide more.
            after = after.max(before - room.seconds);
        }
        (before - after >= WORTHWHILE * before).then_some(after)
    };
    let mut found: Vec<(Vec<Deficiency>, f64)> =
        candidates.iter().filter_map(|d| without(&[*d]).map(|after| (vec![*d], after))).collect();
    if found.is_empty() {
        let pairs = candidates
            .iter()
            .enumerate()
            .flat_map(|(i, a)| candidates[i + 1..].iter().map(move |b| [*a, *b]))
            .filter_map(|pair| without(&pair).map(|after| (pair.to_vec(), after)));
        found.extend(pairs.min_by(|a, b| a.1.total_cmp(&b.1)));
    }
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    found
        .into_iter()
        .map(|(remove, after)| {
            let (seconds, seconds_max) = seconds(subject, bound, &remove, before, after);
            Saving {
                advice: advice::for_removal(subject, bound, &remove),
                remove: remove.iter().map(|d| d.name().to_owned()).collect(),
                seconds,
                seconds_max,
                program_seconds: subject.alone_share().map(|share| seconds * share),
            }
        })
        .collect()
}

/// (`seconds`, `seconds_max`) of the module's docstring for a bound that falls from `before` to `after`.
fn seconds(subject: &Subject<'_>, bound: &Bound, remove: &[Deficiency], before: f64, after: f64) -> (f64, f64) {
    let Some(time) = subject.function.time_s else { return (before - after, before - after) };
    if time <= before {
        let seconds = (1.0 - after / before) * time;
        return (seconds, seconds);
    }
    let seconds = before - after;
    if remove.iter().any(|d| matches!(d, Deficiency::Threads | Deficiency::Imbalance)) {
        // Whatever else holds it is shared out, too.
        return (seconds, seconds * time / before);
    }
    let removed: Removed = remove.iter().copied().collect();
    let shorter = bound.terms.iter().filter(|(id, _)| bound.may_bind(*id));
    let of_terms: f64 = shorter
        .filter_map(|(id, was)| Some((was.seconds? - bound.seconds_without(subject, *id, removed)?).max(0.0)))
        .sum();
    let of_misses: f64 = remove.iter().map(|d| misses::latency_s(subject, *d)).sum();
    let own = of_terms + of_misses;
    (seconds, seconds + (time - before).min((own - seconds).max(0.0)))
}

fn candidates(subject: &Subject<'_>, bound: &Bound) -> Vec<Deficiency> {
    let parallel = class::parallel_of(subject, bound.binding.map(|(term, _)| term));
    let time = subject.function.time_s.filter(|t| *t > 0.0);
    let explained = time.zip(bound.seconds()).is_none_or(|(time, seconds)| seconds >= EXPLAINED * time);
    Deficiency::ALL
        .into_iter()
        .filter(|d| match d {
            Deficiency::Threads | Deficiency::Imbalance => parallel.contains(d),
            Deficiency::Ilp
            | Deficiency::Mix
            | Deficiency::Simd
            | Deficiency::Fma
            | Deficiency::DivSqrt
            | Deficiency::Access => explained && class::is_candidate(subject, *d),
            Deficiency::CapacityMisses => matches!(subject.reuse, Reuse::SameCall { .. }),
            Deficiency::SeparatePasses => matches!(subject.reuse, Reuse::OtherFunction { .. }),
            _ => true,
        })
        .collect()
}
