//! A figure of a profile as far as it is known, with its error.
//!
//! ```text
//! counted, all of it                exact
//! counted in windows, sampled, pmu  value ± half width of the 95 % interval
//! simulated                         value ± 1.96 × the stated standard error
//! counted, a part of it             at least the value
//! no sample fell in it              at most three samples' time: the upper 95 % limit of none seen ("rule of three",
//!                                   Hanley & Lippman-Hand, JAMA 249, 1983)
//! not in a run that was counted whole   0, exactly
//! ```

use crate::number::NOT_MEASURED;
use rprof_model::rough::{self, ROUGH};
use rprof_profile::function::Source;
use rprof_profile::{Function, Profile};

use super::figure::Figure;

/// Half width of the 95 % interval in standard errors.
const NORMAL_95: f64 = 1.96;
/// Samples that a function without any has at most, at 95 %.
const NONE_SEEN_95: f64 = 3.0;

/// A figure as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading<'p> {
    /// Another run that does the same work has the same value.
    Exact(u64),
    /// The value, and half the width of its 95 % interval.
    Within { value: f64, half: f64 },
    /// A value of unknown error.
    NoInterval(f64),
    /// A part was counted: the whole is at least this.
    AtLeast(u64),
    /// Nothing was seen: at most this, at 95 %.
    AtMost(f64),
    /// Not measured, and why.
    Missing(&'p str),
}

impl Reading<'_> {
    /// The value, if there is one of the whole.
    pub fn value(&self) -> Option<f64> {
        match *self {
            Reading::Exact(value) => Some(value as f64),
            Reading::Within { value, .. } | Reading::NoInterval(value) => Some(value),
            Reading::AtLeast(_) | Reading::AtMost(_) | Reading::Missing(_) => None,
        }
    }

    /// Value and half width if both are known; 0 and the limit of a figure that was not seen.
    pub fn interval(&self) -> Option<(f64, f64)> {
        match *self {
            Reading::Exact(value) => Some((value as f64, 0.0)),
            Reading::Within { value, half } => Some((value, half)),
            Reading::AtMost(limit) => Some((0.0, limit)),
            Reading::NoInterval(_) | Reading::AtLeast(_) | Reading::Missing(_) => None,
        }
    }
}

/// How much of a run was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Not,
    /// In windows of a single run.
    Windows,
    /// Any function may lack a part.
    Partly,
    /// Code of files was counted whole; code that was made at run time may lack a part.
    Files,
    Whole,
}

/// The reading of functions that a whole run does not have.
#[derive(Debug, Clone, Copy)]
pub struct Coverage {
    /// CPU seconds of a sample; `None` without a timed pass.
    sample_s: Option<f64>,
    counted: Counted,
}

impl Coverage {
    /// Of the run that `profile` records.
    pub fn of(profile: &Profile) -> Coverage {
        let passes = |kind: &'static str| profile.run.passes.iter().filter(move |pass| pass.kind == kind);
        let samples: u64 = passes("timed").filter_map(|pass| pass.samples).sum();
        let cpu_s: f64 = passes("timed").map(|pass| pass.cpu_s).sum();
        let counted = match (passes("counted").next(), passes("windows").next()) {
            (_, Some(_)) => Counted::Windows,
            (None, None) => Counted::Not,
            (Some(_), None) if passes("counted").all(|pass| pass.uncounted_share == Some(0.0)) => Counted::Whole,
            (Some(_), None) if profile.functions.iter().any(is_part_of_file) => Counted::Partly,
            (Some(_), None) => Counted::Files,
        };
        Coverage { sample_s: (samples > 0).then(|| cpu_s / samples as f64), counted }
    }

    fn none_seen<'p>(&self) -> Reading<'p> {
        match self.sample_s {
            Some(sample_s) => Reading::AtMost(NONE_SEEN_95 * sample_s),
            None => Reading::Missing("times were not measured"),
        }
    }

