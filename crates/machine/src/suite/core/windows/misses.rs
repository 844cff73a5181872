//! `misses.l1`: lines that L1 waits for at once.
//!
//! Loads of random lines of a buffer that no L2 holds, once each after the other and once independent of one another. The latency of the
//! first, divided by the time of one of the second, is the number of lines under way at once (Little's law). Hits in L2 count in both.

use super::random::{Lines, RandomLoads};
use crate::error::MachineError;
use crate::suite::core::found::{Found, Unit, Value};

/// Bytes that L1 holds.
const SMALL: u64 = 16 << 10;

/// Least load-to-use latency of L1, in cycles; the measured latency contains it.
const L1: f64 = 4.0;

/// How far another measurement may lie from it.
const SPREAD: f64 = 0.1;

/// Measures it with loads from `bytes` bytes, which no L2 holds.
///
/// # Errors
/// An instruction that cannot be encoded.
pub(super) fn measure(clock_hz: f64, loads: &RandomLoads, bytes: u64, found: &mut Found) -> Result<(), MachineError> {
    let seconds = |bytes: u64, dependent: bool| loads.seconds(Lines { bytes, every: 1, dependent });
    let latency = seconds(bytes, true)? - seconds(SMALL, true)? + L1 / clock_hz;
    let each = seconds(bytes, false)?;
    let how = format!(
        "latency over time of random loads of {} MiB: {:.1} ns over {:.2} ns",
        bytes >> 20,
        1e9 * latency,
        1e9 * each
    );
    found.derived("misses.l1", Unit::Count, Value { value: latency / each, clock_hz, spread: SPREAD }, how);
    Ok(())
}
