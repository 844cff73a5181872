//! What removing deficiencies would save.
//!
//! ```text
//! seconds         = T − T_without          seconds_max = time_s − T_without
//! program_seconds = seconds × share of its time in which no other function runs
//! ```
//!
//! Single deficiencies that gain at least 5 % of T, greatest first; where there is none, the smallest pair that does.

use crate::profile::function::Saving;

use super::advice;
use super::bound::Bound;
use super::class;
use super::deficiency::{Deficiency, Removed};
use super::memory_side;
use super::terms::Subject;

/// A removal is listed if it gains this share of T.
const WORTHWHILE: f64 = 0.05;

/// The savings of one function. Deficiencies that neither bind nor are next gain nothing and are not among them.
pub fn savings(subject: &Subject<'_>, bound: &Bound) -> Vec<Saving> {
    let Some(before) = bound.seconds() else { return Vec::new() };
    let candidates = candidates(subject);
    let room = memory_side::room(subject);
    let gain = |set: &[Deficiency]| {
        let mut after = bound.without(subject, set.iter().copied().collect::<Removed>())?;
        if let Some(room) = room.filter(|_| set.contains(&Deficiency::Latency)) {
            // Queues that are full already cannot hide more.
            after = after.max(before - room.seconds);
        }
        (before - after >= WORTHWHILE * before).then_some((before - after, after))
    };
    let mut found: Vec<(Vec<Deficiency>, f64, f64)> =
        candidates.iter().filter_map(|d| gain(&[*d]).map(|(g, after)| (vec![*d], g, after))).collect();
    if found.is_empty() {
        let pairs = candidates
            .iter()
            .enumerate()
            .flat_map(|(i, a)| candidates[i + 1..].iter().map(move |b| [*a, *b]))
            .filter_map(|pair| gain(&pair).map(|(g, after)| (pair.to_vec(), g, after)));
        found.extend(pairs.max_by(|a, b| a.1.total_cmp(&b.1)));
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
        .into_iter()
        .map(|(remove, seconds, after)| Saving {
            advice: advice::for_removal(subject, bound, &remove),
            remove: remove.iter().map(|d| d.name().to_owned()).collect(),
            seconds,
            seconds_max: subject.function.time_s.map_or(seconds, |t| (t - after).max(seconds)),
            program_seconds: alone_share(subject).map(|share| seconds * share),
        })
        .collect()
}

fn candidates(subject: &Subject<'_>) -> Vec<Deficiency> {
    let parallel = class::parallel_candidates(subject);
    Deficiency::ALL
        .into_iter()
        .filter(|d| match d {
            Deficiency::Threads | Deficiency::Imbalance => parallel.contains(d),
            Deficiency::Fma => class::fma_deficient(subject),
            _ => true,
        })
        .collect()
}

/// Share of its elapsed time in which no other function was at work.
fn alone_share(subject: &Subject<'_>) -> Option<f64> {
    let f = subject.function;
    f.exclusive_s.zip(f.time_s).filter(|(_, t)| *t > 0.0).map(|(alone, t)| (alone / t).clamp(0.0, 1.0))
}
