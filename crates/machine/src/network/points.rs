//! Points of a curve, each within a time budget.

use super::NetworkError;
use super::stream::median;
use rprof_profile::network::{Curve, CurvePoint};

/// Seconds that one point may take, if its fewest rounds do not take longer.
const BUDGET_S: f64 = 0.06;
/// Seconds of a round of short calls: a look at the clock costs some 20 ns.
const ROUND_S: f64 = 300e-6;
/// Most calls in a round, as far as a request has room.
pub const INNER: u32 = 28;
/// Rounds of a point.
const FEWEST: u32 = 5;
const MOST: u32 = 25;
/// Rounds of the first look, of which the first is not used: buffers and connections are new.
const LOOK: u32 = 3;

/// How a point is measured: `inner` calls are one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Bytes of a call.
    pub bytes: u64,
    /// Calls that are timed as one.
    pub inner: u32,
    /// Rounds.
    pub rounds: u32,
}

/// Makes rounds; returns seconds of a call in each.
pub type Measure<'m> = &'m mut dyn FnMut(Rounds) -> Result<Vec<f64>, NetworkError>;

/// Limits of a curve's points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Larger sizes are left out from the first one on of which a call would take longer, in seconds.
    pub longest_s: f64,
    /// Most calls that are timed as one.
    pub inner: u32,
}

/// Measures a curve over `sizes`, ascending.
///
/// # Errors
/// As `measure`.
pub fn curve(sizes: &[u64], limits: Limits, measure: Measure<'_>) -> Result<Curve, NetworkError> {
    let mut curve = Curve::default();
    for &bytes in sizes {
        if least(&curve.points, bytes).is_some_and(|expected| expected > limits.longest_s) {
            break;
        }
        curve.points.extend(point(bytes, limits.inner, measure)?);
    }
    Ok(curve)
}

/// Seconds that `bytes` will take at least: on the line through the shortest rounds of the last two points, which other work on the host
/// delays least.
fn least(points: &[CurvePoint], bytes: u64) -> Option<f64> {
    let [.., a, b] = points else { return None };
    let slope = (b.least_s - a.least_s).max(0.0) / (b.bytes - a.bytes).max(1) as f64;
    Some(b.least_s + slope * bytes.saturating_sub(b.bytes) as f64)
}

/// Measures a point.
///
/// # Errors
/// As `measure`.
pub fn point(bytes: u64, most_inner: u32, measure: Measure<'_>) -> Result<Option<CurvePoint>, NetworkError> {
    let look = measure(Rounds { bytes, inner: 1, rounds: LOOK })?;
    let mut seconds: Vec<f64> = look.into_iter().skip(1).collect();
    let Some(one) = median(&mut seconds).map(|one| one.max(1e-9)) else { return Ok(None) };
    let inner = ((ROUND_S / one) as u32).clamp(1, most_inner);
    let rounds = ((BUDGET_S / (one * f64::from(inner))) as u32).clamp(FEWEST, MOST);
    // A look at a long call has taken much of the time already.
    let is_long = one * f64::from(LOOK) > BUDGET_S;
    let more = measure(Rounds { bytes, inner, rounds: if is_long { LOOK } else { rounds } })?;
    if is_long {
        seconds.extend(more)
    } else {
        seconds = more
    }
    let least_s = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(median(&mut seconds).map(|seconds| CurvePoint { bytes, seconds, least_s }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds that a curve takes on a link of `rate`, its points, and the rounds of each.
    fn on_a_link(latency: f64, rate: f64, sizes: &[u64], longest_s: f64) -> (f64, Curve) {
        let mut clock = 0.0;
        let mut measure = |rounds: Rounds| {
            let one = latency + rounds.bytes as f64 / rate;
            clock += one * f64::from(rounds.inner * rounds.rounds);
            Ok(vec![one; rounds.rounds as usize])
        };
        let curve = curve(sizes, Limits { longest_s, inner: INNER }, &mut measure).unwrap();
        (clock, curve)
    }

    #[test]
    fn points_keep_to_their_time_and_large_ones_are_left_out() {
        let sizes = [0, 1 << 10, 1 << 20, 4 << 20, 16 << 20];
        let (took, fast) = on_a_link(1e-6, 10e9, &sizes, 0.06);
        assert_eq!(fast.points.len(), 5);
        assert!(took < 5.0 * BUDGET_S * 1.1, "{took}");
        let (took, slow) = on_a_link(50e-6, 24e6, &sizes, 0.06);
        assert_eq!(slow.points.last().map(|point| point.bytes), Some(1 << 20), "4 MiB take 0.17 s");
        assert!(took < 0.5, "{took}");
    }

    #[test]
    fn the_median_and_the_shortest_round_are_kept() {
        let mut measure = |rounds: Rounds| {
            let one = |i: u32| if i.is_multiple_of(5) { 3e-3 } else { 1e-3 + f64::from(i) * 1e-6 };
            Ok((0..rounds.rounds).map(one).collect())
        };
        let point = point(8, INNER, &mut measure).unwrap().unwrap();
        assert!((1e-3..1.1e-3).contains(&point.seconds) && point.least_s == 1.001e-3, "{point:?}");
    }
}
