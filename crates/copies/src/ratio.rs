//! From pairs of times to a ratio with its 95 % interval: Student's interval of the mean of the logarithms.

use rprof_basics::student;
use rprof_profile::trial::Ratio;

/// The ratio second ÷ first of `pairs`; `None` for fewer than three.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logarithms: Vec<f64> = pairs.iter().map(|(first, second)| (second / first).ln()).collect();
    let n = logarithms.len();
    if n < 3 || logarithms.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean = logarithms.iter().sum::<f64>() / n as f64;
    let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let half = student::quantile(n - 1)? * (variance / n as f64).sqrt();
    Some(Ratio { value: mean.exp(), least: (mean - half).exp(), most: (mean + half).exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_a_mean_ratio_and_an_interval() {
        assert_eq!(ratio(&[(1.0, 2.0), (1.0, 2.0)]), None);
        let same = ratio(&[(1.0, 2.0), (3.0, 6.0), (2.0, 4.0)]).unwrap();
        assert!((same.value - 2.0).abs() < 1e-12 && same.half_width() < 1e-9);
        let spread = ratio(&[(1.0, 1.1), (1.0, 0.9), (1.0, 1.05), (1.0, 0.95), (1.0, 1.0)]).unwrap();
        // The standard deviation of the logarithms is 0.0784, that of their mean 0.0351, and t is 2.776.
        assert!((spread.most / spread.value - 1.102).abs() < 0.003, "{spread:?}");
        assert_eq!(ratio(&[(0.0, 1.0), (1.0, 1.0), (1.0, 1.0)]), None);
    }
}
