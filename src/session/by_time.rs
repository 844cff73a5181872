//! Programs that work until a time. Counting slows a program down, so that the counted run of such a one does less than the native run in
//! the same time: its counts over the native run's seconds are no rates.
//!
//! ```text
//!  looks at clocks, timers in the counted run ──┐
//!  its CPU time beside that of the native run ──┼─▶ in doubt? ─▶ a third run, in windows ─▶ other counts? ─▶ those of the windows
//!  the core model's time for what it counted ───┘        │ none may be made
//!                                                        └─▶ counts are lower bounds
//! ```

use crate::instrument::Counted;
use crate::join::time_use::TimeUse;
use crate::profile::evidence::counted::{CountedEvidence, Missing};
use crate::profile::evidence::estimate::{Estimate, Figures, Interval};
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::run::{LESS_WORK_CODE, Warning};
use crate::profile::{Machine, Profile};

use super::SessionError;
use super::assemble;
use super::evidence::Evidence;
use super::first_run::{Again, Setting, windows_again};
use super::inherited::Inherited;
use super::input::Input;
use super::options::RunOptions;
use super::passes::Windows;
use super::preflight::Checked;
use super::single::Span;

/// A counted run of the same work takes no less CPU time than this part of the native one's.
const NO_FASTER: f64 = 0.95;
/// Less of the native time than this is explained by the counts: the core model's errors are smaller.
const EXPLAINED: f64 = 0.8;
/// Counts that explain this much of the native time are of the same work, whatever time they took.
const MOSTLY_EXPLAINED: f64 = 0.9;
/// The CPU time of shorter programs is that of their start.
const LEAST_S: f64 = 0.1;
/// The core model's word makes an interval no wider than this: it may be the model that is wrong.
const WIDEST: f64 = 0.95;
/// A counted run that ends at the same time as the native one lasts as long as this part of it more, and these seconds: it translates the
/// program's code first.
const AS_LONG: f64 = 1.05;
const STARTS_S: f64 = 0.4;
/// Functions with this share of the time are compared.
const LARGE: f64 = 0.05;
/// Counts that differ by less than this share are the same.
const SAME: f64 = 0.05;
/// Windows within this share of the counts say that they are the same.
const TELLS: f64 = 0.25;
/// Counts of windows are taken for others from this part of their interval on.
const BEYOND: f64 = 0.6;

/// Why the counted run seems to have done other work than the native one; `None`: it does not. `is_judged`: a third run will show whether
/// it did, so that a doubt without the core model's word counts, too.
pub fn doubt(is_judged: bool, options: &RunOptions, machine: &Machine, evidence: &Evidence) -> Option<String> {
    let (timed, counted) = (evidence.timed.as_ref()?, evidence.counted.as_ref()?);
    if counted.estimate.is_some() || timed.cpu_s < LEAST_S || !TimeUse::of(counted).may_decide() {
        return None;
    }
    let lasts_as_long = counted.wall_s <= AS_LONG * timed.wall_s + STARTS_S;
    let less_time = less_time(timed, counted);
    // The join takes a second or so, and most counted runs last longer.
    if less_time.is_none() && !lasts_as_long {
        return None;
    }
    let explained = explained_by_model(&assemble::provisional(options, machine, evidence));
    if explained.is_some_and(|share| share >= MOSTLY_EXPLAINED) {
        return None;
    }
    if less_time.is_some() {
        return less_time;
    }
    if explained.is_none() && is_judged && lasts_as_long {
        return Some(format!("the counted run lasted {:.1} s, the native one {:.1} s", counted.wall_s, timed.wall_s));
    }
    explained.filter(|share| *share < EXPLAINED && lasts_as_long).map(|share| {
        format!(
            "the counted run lasted {:.1} s, the native one {:.1} s, and what was counted takes only {:.0} % of its time",
            counted.wall_s,
            timed.wall_s,
            100.0 * share
        )
    })
}

fn less_time(timed: &TimedEvidence, counted: &CountedEvidence) -> Option<String> {
    (timed.cpu_s > 0.0 && counted.cpu_s < NO_FASTER * timed.cpu_s).then(|| {
        format!(
            "the counted run, which is no faster, had {:.2} s of CPU time, the native one {:.2} s",
            counted.cpu_s, timed.cpu_s
        )
    })
}

/// The time that the core model has for the counts, over the sampled one, of the functions that have both.
fn explained_by_model(profile: &Profile) -> Option<f64> {
    let both = profile.functions.iter().filter_map(|f| Some((f.account.as_ref()?.model_s, f.cpu_s?)));
    let (model_s, cpu_s) = both.fold((0.0, 0.0), |sum, (model_s, cpu_s)| (sum.0 + model_s, sum.1 + cpu_s));
    let all_s: f64 = profile.functions.iter().filter_map(|f| f.cpu_s).sum();
    (cpu_s > 0.5 * all_s && cpu_s > 0.0).then(|| model_s / cpu_s)
}

/// The counts are of a run that did less: they are lower bounds, because of `why`.
pub fn are_lower_bounds(evidence: &mut Evidence, why: &str) {
    if let Some(counted) = &mut evidence.counted {
        counted.missing = Missing::Work;
    }
    evidence.warnings.push(Warning::new(
        LESS_WORK_CODE,
        format!("the program's work seems to depend on the time: {why}"),
        "counts and rates are lower bounds: the counted run did less in the same time",
        "fix the number of repetitions, or count in windows of the native run: --once",
    ));
}

