//! The bound T = max of the terms, and the refutation of ceilings that the measurement exceeds.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use super::deficiency::{Deficiency, Removed};
use super::surroundings::Surroundings;
use super::terms::{Subject, Term, TermId, llc_retention};

/// No ceiling is refuted by less than this: the clock alone drifts by 3 %.
const LEAST_ERROR: f64 = 0.05;

/// All terms of one function as it is, those that a faster measurement refuted, and the bound over the others.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The terms, [`TermId::ALL`] order.
    pub terms: [(TermId, Term); 9],
    /// Terms that exceed the measured time by more than their error and by more than chance; left out of the bound.
    pub refuted: BTreeSet<TermId>,
    /// Share of the bytes of T_dram that memory may not have moved ([`kept`]).
    pub kept: f64,
    /// The largest terms, as long as their bytes are known to a factor of two at best; left out of the bound, too.
    pub unsure: BTreeSet<TermId>,
    /// The largest remaining term and its seconds.
    pub binding: Option<(TermId, f64)>,
    /// Seconds of terms with deficiencies removed, by those that the term depends on: most removals shorten few terms.
    known: RefCell<HashMap<(TermId, Removed), Option<f64>>>,
}

impl Bound {
    /// Computes the terms of `subject` and compares them with its time.
    pub fn of(subject: &Subject<'_>, around: &Surroundings) -> Bound {
        let terms = subject.terms(Removed::NONE);
        let kept = llc_retention::share(subject);
        let refuted = terms
            .iter()
            .filter(|(id, term)| {
                let moved = if *id == TermId::Dram { 1.0 - kept } else { 1.0 };
                let least = term.seconds.map(|seconds| seconds * moved / (1.0 + error(subject, *id, term)));
                least
                    .zip(subject.function.time_s)
                    .is_some_and(|(least, time)| least > time && !may_be_chance(subject, least, around))
            })
            .map(|(id, _)| *id)
            .collect();
        let mut bound =
            Bound { terms, refuted, kept, unsure: BTreeSet::new(), binding: None, known: RefCell::default() };
        loop {
            bound.binding = bound.largest(|id| bound.term(id).seconds);
            match bound.binding {
                Some((id, _)) if of_work(subject, id) > MOST_UNSURE => bound.unsure.insert(id),
                _ => return bound,
            };
        }
    }

    /// Whether term `id` is neither refuted nor unsure.
    pub fn may_bind(&self, id: TermId) -> bool {
        !self.refuted.contains(&id) && !self.unsure.contains(&id)
    }

    /// The largest term that may bind, with `seconds` of each; among those within 0.5 % of it the first in [`TermId::ALL`].
    fn largest(&self, seconds: impl Fn(TermId) -> Option<f64>) -> Option<(TermId, f64)> {
        let terms = TermId::ALL.map(|id| seconds(id).filter(|_| self.may_bind(id)).map(|s| (id, s)));
        let candidates = || terms.iter().flatten().copied();
        let most = candidates().map(|(_, s)| s).fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        candidates().find(|(_, s)| *s >= most * 0.995).map(|(id, _)| (id, most))
    }

    /// Seconds of term `id` of this bound's `subject`, with `removed` gone.
    pub fn seconds_without(&self, subject: &Subject<'_>, id: TermId, removed: Removed) -> Option<f64> {
        let removed = removed.within(id.depends_on());
        if removed == Removed::NONE {
            return self.term(id).seconds;
        }
        *self.known.borrow_mut().entry((id, removed)).or_insert_with(|| subject.term(id, removed).seconds)
    }

    /// T: the bound in seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.binding.map(|(_, t)| t)
    }

    /// Whether term `id` is not refuted and is at least half of T.
    pub fn is_near(&self, id: TermId) -> bool {
        let seconds = self.term(id).seconds.filter(|_| self.may_bind(id));
        seconds.zip(self.seconds()).is_some_and(|(seconds, most)| seconds >= most / 2.0)
    }

    /// T with `removed` gone: never more than T.
    pub fn without(&self, subject: &Subject<'_>, removed: Removed) -> Option<f64> {
        let before = self.seconds()?;
        let after = |removed| self.largest(|id| self.seconds_without(subject, id, removed)).map_or(0.0, |(_, t)| t);
        // The replacement of divisions may take longer than they do, and wider operations share pipes that narrower ones do not.
        let mut ways = vec![removed];
        for costly in [Deficiency::DivSqrt, Deficiency::Simd].into_iter().filter(|d| removed.has(*d)) {
            ways.extend(ways.clone().into_iter().map(|way| way.but(costly)));
        }
        Some(ways.into_iter().map(after).fold(before, f64::min))
    }

    /// T of the in-core terms alone with `removed` gone (A.3: no memory stalls).
    pub fn in_core(&self, subject: &Subject<'_>, removed: Removed) -> Option<f64> {
        TermId::ALL
            .into_iter()
            .filter(|id| id.in_core() && !self.refuted.contains(id))
            .filter_map(|id| self.seconds_without(subject, id, removed))
            .max_by(f64::total_cmp)
    }

    /// One of the nine terms.
    pub fn term(&self, id: TermId) -> &Term {
        &self.terms[TermId::ALL.iter().position(|t| *t == id).unwrap_or(0)].1
    }
}

/// Whether the few samples of a function that takes at least `least` seconds can be due to chance: `N − n ≤ 3 √N` with N samples
/// expected and n seen (Poisson). One sample refutes nothing.
fn may_be_chance(subject: &Subject<'_>, least: f64, around: &Surroundings) -> bool {
    let f = subject.function;
    let Some(met) = around.samples(f) else { return false };
    let expected = met * least / f.time_s.unwrap_or(least);
    met < 1.5 || expected - met <= CHANCE * expected.sqrt()
}

/// Bytes with a larger relative error hold nothing down: there may be none.
const MOST_UNSURE: f64 = 0.9;

/// Standard deviations beyond which nothing is chance.
const CHANCE: f64 = 3.0;

/// Relative error of "time over term": ceiling spread, time interval and the error of the counted or simulated figures.
fn error(subject: &Subject<'_>, id: TermId, term: &Term) -> f64 {
    let f = subject.function;
    let spread = term.trace.from.iter().map(|c| subject.host.spread(c)).fold(0.0, f64::max);
    let time = match (f.time_ci95_s, f.time_s) {
        (Some(ci), Some(t)) if t > 0.0 => ci / t,
        _ => 0.0,
    };
    let counted = of_work(subject, id);
    (spread * spread + time * time + counted * counted).sqrt().max(LEAST_ERROR)
}

/// Relative error of the counted or simulated figures of a term.
fn of_work(subject: &Subject<'_>, id: TermId) -> f64 {
    let key = match id {
        TermId::L2 => "bytes.l2",
        TermId::L3 => "bytes.l3",
        TermId::Dram | TermId::Latency => "bytes.dram",
        TermId::L1 => "bytes.l1",
        _ => "instructions",
    };
    subject.function.source.get(key).and_then(|s| s.error).unwrap_or(0.0)
}
