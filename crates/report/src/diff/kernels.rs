//! Kernels of GPUs in two profiles.
//!
//! A kernel's time is the sum of its launches, each of which the GPU recorded. Its interval is that of a sum of n launches: their standard
//! deviation is at most half of their range (Popoviciu's inequality), so that 1.96 · √n · (longest − shortest) / 2 contains 95 %. One
//! launch has no interval.

use std::collections::BTreeMap;

use rprof_profile::Profile;
use rprof_profile::device::Kernel;

use super::difference::Difference;
use super::figure::Figure;
use super::reading::Reading;

/// A kernel in both profiles, or in one of them; GPUs are added up.
#[derive(Debug, Clone)]
pub struct KernelChange<'p> {
    pub name: &'p str,
    /// The name in its module, by which kernels are the same.
    pub symbol: &'p str,
    /// Seconds of all launches.
    pub time: Difference<'p>,
    /// Launches; `None` if the profile has no GPU.
    pub launches: (Option<u64>, Option<u64>),
}

impl KernelChange<'_> {
    /// Whether its time or the number of its launches changed.
    pub fn is_changed(&self) -> bool {
        self.time.is_changed() || self.launches.0.zip(self.launches.1).is_some_and(|(old, new)| old != new)
    }
}

/// All kernels, the greatest difference first.
pub fn changes<'p>(old: &'p Profile, new: &'p Profile) -> Vec<KernelChange<'p>> {
    let mut by_symbol: BTreeMap<&str, [Vec<&'p Kernel>; 2]> = BTreeMap::new();
    for (side, profile) in [old, new].into_iter().enumerate() {
        for kernel in profile.devices.iter().flat_map(|devices| &devices.kernels) {
            by_symbol.entry(&kernel.symbol).or_default()[side].push(kernel);
        }
    }
    let one = |(symbol, [before, after]): (&'p str, [Vec<&'p Kernel>; 2])| {
        let name = after.first().or(before.first()).map_or(symbol, |kernel| kernel.name.as_str());
        let launches = |profile: &Profile, kernels: &[&Kernel]| {
            profile.devices.as_ref().map(|_| kernels.iter().map(|kernel| kernel.launches).sum())
        };
        let time =
            Difference { figure: Figure::Time, old: seconds(old, &before), new: seconds(new, &after), between: 0.0 };
        KernelChange { name, symbol, time, launches: (launches(old, &before), launches(new, &after)) }
    };
    let mut all: Vec<KernelChange> = by_symbol.into_iter().map(one).collect();
    let by = |change: &KernelChange| change.time.absolute().unwrap_or(0.0).abs();
    all.sort_by(|a, b| by(b).total_cmp(&by(a)));
    all
}

fn seconds<'p>(profile: &Profile, kernels: &[&Kernel]) -> Reading<'p> {
    match (&profile.devices, kernels) {
        (None, _) => Reading::Missing("no GPU was recorded"),
        (Some(_), []) => Reading::Exact(0),
        (Some(_), kernels) => {
            let value = kernels.iter().map(|kernel| kernel.seconds).sum();
            let half = |k: &&Kernel| 1.96 * (k.launches as f64).sqrt() * (k.longest_s - k.shortest_s).max(0.0) / 2.0;
            match kernels.iter().all(|kernel| kernel.launches > 1) {
                true => Reading::Within { value, half: kernels.iter().map(half).fold(0.0, f64::hypot) },
                false => Reading::NoInterval(value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::{Outcome, Unknown};
    use super::*;
    use crate::tests::sample;
    use rprof_model::device::example;
    use rprof_profile::device::Devices;

    fn profile(kernels: Vec<Kernel>) -> Profile {
        let mut profile = sample::profile();
        profile.devices = Some(Devices { kernels, ..Devices::default() });
        profile
    }

    fn launched(launches: u64, seconds: f64, range: (f64, f64)) -> Kernel {
        Kernel { launches, seconds, shortest_s: range.0, longest_s: range.1, ..example::triad() }
    }

    #[test]
    fn launches_that_differ_among_themselves_make_the_interval() {
        let outcome = |old: Kernel, new: Kernel| {
            let (old, new) = (profile(vec![old]), profile(vec![new]));
            changes(&old, &new)[0].time.outcome()
        };
        let steady = |seconds: f64| launched(100, seconds, (0.0099, 0.0101));
        assert_eq!(outcome(steady(1.0), steady(1.1)), Outcome::Grew);
        // 1.96 · 10 · 0.0002 / 2 = 1.96 ms, twice.
        assert_eq!(outcome(steady(1.0), steady(1.0027)), Outcome::Unchanged);
        let unsteady = |seconds: f64| launched(100, seconds, (0.0, 0.02));
        assert_eq!(outcome(unsteady(1.0), unsteady(1.1)), Outcome::Unchanged);
        let once = |seconds: f64| launched(1, seconds, (seconds, seconds));
        assert_eq!(outcome(once(1.0), once(2.0)), Outcome::Unknown(Unknown::NoInterval));
    }

    #[test]
    fn kernels_of_one_profile_are_new_or_gone() {
        let old = profile(vec![example::triad(), example::small()]);
        let new = profile(vec![example::triad(), example::fp64_fma()]);
        let all = changes(&old, &new);
        assert_eq!(all.len(), 3);
        let of = |symbol: String| all.iter().find(|change| change.symbol == symbol).unwrap();
        assert_eq!(of(example::small().symbol).launches.1, Some(0));
        assert_eq!(of(example::fp64_fma().symbol).launches.0, Some(0));
        assert!(!of(example::triad().symbol).is_changed());
        assert!(changes(&sample::profile(), &sample::profile()).is_empty());
    }
}