/// A third run after a counted one that seems to have done other work because of `why`.
pub fn third_run(
    checked: &Checked,
    setting: Setting<'_>,
    (machine, inherited): (&mut Machine, &Inherited),
    input: &mut Input,
    (evidence, why): (&mut Evidence, &str),
) -> Result<(), SessionError> {
    let Setting { options, notices, .. } = setting;
    notices.say("its work seems to depend on the time: runs once more, natively and counted in short windows");
    let windows = Windows { budget: options.budget(), span: Span::of(options), launched: None, keep: None };
    let mut third = Evidence::default();
    let again = Again { input, inherited };
    let (timed, visited) = windows_again(checked, setting, windows, again, machine, &mut third)?;
    match visited {
        Ok(visited) => third.take_visited(timed, visited, machine, setting.processes()),
        Err(reason) => third.without_windows(timed, reason),
    }
    let (second, windows) =
        (assemble::provisional(options, machine, evidence), assemble::provisional(options, machine, &third));
    match differ(&second, &windows) {
        Some(true) => {
            let slowdown = explained_by_model(&second).map_or(1.0, |share| 1.0 / share);
            third
                .counted
                .iter_mut()
                .filter_map(|counted| counted.estimate.as_mut())
                .for_each(|of| widen(of, (slowdown - 1.0).min(WIDEST)));
            let Evidence { timed, counted, memory, replayed, counters, warnings, .. } = third;
            (evidence.timed, evidence.counted, evidence.memory) = (timed, counted, memory);
            (evidence.replayed, evidence.counters) = (replayed, counters);
            evidence.warnings.extend(warnings);
            evidence.warnings.push(Warning::new(
                "work-by-time",
                format!("the program's work depends on the time: {why}"),
                "all figures are of a third run, counted in windows: counts are estimates with their intervals",
                "fix the number of repetitions to have exact counts",
            ));
        }
        Some(false) => {}
        None => are_lower_bounds(evidence, why),
    }
    Ok(())
}

/// Windows are as slow as the counted run, for which the core model has less time than it took: their counts may be too low by that
/// factor.
fn widen(estimate: &mut Estimate, least: f64) {
    let of_interval = |interval: &mut Interval| {
        if let Interval::Within(error) = interval {
            *error = error.max(least);
        }
    };
    for function in &mut estimate.functions {
        of_interval(&mut function.interval);
        function.loops.iter_mut().for_each(|of_loop| of_interval(&mut of_loop.interval));
        let Figures { flops, l1_bytes } = &mut function.figures;
        flops.iter_mut().chain(l1_bytes).for_each(|error| *error = error.max(least));
    }
}

/// Whether windows counted other work in the large functions of `second` than its run; `None`: they do not say.
fn differ(second: &Profile, windows: &Profile) -> Option<bool> {
    let (mut counted, mut estimated, mut error) = (0.0, 0.0, 0.0);
    for f in second.functions.iter().filter(|f| f.share.is_some_and(|share| share >= LARGE)) {
        let same = |other: &&crate::profile::Function| other.name == f.name && other.module == f.module;
        let Some(met) = windows.functions.iter().find(same) else { continue };
        let (Some(exact), Some(estimate)) = (f.instructions, met.instructions) else { continue };
        let Some(of_estimate) = met.source.get("instructions").and_then(|source| source.error) else { continue };
        counted += exact as f64;
        estimated += estimate as f64;
        error += of_estimate * estimate as f64;
    }
    let apart = (estimated - counted).abs();
    if apart > (SAME * counted).max(BEYOND * error) {
        return Some(true);
    }
    // A wide interval holds other counts, too.
    (counted > 0.0 && error <= TELLS * counted).then_some(false)
}

/// Whether the second run may be repeated: it did nothing that had to be put back, and was not ended.
pub fn is_without_effect(counted: &Counted) -> bool {
    counted.ended_before.is_none() && !counted.changed_files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Function;
    use crate::profile::evidence::estimate::FunctionEstimate;
    use crate::profile::function::Source;

    #[test]
    fn a_run_that_takes_less_time_to_be_counted_did_less() {
        let timed = TimedEvidence { cpu_s: 3.0, wall_s: 3.0, ..TimedEvidence::default() };
        let of = |cpu_s| less_time(&timed, &CountedEvidence { cpu_s, wall_s: 3.0, ..CountedEvidence::default() });
        assert!(of(2.0).unwrap().contains("2.00 s of CPU time, the native one 3.00 s"));
        assert_eq!(of(2.97), None);
    }

    #[test]
    fn windows_that_counting_slows_down_are_known_no_better_than_that() {
        let function = FunctionEstimate {
            module: 0,
            start: 0,
            interval: Interval::Within(0.3),
            figures: Figures { flops: Some(0.4), l1_bytes: None },
            loops: Vec::new(),
        };
        let mut estimate = Estimate { functions: vec![function], delay_s: 0.0 };
        widen(&mut estimate, -0.1);
        assert_eq!(estimate.functions[0].interval, Interval::Within(0.3));
        widen(&mut estimate, 1.7);
        assert_eq!(estimate.functions[0].interval, Interval::Within(1.7));
        assert_eq!(estimate.functions[0].figures, Figures { flops: Some(1.7), l1_bytes: None });
    }

    #[test]
    fn counts_of_windows_are_others_beyond_their_interval() {
        let profile = |instructions, error| {
            let source = Source { how: "estimated".into(), error: Some(error), reason: None };
            let source = [("instructions".to_owned(), source)].into();
            let hot = Function { name: "hot".into(), share: Some(0.9), instructions, source, ..Function::default() };
            Profile { functions: vec![hot], ..Profile::default() }
        };
        let second = profile(Some(1000), 0.0);
        assert_eq!(differ(&second, &profile(Some(2200), 0.2)), Some(true));
        assert_eq!(differ(&second, &profile(Some(1050), 0.2)), Some(false));
        assert_eq!(differ(&second, &profile(None, 0.2)), None);
    }
}