    /// `figure` of a function that the other profile has, as `other`, and this one does not.
    pub fn absent<'p>(&self, figure: Figure, other: &Function) -> Reading<'p> {
        match (figure, self.counted) {
            (Figure::Time, _) => self.none_seen(),
            (Figure::RoofFraction, _) => Reading::Missing("the function is not in this profile"),
            (_, Counted::Whole) => Reading::Exact(0),
            (_, Counted::Files) if is_in_file(other) => Reading::Exact(0),
            (_, Counted::Not) => Reading::Missing("work was not counted"),
            (_, Counted::Windows) => Reading::Missing("no window met it"),
            (_, Counted::Partly | Counted::Files) => {
                Reading::Missing("not in this profile, of which a part was not counted")
            }
        }
    }

    /// `figure` of `f`.
    pub fn reading<'p>(&self, f: &'p Function, figure: Figure) -> Reading<'p> {
        let source = f.source.get(figure.source());
        match figure {
            Figure::Time => match (f.time_s, f.time_ci95_s) {
                (Some(value), Some(half)) => Reading::Within { value, half },
                (Some(value), None) => Reading::NoInterval(value),
                // Times of the pass are known, and none of it was at work in this function.
                (None, _) if f.waiting_s.is_some() => self.none_seen(),
                (None, _) => Reading::Missing(reason(source)),
            },
            Figure::RoofFraction => roof_fraction(f),
            counted => match counted.count(f) {
                Some(value) => of_count(value, source),
                None => Reading::Missing(reason(source)),
            },
        }
    }
}

/// Whether its code is that of a file, and not `[anon]` or `[vdso]`.
fn is_in_file(f: &Function) -> bool {
    !f.module.starts_with('[')
}

fn is_part_of_file(f: &Function) -> bool {
    is_in_file(f) && matches!(known(f.source.get("instructions")), Known::AtLeast)
}

fn reason(source: Option<&Source>) -> &str {
    source.and_then(|source| source.reason.as_deref()).unwrap_or("the profile does not say why")
}

/// How well a count is known.
enum Known {
    Exactly,
    AtLeast,
    /// Relative half width of the 95 % interval.
    Within(f64),
    /// Within more than itself: it may be of any size.
    Roughly,
    Unknown,
}

fn known(source: Option<&Source>) -> Known {
    let Some(source) = source else { return Known::Unknown };
    match (source.how.as_str(), source.error, &source.reason) {
        ("counted", None, None) => Known::Exactly,
        ("counted", Some(_), _) => Known::AtLeast,
        ("counted", None, Some(_)) | (NOT_MEASURED, ..) | (_, None, _) => Known::Unknown,
        ("simulated", Some(error), _) => Known::Within(NORMAL_95 * error),
        (_, Some(error), _) if error > ROUGH => Known::Roughly,
        (_, Some(error), _) => Known::Within(error),
    }
}

fn of_count<'p>(value: u64, source: Option<&Source>) -> Reading<'p> {
    match known(source) {
        Known::Exactly => Reading::Exact(value),
        Known::AtLeast => Reading::AtLeast(value),
        // There is no part of nothing.
        Known::Within(relative) if value > 0 => Reading::Within { value: value as f64, half: relative * value as f64 },
        Known::Roughly => Reading::Missing("its interval is wider than the figure"),
        Known::Within(_) | Known::Unknown => Reading::NoInterval(value as f64),
    }
}

