//! What changed from the base to the head.

use std::collections::BTreeMap;

use rprof_profile::account::Cause;
use serde::Serialize;

use crate::paired::paired_error;
use crate::result::{Estimate, GateFunction, GateResult};

/// Functions whose change is a smaller part of the program's cycles are not listed.
const WORTH_LISTING: f64 = 0.001;
/// Causes of a change that are named, and the part of it that they have at least.
const MOST_CAUSES: usize = 3;
const WORTH_NAMING: f64 = 0.1;

/// Why two results cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    #[error(
        "base and head were modelled on different cores ({base} and {head}); make both with the same version of rprof"
    )]
    Core { base: String, head: String },
    #[error(
        "base and head saw different instruction sets (only in the base: {}; only in the head: {}); run both on hosts of one kind",
        listed(only_base),
        listed(only_head)
    )]
    Features { only_base: Vec<String>, only_head: Vec<String> },
    #[error("nothing of the {side} was modelled: it executed {instructions} instructions, too few for a burst")]
    NotModelled { side: &'static str, instructions: u64 },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// The whole comparison. Cycles are modelled, on the reference core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub schema: &'static str,
    pub verdict: Verdict,
    /// Change of the program's cycles that counts as a regression, as a part of the base's.
    pub threshold: f64,
    pub before: Estimate,
    pub after: Estimate,
    /// (after − before) / before
    pub change: f64,
    /// Half the width of its 95 % interval.
    pub error: f64,
    pub instructions_before: u64,
    pub instructions_after: u64,
    /// Functions that changed, largest change first.
    pub functions: Vec<Change>,
    /// What limits the comparison, in sentences.
    pub limits: Vec<String>,
}

/// The schema of a comparison's JSON.
pub const SCHEMA: &str = "rprof-gate-comparison/1";

/// What the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More cycles than the threshold allows, by more than the error.
    Regression,
    /// Fewer cycles, by more than threshold and error.
    Improvement,
    /// The difference is no larger than the threshold.
    Unchanged,
    /// It is larger than the threshold, and not larger than its own error.
    WithinError,
}

/// A function that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub function: String,
    /// `null` for the program itself.
    pub module: Option<String>,
    /// Cycles; `null` if that build has no such function.
    pub before: Option<Estimate>,
    pub after: Option<Estimate>,
    pub cycles: f64,
    /// Causes of most of the change, with their cycles.
    pub causes: Vec<(Cause, f64)>,
    pub instructions_before: u64,
    pub instructions_after: u64,
}

impl Comparison {
    /// Compares `head` with `base`. `threshold`: a part of the base's cycles.
    pub fn new(base: &GateResult, head: &GateResult, threshold: f64) -> Result<Comparison, Incomparable> {
        same_conditions(base, head)?;
        let cycles = |result: &GateResult, side| {
            result.cycles.ok_or(Incomparable::NotModelled { side, instructions: result.instructions })
        };
        let (before, after) = (cycles(base, "base")?, cycles(head, "head")?);
        let change = (after.value - before.value) / before.value;
        let independent = joint_error(&before, &after);
        let error = paired_error(&base.sampled, &head.sampled).map_or(independent, |paired| paired.min(independent));
        let error = error / before.value;
        let functions = changed_functions(base, head, before.value);
        Ok(Comparison {
            schema: SCHEMA,
            verdict: verdict(change, error, threshold),
            threshold,
            before,
            after,
            change,
            error,
            instructions_before: base.instructions,
            instructions_after: head.instructions,
            functions,
            limits: limits(base, head),
        })
    }
}

fn same_conditions(base: &GateResult, head: &GateResult) -> Result<(), Incomparable> {
    let [of_base, of_head] = [&base.conditions, &head.conditions];
    if of_base.core != of_head.core {
        return Err(Incomparable::Core { base: of_base.core.clone(), head: of_head.core.clone() });
    }
    let only = |here: &[String], there: &[String]| {
        here.iter().filter(|feature| !there.contains(feature)).cloned().collect::<Vec<_>>()
    };
    let only_base = only(&of_base.features, &of_head.features);
    let only_head = only(&of_head.features, &of_base.features);
    match only_base.is_empty() && only_head.is_empty() {
        true => Ok(()),
        false => Err(Incomparable::Features { only_base, only_head }),
    }
}

/// Half the width of the interval of a difference: the root of the sum of squares. An unknown error is as large as its figure.
fn joint_error(before: &Estimate, after: &Estimate) -> f64 {
    let own = |estimate: &Estimate| estimate.error.unwrap_or(estimate.value);
    own(before).hypot(own(after))
}

fn verdict(change: f64, error: f64, threshold: f64) -> Verdict {
    match change.abs() {
        size if size <= threshold => Verdict::Unchanged,
        size if size <= error => Verdict::WithinError,
        _ if change > 0.0 => Verdict::Regression,
        _ => Verdict::Improvement,
    }
}

fn changed_functions(base: &GateResult, head: &GateResult, all: f64) -> Vec<Change> {
    let mut pairs: BTreeMap<(&str, Option<&str>), [Option<&GateFunction>; 2]> = BTreeMap::new();
    for (side, result) in [base, head].into_iter().enumerate() {
        for function in &result.functions {
            pairs.entry((&function.name, function.module.as_deref())).or_default()[side] = Some(function);
        }
    }
    let mut changes: Vec<Change> =
        pairs.into_values().filter_map(|[before, after]| change(before, after, all)).collect();
    changes.sort_by(|a, b| b.cycles.abs().total_cmp(&a.cycles.abs()).then(a.function.cmp(&b.function)));
    changes
}

