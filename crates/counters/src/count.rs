//! A count with its error: multiplexed counts are scaled, and the amount of scaling is part of the result.

use serde::Serialize;

use super::kernel::Reading;
use super::refusal::Refusal;

/// Below this share of time on the PMU a scaled count is an extrapolation that is not used for FLOPs.
const TOO_LITTLE: f64 = 0.01;

/// The kernel has events that share a PMU take turns about this often (`perf_event_mux_interval_ms`, 4 ms unless changed).
pub const MUX_WINDOW_NS: u64 = 4_000_000;

/// A measured count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Count {
    /// Scaled to the whole time enabled.
    pub value: f64,
    /// As counted.
    pub raw: u64,
    /// time running / time enabled; 1: not multiplexed.
    pub running_share: f64,
    /// Relative error of the scaling: 0 without scaling.
    pub error: f64,
}

impl Count {
    /// value = raw × enabled / running; error = (1 − share) / √windows, the relative standard error if the rate of the event
    /// varied from window to window as much as its mean. `windows` is the number of turns that the event had on the PMU.
    ///
    /// # Errors
    /// Never on the PMU, or so little that nothing follows from it.
    pub fn from_reading(reading: Reading, window_ns: u64) -> Result<Count, Refusal> {
        if reading.enabled_ns == 0 || reading.running_ns == 0 {
            return Err(Refusal::NeverRan);
        }
        let share = (reading.running_ns as f64 / reading.enabled_ns as f64).min(1.0);
        if share < TOO_LITTLE {
            let found = format!("it was on the PMU for {:.2} % of the time only", 100.0 * share);
            return Err(Refusal::NotTrusted { found });
        }
        let windows = (reading.running_ns as f64 / window_ns.max(1) as f64).max(1.0);
        Ok(Count {
            value: reading.value as f64 / share,
            raw: reading.value,
            running_share: share,
            error: (1.0 - share) / windows.sqrt(),
        })
    }

    /// Sum of two counts (threads, CPUs, boxes); errors add like independent ones.
    pub fn plus(self, other: Count) -> Count {
        let value = self.value + other.value;
        let absolute = (self.error * self.value).hypot(other.error * other.value);
        Count {
            value,
            raw: self.raw + other.raw,
            running_share: self.running_share.min(other.running_share),
            error: if value > 0.0 { absolute / value } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reading(value: u64, enabled_ns: u64, running_ns: u64) -> Reading {
        Reading { value, enabled_ns, running_ns }
    }

    #[test]
    fn an_exclusive_count_has_no_scaling_error() {
        let count = Count::from_reading(reading(1000, 5 * MS, 5 * MS), MS).unwrap();
        assert_eq!((count.value, count.error), (1000.0, 0.0));
    }

    #[test]
    fn a_multiplexed_count_is_scaled_and_says_so() {
        let count = Count::from_reading(reading(1000, 100 * MS, 25 * MS), MS).unwrap();
        assert_eq!(count.value, 4000.0);
        assert!((count.error - 0.75 / 5.0).abs() < 1e-12);
    }

    #[test]
    fn what_never_ran_is_no_zero() {
        assert_eq!(Count::from_reading(reading(0, 100, 0), MS), Err(Refusal::NeverRan));
        assert!(matches!(Count::from_reading(reading(9, 1000 * MS, MS), MS), Err(Refusal::NotTrusted { .. })));
    }

    #[test]
    fn sums() {
        let a = Count { value: 30.0, raw: 30, running_share: 1.0, error: 0.1 };
        let b = Count { value: 40.0, raw: 20, running_share: 0.5, error: 0.1 };
        let sum = a.plus(b);
        assert_eq!((sum.value, sum.raw, sum.running_share), (70.0, 50, 0.5));
        assert!((sum.error - 5.0 / 70.0).abs() < 1e-12);
    }
}
