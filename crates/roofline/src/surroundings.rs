//! Facts about the other functions and the run that the analysis of one function needs.

use rprof_profile::data::{Data, DataKind};
use rprof_profile::{Function, Profile};

/// The run around a function.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surroundings {
    /// CPU seconds that one sample represents; `None` if that is not known.
    pub period_s: Option<f64>,
    /// Elapsed seconds of the native run; `None` without one.
    pub wall_s: Option<f64>,
    /// Seconds in which threads were kept off their CPUs / seconds in which they could have run; 0 if not measured.
    pub kept_off: f64,
    /// Functions with memory traffic.
    movers: Vec<Mover>,
}

/// A function with memory traffic.
#[derive(Debug, Clone, PartialEq)]
struct Mover {
    name: String,
    /// Bytes between the caches and memory.
    bytes: f64,
    /// Calls of each thread of its team, if known.
    rounds: Option<f64>,
    data: Vec<Data>,
}

/// Another function that moves the same data.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared<'a> {
    /// Its name.
    pub with: &'a str,
    /// Name of the largest part of that data.
    pub data: &'a str,
    /// Part of this function's lines from memory that is in it.
    pub share: f64,
}

/// A function moves about as much as another one, and about as often, if at least this part of it.
const AS_MUCH: f64 = 0.7;
/// Data is shared if at least this part of the lines is in it.
const SHARED: f64 = 0.5;

impl Surroundings {
    /// Of the functions of `profile`.
    pub fn of(profile: &Profile) -> Self {
        let timed = || profile.run.passes.iter().filter(|p| p.kind == "timed");
        let samples: u64 = timed().filter_map(|p| p.samples).sum();
        let seconds: f64 = timed().filter(|p| p.samples.is_some()).map(|p| p.cpu_s).sum();
        let by_rate = timed().find_map(|p| p.frequency_hz).filter(|hz| *hz > 0.0).map(|hz| 1.0 / hz);
        let period_s = by_rate.or((samples > 0 && seconds > 0.0).then(|| seconds / samples as f64));
        let movers = profile.functions.iter().filter_map(Mover::of).collect();
        Surroundings {
            period_s,
            // Of a merged profile the sum: one run may have followed the other.
            wall_s: timed().map(|p| p.wall_s).reduce(|a, b| a + b).filter(|s| *s > 0.0),
            kept_off: timed().filter_map(|p| p.kept_off_share).fold(0.0, f64::max),
            movers,
        }
    }

    /// Samples that `function` has, from its CPU time.
    pub fn samples(&self, function: &Function) -> Option<f64> {
        Some(function.cpu_s? / self.period_s?)
    }

    /// The function that moves most of the data that `function` moves, and about as much of it.
    pub fn sharing(&self, function: &Function) -> Option<Shared<'_>> {
        let own = Mover::of(function)?;
        let as_often = |m: &&Mover| m.rounds.zip(own.rounds).is_none_or(|(theirs, ours)| theirs >= AS_MUCH * ours);
        let others =
            self.movers.iter().filter(|m| m.name != own.name && m.bytes >= AS_MUCH * own.bytes).filter(as_often);
        let shared = others.filter_map(|other| {
            let same = own.data.iter().filter(|d| is_named(d) && other.data.iter().any(|o| is_same(o, d)));
            let share: f64 = same.clone().map(|d| d.share).sum();
            let largest = same.max_by(|a, b| a.share.total_cmp(&b.share))?;
            let data = other.data.iter().find(|o| is_same(o, largest))?;
            Some(Shared { with: &other.name, data: &data.name, share: share.min(1.0) })
        });
        shared.filter(|s| s.share >= SHARED).max_by(|a, b| a.share.total_cmp(&b.share))
    }
}

impl Mover {
    fn of(function: &Function) -> Option<Mover> {
        let bytes = function.bytes?.dram? as f64;
        let rounds = function.rounds();
        (bytes > 0.0).then(|| Mover { name: function.name.clone(), bytes, rounds, data: function.data.clone() })
    }
}

/// Data of which there is one by that name and place.
fn is_named(data: &Data) -> bool {
    matches!(data.kind, DataKind::Static | DataKind::Allocated)
}

fn is_same(one: &Data, other: &Data) -> bool {
    one.kind == other.kind && one.name == other.name && one.bytes == other.bytes
}
