//! Logarithmic axes.

/// Maps values on a logarithmic axis to picture coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogScale {
    /// `low..high` (values, > 0) onto `from..to` (coordinates).
    pub fn new(low: f64, high: f64, from: f64, to: f64) -> LogScale {
        let low = if low > 0.0 && low.is_finite() { low } else { 1e-3 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        LogScale { low, high, from, to }
    }

    /// Coordinate of `value`; outside the axis for values outside its range.
    pub fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-300) / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// Smallest value.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Greatest value.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Powers of ten within the range.
    pub fn decades(&self) -> Vec<f64> {
        self.steps(&[1.0])
    }

    /// 2 to 9 times the powers of ten within the range.
    pub fn minors(&self) -> Vec<f64> {
        self.steps(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    }

    /// Values to label: powers of ten, and on axes of fewer than three decades also 2 and 5 times them.
    pub fn labels(&self) -> Vec<f64> {
        if self.decades().len() >= 3 { self.decades() } else { self.steps(&[1.0, 2.0, 5.0]) }
    }

    fn steps(&self, factors: &[f64]) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all = (first..=last).flat_map(|e| factors.iter().map(move |f| f * 10f64.powi(e)));
        all.filter(|v| *v >= self.low * 0.999 && *v <= self.high * 1.001).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::LogScale;

    #[test]
    fn decades_are_evenly_spaced() {
        let s = LogScale::new(0.01, 100.0, 0.0, 400.0);
        assert_eq!(s.decades().len(), 5);
        assert!((s.at(1.0) - 200.0).abs() < 1e-9 && (s.at(10.0) - 300.0).abs() < 1e-9);
        assert_eq!(LogScale::new(1.0, 8.0, 0.0, 1.0).labels(), [1.0, 2.0, 5.0]);
    }

    #[test]
    fn degenerate_ranges_still_map() {
        for s in [
            LogScale::new(0.0, 0.0, 0.0, 1.0),
            LogScale::new(5.0, 5.0, 0.0, 1.0),
            LogScale::new(1.0, f64::NAN, 0.0, 1.0),
        ] {
            assert!(s.at(3.0).is_finite() && !s.labels().is_empty());
        }
    }
}
