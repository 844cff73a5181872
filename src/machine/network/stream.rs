//! Sustained rate and burst of a stream of messages, from the times of their arrivals.
//!
//! A link whose sender has a token bucket lets `burst` bytes pass at once, all others at `rate`: after the burst, n bytes have arrived
//! at the time t with n = burst + rate · t. The bucket fills again in pauses, so a message after a pause goes faster than others.

/// Fewest messages from which a line can be told.
const FEWEST: usize = 12;
/// A burst that saves less time is not seen: so long the first message may take by itself, or a rank be kept off its CPU.
const SHORTEST_S: f64 = 250e-6;
/// In a burst bytes arrive at least so many times as fast.
const FASTER: f64 = 1.5;

/// What a stream shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sustained {
    /// Bytes a second of its later half.
    pub bytes_per_s: f64,
    /// Bytes that went faster before; `None`: no burst was seen.
    pub burst_bytes: Option<f64>,
}

/// From the stamps of the receiver, in nanoseconds: its start, then the arrival of each message of `bytes` bytes. `None`: too few.
pub fn sustained(stamps: &[u64], bytes: u64) -> Option<Sustained> {
    let (&start, arrivals) = stamps.split_first()?;
    if arrivals.len() < FEWEST {
        return None;
    }
    let seconds = |stamp: u64| stamp.saturating_sub(start) as f64 * 1e-9;
    let arrived = |i: usize| ((i + 1) as u64 * bytes) as f64;
    let (half, last) = (arrivals.len() / 2, arrivals.len() - 1);
    let took = seconds(arrivals[last]) - seconds(arrivals[half]);
    if took <= 0.0 {
        return None;
    }
    let rate = (arrived(last) - arrived(half)) / took;
    let mut ahead: Vec<f64> = (half..=last).map(|i| arrived(i) - rate * seconds(arrivals[i])).collect();
    let ahead = median(&mut ahead)?;
    // While the burst lasted: until as much had arrived.
    let end = (0..arrivals.len()).find(|i| arrived(*i) >= ahead).unwrap_or(last);
    let early = arrived(end) / seconds(arrivals[end]).max(1e-9);
    let is_burst = ahead > rate * SHORTEST_S && early > FASTER * rate;
    Some(Sustained { bytes_per_s: rate, burst_bytes: is_burst.then_some(ahead) })
}

/// Of several streams: the median rate, and the median burst if all had one.
pub fn together(streams: &[Sustained]) -> Option<Sustained> {
    let bytes_per_s = median(&mut streams.iter().map(|stream| stream.bytes_per_s).collect::<Vec<_>>())?;
    let bursts: Option<Vec<f64>> = streams.iter().map(|stream| stream.burst_bytes).collect();
    Some(Sustained { bytes_per_s, burst_bytes: bursts.and_then(|mut bursts| median(&mut bursts)) })
}

/// The median; the lower one of two. `None`: there are no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
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
            let seen = sustained(&arrivals(rate, burst, 65_536, 128), 65_536).unwrap();
            assert!((seen.bytes_per_s / rate - 1.0).abs() < 0.001, "{seen:?}");
            let found = seen.burst_bytes.unwrap();
            assert!((found - burst).abs() < 8192.0, "{burst}: {found}");
        }
    }

    #[test]
    fn a_plain_link_has_no_burst() {
        let seen = sustained(&arrivals(96e6, 0.0, 65_536, 128), 65_536).unwrap();
        assert_eq!(seen.burst_bytes, None);
        assert_eq!(sustained(&arrivals(96e6, 0.0, 65_536, 3), 65_536), None, "too few");
        assert_eq!(sustained(&[5; 40], 8), None, "a clock that stands still");
    }

    #[test]
    fn one_stream_without_a_burst_refutes_the_others() {
        let stream = |rate, burst| Sustained { bytes_per_s: rate, burst_bytes: burst };
        let all = [stream(10.0, Some(5.0)), stream(12.0, None), stream(11.0, Some(6.0))];
        assert_eq!(together(&all), Some(stream(11.0, None)));
        assert_eq!(together(&[]), None);
    }
}
