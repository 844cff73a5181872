//! Sizes of messages to measure, and the size at which a library changes its protocol.

use rprof_profile::network::CurvePoint;

/// The range in which libraries usually begin to use a rendezvous: sizes lie closer together here.
const DENSE: std::ops::RangeInclusive<u64> = 1024..=262_144;
/// The largest message of a measurement.
pub const LARGEST: u64 = 16 << 20;

/// 0, and powers of four from 16 bytes up to `largest`; of two in the range of likely changes of protocol.
pub fn of_messages(largest: u64) -> Vec<u64> {
    let powers = (3..=24).map(|power| 1u64 << power);
    let sizes = powers.filter(|size| DENSE.contains(size) || size.trailing_zeros().is_multiple_of(2) || *size == 8);
    std::iter::once(0).chain(sizes.filter(|size| *size <= largest.min(LARGEST))).collect()
}

/// Part of the time before the break by which the curve must rise there.
const RISE: f64 = 0.25;
/// To meet takes a few messages of no bytes: a curve that rises by more latencies than that does so for another reason.
const LATENCIES: f64 = 8.0;

/// The two neighbours between which a curve of ping-pong breaks: its shortest time rises there by more than bytes at the rate of the two
/// intervals around need. Sender and receiver have to meet from there on. Messages that go faster than `bytes_per_s`, the sustained rate,
/// rise when a burst is used up, which is no rendezvous. `None`: no break is seen.
pub fn broken_between(points: &[CurvePoint], bytes_per_s: f64) -> Option<(u64, u64)> {
    let slope = |a: &CurvePoint, b: &CurvePoint| (b.least_s - a.least_s) / (b.bytes - a.bytes).max(1) as f64;
    let rise = |four: &[CurvePoint]| {
        let [before, a, b, after] = four else { return (0.0, 0.0) };
        let usual = slope(before, a).max(slope(b, after)).max(0.0) * (b.bytes - a.bytes) as f64;
        let seconds = b.least_s - a.least_s - usual;
        (seconds, seconds / a.least_s)
    };
    let latency = points.first()?.least_s;
    let is_slower = |point: &CurvePoint| (point.bytes as f64) < point.least_s * bytes_per_s;
    let steps = points
        .windows(4)
        .filter(|four| DENSE.contains(&four[1].bytes) && is_slower(&four[2]) && rise(four).0 < LATENCIES * latency);
    let best = steps.max_by(|a, b| rise(a).1.total_cmp(&rise(b).1))?;
    (rise(best).1 > RISE).then_some((best[1].bytes, best[2].bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(seconds: impl Fn(u64) -> f64) -> Vec<CurvePoint> {
        of_messages(LARGEST)
            .into_iter()
            .map(|bytes| CurvePoint { bytes, seconds: seconds(bytes), least_s: seconds(bytes) })
            .collect()
    }

    #[test]
    fn sizes_are_dense_where_protocols_change() {
        let sizes = of_messages(1 << 20);
        assert_eq!(sizes[..5], [0, 8, 16, 64, 256]);
        assert_eq!(sizes[5..8], [1024, 2048, 4096]);
        assert_eq!(sizes.last(), Some(&(1 << 20)));
        assert!(sizes.is_sorted());
    }

    #[test]
    fn the_break_is_where_the_time_jumps() {
        let eager = |bytes: u64| 2e-6 + bytes as f64 / 5e9;
        assert_eq!(broken_between(&curve(eager), 9e9), None);
        let jumps = |bytes: u64| eager(bytes) + if bytes > 16_384 { 4e-6 } else { 0.0 };
        assert_eq!(broken_between(&curve(jumps), 9e9), Some((16_384, 32_768)));
        let falls = |bytes: u64| eager(bytes) + if bytes > 65_536 { 600e-6 } else { 0.0 };
        assert_eq!(broken_between(&curve(falls), 9e9), None, "a burst is used up, which is no rendezvous");
        assert_eq!(broken_between(&curve(jumps), 1e8), None, "above the sustained rate");
        assert_eq!(broken_between(&[], 9e9), None);
    }
}
