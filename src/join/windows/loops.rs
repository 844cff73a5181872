//! The 95 % intervals of loops, whose counts are extended by the factors of their functions.
//!
//! ```text
//! a loop's instructions = those in the windows / seconds of its function there × native seconds of its function
//! ```
//!
//! The loops of one function may share its time otherwise in each window, even where the function as a whole is always as fast.

use std::collections::HashMap;

use super::error::of_time;
use super::jackknife::{groups_with, relative_half_width};
use super::timing::{Replicate, TimingWindows, executions};
use crate::join::blocks::ExecutedBlocks;
use crate::join::code_map::{CodeMap, FunctionId};
use crate::join::loops::{LoopNest, NaturalLoop};
use crate::profile::evidence::estimate::{Interval, LoopEstimate};

/// Instructions of a function's loops in one window, as the nest numbers them; inner loops of a loop are not included.
type OfLoops = Vec<f64>;

/// The intervals of the loops of all functions with an interval, which `errors` has; `samples`: by function.
pub fn of_functions(
    timing: &TimingWindows<'_>,
    executed: &ExecutedBlocks,
    errors: &HashMap<FunctionId, f64>,
    samples: &HashMap<FunctionId, u32>,
    code: &mut CodeMap,
) -> HashMap<FunctionId, Vec<LoopEstimate>> {
    let by_window: Vec<_> = timing.windows.iter().map(|window| executions(window)).collect();
    let mut found = HashMap::new();
    for id in errors.keys().copied() {
        let nest = LoopNest::of(id, code, Some(executed), &[]);
        if nest.loops.is_empty() {
            continue;
        }
        let mut windows: Vec<OfLoops> = vec![vec![0.0; nest.loops.len()]; by_window.len()];
        for span in executed.of(id) {
            let block = executed.blocks[span.block as usize].count;
            let inside: Vec<usize> = executed
                .instructions(*span)
                .iter()
                .filter_map(|instruction| nest.loop_at(instruction.ip()).map(|number| number as usize))
                .collect();
            for (executions, of_loops) in by_window.iter().zip(&mut windows) {
                let n = executions.get(&(block.at, &*block.code)).copied().unwrap_or(0) as f64;
                inside.iter().for_each(|number| of_loops[*number] += n);
            }
        }
        let time_error = of_time(samples.get(&id).copied().unwrap_or(0));
        let intervals = intervals(timing, id, &windows, time_error.hypot(timing.speed_error_of(id)));
        let of_loop = |(of, interval): (&NaturalLoop, Interval)| LoopEstimate { header: of.header, interval };
        found.insert(id, nest.loops.iter().zip(intervals).map(of_loop).collect());
    }
    found
}

/// The intervals of the loops of function `id`, whose instructions are by window; `other`: the relative error of what windows say
/// nothing of.
fn intervals(timing: &TimingWindows<'_>, id: FunctionId, windows: &[OfLoops], other: f64) -> Vec<Interval> {
    let seconds_of = |seconds: &HashMap<FunctionId, f64>| seconds.get(&id).copied().filter(|s| *s > 0.0);
    let of_loop = |number: usize| {
        let sum = |kept: &mut dyn Iterator<Item = usize>| kept.map(|i| windows[i][number]).sum::<f64>();
        let rate = |instructions: f64, seconds: Option<f64>| Some(instructions / seconds?).filter(|rate| *rate > 0.0);
        let without_one = |replicate: &Replicate| {
            rate(sum(&mut replicate.kept.iter().copied()), seconds_of(&replicate.attributed.window_s))
        };
        let replicates: Option<Vec<f64>> = timing.replicates.iter().map(without_one).collect();
        let groups = groups_with(windows.iter().map(|of| of[number]));
        Some(relative_half_width(&replicates?, groups)?.hypot(other))
    };
    let loops = windows.first().map_or(0, Vec::len);
    (0..loops).map(|number| of_loop(number).map_or(Interval::FewWindows, Interval::Within)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::evidence::windows::Window;

    const FUNCTION: FunctionId = 0;

    /// The intervals of two loops with these instructions in each window of 10 ms, beyond the errors of time and speed.
    fn of(windows: &[[f64; 2]]) -> Vec<Interval> {
        let all = vec![Window::default(); windows.len()];
        let instructions = windows.iter().map(|of| HashMap::from([(FUNCTION, of[0] + of[1])])).collect();
        let native_s = HashMap::from([(FUNCTION, 1.0)]);
        let timing = TimingWindows::new(all.iter().collect(), instructions, vec![0.01; all.len()], &native_s);
        let windows: Vec<OfLoops> = windows.iter().map(|of| of.to_vec()).collect();
        intervals(&timing, FUNCTION, &windows, 0.0)
    }

    #[test]
    fn loops_that_are_the_same_in_all_windows_are_known() {
        for interval in of(&[[60.0, 40.0]; 32]) {
            assert!(matches!(interval, Interval::Within(error) if error < 1e-9), "{interval:?}");
        }
    }

    #[test]
    fn loops_whose_shares_change_have_intervals_of_their_own() {
        // All windows have as many instructions, but of one loop only: 24 of the first, 8 of the second.
        let windows: Vec<[f64; 2]> =
            (0..32).map(|i| if i * 7 % 32 < 24 { [100.0, 0.0] } else { [0.0, 100.0] }).collect();
        let intervals = of(&windows);
        // The standard errors of a share of 3/4 among 32, relative: 10 % and 31 %.
        for (interval, expected) in intervals.iter().zip([0.22, 0.66]) {
            let Interval::Within(error) = interval else { panic!("{interval:?}") };
            assert!((0.6 * expected..1.6 * expected).contains(error), "{error} for {expected}");
        }
    }

    #[test]
    fn a_loop_in_one_group_of_windows_has_no_interval() {
        let mut windows = [[100.0, 0.0]; 32];
        windows[5] = [50.0, 50.0];
        assert!(matches!(of(&windows)[..], [Interval::Within(_), Interval::FewWindows]));
        assert_eq!(of(&[[1.0, 1.0]]), [Interval::FewWindows; 2]);
    }
}
