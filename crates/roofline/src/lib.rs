//! The model (docs/conventions.md, Model): terms, bound, ladder, class, savings and advice. Pure functions of a profile, so that
//! `report`, `diff` and `merge` can recompute them from the file.
//!
//! ```text
//!  Function facts ─┐                  ┌─▶ ladder ─▶ ceilings
//!  machine ────────┼─▶ terms ─▶ bound ┼─▶ class  ─▶ binding, class, roof fraction
//!  concurrency ────┘                  └─▶ savings ─▶ seconds, advice
//! ```
//!
//! The machine's ceilings are found by the ids of docs/conventions.md, Ceilings. A ceiling that is missing makes its term `None` with
//! the reason in `source["terms.…"]`, or, if another ceiling can replace it, a looser bound.

pub mod account;
pub mod advice;
pub mod bound;
pub mod class;
pub mod confidence;
mod controllers;
pub mod deficiency;
pub mod device;
pub mod diagnosis;
pub mod explained;
pub mod host;
pub mod ladder;
pub mod memory_side;
pub mod metrics;
pub mod negligible;
mod network;
mod only_loop;
mod order;
pub mod parallelism;
mod prefetch;
pub mod products;
pub mod ranking;
pub mod remarks;
mod removal;
pub mod reuse;
pub mod rough;
pub mod savings;
pub mod surroundings;
pub mod team;
pub mod terms;
pub mod what_if;

#[cfg(test)]
mod tests;

use rprof_basics::on_all_cpus::on_all_cpus;
use rprof_profile::function::{Analysis, Function, Source};
use rprof_profile::run::Warning;
use rprof_profile::{Profile, names};

use bound::Bound;
use host::{Ceilings, Host};
use metrics::Axis;
use surroundings::Surroundings;
use terms::{Subject, TermId};

/// The version of the model that is stamped into profiles.
pub const MODEL_VERSION: u32 = 14;

/// Code of the warning about a ceiling that a measurement exceeded.
pub const REFUTED: &str = "ceiling-refuted";

/// Code of the warning about bytes that the last level may have kept.
pub const KEPT: &str = "memory-kept";

/// Retained share of a function's bytes from which a warning reports it.
const WORTH_TELLING: f64 = 0.1;

/// The place of the imbalance ceilings in the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImbalancePosition {
    /// Right below the roof: first optimise, then balance (Figure A3).
    #[default]
    BelowRoof,
    /// Below the thread-level-parallelism ceiling: first balance (Figure A2).
    BelowTlp,
}

/// Choices that do not change the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// `--imbalance roof|tlp`.
    pub imbalance: ImbalancePosition,
}

/// The inputs to the analysis of a function.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The ceilings.
    pub host: Host<'a>,
    /// Choices.
    pub options: Options,
    /// The other functions and the run.
    pub around: &'a Surroundings,
}

/// Fills in the analysis of every function and loop of `profile`, replacing any earlier one.
pub fn analyse(profile: &mut Profile) {
    analyse_with(profile, Options::default());
}

/// [`analyse`] with choices.
pub fn analyse_with(profile: &mut Profile, options: Options) {
    profile.model_version = MODEL_VERSION;
    profile.run.warnings.retain(|w| ![REFUTED, KEPT].contains(&w.code.as_str()));
    let (mut warnings, mut kept) = (Vec::new(), Vec::new());
    let ceilings = Ceilings::of(&profile.machine).during(&profile.run);
    let host = Host::new(&ceilings);
    let run = negligible::Run::of(profile);
    profile.run.parallelism = parallelism::of(profile);
    let around = Surroundings::of(profile);
    let context = Context { host, options, around: &around };
    for findings in analyse_functions(&mut profile.functions, context, run) {
        warnings.extend(findings.refuted);
        kept.extend(findings.kept);
    }
    profile.run.warnings.extend(warnings.into_iter().chain(kept_warning(&kept)));
    tell_apart(&mut profile.functions);
    network::analyse(profile);
    if let Some(devices) = &mut profile.devices {
        device::analyse(devices, &profile.machine.gpus);
    }
}

