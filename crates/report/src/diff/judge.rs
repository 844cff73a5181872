//! Whether a condition holds for a comparison. A figure that is not known is never taken for one that is fine.

use crate::name::shorten;
use crate::near::NoSuchName;
use crate::number::percent;
use rprof_profile::Function;

use super::Diff;
use super::change::Change;
use super::class::ClassOutcome;
use super::condition::{Condition, Subject, Test};
use super::difference::{Difference, Outcome, Unknown};
use super::figure::Figure;
use super::pairs::Alike;
use super::reading::Reading;
use super::verdict;
use super::words::{self, several};

/// A function is judged as one of all if it has this share of the program's figure in one of the profiles.
pub const LEAST_SHARE: f64 = 0.01;
/// Characters of a name.
const NAME: usize = 100;

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// It holds: for each of these, a line.
    Holds(Vec<String>),
    /// It does not.
    Not,
    /// It cannot be judged, and why.
    Unknown(String),
}

/// Judges a condition.
///
/// # Errors
/// [`NoSuchName`].
pub fn judge(diff: &Diff<'_>, condition: &Condition) -> Result<Judgement, NoSuchName> {
    Ok(match &condition.subject {
        Subject::Program => of_program(diff, &condition.test),
        Subject::Any => of_any(diff, &condition.test),
        Subject::Named(name) => of_named(diff, condition, name)?,
    })
}

/// Lines of a condition that are printed at most.
const LINES: usize = 5;

/// A line for each function that a condition holds for, and how many more there are.
pub fn told(judged: &[(Condition, Judgement)]) -> Vec<String> {
    let mut out = Vec::new();
    for (condition, judgement) in judged {
        let text = &condition.text;
        match judgement {
            Judgement::Holds(lines) => {
                out.extend(lines.iter().take(LINES).map(|line| format!("--fail-if {text} holds: {line}")));
                if lines.len() > LINES {
                    out.push(format!("--fail-if {text} holds of {} more", lines.len() - LINES));
                }
            }
            Judgement::Not | Judgement::Unknown(_) => {}
        }
    }
    out
}

/// Of one function: whether the test holds, or why that is not known.
fn one(change: &Change<'_>, test: &Test) -> Result<bool, String> {
    let (old, new) = change.class;
    let has_class = || match new.class {
        Some(name) => Ok(name),
        None => Err("it has no class in the new profile".to_owned()),
    };
    match test {
        Test::Grows(figure, _) | Test::Falls(figure, _) | Test::Above(figure, _) | Test::Below(figure, _) => {
            of_difference(change.difference(*figure), test)
        }
        Test::ClassChanges => match change.class_outcome() {
            ClassOutcome::Changed => Ok(true),
            ClassOutcome::Same | ClassOutcome::Doubtful => Ok(false),
            ClassOutcome::Unknown if old.class.is_none() => Err("it has no class in the old profile".into()),
            ClassOutcome::Unknown => Err("it has no class in the new profile".into()),
        },
        Test::ClassIs(class) => Ok(has_class()? == *class && new.is_sure()),
        Test::ClassIsNot(class) => Ok(has_class()? != *class && new.is_sure()),
    }
}

fn of_difference(d: &Difference<'_>, test: &Test) -> Result<bool, String> {
    let beyond = |share: f64| d.relative().is_none_or(|by| by.abs() > share);
    match test {
        Test::Grows(_, share) => decided(d, relative(d, Outcome::Grew)? && beyond(*share), *share, 1.0),
        Test::Falls(_, share) => decided(d, relative(d, Outcome::Fell)? && beyond(*share), *share, -1.0),
        Test::Above(_, limit) => match d.new {
            Reading::AtLeast(part) if part as f64 > *limit => Ok(true),
            reading => Ok(interval(reading)?.0 > *limit),
        },
        Test::Below(_, limit) => match d.new {
            Reading::AtLeast(part) if part as f64 >= *limit => Ok(false),
            reading => Ok(interval(reading)?.1 < *limit),
        },
        Test::ClassChanges | Test::ClassIs(_) | Test::ClassIsNot(_) => Ok(false),
    }
}

