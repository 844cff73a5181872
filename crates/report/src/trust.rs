//! How far an experiment can be trusted, in one line: samples, load, clock, counts, and figures that are missing.

use rprof_profile::function::FunctionCeiling;
use rprof_profile::run::LESS_WORK_CODE;
use rprof_profile::{Function, Profile};

use rprof_model::rough::ROUGH;

use super::number::{percent, si};
use super::summary;

/// Fewer samples than this make the shares of small functions uncertain.
const FEW_SAMPLES: u64 = 500;
/// So few say little.
const VERY_FEW_SAMPLES: u64 = 100;
/// Share of their time in which threads that could run did not.
const BUSY_HOST: f64 = 0.05;
/// From here on times are those of the other programs, too.
const OVERLOADED_HOST: f64 = 0.25;
/// Estimated counts with at most this mean error are as good as counted ones for a report, and with at most that fair.
const FAIR_ESTIMATE: f64 = 0.2;
const POOR_ESTIMATE: f64 = 0.6;
/// Share of the time from which on a function's error counts.
const WORTH_TELLING: f64 = 0.02;
/// Share of the time in functions with counts.
const MOSTLY_COUNTED: f64 = 0.9;
/// The clock differs from that of the ceilings if it does by this share.
const CLOCK: f64 = 0.05;

/// A word for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Poor,
    Fair,
    Good,
}

/// The word, and the facts behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    pub level: Level,
    pub facts: Vec<String>,
}

impl Trust {
    /// Of the experiment that `profile` records.
    pub fn of(profile: &Profile) -> Trust {
        let all = [
            samples(profile),
            load(profile),
            clock(profile),
            counts(profile),
            less_work(profile),
            nameless(profile),
            absent(profile),
            beyond(profile),
            doubts(profile),
        ];
        let all: Vec<(Level, String)> = all.into_iter().flatten().collect();
        let level = all.iter().map(|(level, _)| *level).min().unwrap_or(Level::Poor);
        Trust { level, facts: all.into_iter().map(|(_, fact)| fact).collect() }
    }

    /// `Trust: fair; 155 samples; quiet CPUs; 4.16 GHz; counts for 100 % of the time; 3 warnings`
    pub fn line(&self) -> String {
        format!("Trust: {}; {}", self.word(), self.facts.join("; "))
    }

    /// `poor`, `fair` or `good`.
    pub fn word(&self) -> &'static str {
        match self.level {
            Level::Poor => "poor",
            Level::Fair => "fair",
            Level::Good => "good",
        }
    }
}

fn samples(profile: &Profile) -> Option<(Level, String)> {
    let timed = || profile.run.passes.iter().filter(|pass| pass.kind == "timed");
    if timed().next().is_none() {
        return Some((Level::Fair, "times not measured".into()));
    }
    let taken: u64 = timed().map(|pass| pass.samples).sum::<Option<u64>>()?;
    let lost: u64 = timed().filter_map(|pass| pass.lost).sum();
    let level = match taken {
        n if n < VERY_FEW_SAMPLES => Level::Poor,
        n if n < FEW_SAMPLES || lost * 50 > n => Level::Fair,
        _ => Level::Good,
    };
    let plural = if taken == 1 { "" } else { "s" };
    let lost = if lost > 0 { format!(" ({lost} lost)") } else { String::new() };
    Some((level, format!("{taken} sample{plural}{lost}")))
}

fn load(profile: &Profile) -> Option<(Level, String)> {
    let timed = profile.run.timed_pass()?;
    let Some(share) = timed.kept_off_share else {
        return Some((Level::Fair, "load not measured".into()));
    };
    Some(match share {
        ..0.01 => (Level::Good, "quiet CPUs".into()),
        share => {
            let level = match share {
                s if s < BUSY_HOST => Level::Good,
                s if s < OVERLOADED_HOST => Level::Fair,
                _ => Level::Poor,
            };
            (level, format!("kept off its CPUs {} of the time", percent(share)))
        }
    })
}

/// The mean clock of the functions, and that of the ceilings if it was another.
fn clock(profile: &Profile) -> Option<(Level, String)> {
    profile.run.timed_pass()?;
    let known =
        || profile.functions.iter().filter_map(|f: &Function| Some((f.clock_hz?, f.cpu_s.filter(|s| *s > 0.0)?)));
    let seconds: f64 = known().map(|(_, s)| s).sum();
    if seconds <= 0.0 {
        return Some((Level::Good, "clock not measured".into()));
    }
    let mean = known().map(|(hz, s)| hz * s).sum::<f64>() / seconds;
    let ceilings = profile.machine.ceilings.iter().filter(|c| c.id == "dp.ilp" && c.value.is_some());
    let measured_at = ceilings.max_by_key(|c| c.threads).and_then(|c| c.clock_hz);
    let other = measured_at.filter(|hz| (mean / hz - 1.0).abs() > CLOCK);
    let other = other.map_or(String::new(), |hz| format!(" (ceilings {})", si(hz, "Hz")));
    Some((Level::Good, format!("{}{other}", si(mean, "Hz"))))
}

