//! `banks.*`: parts of a cache that lines fall to in turn, each of which delivers on its own.
//!
//! The loads are independent and go to random lines: of all lines, of every second, every fourth one, and so on. If a cache has banks by
//! the lowest bits of the line, fewer of them deliver each time, until all lines come from one. The time of a line is then that bank's
//! time.

use super::random::{Lines, RandomLoads};
use crate::error::MachineError;
use crate::suite::core::found::{Found, Unit, Value};

/// Strides that are tried, in lines.
const STRIDES: [u64; 5] = [1, 2, 4, 8, 16];

/// Ratio of the time of lines at the longest strides to that of all lines from which on there are banks.
const SLOWER: f64 = 1.3;
/// Share of the longest time from which on a stride meets one bank.
const ONE_BANK: f64 = 0.85;

/// How far another measurement may lie from a bank's time.
const SPREAD: f64 = 0.1;

/// Measures `banks.LEVEL` and `banks.LEVEL.line` with loads from `bytes` bytes, which fit that level and none before it.
///
/// # Errors
/// An instruction that cannot be encoded.
pub(super) fn measure(
    clock_hz: f64,
    loads: &RandomLoads,
    (level, bytes): (&str, u64),
    found: &mut Found,
) -> Result<(), MachineError> {
    let seconds = |every: u64| loads.seconds(Lines { bytes, every, dependent: false });
    let mut times = Vec::new();
    for every in STRIDES {
        times.push(seconds(every)?);
    }
    let (banks, line) = of_times(&times);
    let shown: Vec<String> = times.iter().map(|time| format!("{:.2}", 1e9 * time)).collect();
    let how = format!("random loads of every {STRIDES:?}th line take {} ns", shown.join(", "));
    let value = |value: f64| Value { value, clock_hz, spread: SPREAD };
    found.derived(format!("banks.{level}"), Unit::Count, value(banks as f64), how.clone());
    found.derived(format!("banks.{level}.line"), Unit::Time, value(line * clock_hz), how);
    Ok(())
}

/// The number of banks and the time of a line of one, from the times by [`STRIDES`].
fn of_times(times: &[f64]) -> (u64, f64) {
    let longest = times.iter().copied().fold(0.0, f64::max);
    if longest < SLOWER * times[0] {
        return (1, times[0]);
    }
    let first = times.iter().position(|&time| time >= ONE_BANK * longest).unwrap_or(0);
    (STRIDES[first], longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stride_that_is_as_slow_as_any_meets_one_bank() {
        // A guest on an Intel server of 2024, its L3, and a cache without banks.
        assert_eq!(of_times(&[2.30, 3.27, 6.46, 6.50, 6.40]), (4, 6.50));
        assert_eq!(of_times(&[2.0, 2.1, 2.0, 2.2, 2.1]), (1, 2.0));
    }
}