/// The change of a function, if it is known, exceeds its error and matters beside `all` cycles.
fn change(before: Option<&GateFunction>, after: Option<&GateFunction>, all: f64) -> Option<Change> {
    // A function that one build has not takes no cycles there; one that was executed too rarely takes an unknown number.
    let cycles = |side: Option<&GateFunction>| match side {
        None => Some(None),
        Some(function) => function.cycles.map(Some),
    };
    let (of_before, of_after) = (cycles(before)?, cycles(after)?);
    let none = Estimate { value: 0.0, error: Some(0.0) };
    let (old, new) = (of_before.unwrap_or(none), of_after.unwrap_or(none));
    let cycles = new.value - old.value;
    if cycles.abs() < WORTH_LISTING * all || cycles.abs() <= joint_error(&old, &new) {
        return None;
    }
    let named = after.or(before)?;
    let part = |side: Option<&GateFunction>, cause: Cause| {
        side.and_then(|function| function.causes.get(&cause)).copied().unwrap_or(0.0)
    };
    let difference = |cause: Cause| (cause, part(after, cause) - part(before, cause));
    let mut causes: Vec<(Cause, f64)> = Cause::ALL.into_iter().map(difference).collect();
    causes.retain(|(_, own)| own.abs() >= WORTH_NAMING * cycles.abs());
    causes.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    causes.truncate(MOST_CAUSES);
    let instructions = |side: Option<&GateFunction>| side.map_or(0, |function| function.instructions);
    Some(Change {
        function: named.name.clone(),
        module: named.module.clone(),
        before: of_before,
        after: of_after,
        cycles,
        causes,
        instructions_before: instructions(before),
        instructions_after: instructions(after),
    })
}

/// Less than this share of modelled instructions is told.
const MOSTLY: f64 = 0.95;

fn limits(base: &GateResult, head: &GateResult) -> Vec<String> {
    let mut limits = Vec::new();
    for (side, result) in [("base", base), ("head", head)] {
        if result.modelled_share < MOSTLY {
            limits.push(format!(
                "bursts of the {side} met functions with {:.0} % of its instructions; the others count at the mean of these",
                100.0 * result.modelled_share
            ));
        }
        if !result.conditions.fixed_addresses {
            limits.push(format!("the addresses of the {side} were random, because the kernel or its container does not allow to fix them"));
        }
        limits.extend(result.warnings.iter().map(|warning| format!("{side}: {warning}")));
    }
    if base.command != head.command {
        limits.push("base and head have different command lines".into());
    }
    limits
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::result::tests::{function, result};

    /// A base, and a head that misses the last level more often.
    pub(crate) fn pair() -> (GateResult, GateResult) {
        let main = || function("main", 500, &[(Cause::Base, 1e6)], 0.0);
        let base = result(vec![function("walk", 1_000_000, &[(Cause::Base, 1e6), (Cause::L3, 1e6)], 3e4), main()]);
        let head = result(vec![
            function("walk", 1_000_000, &[(Cause::Base, 1.02e6), (Cause::L3, 2.5e6)], 3e4),
            main(),
            function("new", 100, &[(Cause::Mispredict, 5e4)], 0.0),
        ]);
        (base, head)
    }

    #[test]
    fn a_change_names_its_function_and_cause() {
        let (base, head) = pair();
        let comparison = Comparison::new(&base, &head, 0.01).unwrap();
        assert_eq!(comparison.verdict, Verdict::Regression);
        assert!((comparison.change - 1.57 / 3.0).abs() < 1e-9, "{}", comparison.change);
        let names: Vec<&str> = comparison.functions.iter().map(|change| change.function.as_str()).collect();
        assert_eq!(names, ["walk", "new"]);
        assert_eq!(comparison.functions[0].causes, [(Cause::L3, 1.5e6)]);
        assert_eq!(comparison.functions[1].before, None);
        let back = Comparison::new(&head, &base, 0.01).unwrap();
        assert_eq!(back.verdict, Verdict::Improvement);
    }

    #[test]
    fn equal_results_are_silent_and_small_changes_within_threshold_or_error() {
        let (base, _) = pair();
        let same = Comparison::new(&base, &base, 0.0).unwrap();
        assert_eq!((same.verdict, same.functions.len(), same.limits.len()), (Verdict::Unchanged, 0, 0));
        let with = |cycles: f64, error: f64| result(vec![function("main", 10, &[(Cause::Base, cycles)], error)]);
        let verdict = |after: GateResult| Comparison::new(&with(1e6, 1e3), &after, 0.01).unwrap().verdict;
        assert_eq!(verdict(with(1.009e6, 1e3)), Verdict::Unchanged);
        assert_eq!(verdict(with(1.011e6, 1e3)), Verdict::Regression);
        assert_eq!(verdict(with(1.011e6, 5e4)), Verdict::WithinError);
    }

    #[test]
    fn a_function_that_bursts_hardly_met_did_not_change() {
        let (base, _) = pair();
        let mut head = base.clone();
        head.functions[0].cycles = None;
        let comparison = Comparison::new(&base, &head, 0.01).unwrap();
        assert!(comparison.functions.is_empty(), "{:?}", comparison.functions);
    }

    #[test]
    fn other_cores_instruction_sets_and_runs_without_bursts_are_refused_in_one_line() {
        let (base, head) = pair();
        let mut other = head.clone();
        other.conditions.core = "test/2".into();
        let line = |head: &GateResult| Comparison::new(&base, head, 0.01).unwrap_err().to_string();
        assert!(line(&other).contains("different cores (test/1 and test/2)"), "{}", line(&other));
        let mut other = head.clone();
        other.conditions.features = vec!["sse2".into()];
        assert!(line(&other).contains("only in the base: avx2; only in the head: sse2"), "{}", line(&other));
        let mut other = head.clone();
        other.cycles = None;
        assert!(line(&other).contains("nothing of the head was modelled"), "{}", line(&other));
    }
}
