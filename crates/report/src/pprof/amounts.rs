//! The amounts of each figure by call stack, thread and state. Times are those of the samples. A function's counts are its own sums,
//! divided among the stacks that it was sampled in by CPU time; one without a sample has a stack of itself alone.

use std::collections::{BTreeMap, HashMap};

use rprof_profile::{Function, Profile};

use crate::stacks;

/// A figure of each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Cpu,
    Lost,
    Waiting,
    Instructions,
    Flops,
    DramBytes,
}

impl Figure {
    /// All of them, in the order of [`Row::values`].
    pub const ALL: [Figure; 6] =
        [Figure::Cpu, Figure::Lost, Figure::Waiting, Figure::Instructions, Figure::Flops, Figure::DramBytes];

    /// Its name and its unit, which pprof knows to scale: `cpu/nanoseconds`.
    pub fn name_and_unit(self) -> (&'static str, &'static str) {
        match self {
            Figure::Cpu => ("cpu", "nanoseconds"),
            Figure::Lost => ("lost", "nanoseconds"),
            Figure::Waiting => ("waiting", "nanoseconds"),
            Figure::Instructions => ("instructions", "count"),
            Figure::Flops => ("flops", "count"),
            Figure::DramBytes => ("dram", "bytes"),
        }
    }

    /// The function's own count; `None` for times, and where it was not measured.
    pub fn count(self, f: &Function) -> Option<u64> {
        match self {
            Figure::Cpu | Figure::Lost | Figure::Waiting => None,
            Figure::Instructions => f.instructions,
            Figure::Flops => f.flops.map(|flops| flops.total),
            Figure::DramBytes => f.bytes.and_then(|bytes| bytes.dram),
        }
    }

    /// Those that are counts.
    pub fn counts() -> impl Iterator<Item = Figure> {
        [Figure::Instructions, Figure::Flops, Figure::DramBytes].into_iter()
    }
}

/// Where amounts belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A call stack of the profile.
    Stack(u32),
    /// A function that was counted and has no sample at work.
    Function(usize),
    /// Samples without a stack.
    Unknown,
}

/// The amounts at one place in one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub place: Place,
    /// Index into the profile's threads; `None` for counts of a function without a sample.
    pub thread: Option<u32>,
    /// Index into the profile's functions.
    pub function: Option<usize>,
    /// By [`Figure::ALL`]: nanoseconds, counts, bytes.
    pub values: [i64; Figure::ALL.len()],
}

/// CPU seconds of samples at one place in one thread.
#[derive(Debug, Clone, Copy, Default)]
struct Seconds {
    work: f64,
    waiting: f64,
}

/// The rows of `profile`.
pub fn rows(profile: &Profile) -> Vec<Row> {
    let functions = Functions::new(profile);
    let mut seconds: BTreeMap<(Place, u32), Seconds> = BTreeMap::new();
    for sample in &profile.samples {
        let place = sample.stack.map_or(Place::Unknown, Place::Stack);
        let here = seconds.entry((place, sample.thread)).or_default();
        *(if sample.waiting { &mut here.waiting } else { &mut here.work }) += sample.weight_s;
    }
    let mut rows = Vec::new();
    let mut at_work: HashMap<usize, Vec<(usize, f64)>> = HashMap::new();
    for ((place, thread), Seconds { work, waiting }) in seconds {
        let function = functions.at(place);
        let above = function.and_then(|f| profile.functions[f].analysis.roof_fraction);
        let lost = above.map_or(0.0, |at| work * (1.0 - at).max(0.0));
        let values = [nanoseconds(work), nanoseconds(lost), nanoseconds(waiting), 0, 0, 0];
        if let Some(function) = function.filter(|_| work > 0.0) {
            at_work.entry(function).or_default().push((rows.len(), work));
        }
        rows.push(Row { place, thread: Some(thread), function, values });
    }
    for (function, f) in profile.functions.iter().enumerate() {
        match at_work.get(&function) {
            Some(sampled) => {
                for figure in Figure::counts() {
                    let Some(total) = figure.count(f) else { continue };
                    let weights: Vec<f64> = sampled.iter().map(|(_, work)| *work).collect();
                    for ((row, _), part) in sampled.iter().zip(divided(total, &weights)) {
                        rows[*row].values[figure as usize] = whole(part);
                    }
                }
            }
            None => {
                let mut values = [0; Figure::ALL.len()];
                Figure::counts().for_each(|figure| values[figure as usize] = whole(figure.count(f).unwrap_or(0)));
                if values != [0; Figure::ALL.len()] {
                    rows.push(Row { place: Place::Function(function), thread: None, function: Some(function), values });
                }
            }
        }
    }
    rows
}

/// CPU seconds at work in functions without the figure: why sums of it are not whole.
pub fn missing_seconds(profile: &Profile, figure: Figure) -> f64 {
    let is_missing = |f: &&Function| match figure {
        Figure::Lost => f.analysis.roof_fraction.is_none(),
        _ => figure.count(f).is_none(),
    };
    profile.functions.iter().filter(is_missing).filter_map(|f| f.cpu_s).sum()
}

/// The functions that frames belong to.
struct Functions<'p> {
    profile: &'p Profile,
    by_name: HashMap<(&'p str, &'p str), usize>,
}

impl<'p> Functions<'p> {
    fn new(profile: &'p Profile) -> Self {
        let named = profile.functions.iter().enumerate().rev();
        Functions { profile, by_name: named.map(|(i, f)| ((&*f.name, &*f.module), i)).collect() }
    }

    /// The function at the top of a stack, which holds the code that was inlined there.
    fn at(&self, place: Place) -> Option<usize> {
        let Place::Stack(leaf) = place else { return None };
        let frames = stacks::frames(self.profile, leaf);
        let mut frames = frames.iter().rev().filter_map(|frame| self.profile.frames.get(*frame as usize));
        let host = frames.find(|frame| !frame.inlined)?;
        self.by_name.get(&(&*host.name, &*host.module)).copied()
    }
}

/// `total` in parts as `weights` are to one another; their sum is `total`.
fn divided(total: u64, weights: &[f64]) -> Vec<u64> {
    let all: f64 = weights.iter().sum();
    let (mut so_far, mut given) = (0.0, 0);
    let last = weights.len().saturating_sub(1);
    let part = |(i, weight): (usize, &f64)| {
        so_far += weight;
        let until = if i == last { total } else { ((total as f64 * (so_far / all)).round() as u64).min(total) };
        let part = until.saturating_sub(given);
        given = given.max(until);
        part
    };
    weights.iter().enumerate().map(part).collect()
}

fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        for (total, weights) in [(10, vec![1.0, 1.0, 1.0]), (u64::MAX - 1, vec![0.1, 0.7]), (0, vec![3.0])] {
            assert_eq!(divided(total, &weights).iter().map(|part| u128::from(*part)).sum::<u128>(), u128::from(total));
        }
        assert_eq!(divided(10, &[1.0, 4.0]), [2, 8]);
    }
}
