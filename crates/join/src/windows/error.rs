//! The 95 % intervals of figures that windows estimate.
//!
//! ```text
//! a figure of a function or loop = Σ over its strata of: its part in the windows / the stratum's seconds there × the stratum's native seconds
//! ```
//!
//! Windows may meet one phase of a function too rarely for an interval, though they know its instructions.

use std::collections::HashMap;

use super::attribute::Attributed;
use super::jackknife::{GROUPS, groups_with, relative_half_width};
use super::strata::{Strata, StratumId};
use super::timing::{Replicate, TimingWindows};
use crate::code_map::FunctionId;
use rprof_profile::evidence::estimate::{Figures, Interval, LoopEstimate};

/// A figure is not known if strata with a time that windows do not show have more than this share of it.
const MOST_LIMITED: f64 = 0.1;

/// Which of the figures of a stratum.
#[derive(Debug, Clone, Copy)]
enum Figure {
    Instructions = 0,
    Flops = 1,
    L1Bytes = 2,
}

/// Of one function.
#[derive(Debug)]
pub struct Errors {
    /// Of its counts of instructions, relative; `None`: too few windows met it.
    pub counts: Option<f64>,
    /// Of other figures.
    pub figures: Figures,
    /// Of its loops' counts.
    pub loops: Vec<LoopEstimate>,
}

/// The errors of a function: from the windows that met it, the number of `samples` of it outside of them (also `by_stratum`), the
/// difference between the windows' speed and the native one, and the share `unmet` of its time in code that no window met.
pub fn of_function(
    timing: &TimingWindows<'_>,
    strata: &Strata,
    id: FunctionId,
    (samples, by_stratum): (u32, &HashMap<StratumId, u32>),
    unmet: f64,
) -> Errors {
    let own = strata.of_function(id);
    let other = of_time(samples).hypot(speed_error(timing, own)).hypot(unmet);
    let of = |figure| half_width(timing, own, figure).map(|half| half.hypot(other));
    let counts = of(Figure::Instructions);
    // A figure of 0 is as well known as the instructions.
    let of_part = |figure| if is_zero(timing, own, figure) { counts } else { of(figure) };
    let figures = Figures { flops: of_part(Figure::Flops), l1_bytes: of_part(Figure::L1Bytes) };
    let of_loop = |(header, stratum): (u64, StratumId)| {
        let samples = by_stratum.get(&stratum).copied().unwrap_or(samples);
        let other = of_time(samples).hypot(timing.speed_error_of(stratum));
        let half = half_width(timing, &[stratum], Figure::Instructions);
        LoopEstimate { header, interval: half.map_or(Interval::FewWindows, |half| Interval::Within(half.hypot(other))) }
    };
    Errors { counts, figures, loops: strata.loops(id).map(of_loop).collect() }
}

/// The relative half-width of the interval of a time with this number of samples.
pub fn of_time(samples: u32) -> f64 {
    2.0 / f64::from(samples).max(1.0).sqrt()
}

/// How far the windows' speed in `strata` can be from the native one, relative.
fn speed_error(timing: &TimingWindows<'_>, strata: &[StratumId]) -> f64 {
    let native_s = |id: &StratumId| timing.attributed.native_s.get(id).copied().unwrap_or(0.0);
    let all: f64 = strata.iter().map(native_s).sum();
    let weighted: f64 = strata.iter().map(|id| native_s(id) * timing.speed_error_of(*id)).sum();
    if all > 0.0 { weighted / all } else { timing.speed_error }
}

fn is_zero(timing: &TimingWindows<'_>, strata: &[StratumId], figure: Figure) -> bool {
    let mut groups = strata.iter().filter_map(|id| timing.figures.get(id)).flatten();
    groups.all(|figures| figures[figure as usize] == 0.0)
}

