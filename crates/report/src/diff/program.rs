//! The program as a whole, before and after: sums of counts, and whether it is the same program at all.

use rprof_profile::{Function, Profile};

use super::change::Change;
use super::difference::Difference;
use super::figure::Figure;
use super::modules::{self, tells};
use super::pairs::Alike;
use super::reading::{Coverage, Reading};

/// A figure summed over the functions that both profiles have measured.
#[derive(Debug, Clone, Copy)]
pub struct Total<'p> {
    pub difference: Difference<'p>,
    /// Functions that one of the profiles, or both, did not measure: in neither sum.
    pub left_out: usize,
    /// The greater share of a profile's figure that these have, as far as it is known there.
    pub share_left_out: f64,
}

/// The sums of all figures that add up.
pub fn totals<'p>(changes: &[Change<'p>], alike: &[Alike<'p>], coverage: (&Coverage, &Coverage)) -> Vec<Total<'p>> {
    let figures = Figure::ALL.into_iter().filter(|figure| figure.adds_up());
    figures.map(|figure| total(figure, changes, alike, coverage)).collect()
}

fn total<'p>(
    figure: Figure,
    changes: &[Change<'p>],
    alike: &[Alike<'p>],
    coverage: (&Coverage, &Coverage),
) -> Total<'p> {
    let mut sums = [Sum::default(), Sum::default()];
    let mut left_out = 0;
    let mut rest = [0.0, 0.0];
    let value = |reading: &Reading<'_>| match *reading {
        Reading::AtLeast(part) => part as f64,
        other => other.value().unwrap_or(0.0),
    };
    let mut add = |old: &[Reading<'p>], new: &[Reading<'p>]| {
        if old.iter().chain(new).all(|reading| matches!(reading, Reading::Exact(_) | Reading::Within { .. })) {
            old.iter().for_each(|reading| sums[0].add(reading));
            new.iter().for_each(|reading| sums[1].add(reading));
        } else if old.iter().chain(new).any(|reading| *reading != Reading::NoInterval(0.0)) {
            left_out += 1;
            rest[0] += old.iter().map(value).fold(0.0, |sum, v| sum + v);
            rest[1] += new.iter().map(value).fold(0.0, |sum, v| sum + v);
        }
    };
    for change in changes {
        let Difference { old, new, .. } = *change.difference(figure);
        add(&[old], &[new]);
    }
    for group in alike {
        let readings = |functions: &[&'p Function], coverage: &Coverage| -> Vec<Reading<'p>> {
            functions.iter().map(|f| coverage.reading(f, figure)).collect()
        };
        add(&readings(&group.old, coverage.0), &readings(&group.new, coverage.1));
    }
    let [old, new] = sums.map(Sum::reading);
    let share = |rest: f64, sum: Reading<'_>| match rest + sum.value().unwrap_or(0.0) {
        all if all > 0.0 => rest / all,
        _ => 0.0,
    };
    let share_left_out = share(rest[0], old).max(share(rest[1], new));
    Total { difference: Difference { figure, old, new, between: 0.0 }, left_out, share_left_out }
}

/// A sum of readings. Errors of estimates may have one cause, so they are added up, not their squares.
#[derive(Debug, Default)]
struct Sum {
    exact: u64,
    estimated: f64,
    half: f64,
    summands: usize,
}

impl Sum {
    fn add(&mut self, reading: &Reading<'_>) {
        self.summands += 1;
        match *reading {
            Reading::Exact(value) => self.exact = self.exact.saturating_add(value),
            Reading::Within { value, half } => {
                self.estimated += value;
                self.half += half;
            }
            _ => {}
        }
    }

    fn reading<'p>(self) -> Reading<'p> {
        match self {
            Sum { summands: 0, .. } => Reading::Missing("no function has it in both profiles"),
            Sum { estimated: 0.0, half: 0.0, exact, .. } => Reading::Exact(exact),
            Sum { exact, estimated, half, .. } => Reading::Within { value: exact as f64 + estimated, half },
        }
    }
}

/// Below this share of their work in common functions, profiles are of different programs.
const COMMON: f64 = 0.1;

/// Share of the work of both programs that is in functions of both. Shared libraries, what every program has and code without symbols do
/// not count; `None` if nothing else is left, or, in one of them, nothing else but a `main` that is compared.
pub fn common_share(changes: &[Change<'_>]) -> Option<f64> {
    let is_both = |change: &Change<'_>| change.old.is_some() && change.new.is_some();
    let share = |own: fn(&Change<'_>) -> f64| {
        let all = changes.iter().map(own).fold(0.0, |sum, work| sum + work);
        let common = changes.iter().filter(|change| is_both(change)).map(own).fold(0.0, |sum, work| sum + work);
        (all > 0.0).then(|| common / all)
    };
    match (share(|change| own_work(change.old)), share(|change| own_work(change.new))) {
        (Some(old), Some(new)) => Some(old.min(new)),
        _ if is_main_compared(changes) => None,
        (one, other) => one.or(other),
    }
}

/// Whether both programs work in their `main`: every program has one, so that says nothing of what they are, but it is what there is to compare.
fn is_main_compared(changes: &[Change<'_>]) -> bool {
    let works = |f: Option<&Function>| f.is_some_and(|f| f.name == "main" && is_own(f) && work(f) > 0.0);
    changes.iter().any(|change| works(change.old) && works(change.new))
}

/// Instructions of a function of the program itself, else its seconds.
fn own_work(f: Option<&Function>) -> f64 {
    f.filter(|f| tells(f) && is_own(f)).map_or(0.0, work)
}

/// Whether it lies in the program's own file.
fn is_own(f: &Function) -> bool {
    !f.module.contains(".so") && !f.module.starts_with('[')
}

fn work(f: &Function) -> f64 {
    f.instructions.map(|n| n as f64).or(f.cpu_s).unwrap_or(0.0)
}

/// Whether the profiles are of different programs altogether.
pub fn is_other(old: &Profile, new: &Profile, changes: &[Change<'_>]) -> bool {
    match common_share(changes) {
        Some(share) => share < COMMON,
        // Without a function of their own to compare they are distinguished by name alone.
        None => !is_main_compared(changes) && modules::program(old) != modules::program(new),
    }
}