fn counts(profile: &Profile) -> Option<(Level, String)> {
    let counted = profile.functions.iter().any(|f| f.instructions.is_some() || f.flops.is_some());
    if !counted {
        let in_windows = profile.run.passes.iter().any(|pass| pass.kind == "windows");
        let why = if in_windows { " (too few windows or samples)" } else { "" };
        return Some((Level::Fair, format!("work not counted{why}")));
    }
    let with_counts: f64 = profile
        .functions
        .iter()
        .filter(|f| f.instructions.is_some() || f.flops.is_some())
        .filter_map(|f| f.share)
        .sum();
    if with_counts <= 0.0 {
        return None;
    }
    let level = if with_counts >= MOSTLY_COUNTED { Level::Good } else { Level::Fair };
    let covered = format!("counts for {} of the time", percent(with_counts.min(1.0)));
    let Some(error) = estimated(profile) else { return Some((level, covered)) };
    if error > ROUGH {
        return Some((Level::Poor, format!("{covered}, estimated from too few windows")));
    }
    let level = match error {
        _ if error <= FAIR_ESTIMATE => level,
        _ if error <= POOR_ESTIMATE => Level::Fair,
        _ => Level::Poor,
    };
    Some((level, format!("{covered}, estimated ± {}", percent(error))))
}

/// The counted run did less than the native one.
fn less_work(profile: &Profile) -> Option<(Level, String)> {
    let is_one = profile.run.warnings.iter().any(|warning| warning.code == LESS_WORK_CODE);
    is_one.then(|| (Level::Poor, "counts and rates are lower bounds".into()))
}

/// Mean relative error of counts that were extended from windows, weighted by time; infinite if a function's is not known. `None`:
/// all was counted.
fn estimated(profile: &Profile) -> Option<f64> {
    let of = |f: &Function| {
        let source = f.source.get("instructions").filter(|source| source.how == "estimated")?;
        Some((f.share.filter(|share| *share >= WORTH_TELLING)?, source.error.unwrap_or(f64::INFINITY)))
    };
    let known: Vec<(f64, f64)> = profile.functions.iter().filter_map(of).collect();
    let shares: f64 = known.iter().map(|(share, _)| share).sum();
    (shares > 0.0).then(|| known.iter().map(|(share, error)| share * error).sum::<f64>() / shares)
}

/// Time in code that has no name. That is no fault of the figures.
fn nameless(profile: &Profile) -> Option<(Level, String)> {
    let share = summary::nameless_share(profile);
    (share >= summary::MOSTLY)
        .then(|| (Level::Good, format!("{} of the time is in code without symbols", percent(share))))
}

/// Whole kinds of figures that no function has.
fn absent(profile: &Profile) -> Option<(Level, String)> {
    let functions = &profile.functions;
    let counted = functions.iter().any(|f| f.instructions.is_some());
    let waits_missing = profile.run.system.as_ref().is_some_and(|system| system.waits_missing.is_some());
    let timed = profile.run.passes.iter().any(|pass| pass.kind == "timed");
    let kinds = [
        (counted && functions.iter().all(|f| f.bytes.is_none_or(|b| b.dram.is_none())), "bytes"),
        (timed && waits_missing, "waits"),
        (profile.machine.ceilings.iter().all(|c| c.value.is_none()), "ceilings"),
        (profile.devices.as_ref().is_some_and(|d| d.uncounted.is_some()), "work of GPU kernels"),
    ];
    let missing: Vec<&str> = kinds.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect();
    (!missing.is_empty()).then(|| (Level::Fair, format!("not measured: {}", missing.join(", "))))
}

/// A ceiling is known to no less than this, whatever its interval says: the clock alone drifts by 3 %.
const LEAST_INTERVAL: f64 = 0.05;