/// `holds`, unless it does not, and the figures are known too badly to show a change by `share` in the direction `sign`. A `share` of 0
/// asks for any change beyond the error.
fn decided(d: &Difference<'_>, holds: bool, share: f64, sign: f64) -> Result<bool, String> {
    let half = d.half().zip(d.old.value()).filter(|(_, old)| *old > 0.0).map(|(half, old)| half / old);
    match (half, d.relative()) {
        (Some(half), Some(by)) if !holds && share > 0.0 && half > share && sign * by + half > share => {
            Err(format!("known within ± {} only, so a change of {} cannot be told", percent(half), percent(share)))
        }
        _ => Ok(holds),
    }
}

fn relative(d: &Difference<'_>, wanted: Outcome) -> Result<bool, String> {
    match (d.outcome(), d.old, d.new) {
        (Outcome::Unknown(Unknown::NotMeasured), Reading::Missing(why), _) => {
            Err(format!("not measured in the old profile ({why})"))
        }
        (Outcome::Unknown(Unknown::NotMeasured), _, Reading::Missing(why)) => {
            Err(format!("not measured in the new profile ({why})"))
        }
        (Outcome::Unknown(why), ..) => Err(why.words().to_owned()),
        (outcome, ..) => Ok(outcome == wanted),
    }
}

/// Least and greatest value.
fn interval(reading: Reading<'_>) -> Result<(f64, f64), String> {
    match (reading.interval(), reading) {
        (Some((value, half)), _) => Ok((value - half, value + half)),
        (None, Reading::Missing(why)) => Err(format!("not measured in the new profile ({why})")),
        (None, Reading::AtLeast(_)) => Err(Unknown::Part.words().into()),
        (None, _) => Err(Unknown::NoInterval.words().into()),
    }
}

fn of_program(diff: &Diff<'_>, test: &Test) -> Judgement {
    let Some(figure) = figure(test) else { return Judgement::Not };
    let Some(total) = diff.total(figure) else { return Judgement::Unknown("it has no sum".into()) };
    if total.share_left_out >= LEAST_SHARE {
        let (left_out, share) = (several(total.left_out, "function"), percent(total.share_left_out));
        return Judgement::Unknown(format!("{left_out} with {share} of it cannot be compared"));
    }
    match of_difference(&total.difference, test) {
        Ok(true) => Judgement::Holds(vec![verdict::total(diff, figure).unwrap_or_default()]),
        Ok(false) => Judgement::Not,
        Err(why) => Judgement::Unknown(why),
    }
}

fn of_any(diff: &Diff<'_>, test: &Test) -> Judgement {
    let weight = Weight::of(diff, figure(test));
    let mut of_class = diff.changes.iter().filter(|change| change.class_outcome() != ClassOutcome::Unknown);
    if figure(test).is_none() && of_class.next().is_none() {
        return Judgement::Unknown("no function has a class in both profiles".into());
    }
    let (mut holds, mut not, mut unknown) = (Vec::new(), 0, Vec::new());
    for change in diff.changes.iter().filter(|change| weight.share(change) >= LEAST_SHARE) {
        match one(change, test) {
            Ok(true) => holds.push(line(change, test)),
            Ok(false) => not += 1,
            // Many functions have no class; that of one is asked for by name.
            Err(_) if figure(test).is_none() => not += 1,
            Err(why) => unknown.push(format!("{}: {why}", shorten(change.name(), NAME))),
        }
    }
    if let Some(group) = diff.alike.iter().find(|group| weight.share_of(group) >= LEAST_SHARE) {
        unknown.push(format!("functions called {} cannot be told apart", shorten(group.name(), NAME)));
    }
    match (holds.is_empty(), not, unknown.len()) {
        (false, ..) => Judgement::Holds(holds),
        (true, 0, 0) => Judgement::Unknown("no function has it".into()),
        (true, _, 0) => Judgement::Not,
        (true, _, n) => {
            let more = if n > 1 { format!(" and {}", several(n - 1, "more function")) } else { String::new() };
            Judgement::Unknown(unknown.swap_remove(0) + &more)
        }
    }
}

