//! The error of a figure from windows: how much it changes when one group of them is left out (jackknife).

use rprof_basics::student::quantile;

/// Windows are divided into this many groups, each of which is left out once. Neighbours go to different groups.
pub const GROUPS: usize = 16;

/// The group of a window, by its number.
pub fn group_of(window: usize) -> usize {
    window % GROUPS
}

/// Number of groups that a figure is in; `parts` are its parts in each window: n equal ones among others of 0 are n (Kish's effective
/// size).
pub fn groups_with(parts: impl Iterator<Item = f64>) -> usize {
    let mut groups = [0.0; GROUPS];
    parts.enumerate().for_each(|(window, part)| groups[group_of(window)] += part);
    let squares: f64 = groups.iter().map(|part| part * part).sum();
    if squares > 0.0 { (groups.iter().sum::<f64>().powi(2) / squares).round() as usize } else { 0 }
}

/// The half-width of the 95 % interval of a figure that is in this number of `groups`, from its `replicates` (the values without each
/// group); `None` if the groups are fewer than two. No figure is in more groups than there are replicates.
pub fn half_width(replicates: &[f64], groups: usize) -> Option<f64> {
    let t = quantile(groups.saturating_sub(1))?;
    let k = replicates.len() as f64;
    let mean = replicates.iter().sum::<f64>() / k;
    let squares: f64 = replicates.iter().map(|value| (value - mean).powi(2)).sum();
    Some(t * ((k - 1.0) / k * squares).sqrt())
}

/// The same for a positive figure, over the figure: of its logarithm, since few windows may miss a rate by a factor, in either direction.
/// `None` also if a replicate is 0.
pub fn relative_half_width(replicates: &[f64], groups: usize) -> Option<f64> {
    let logarithms: Vec<f64> = replicates.iter().map(|value| value.ln()).collect();
    half_width(&logarithms, groups).filter(|half| half.is_finite()).map(f64::exp_m1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_mean_it_is_students_interval() {
        // The replicates of the mean of 1, 2 and 6: its standard error is the root of 7 / 3.
        let half = half_width(&[4.0, 3.5, 1.5], 3).unwrap();
        assert!((half - 4.303 * (7.0f64 / 3.0).sqrt()).abs() < 1e-9, "{half}");
    }

    #[test]
    fn few_groups_have_wide_intervals_and_one_has_none() {
        assert!(half_width(&[1.0, 2.0], 2).unwrap() > 6.0);
        assert!(half_width(&[1.0, 1.0, 2.0, 2.0], 2) > half_width(&[1.0, 1.0, 2.0, 2.0], 4));
        assert_eq!(half_width(&[1.0], 1), None);
        assert_eq!(half_width(&[1.0, 2.0], 1), None);
        assert_eq!(half_width(&[], 0), None);
    }

    #[test]
    fn a_figure_that_may_be_off_by_a_factor_has_an_interval_that_reaches_as_far() {
        let of = |replicates: &[f64]| relative_half_width(replicates, replicates.len());
        let [known, unknown] = [&[0.99, 1.0, 1.01][..], &[0.25, 1.0, 4.0]].map(|replicates| of(replicates).unwrap());
        assert!((known - half_width(&[0.99, 1.0, 1.01], 3).unwrap()).abs() < 0.005, "{known}");
        assert!(unknown > 100.0, "{unknown}");
        assert_eq!(of(&[0.0, 1.0, 1.0]), None);
    }

    #[test]
    fn a_group_with_most_of_a_figure_counts_alone() {
        assert_eq!(groups_with([5.0; 32].into_iter()), 16);
        assert_eq!(groups_with([0.0, 5.0, 0.0, 5.0, 0.0].into_iter()), 2);
        assert_eq!(groups_with([100.0, 1.0, 1.0, 1.0].into_iter()), 1);
        assert_eq!(groups_with([0.0; 3].into_iter()), 0);
    }
}
