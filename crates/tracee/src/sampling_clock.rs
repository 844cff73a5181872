//! The period of a timer that samples a CPU. All timers that sample the same program at the same rate take it from here: timers
//! of one period that start together expire together, and one interrupt can serve them all.

/// Nanoseconds between two expiries on `cpu`, of a timer of `frequency_hz`.
///
/// Timers of equal periods on different CPUs would keep the distance at which they happened to start; rprof would never know
/// another thread's place at the time of a sample better than that. So each CPU's timer is a little slower than the one before.
pub fn period_ns(frequency_hz: f64, cpu: u32) -> u64 {
    const STEP: f64 = 0.0061;
    const STEPS: u32 = 8;
    let drift = 1.0 + STEP * f64::from(cpu % STEPS);
    ((1e9 / frequency_hz * drift) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_drift_and_none_is_faster_than_asked() {
        assert_eq!((period_ns(1000.0, 0), period_ns(1000.0, 8)), (1_000_000, 1_000_000));
        let periods: Vec<u64> = (0..8).map(|cpu| period_ns(1000.0, cpu)).collect();
        assert!(periods.windows(2).all(|p| p[0] < p[1]), "{periods:?}");
        assert!(periods.iter().all(|p| (1_000_000..1_050_000).contains(p)), "{periods:?}");
        assert_eq!(period_ns(1e12, 0), 1, "never 0, which would not sample at all");
    }
}