/// Notes how names differ that are shortened alike.
fn tell_apart(functions: &mut [Function]) {
    let names: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
    let differences = names::differences(&names);
    for (f, difference) in functions.iter_mut().zip(differences) {
        f.difference = difference;
    }
}

/// Functions that a thread takes at once: the hot ones, which take longest, mostly follow one another.
const PART: usize = 50;

/// Findings on the run from the analysis of one function.
#[derive(Default)]
struct FunctionFindings {
    refuted: Vec<Warning>,
    kept: Option<(String, f64)>,
}

/// Thousands of functions take a while: they are spread over the CPUs, part by part. In the order of the functions.
fn analyse_functions(functions: &mut [Function], context: Context<'_>, run: negligible::Run) -> Vec<FunctionFindings> {
    if functions.len() <= PART {
        return analyse_part(functions, context, run);
    }
    on_all_cpus(functions.chunks_mut(PART), |part| analyse_part(part, context, run)).into_iter().flatten().collect()
}

fn analyse_part(functions: &mut [Function], context: Context<'_>, run: negligible::Run) -> Vec<FunctionFindings> {
    let mut all = Vec::new();
    for function in functions {
        if run.is_cold(function) {
            negligible::leave_out(function);
            continue;
        }
        let bound = analyse_function(function, context);
        let refuted = refutations(function, &bound).collect();
        let is_kept = bound.kept >= WORTH_TELLING && bound.is_near(TermId::Dram);
        all.push(FunctionFindings { refuted, kept: is_kept.then(|| (function.name.clone(), bound.kept)) });
        analyse_loops(function, context, run);
        only_loop::complete(function);
    }
    all
}

fn analyse_loops(outer: &mut Function, context: Context<'_>, run: negligible::Run) {
    let mut loops = std::mem::take(&mut outer.loops);
    for inner in &mut loops {
        analyse_loop(inner, outer, context, run);
    }
    outer.loops = loops;
}

/// Analyses a loop like a function; facts not measured per loop (team, allowed CPUs) are its function's.
fn analyse_loop(inner: &mut Function, outer: &Function, context: Context<'_>, run: negligible::Run) {
    if run.is_cold(inner) {
        return negligible::leave_out(inner);
    }
    if inner.team.is_none() {
        inner.team = outer.team;
    }
    if inner.concurrency.is_empty() {
        inner.concurrency = outer.concurrency.clone();
    }
    inner.allowed_cpus = inner.allowed_cpus.or(outer.allowed_cpus);
    inner.clock_hz = inner.clock_hz.or(outer.clock_hz);
    inner.lambda = inner.lambda.or(outer.lambda);
    // The function has the warnings.
    analyse_function(inner, context);
    analyse_loops(inner, context, run);
}

fn analyse_function(function: &mut Function, context: Context<'_>) -> Bound {
    let expected = function.analysis.expected.take();
    let of_analysis = |key: &str| key.starts_with("terms.") || ["class", "ilp", "flop_rate"].contains(&key);
    function.source.retain(|key, _| !of_analysis(key));
    let (analysis, bound) = analysis(function, context);
    if let (None, Some(reason)) = (&analysis.class, rough::why_unknown(function)) {
        function.source.insert("class".into(), not("analysed", reason));
    }
    if analysis.ilp.is_none() {
        function.source.insert("ilp".into(), not("measured", without_ilp(function, &bound)));
    }
    for (id, term) in &bound.terms {
        if let Some(reason) = term.trace.reason() {
            let how = if term.seconds.is_some() { "lower bound" } else { "not measured" };
            let source = Source { how: how.into(), error: None, reason: Some(reason) };
            function.source.insert(format!("terms.{}", id.name()), source);
        }
    }
    function.analysis = Analysis { expected, ..analysis };
    bound
}

fn not(done: &str, reason: String) -> Source {
    Source { how: format!("not {done}"), error: None, reason: Some(reason) }
}

