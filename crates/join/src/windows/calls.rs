//! Extends the calls of MPI that windows met to the whole run.
//!
//! ```text
//! τ = seconds of all windows in what is sampled, Σ over functions of their seconds × share of their samples that counts
//! calls of the run = calls in all windows + calls in timing windows / τ × native seconds that count
//! ```
//!
//! Only work counts: how long ranks wait differs between windows and the rest, since the other ranks are not in windows at the same
//! time. If there is little work, all CPU time counts. The result of the other choice is part of the error.

use std::collections::HashMap;

use super::attribute::Attributed;
use super::jackknife::{groups_with, half_width};
use super::strata::StratumId;
use super::timing::{Replicate, TimingWindows};
use rprof_profile::evidence::mpi::{MpiEvidence, OfWindows};
use rprof_profile::evidence::windows::{SiteCalls, Window};

/// Work is what counts from this share of the native CPU time on.
const MUCH_WORK: f64 = 0.1;

/// Above this relative error of the windows' speed calls are not estimated: messages go back and forth as fast as the slower rank, which
/// is the one in a window.
const TOO_SLOW: f64 = 0.5;

/// Calls and their bytes.
type Pair = [f64; 2];

/// The part of a function's time that counts: its share of work, or all.
struct Counting<'w> {
    /// Native seconds at work by function.
    work_s: &'w HashMap<StratumId, f64>,
    of_work: bool,
}

impl Counting<'_> {
    /// Native seconds by those of windows.
    fn expansion(&self, attributed: &Attributed) -> f64 {
        if !self.of_work {
            return attributed.expansion;
        }
        let share = |id: &StratumId| {
            let native_s = attributed.native_s.get(id).copied().unwrap_or(0.0);
            if native_s > 0.0 { self.work_s.get(id).copied().unwrap_or(0.0) / native_s } else { 0.0 }
        };
        let of_windows: f64 = attributed.window_s.iter().map(|(id, seconds)| seconds * share(id)).sum();
        let native_s: f64 = self.work_s.values().sum();
        if of_windows > 0.0 { native_s / of_windows } else { attributed.expansion }
    }
}

/// Extends the calls and bytes of `mpi`, which are those of `windows`. `work_s`: native seconds at work, by function.
pub fn extend(mpi: &mut MpiEvidence, windows: &[Window], timing: &TimingWindows<'_>, work_s: &HashMap<StratumId, f64>) {
    if timing.speed_error >= TOO_SLOW {
        mpi.windows = Some(OfWindows::TooSlow);
        return;
    }
    let native_s: f64 = timing.attributed.native_s.values().sum();
    let of_work = work_s.values().sum::<f64>() >= MUCH_WORK * native_s;
    let counts = Counting { work_s, of_work };
    let expansion = counts.expansion(&timing.attributed);
    let other = Counting { work_s, of_work: !of_work && !work_s.is_empty() }.expansion(&timing.attributed);
    let of_share = if expansion > 0.0 { (other / expansion - 1.0).abs() } else { 0.0 };
    let replicates: Vec<f64> =
        timing.replicates.iter().map(|replicate| counts.expansion(&replicate.attributed)).collect();
    for (number, site) in (0..).zip(&mut mpi.sites) {
        let met = sum(windows.iter().map(|window| of_site(window, number)));
        let per_window: Vec<Pair> = timing.windows.iter().map(|window| of_site(window, number)).collect();
        let more = sum(per_window.iter().copied()).map(|n| n * expansion);
        let spread = half_widths(&per_window, timing, &replicates);
        let error = |i: usize| {
            let all = met[i] + more[i];
            let half = spread?[i].hypot(timing.speed_error * more[i]).hypot(of_share * more[i]);
            Some(if all > 0.0 { half / all } else { 0.0 })
        };
        // An interval that reaches down to nothing has no upper end that holds, either.
        site.errors = error(0).zip(error(1)).filter(|(of_calls, of_bytes)| of_calls.max(*of_bytes) < 1.0);
        let factor = |i: usize| if met[i] > 0.0 { 1.0 + more[i] / met[i] } else { 1.0 };
        let (of_calls, of_bytes) = (factor(0), factor(1));
        let times = |n: u64, factor: f64| (n as f64 * factor).round() as u64;
        for calls in [&mut site.calls, &mut site.unknown, &mut site.world_calls].into_iter().chain(&mut site.sizes) {
            *calls = times(*calls, of_calls);
        }
        for bytes in std::iter::once(&mut site.bytes).chain(&mut site.size_bytes) {
            *bytes = times(*bytes, of_bytes);
        }
    }
}

fn of_site(window: &Window, site: u32) -> Pair {
    let known = window.calls.iter().find(|of| of.site == site).copied();
    let SiteCalls { calls, bytes, .. } = known.unwrap_or_default();
    [calls as f64, bytes as f64]
}