/// T / time: the relative errors of the time and of the counts behind the binding term T. Those of the machine's ceilings are not in
/// it: two profiles of one machine share them.
fn roof_fraction(f: &Function) -> Reading<'_> {
    let Some(value) = f.analysis.roof_fraction else {
        return Reading::Missing(match (f.time_s, &f.work) {
            (None, _) => "its time was not measured",
            _ if rough::of_counts(f).is_some() => "the intervals of its counts are wider than the counts",
            (_, None) => "its work was not counted",
            _ => "no ceiling of the machine bounds it",
        });
    };
    let counts = match f.analysis.binding.as_deref() {
        Some("dram" | "memory-imbalance") => "bytes.dram",
        Some("l3") => "bytes.l3",
        Some("l2") => "bytes.l2",
        Some("latency") => "misses",
        _ => "instructions",
    };
    let source = f.source.get(counts).or_else(|| f.source.get("bytes.dram").filter(|_| counts == "misses"));
    let of_counts = match known(source) {
        Known::Exactly => Some(0.0),
        Known::Within(relative) => Some(relative),
        Known::AtLeast | Known::Roughly | Known::Unknown => None,
    };
    let of_time = f.time_s.zip(f.time_ci95_s).filter(|(time, _)| *time > 0.0).map(|(time, half)| half / time);
    match of_counts.zip(of_time) {
        Some((counts, time)) => Reading::Within { value, half: value * counts.hypot(time) },
        None => Reading::NoInterval(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn source(how: &str, error: Option<f64>, reason: Option<&str>) -> Source {
        Source { how: how.into(), error, reason: reason.map(str::to_owned) }
    }

    #[test]
    fn a_part_is_never_taken_for_the_whole() {
        let of = |source| of_count(100, Some(&source));
        assert_eq!(of(source("counted", None, None)), Reading::Exact(100));
        assert_eq!(of(source("counted", Some(0.1), Some("a lower bound"))), Reading::AtLeast(100));
        assert_eq!(of(source("estimated", Some(0.2), None)), Reading::Within { value: 100.0, half: 20.0 });
        assert!(matches!(of(source("estimated", Some(2.8), None)), Reading::Missing(_)));
        assert_eq!(of(source("simulated", Some(0.1), None)), Reading::Within { value: 100.0, half: 19.6 });
        assert_eq!(of(source("counted", None, Some("masks"))), Reading::NoInterval(100.0));
        assert_eq!(of_count(0, Some(&source("simulated", Some(0.1), None))), Reading::NoInterval(0.0));
        assert_eq!(of_count(7, None), Reading::NoInterval(7.0));
    }

    #[test]
    fn nothing_seen_is_a_limit_and_nothing_measured_has_its_reason() {
        let mut profile = sample::profile();
        let coverage = Coverage::of(&profile);
        let limit = 3.0 * 5.37 / 538.0;
        let of_file = profile.functions[0].clone();
        let made = Function { module: "[anon]".into(), ..of_file.clone() };
        assert_eq!(coverage.absent(Figure::Time, &of_file), Reading::AtMost(limit));
        let mut f = Function { waiting_s: Some(0.0), ..Function::default() };
        assert_eq!(coverage.reading(&f, Figure::Time), Reading::AtMost(limit));
        f.waiting_s = None;
        f.source.insert("time_s".into(), source("not measured", None, Some("no pass")));
        assert_eq!(coverage.reading(&f, Figure::Time), Reading::Missing("no pass"));
        let part = |reading| matches!(reading, Reading::Missing(why) if why.contains("a part was not counted"));
        assert_eq!(coverage.absent(Figure::Flops, &of_file), Reading::Exact(0), "code of files was counted whole");
        assert!(part(coverage.absent(Figure::Flops, &made)));
        profile.functions[1].source.insert("instructions".into(), source("counted", Some(0.02), Some("a lower bound")));
        assert!(part(Coverage::of(&profile).absent(Figure::Flops, &of_file)));
        profile.run.passes[1].uncounted_share = Some(0.0);
        assert_eq!(Coverage::of(&profile).absent(Figure::Flops, &made), Reading::Exact(0));
        profile.run.passes[1].kind = "windows".into();
        assert_eq!(Coverage::of(&profile).absent(Figure::Flops, &of_file), Reading::Missing("no window met it"));
        profile.run.passes.clear();
        let none = Coverage::of(&profile);
        assert_eq!(none.absent(Figure::Time, &of_file), Reading::Missing("times were not measured"));
    }

    #[test]
    fn a_roof_fraction_has_the_errors_of_its_time_and_of_its_bytes() {
        let profile = sample::profile();
        let triad = profile.functions.iter().find(|f| f.name == "triad").unwrap();
        let Reading::Within { value, half } = Coverage::of(&profile).reading(triad, Figure::RoofFraction) else {
            panic!("an interval")
        };
        let time = triad.time_ci95_s.unwrap() / triad.time_s.unwrap();
        assert!((half / value - time.hypot(1.96 * 0.03)).abs() < 1e-12, "{half} of {value}");
    }
}