/// Functions that ran faster than a ceiling allows by more than the ceiling's interval: the ceiling, the time or the bytes are off.
fn beyond(profile: &Profile) -> Option<(Level, String)> {
    let worth = |f: &&Function| f.share.is_some_and(|share| share >= WORTH_TELLING);
    let found = profile.functions.iter().filter(worth).filter_map(|f| Some((f, excess(profile, f)?)));
    let found: Vec<(&Function, f64)> = found.collect();
    let (most, at) = found.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let who = match found.len() {
        1 => most.short_name(NAME_WIDTH),
        n => format!("{} and {} more", most.short_name(NAME_WIDTH), n - 1),
    };
    Some((
        Level::Fair,
        format!(
            "{who} above the measured ceiling (at {} of it): rprof machine --refresh measures it again",
            percent(*at)
        ),
    ))
}

/// Characters of a function's name.
const NAME_WIDTH: usize = 30;

/// By how much `f` ran faster than a ceiling allows, as a share of it, if that is more than its interval: the binding one, or one that its
/// rate refuted.
fn excess(profile: &Profile, f: &Function) -> Option<f64> {
    let a = &f.analysis;
    let interval = |c: &FunctionCeiling| {
        let measured = profile.machine.ceilings.iter().filter(|m| c.from.iter().any(|id| *m.id == **id));
        measured.filter_map(|m| m.spread).fold(LEAST_INTERVAL, f64::max)
    };
    let binding = a.ceilings.iter().find(|c| Some(&c.id) == a.binding.as_ref());
    let refuted = a.ceilings.iter().filter(|c| c.refuted && c.kind == "memory");
    let above = refuted.filter_map(|c| Some((c, a.flop_rate? / c.value?)));
    let all = binding.zip(a.roof_fraction).into_iter().chain(above);
    all.filter(|(c, at)| *at > 1.0 + interval(c)).map(|(_, at)| at).max_by(f64::total_cmp)
}

fn doubts(profile: &Profile) -> Option<(Level, String)> {
    match profile.run.warnings.len() {
        0 => None,
        1 => Some((Level::Good, "1 warning".into())),
        n => Some((Level::Good, format!("{n} warnings"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn a_function_above_its_ceiling_by_more_than_the_interval_lowers_trust() {
        let mut profile = sample::profile();
        profile.run.warnings.clear();
        (profile.run.passes[0].kept_off_share, profile.run.passes[0].samples) = (Some(0.0), Some(5000));
        let of = |profile: &Profile| Trust::of(profile);
        assert_eq!(of(&profile).level, Level::Good, "{}", of(&profile).line());
        let i = profile.functions.iter().position(|f| f.name == "triad").unwrap();
        let spread = |profile: &mut Profile, spread| {
            profile.machine.ceilings.iter_mut().for_each(|c| c.spread = Some(spread));
        };
        spread(&mut profile, 0.01);
        profile.functions[i].analysis.roof_fraction = Some(1.04);
        assert_eq!(of(&profile).level, Level::Good, "no ceiling is known as well as that");
        profile.functions[i].analysis.roof_fraction = Some(1.37);
        let trust = of(&profile);
        assert_eq!(trust.level, Level::Fair);
        assert!(trust.line().contains("triad above the measured ceiling (at 137 % of it)"), "{}", trust.line());
        spread(&mut profile, 0.4);
        assert_eq!(of(&profile).level, Level::Good, "within its interval");
        // A refuted ceiling is no longer the binding one.
        spread(&mut profile, 0.01);
        let analysis = &mut profile.functions[i].analysis;
        (analysis.roof_fraction, analysis.binding) = (Some(0.9), Some("l3".into()));
        let rate = analysis.flop_rate.unwrap();
        let dram = analysis.ceilings.iter_mut().find(|c| c.id == "dram").unwrap();
        (dram.refuted, dram.value) = (true, Some(rate / 1.2));
        assert!(of(&profile).line().contains("(at 120 % of it)"), "{}", of(&profile).line());
    }

    #[test]
    fn facts_decide_the_word_and_nothing_missing_is_silent() {
        let mut profile = sample::profile();
        profile.run.warnings.clear();
        let line = |profile: &Profile| Trust::of(profile).line();
        assert_eq!(
            line(&profile),
            "Trust: fair; 538 samples; load not measured; clock not measured; counts for 98 % of the time"
        );
        profile.run.passes[0].kept_off_share = Some(0.3);
        profile.run.passes[0].samples = Some(1);
        assert!(line(&profile).starts_with("Trust: poor; 1 sample; kept off its CPUs 30 % of the time;"));
        profile.functions.iter_mut().for_each(|f| f.bytes = None);
        assert!(line(&profile).contains("not measured: bytes"));
        profile.functions.clear();
        profile.machine.ceilings.clear();
        assert!(line(&profile).contains("work not counted; not measured: ceilings"));
    }
}
