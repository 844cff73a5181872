//! How much of its CPUs the program as a whole used. That it ran on one thread is a statement about the program, not the class of
//! each of its functions.
//!
//! ```text
//! used = Σ over functions of (cpu_s + kernel_s) / seconds between its first and its last sample, without those in windows
//! ```
//!
//! Windows of the single pass have no samples. Waiting and spinning is no use. A few samples do not show it.

use rprof_profile::Profile;
use rprof_profile::run::{Parallelism, TOO_FEW_SAMPLES_CODE};

/// Of `profile`; `None` without a timed pass, with too few samples, or if it is not known how many CPUs were allowed.
pub fn of(profile: &Profile) -> Option<Parallelism> {
    if profile.run.warnings.iter().any(|warning| warning.code == TOO_FEW_SAMPLES_CODE) {
        return None;
    }
    let functions = &profile.functions;
    let busy_s: f64 = functions.iter().map(|f| f.cpu_s.unwrap_or(0.0) + f.kernel_s.unwrap_or(0.0)).sum();
    let allowed = functions.iter().filter_map(|f| f.allowed_cpus).max()?;
    let lasted_s = lasted_s(profile).filter(|s| *s > 0.0)?;
    Some(Parallelism { used: busy_s / lasted_s, allowed })
}

/// From its first to its last sample, without windows; if there are no samples, the timed pass.
fn lasted_s(profile: &Profile) -> Option<f64> {
    let times = || profile.samples.iter().map(|sample| sample.t_s);
    let first = times().reduce(f64::min);
    let of_passes = |kind: &'static str| profile.run.passes.iter().filter(move |p| p.kind == kind).map(|p| p.wall_s);
    match first.zip(times().reduce(f64::max)) {
        Some((first, last)) => Some(last - first + profile.samples[0].weight_s - of_passes("windows").sum::<f64>()),
        None => of_passes("timed").reduce(f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::run::Pass;
    use rprof_profile::{Function, ProfileSample};

    #[test]
    fn a_program_used_what_it_was_busy_of_what_it_lasted() {
        let of = |team: u32, cpu_s: f64, kernel_s: f64| Function {
            team: Some(team),
            cpu_s: Some(cpu_s),
            kernel_s: Some(kernel_s),
            allowed_cpus: Some(4),
            ..Function::default()
        };
        let sample = |t_s| ProfileSample { t_s, weight_s: 0.01, thread: 0, stack: None, waiting: false };
        let functions = vec![of(1, 1.0, 0.5), of(2, 1.5, 0.0)];
        let profile = |samples| Profile { samples, functions: functions.clone(), ..Profile::default() };
        assert_eq!(super::of(&profile(vec![])), None, "nobody looked");
        let used = super::of(&profile(vec![sample(2.99), sample(1.0)])).expect("sampled");
        assert!((used.used - 1.5).abs() < 1e-9 && used.allowed == 4, "{used:?}");
        let mut visited = profile(vec![sample(3.99), sample(1.0)]);
        visited.run.passes.push(Pass { kind: "windows".into(), wall_s: 1.0, ..Pass::default() });
        let used = super::of(&visited).expect("sampled").used;
        assert!((used - 1.5).abs() < 1e-9, "{used}: windows have no samples");
        let mut short = profile(vec![sample(2.99), sample(1.0)]);
        short.run.warnings.push(rprof_profile::run::Warning::new(TOO_FEW_SAMPLES_CODE, "2 samples", "", ""));
        assert_eq!(super::of(&short), None);
    }
}
