//! The 95 % intervals of functions whose counts windows estimate.

use std::collections::HashMap;

use super::attribute::Attributed;
use super::jackknife::relative_half_width;
use super::timing::TimingWindows;
use crate::join::code_map::FunctionId;

/// The relative half-width of the interval of each function: by which windows met it, how many of its `samples` outside of them tell its
/// time, and how far the windows' speed can be from the native one. A function that lacks one of them has no interval, as one that
/// nearly all windows of a single group met.
pub fn of_functions(timing: &TimingWindows<'_>, samples: &HashMap<FunctionId, u32>) -> HashMap<FunctionId, f64> {
    let native_s = &timing.attributed.native_s;
    let total = |attributed: &Attributed, id: FunctionId| {
        attributed.window_s.contains_key(&id).then(|| attributed.rate(id) * native_s.get(&id).copied().unwrap_or(0.0))
    };
    let relative = |id: FunctionId| {
        if timing.attributed.is_limited(id) {
            return None;
        }
        let replicates: Option<Vec<f64>> = timing.replicates.iter().map(|r| total(&r.attributed, id)).collect();
        let windows = relative_half_width(&replicates?, *timing.groups.get(&id)?)?;
        Some(windows.hypot(of_time(*samples.get(&id)?)).hypot(timing.speed_error_of(id)))
    };
    timing.attributed.window_s.keys().filter_map(|id| Some((*id, relative(*id)?))).collect()
}

/// The relative half-width of the interval of a time with so many samples.
pub fn of_time(samples: u32) -> f64 {
    2.0 / f64::from(samples).max(1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::evidence::windows::Window;

    /// Errors of functions that windows met with these instructions, 10 ms each; a native second and 10,000 samples for each function.
    fn errors(windows: &[&[(FunctionId, f64)]]) -> HashMap<FunctionId, f64> {
        let all = vec![Window::default(); windows.len()];
        let instructions: Vec<HashMap<FunctionId, f64>> = windows.iter().map(|w| w.iter().copied().collect()).collect();
        let native_s: HashMap<FunctionId, f64> = instructions.iter().flatten().map(|(id, _)| (*id, 1.0)).collect();
        let samples = native_s.keys().map(|id| (*id, 10_000)).collect();
        of_functions(
            &TimingWindows::new(all.iter().collect(), instructions, vec![0.01; all.len()], &native_s),
            &samples,
        )
    }

    #[test]
    fn windows_that_are_alike_leave_the_errors_of_time_and_speed() {
        let errors = errors(&[&[(0, 100.0)][..]; 32]);
        assert!((errors[&0] - 0.02f64.hypot(0.1)).abs() < 1e-9, "{errors:?}");
    }

    #[test]
    fn a_function_in_one_group_of_windows_has_no_interval() {
        let mut windows = [&[(0, 100.0)][..]; 32];
        windows[5] = &[(0, 50.0), (1, 50.0)];
        let errors = errors(&windows);
        assert!(errors.contains_key(&0) && !errors.contains_key(&1), "{errors:?}");
    }

    #[test]
    fn two_windows_that_differ_say_little() {
        assert!(errors(&[&[(0, 100.0)], &[(0, 200.0)]])[&0] > 1.0);
    }
}