fn of_named(diff: &Diff<'_>, condition: &Condition, wanted: &str) -> Result<Judgement, NoSuchName> {
    let all = || diff.changes.iter().chain(diff.changes.iter().flat_map(|change| &change.loops));
    let exact = |change: &&Change<'_>| [change.old, change.new].into_iter().flatten().any(|f| f.is_shown_as(wanted));
    // Without template arguments and parameters.
    let bare =
        |change: &&Change<'_>| change.name().strip_prefix(wanted).is_some_and(|rest| rest.starts_with(['(', '<']));
    let mut found: Vec<&Change<'_>> = all().filter(exact).collect();
    if found.is_empty() {
        found = all().filter(bare).collect();
    }
    if diff.alike.iter().any(|group| group.name() == wanted) {
        return Ok(Judgement::Unknown("several functions of that name cannot be told apart".into()));
    }
    if found.is_empty() {
        let names: Vec<&str> = diff.changes.iter().map(Change::name).collect();
        return Err(NoSuchName::new(condition.text.clone(), wanted, &names));
    }
    let (mut holds, mut unknown) = (Vec::new(), Vec::new());
    for change in found {
        match one(change, &condition.test) {
            Ok(true) => holds.push(line(change, &condition.test)),
            Ok(false) => {}
            Err(why) => unknown.push(why),
        }
    }
    Ok(match (holds.is_empty(), unknown.into_iter().next()) {
        (false, _) => Judgement::Holds(holds),
        (true, Some(why)) => Judgement::Unknown(why),
        (true, None) => Judgement::Not,
    })
}

fn figure(test: &Test) -> Option<Figure> {
    match test {
        Test::Grows(figure, _) | Test::Falls(figure, _) | Test::Above(figure, _) | Test::Below(figure, _) => {
            Some(*figure)
        }
        Test::ClassChanges | Test::ClassIs(_) | Test::ClassIsNot(_) => None,
    }
}

/// `triad: instructions 600 k → 720 k (+20 %, exact)`
fn line(change: &Change<'_>, test: &Test) -> String {
    let name = shorten(change.name(), NAME);
    let Some(figure) = figure(test) else {
        return format!("{name}: held by {}, now {}", change.class.0.words(), change.class.1.words());
    };
    let d = change.difference(figure);
    let (old, new) = (words::reading(figure, &d.old), words::reading(figure, &d.new));
    format!("{name}: {} {old} → {new} ({}, {})", figure.title(), words::change(d), words::error(d))
}

/// The part of the program that functions have, by a figure that adds up.
struct Weight {
    figure: Figure,
    sums: (f64, f64),
}

impl Weight {
    /// By the figure that is asked for; by time, else by instructions, for those that have no sum.
    fn of(diff: &Diff<'_>, asked: Option<Figure>) -> Weight {
        let sums = |figure: Figure| {
            let of = |side: fn(&Difference<'_>) -> Option<f64>| {
                diff.changes.iter().filter_map(|change| side(change.difference(figure))).sum::<f64>()
            };
            (of(|d| d.old.value()), of(|d| d.new.value()))
        };
        let asked = asked.filter(|figure| *figure != Figure::RoofFraction);
        let figure = asked.unwrap_or(match sums(Figure::Time) {
            (old, new) if old > 0.0 && new > 0.0 => Figure::Time,
            _ => Figure::Instructions,
        });
        Weight { figure, sums: sums(figure) }
    }

    /// The greater of the shares before and after.
    fn share(&self, change: &Change<'_>) -> f64 {
        let d = change.difference(self.figure);
        let part = |reading: Reading<'_>, sum: f64| match (reading.value(), reading) {
            (Some(value), _) if sum > 0.0 => value / sum,
            // Of a part that is not in the sum, no less is known than that it may matter.
            (None, Reading::AtLeast(_)) => 1.0,
            _ => 0.0,
        };
        part(d.old, self.sums.0).max(part(d.new, self.sums.1))
    }

    /// Of functions that cannot be distinguished.
    fn share_of(&self, group: &Alike<'_>) -> f64 {
        let value = |f: &&Function| match self.figure {
            Figure::Time => f.time_s.unwrap_or(0.0),
            figure => figure.count(f).unwrap_or(0) as f64,
        };
        let share = |all: &[&Function], sum: f64| match all.iter().map(value).fold(0.0, |a, b| a + b) {
            own if own + sum > 0.0 => own / (own + sum),
            _ => 0.0,
        };
        share(&group.old, self.sums.0).max(share(&group.new, self.sums.1))
    }
}