fn sum(of: impl Iterator<Item = Pair>) -> Pair {
    of.fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

/// Half-widths of the 95 % intervals of what the timing windows say of the rest. `expansions`: of each replicate. `None`: there are too few.
fn half_widths(per_window: &[Pair], timing: &TimingWindows<'_>, expansions: &[f64]) -> Option<Pair> {
    let one = |(replicate, expansion): (&Replicate, &f64)| {
        sum(replicate.kept.iter().map(|&i| per_window[i])).map(|n| n * expansion)
    };
    let values: Vec<Pair> = timing.replicates.iter().zip(expansions).map(one).collect();
    let of = |i: usize| {
        let groups = groups_with(per_window.iter().map(|of| of[i]));
        half_width(&values.iter().map(|value| value[i]).collect::<Vec<_>>(), groups)
    };
    Some([of(0)?, of(1)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::mpi::MpiSite;

    /// A function that works, and one that waits.
    const WORK: StratumId = 0;
    const SPIN: StratumId = 1;

    fn site(calls: u64) -> MpiSite {
        MpiSite {
            at: rprof_profile::code::CodeRef { module: 0, offset: 0 },
            function: "MPI_Send".into(),
            thread: 0,
            calls,
            bytes: 8 * calls,
            unknown: 0,
            timed: 0,
            time_s: 0.0,
            sizes: vec![0, 0, 0, 0, calls],
            size_bytes: vec![0, 0, 0, 0, 8 * calls],
            network: Default::default(),
            world_calls: calls,
            errors: None,
        }
    }

    /// The site after windows, each with (calls, instructions of work, of waiting) and 10 ms; a second outside of them, `work_s` of it at
    /// work. Calls have 8 bytes.
    fn extended(windows: &[(u64, f64, f64)], work_s: f64, speed_error: f64) -> MpiSite {
        let of = |n: u64| vec![SiteCalls { site: 0, calls: n, bytes: 8 * n }];
        let all: Vec<Window> = windows.iter().map(|w| Window { calls: of(w.0), ..Window::default() }).collect();
        let instructions =
            windows.iter().map(|w| HashMap::from([(WORK, [w.1, 0.0, 0.0]), (SPIN, [w.2, 0.0, 0.0])])).collect();
        let native_s = HashMap::from([(WORK, work_s), (SPIN, 1.0 - work_s)]);
        let timing = TimingWindows {
            speed_error,
            ..TimingWindows::new(all.iter().collect(), instructions, vec![0.01; all.len()], &native_s)
        };
        let mut mpi = MpiEvidence { sites: vec![site(windows.iter().map(|w| w.0).sum())], ..MpiEvidence::default() };
        extend(&mut mpi, &all, &timing, &HashMap::from([(WORK, work_s)]));
        mpi.sites.remove(0)
    }

    #[test]
    fn windows_that_are_alike_tell_all_but_the_speed() {
        let site = extended(&[(5, 100.0, 100.0); 20], 0.5, 0.1);
        assert_eq!((site.calls, site.bytes, site.world_calls), (600, 4800, 600));
        assert_eq!((site.sizes[4], site.size_bytes[4]), (600, 4800));
        let (of_calls, of_bytes) = site.errors.unwrap();
        assert!((of_calls - 50.0 / 600.0).abs() < 1e-6 && (of_bytes - of_calls).abs() < 1e-9, "{of_calls}");
    }

    #[test]
    fn windows_that_wait_less_than_the_rest_do_not_have_more_calls() {
        // Natively half of the time is work; in windows of either kind 20 instructions of work go with a call.
        let windows: Vec<(u64, f64, f64)> =
            (0..32).map(|i| if i % 4 == 0 { (1, 20.0, 80.0) } else { (5, 100.0, 0.0) }).collect();
        let site = extended(&windows, 0.5, 0.05);
        // A window of work alone has 5 calls in 10 ms: half a second of work has 250.
        let met = windows.iter().map(|w| w.0).sum::<u64>();
        assert!((site.calls - met).abs_diff(250) < 30, "{} + {met}", site.calls);
        let (error, of_cpu) = (site.errors.unwrap().0, met as f64 / 0.32);
        assert!(site.calls as f64 * (1.0 + error) > of_cpu, "what all CPU time gives is in the interval: {error}");
    }

    #[test]
    fn slow_windows_say_nothing() {
        assert_eq!(extended(&[(5, 100.0, 100.0); 20], 0.5, 0.6).calls, 100, "those of the windows");
    }

    #[test]
    fn without_work_all_time_counts() {
        assert_eq!(extended(&[(5, 0.0, 100.0); 20], 0.0, 0.1).calls, 600);
    }

    #[test]
    fn what_one_window_of_many_met_is_known_badly() {
        let mut windows = [(0, 100.0, 100.0); 20];
        windows[7].0 = 1;
        let site = extended(&windows, 0.5, 0.05);
        assert_eq!(site.calls, 6, "1 + 1 / 0.2 s × 1 s");
        assert_eq!(site.errors, None, "as many calls as were met, or none");
        assert_eq!(extended(&[(3, 100.0, 100.0)], 0.5, 0.05).errors, None, "one window has no spread");
    }
}
