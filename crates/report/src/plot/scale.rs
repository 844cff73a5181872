//! Logarithmic axes.

/// The places of an axis' lines and labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// At powers of ten.
    Decimal,
    /// At powers of two: sizes of memory.
    Binary,
}

/// Maximum number of labels on a binary axis.
const MOST_LABELS: usize = 8;

/// Maps values on a logarithmic axis to picture coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    steps: Steps,
}

impl LogScale {
    /// `low..high` (values, > 0) onto `from..to` (coordinates).
    pub fn new(low: f64, high: f64, from: f64, to: f64) -> LogScale {
        let low = if low > 0.0 && low.is_finite() { low } else { 1e-3 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        LogScale { low, high, from, to, steps: Steps::Decimal }
    }

    /// The same with lines and labels at powers of two.
    pub fn binary(self) -> LogScale {
        LogScale { steps: Steps::Binary, ..self }
    }

    /// Whether lines and labels are at powers of two.
    pub fn is_binary(&self) -> bool {
        self.steps == Steps::Binary
    }

    /// Coordinate of `value`; outside the axis for values outside its range.
    pub fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-300) / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// `low high from to`, for scripts.
    pub fn ends(&self) -> String {
        format!("{:e} {:e} {} {}", self.low, self.high, self.from, self.to)
    }

    /// Smallest value.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Greatest value.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The main lines: powers of ten within the range, or those of two that are labelled.
    pub fn decades(&self) -> Vec<f64> {
        match self.steps {
            Steps::Decimal => self.multiples(&[1.0]),
            Steps::Binary => {
                let all = self.powers_of_two();
                let stride = all.len().div_ceil(MOST_LABELS).max(1) as i32;
                all.into_iter().filter(|v| (v.log2().round() as i32).rem_euclid(stride) == 0).collect()
            }
        }
    }

    /// The fine lines between them.
    pub fn minors(&self) -> Vec<f64> {
        match self.steps {
            Steps::Decimal => self.multiples(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
            Steps::Binary => self.powers_of_two(),
        }
    }

    /// Values to label: the main lines, and on decimal axes of fewer than three decades also 2 and 5 times them.
    pub fn labels(&self) -> Vec<f64> {
        let main = self.decades();
        if main.len() >= 3 || self.is_binary() { main } else { self.multiples(&[1.0, 2.0, 5.0]) }
    }

    fn powers_of_two(&self) -> Vec<f64> {
        let (first, last) = (self.low.log2().floor() as i32, self.high.log2().ceil() as i32);
        (first..=last).map(|e| 2f64.powi(e)).filter(|v| self.holds(*v)).collect()
    }

    fn multiples(&self, factors: &[f64]) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all = (first..=last).flat_map(|e| factors.iter().map(move |f| f * 10f64.powi(e)));
        all.filter(|v| self.holds(*v)).collect()
    }

    fn holds(&self, value: f64) -> bool {
        value >= self.low * 0.999 && value <= self.high * 1.001
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
    fn sizes_of_memory_are_labelled_at_powers_of_two() {
        let s = LogScale::new(3000.0, 300e6, 0.0, 800.0).binary();
        let labels = s.labels();
        assert!((4..=8).contains(&labels.len()), "{labels:?}");
        assert!(labels.iter().all(|v| v.log2().fract() == 0.0));
        assert_eq!(s.minors().len(), 17);
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
