//! Student's distribution: how much wider an interval is if its standard error follows from few values.

/// The 97.5 % quantiles with 1, 2, … degrees of freedom.
const QUANTILES: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];
/// That of the normal distribution.
const NORMAL: f64 = 1.960;

/// Standard errors in half a 95 % interval, with `degrees` of freedom; `None` for 0.
pub fn quantile(degrees: usize) -> Option<f64> {
    let further = NORMAL + 2.4 / degrees.max(1) as f64;
    Some(QUANTILES.get(degrees.checked_sub(1)?).copied().unwrap_or(further))
}

/// By how much a standard error of `values` values is multiplied, so that twice of it is half a 95 % interval all the same. Fewer than two
/// values have no standard error.
pub fn correction(values: usize) -> f64 {
    quantile(values.saturating_sub(1)).map_or(1.0, |t| t / NORMAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_widen_an_interval() {
        assert_eq!((quantile(0), quantile(1)), (None, Some(12.706)));
        // 2.042 with 30 degrees of freedom.
        assert!((quantile(30).unwrap() - 2.042).abs() < 5e-3);
        assert!((correction(2) - 6.48).abs() < 0.01 && correction(1000) < 1.01);
    }

    #[test]
    fn quantiles_fall() {
        let all: Vec<f64> = (1..40).filter_map(quantile).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
    }
}
