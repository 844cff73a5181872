//! Repetitions of something short: their number, and those that count.

use std::time::Duration;

/// A repetition lasts at least this long, so that the clock's own time is below a thousandth.
const LEAST: Duration = Duration::from_micros(100);
/// No repetition begins later.
const BUDGET: Duration = Duration::from_millis(200);
/// Fewest and most repetitions.
const REPETITIONS: std::ops::Range<usize> = 3..31;

/// Seconds of one call, as the median of repetitions. `run` makes the given number of calls and returns their time.
///
/// # Errors
/// Those of `run`.
pub fn seconds<E>(mut run: impl FnMut(u64) -> Result<Duration, E>) -> Result<f64, E> {
    // The first call may start threads, and touches new memory.
    run(1)?;
    let mut rounds = 1;
    let mut time = run(rounds)?;
    while time < LEAST && rounds < 1 << 24 {
        let missing = LEAST.as_nanos() as u64 / (time.as_nanos() as u64).max(1) + 1;
        rounds = (rounds * missing.min(64)).max(rounds + 1);
        time = run(rounds)?;
    }
    let (mut all, mut spent) = (Vec::new(), Duration::ZERO);
    while all.len() < REPETITIONS.start || all.len() < REPETITIONS.end && spent < BUDGET {
        let time = run(rounds)?;
        spent += time;
        all.push(time.as_secs_f64() / rounds as f64);
    }
    all.sort_unstable_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_long_enough_repetitions() {
        let mut calls = 0;
        let mut rounds = Vec::new();
        let fake = |n: u64| {
            rounds.push(n);
            calls += 1;
            // 40 ns a call; every fourth repetition is disturbed.
            Ok::<_, ()>(Duration::from_nanos(40 * n) + if calls % 4 == 0 { LEAST } else { Duration::ZERO })
        };
        let found = seconds(fake).unwrap();
        assert!((found - 40e-9).abs() < 1e-12, "{found}");
        assert!(*rounds.last().unwrap() >= 2500 && rounds.len() < 100, "{rounds:?}");
        assert_eq!(seconds(|_| Err::<Duration, _>("gone")), Err("gone"));
    }
}
