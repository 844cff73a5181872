//! The error of a figure from windows: how much it changes when one group of them is left out (jackknife).

/// The 97.5 % quantiles of Student's t with 1, 2, … degrees of freedom.
const STUDENT: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];

/// The half-width of the 95 % interval of a figure, whose value without each group is in `replicates`; `None` if there are
/// fewer than two groups.
pub fn half_width(replicates: &[f64]) -> Option<f64> {
    let degrees = replicates.len().checked_sub(1).filter(|n| *n > 0)?;
    let t = STUDENT[(degrees - 1).min(STUDENT.len() - 1)];
    let k = replicates.len() as f64;
    let mean = replicates.iter().sum::<f64>() / k;
    let squares: f64 = replicates.iter().map(|value| (value - mean).powi(2)).sum();
    Some(t * ((k - 1.0) / k * squares).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_mean_it_is_students_interval() {
        // The replicates of the mean of 1, 2 and 6: its standard error is the root of 7 / 3.
        let half = half_width(&[4.0, 3.5, 1.5]).unwrap();
        assert!((half - 4.303 * (7.0f64 / 3.0).sqrt()).abs() < 1e-9, "{half}");
    }

    #[test]
    fn few_groups_have_wide_intervals_and_one_has_none() {
        assert!(half_width(&[1.0, 2.0]).unwrap() > 6.0);
        assert_eq!(half_width(&[1.0]), None);
        assert_eq!(half_width(&[]), None);
    }
}