/// The half-width of the interval of a figure, over the figure, as far as windows differ.
fn half_width(timing: &TimingWindows<'_>, strata: &[StratumId], figure: Figure) -> Option<f64> {
    let part = |id: &StratumId, group: usize| timing.figures.get(id).map_or(0.0, |of| of[group][figure as usize]);
    let native_s = &timing.attributed.native_s;
    // A stratum without a sample of its own has the program's factor.
    let factor = |attributed: &Attributed, id: &StratumId| match (native_s.get(id), attributed.window_s.get(id)) {
        (Some(&native_s), Some(&window_s)) if native_s > 0.0 && window_s > 0.0 => native_s / window_s,
        (Some(&native_s), _) if native_s > 0.0 => 0.0,
        _ => attributed.expansion,
    };
    // Its parts in all groups but one, if any is left out.
    let total = |attributed: &Attributed, id: &StratumId, left_out: Option<usize>| {
        let kept = (0..GROUPS).filter(|group| Some(*group) != left_out);
        factor(attributed, id) * kept.map(|group| part(id, group)).sum::<f64>()
    };
    let of_all = |id: &StratumId| total(&timing.attributed, id, None);
    let all: f64 = strata.iter().map(of_all).sum();
    let limited: f64 = strata.iter().filter(|id| timing.attributed.is_limited(**id)).map(of_all).sum();
    if all <= 0.0 || limited > MOST_LIMITED * all {
        return None;
    }
    let without = |(group, replicate): (usize, &Replicate)| {
        strata.iter().map(|id| total(&replicate.attributed, id, Some(group))).sum()
    };
    let replicates: Vec<f64> = timing.replicates.iter().enumerate().map(without).collect();
    let by_group =
        (0..GROUPS).map(|group| strata.iter().map(|id| factor(&timing.attributed, id) * part(id, group)).sum::<f64>());
    relative_half_width(&replicates, groups_with(by_group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::windows::Window;

    /// Windows of 10 ms with these figures by stratum; a native second for each stratum, or as many as `native_s` says.
    fn timing<'w>(
        all: &'w [Window],
        windows: &[&[(StratumId, [f64; 3])]],
        native_s: &[(StratumId, f64)],
    ) -> TimingWindows<'w> {
        let figures: Vec<HashMap<StratumId, _>> = windows.iter().map(|w| w.iter().copied().collect()).collect();
        let native_s = native_s.iter().copied().collect();
        TimingWindows::new(all.iter().collect(), figures, vec![0.01; windows.len()], &native_s)
    }

    fn of(windows: &[&[(StratumId, [f64; 3])]], strata: &[StratumId], figure: Figure) -> Option<f64> {
        let all = vec![Window::default(); windows.len()];
        half_width(&timing(&all, windows, &[(0, 1.0), (1, 1.0)]), strata, figure)
    }

    #[test]
    fn windows_that_are_alike_leave_no_error_of_their_own() {
        let half = of(&[&[(0, [100.0, 50.0, 8.0])][..]; 32], &[0], Figure::Flops).unwrap();
        assert!(half < 1e-9, "{half}");
        assert!((of_time(10_000) - 0.02).abs() < 1e-9);
    }

    #[test]
    fn what_one_group_of_windows_met_has_no_interval() {
        let mut windows = [&[(0, [100.0, 0.0, 8.0])][..]; 32];
        windows[5] = &[(0, [50.0, 7.0, 8.0]), (1, [50.0, 0.0, 0.0])];
        assert!(of(&windows, &[0], Figure::Instructions).is_some());
        assert_eq!(of(&windows, &[1], Figure::Instructions), None);
        assert_eq!(of(&windows, &[0], Figure::Flops), None, "its instructions are known, its FLOPs are not");
    }

    #[test]
    fn two_windows_that_differ_say_little() {
        let windows: [&[(StratumId, [f64; 3])]; 2] = [&[(0, [100.0, 0.0, 0.0])], &[(0, [200.0, 0.0, 0.0])]];
        assert!(of(&windows, &[0], Figure::Instructions).unwrap() > 1.0);
    }

    #[test]
    fn parts_of_a_function_that_windows_meet_by_chance_are_weighted_by_their_samples() {
        // Half of the time each, but three windows of four fell into the first, which has no FLOPs.
        let (first, second): (&[_], &[_]) = (&[(0, [100.0, 0.0, 0.0])], &[(1, [40.0, 40.0, 0.0])]);
        let windows: Vec<&[(StratumId, [f64; 3])]> =
            (0..32).map(|i| if i * 7 % 32 < 24 { first } else { second }).collect();
        let half = of(&windows, &[0, 1], Figure::Flops).unwrap();
        assert!(half < 0.01, "the rate of the second is known: {half}");
    }
}
