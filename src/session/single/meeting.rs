//! Instants at random that all ranks of a job know without speaking to each other.

use crate::random::{mix, unit_interval, word};

/// Seconds of a step.
const STEP_S: f64 = 0.025;

/// The first instant from `from_s` on, the time of day in seconds, of those that lie `mean_s` apart on average. Instants that lie further
/// apart are some of those that lie less far apart: ranks with like means meet at nearly all of theirs.
pub fn meeting_s(from_s: f64, mean_s: f64) -> f64 {
    let chosen = |step: &u64| unit_interval(word(*step)) * mean_s < STEP_S && at_s(*step) >= from_s;
    ((from_s / STEP_S) as u64..).find(chosen).map_or(from_s, at_s)
}

/// The instant of a step: anywhere in it, so that instants have no period.
fn at_s(step: u64) -> f64 {
    (step as f64 + unit_interval(mix(word(step)))) * STEP_S
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meetings(mean_s: f64) -> Vec<f64> {
        let begun_s = 1.7e9;
        let mut all = vec![meeting_s(begun_s, mean_s)];
        while all[all.len() - 1] < begun_s + 1000.0 {
            all.push(meeting_s(all[all.len() - 1] + 1e-6, mean_s));
        }
        all
    }

    #[test]
    fn meetings_have_their_mean_distance_and_no_period() {
        for mean_s in [0.025, 0.2, 1.0] {
            let all = meetings(mean_s);
            let mean = 1000.0 / all.len() as f64;
            assert!((mean / mean_s - 1.0).abs() < 0.1, "{mean} instead of {mean_s}");
        }
        let distances: Vec<f64> = meetings(0.2).windows(2).map(|pair| pair[1] - pair[0]).collect();
        let longer = distances.iter().filter(|distance| **distance > 0.2).count() as f64 / distances.len() as f64;
        assert!((0.3..0.45).contains(&longer), "{longer}: of random ones, exp(-1)");
    }

    #[test]
    fn rarer_meetings_are_some_of_the_others() {
        let often = meetings(0.2);
        let is_one = |at: &&f64| often.iter().any(|other| (*other - **at).abs() < 1e-4);
        let rare = meetings(0.25);
        assert_eq!(rare.iter().filter(is_one).count(), rare.len());
    }
}
