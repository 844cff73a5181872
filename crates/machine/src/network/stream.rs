//! Sustained rate and burst of a stream of messages, from the times of their arrivals.
//!
//! A link with a token bucket at its sender lets `burst` bytes pass at once, all others at `rate`: after the burst, n bytes have
//! arrived at the time t with n = burst + rate · t. The bucket fills again in pauses, so a message after a pause goes faster than
//! others.

/// Fewest messages from which a line can be fitted.
const FEWEST: usize = 12;
/// Shorter bursts cannot be distinguished from the cost of the first message or a preempted rank.
const SHORTEST_S: f64 = 250e-6;
/// A rate that falls all the time is no burst of a token bucket: the stream may be ahead later by this factor of its lead at first.
const GROWTH: f64 = 1.3;
/// Parts of the later half, compared by rate.
const PARTS: usize = 32;

/// Findings of one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Bytes a second in parts of its later half.
    pub rates: Vec<f64>,
    /// Bytes that went faster before; `None`: no burst was seen.
    pub burst_bytes: Option<f64>,
}

/// Findings of several streams together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sustained {
    /// Bytes a second behind a burst.
    pub bytes_per_s: f64,
    /// Bytes that go faster before; `None`: no burst was seen.
    pub burst_bytes: Option<f64>,
}

/// From the stamps of the receiver, in nanoseconds: its start, then the arrival of each message of `bytes` bytes. `None`: too few.
pub fn seen(stamps: &[u64], bytes: u64) -> Option<Stream> {
    let (&start, arrivals) = stamps.split_first()?;
    if arrivals.len() < FEWEST {
        return None;
    }
    let seconds = |i: usize| arrivals[i].saturating_sub(start) as f64 * 1e-9;
    let arrived = |i: usize| ((i + 1) as u64 * bytes) as f64;
    let (half, last) = (arrivals.len() / 2, arrivals.len() - 1);
    let border = |part: usize| half + part * (last - half) / PARTS;
    let rate = |from: usize, to: usize| (arrived(to) - arrived(from)) / (seconds(to) - seconds(from));
    let parts =
        (0..PARTS).map(|part| (border(part), border(part + 1))).filter(|(from, to)| seconds(*to) > seconds(*from));
    let rates: Vec<f64> = parts.map(|(from, to)| rate(from, to)).collect();
    let usual = median(&mut rates.clone())?;
    let ahead = |i: usize| arrived(i) - usual * seconds(i);
    let most = ahead_of(&stamps[..=half], bytes, usual);
    let later = median(&mut (half..=last).map(ahead).collect::<Vec<f64>>())?;
    Some(Stream { rates, burst_bytes: most.filter(|most| later < GROWTH * most) })
}

/// The most bytes by which a stream was ahead of `rate` (bytes a second); `None`: none worth mentioning. `stamps` and `bytes` as for
/// [`seen`]. A receiver that is kept off its CPU sees messages late, never early.
pub fn ahead_of(stamps: &[u64], bytes: u64, rate: f64) -> Option<f64> {
    let (&start, arrivals) = stamps.split_first()?;
    let ahead =
        |(i, stamp): (usize, &u64)| ((i + 1) as u64 * bytes) as f64 - rate * stamp.saturating_sub(start) as f64 * 1e-9;
    let most = arrivals.iter().enumerate().map(ahead).fold(0.0, f64::max);
    (most > rate * SHORTEST_S).then_some(most)
}

/// Bursts of one bucket differ by no more than this part.
const ALIKE: f64 = 0.25;

/// Of several streams: the median of all rates, which the moments in which a rank was kept off its CPU hardly change; and the median
/// burst, if most of them had about that one.
pub fn together(streams: &[Stream]) -> Option<Sustained> {
    let bytes_per_s = median(&mut streams.iter().flat_map(|stream| stream.rates.clone()).collect::<Vec<_>>())?;
    Some(Sustained { bytes_per_s, burst_bytes: burst(streams.iter().map(|stream| stream.burst_bytes)) })
}

/// The median burst of several streams, if most of them had about that one: a rate that changes is no burst.
pub fn burst(seen: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let streams = seen.len();
    let mut bursts: Vec<f64> = seen.flatten().collect();
    let usual = median(&mut bursts)?;
    let alike = bursts.iter().filter(|burst| (*burst / usual - 1.0).abs() < ALIKE).count();
    (2 * alike > streams).then_some(usual)
}

/// The median; the lower one of two. `None`: there are no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals over a link with a token bucket.
    fn arrivals(rate: f64, burst: f64, bytes: u64, messages: u64) -> Vec<u64> {
        let line = 2e9;
        let at = |n: u64| {
            let all = (n * bytes) as f64;
            50e-6 + (all / line).max((all - burst) / rate)
        };
        std::iter::once(1_000).chain((1..=messages).map(|n| 1_000 + (at(n) * 1e9) as u64)).collect()
    }

    #[test]
    fn a_token_bucket_shows_its_rate_and_its_burst() {
        for (rate, burst) in [(96e6, 65_536.0), (96e6, 262_144.0), (24e6, 262_144.0)] {
            let seen = together(&[seen(&arrivals(rate, burst, 65_536, 128), 65_536).unwrap()]).unwrap();
            assert!((seen.bytes_per_s / rate - 1.0).abs() < 0.001, "{seen:?}");
            let found = seen.burst_bytes.unwrap();
            assert!((found - burst).abs() < 8192.0, "{burst}: {found}");
        }
    }

    #[test]
    fn a_plain_link_has_no_burst() {
        assert_eq!(seen(&arrivals(96e6, 0.0, 65_536, 128), 65_536).unwrap().burst_bytes, None);
        assert_eq!(seen(&arrivals(96e6, 0.0, 65_536, 3), 65_536), None, "too few");
        assert_eq!(seen(&[5; 40], 8), None, "a clock that stands still");
    }

    #[test]
    fn a_pause_of_the_receiver_is_no_burst_and_no_rate() {
        let mut late = arrivals(96e6, 0.0, 65_536, 128);
        late[100..].iter_mut().for_each(|stamp| *stamp += 10_000_000);
        let one = seen(&late, 65_536).unwrap();
        assert!((median(&mut one.rates.clone()).unwrap() / 96e6 - 1.0).abs() < 0.01);
        let plain = seen(&arrivals(96e6, 0.0, 65_536, 128), 65_536).unwrap();
        assert_eq!(together(&[one, plain.clone(), plain]).unwrap().burst_bytes, None);
    }

    #[test]
    fn most_streams_decide() {
        let stream = |rate, burst| Stream { rates: vec![rate], burst_bytes: burst };
        let all = [stream(10.0, Some(5.0)), stream(12.0, None), stream(11.0, Some(6.0))];
        assert_eq!(together(&all), Some(Sustained { bytes_per_s: 11.0, burst_bytes: Some(5.0) }));
        assert_eq!(together(&all[..2]).unwrap().burst_bytes, None);
        let unlike = [stream(10.0, Some(5.0)), stream(10.0, Some(50.0)), stream(10.0, Some(500.0))];
        assert_eq!(together(&unlike).unwrap().burst_bytes, None, "a rate that changes is no burst");
        assert_eq!(together(&[]), None);
    }
}