/// Why `function` has no ILP.
fn without_ilp(function: &Function, bound: &Bound) -> String {
    if let Some(reason) = rough::why_unknown(function) {
        return reason;
    }
    let lacking = |id| bound.term(id).trace.reason().filter(|_| bound.term(id).seconds.is_none());
    let uncounted = || function.source.get("instructions").filter(|_| function.instructions.is_none())?.reason.clone();
    uncounted()
        .or_else(|| lacking(TermId::Pipe))
        .or_else(|| lacking(TermId::Chain))
        .unwrap_or_else(|| "it has no work for the execution units".into())
}

/// The analysis of one function, without changing it.
pub fn analysis(function: &Function, context: Context<'_>) -> (Analysis, Bound) {
    let Context { host, options, around } = context;
    let bare = rough::of_counts(function).map(|_| rough::without_counts(function));
    let function = bare.as_ref().unwrap_or(function);
    let subject = Subject::new(function, host.of(function), around);
    let bound = Bound::of(&subject, around);
    let mix = function.work.as_ref().map_or(&[][..], |w| &w.mix);
    let verdict = class::verdict(&subject, &bound);
    let mut analysis = Analysis {
        simd_use: match (&function.work, &function.flops) {
            (None, Some(flops)) => metrics::simd_use_of_flops(flops, subject.host),
            _ => metrics::simd_use(mix, subject.host),
        },
        fma_balance: metrics::fma_balance(mix, subject.host),
        ilp: metrics::ilp(&subject),
        fp_fraction: function.fp_instructions.zip(function.instructions).and_then(|(f, n)| ratio(f as f64, n as f64)),
        load_balance: function.lambda,
        terms: terms::stored(&bound.terms),
        confidence: confidence::of(function, &verdict, around),
        remarks: remarks::of(&subject, &bound, &verdict),
        savings: savings::savings(&subject, &bound, &verdict, around.wall_s),
        binding: verdict.binding,
        class: verdict.class,
        nearest: verdict.nearest,
        roof_fraction: verdict.roof_fraction,
        ..Analysis::default()
    };
    if let Some(axis) = Axis::of(function) {
        analysis.axis = Some(axis.name().into());
        analysis.oi = metrics::oi(function, axis);
        analysis.flop_rate = function.time_s.and_then(|t| ratio(axis.work(), t));
        analysis.ceilings = ladder::ceilings(&subject, &bound, axis, &analysis, options.imbalance);
    }
    (analysis, bound)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Of functions and the shares of their bytes that the last level may have kept.
fn kept_warning(kept: &[(String, f64)]) -> Option<Warning> {
    let most = kept.iter().map(|(_, share)| *share).reduce(f64::max)?;
    let (first, more) = (&kept[0].0, kept.len() - 1);
    let who = if more > 0 { format!("{first} and {more} more") } else { first.clone() };
    Some(Warning::new(
        KEPT,
        format!(
            "{who}: this CPU's last-level cache retains up to {:.0} % of arrays of this size, as its \
            working-set sweep shows; the LRU cache model assumes 0 %",
            100.0 * most
        ),
        "their bytes from memory may be fewer by that much, and their share of the roof may come out above 100 %",
        "arrays of eight times the cache have no such doubt",
    ))
}

fn refutations<'a>(function: &'a Function, bound: &'a Bound) -> impl Iterator<Item = Warning> + 'a {
    bound.refuted.iter().map(|id| {
        let seconds = bound.term(*id).seconds.unwrap_or(0.0);
        let from: Vec<&str> = bound.term(*id).trace.from.iter().map(String::as_str).collect();
        Warning::new(
            REFUTED,
            format!(
                "{} ran in {:.3} s, faster than the {} ceiling allows ({:.3} s, from {})",
                function.name,
                function.time_s.unwrap_or(0.0),
                id.name(),
                seconds,
                from.join(", ")
            ),
            "that ceiling is left out for this function",
            match id {
                // How many iterations the window holds is the model's, not a ceiling's.
                TermId::Chain => "nothing: the core overlaps more of its iterations than the model takes",
                _ => "measure the machine again on a quiet host: rprof machine --refresh",
            },
        )
    })
}
