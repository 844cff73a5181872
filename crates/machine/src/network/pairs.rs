//! Messages between pairs of ranks: latency, curves, sustained rate, burst, change of protocol.

use super::NetworkError;
use super::points::{self, INNER, Limits, Rounds};
use super::sizes;
use super::step::{Pair, Pattern, Step};
use super::stream::{self, Stream, Sustained};
use super::team::{Stamps, Team};
use rprof_profile::network::{Curve, CurvePoint, Distance, PairCurve};

/// Messages that take longer one way, in seconds, are left out.
const LONGEST_S: f64 = 0.06;
/// Length of a stream: about this time in seconds, or this number of bytes.
const STREAM_S: f64 = 0.25;
const STREAM_BYTES: u64 = 512 << 20;
/// The first stream, and how much longer each next one may be: the rate behind a burst is not known.
const FIRST_BYTES: u64 = 2 << 20;
const GROWTH: f64 = 4.0;
/// Messages of a stream.
const MESSAGES: u64 = 64;
const SMALLEST_MESSAGE: u64 = 64 << 10;
const LARGEST_MESSAGE: u64 = 4 << 20;
/// Streams that are compared, and the pause in seconds before each, in which a bucket fills.
const STREAMS: usize = 5;
const PAUSE_S: f64 = 0.1;
/// Short streams that are looked at for a burst, and the pauses before them, in seconds: in a short one a rank is less often kept off its
/// CPU in the midst of the burst.
const LOOKS: usize = 9;
const LOOK_PAUSE_S: f64 = 0.05;
/// Half a ping-pong at more than this part of the sustained rate may be a burst's: each direction rests half of the time.
const SUSPECT: f64 = 0.4;
/// Most rounds that use up a burst before others are measured.
const DRAINING: u32 = 64;
/// Steps by which the size of a rendezvous is narrowed down.
const NARROWING: usize = 3;

/// Measures messages between `pairs`, all at the same time, up to `largest` bytes. There is no burst of more than `most_burst` bytes.
///
/// # Errors
/// [`NetworkError`].
pub fn measure(
    team: &mut dyn Team,
    distance: Distance,
    pairs: &[Pair],
    largest: u64,
    most_burst: f64,
) -> Result<PairCurve, NetworkError> {
    let limits = Limits { longest_s: LONGEST_S, inner: INNER };
    let sizes = sizes::of_messages(largest);
    // Connections are made by the first messages.
    let latency_s = ping_pong(team, pairs, 0)?.map(|point| point.seconds);
    let link = sustained(team, pairs)?.map(|link| Sustained {
        burst_bytes: link.burst_bytes.map(|burst| burst.min(most_burst)).filter(|burst| *burst > 0.0),
        ..link
    });
    let mut plain = points::curve(&sizes, limits, &mut messages(team, pairs, Pattern::PingPong, None))?;
    let rendezvous_bytes = match link {
        Some(link) => rendezvous(team, pairs, &mut plain, link.bytes_per_s)?,
        None => None,
    };
    let one_way = match link.and_then(|link| Some((link.bytes_per_s, link.burst_bytes?))) {
        Some((rate, burst)) => drained(team, pairs, plain, (rate, burst, latency_s.unwrap_or(0.0)))?,
        None => plain,
    };
    let exchange = points::curve(&sizes, limits, &mut messages(team, pairs, Pattern::Exchange, link))?;
    Ok(PairCurve {
        distance,
        at_once: pairs.len() as u32,
        one_way,
        exchange,
        latency_s,
        bytes_per_s: link.map(|link| link.bytes_per_s),
        burst_bytes: link.and_then(|link| link.burst_bytes).map(|bytes| bytes as u64),
        rendezvous_bytes,
    })
}

fn ping_pong(team: &mut dyn Team, pairs: &[Pair], bytes: u64) -> Result<Option<CurvePoint>, NetworkError> {
    points::point(bytes, INNER, &mut messages(team, pairs, Pattern::PingPong, None))
}

/// Makes rounds of a pattern; seconds one way, or of an exchange. If a burst is known, the rounds that it may last are not used.
fn messages<'t>(
    team: &'t mut dyn Team,
    pairs: &'t [Pair],
    pattern: Pattern,
    link: Option<Sustained>,
) -> impl FnMut(Rounds) -> Result<Vec<f64>, NetworkError> {
    let mut last_s = 0.0;
    move |Rounds { bytes, inner, rounds }| {
        let burst = link.and_then(|link| link.burst_bytes).unwrap_or(0.0);
        let per_round = (bytes * u64::from(inner)).max(1) as f64;
        let before = if bytes == 0 { 0 } else { ((1.5 * burst / per_round) as u32).min(DRAINING) };
        let all = rounds + before;
        let step = Step::Messages {
            pairs: pairs.to_vec(),
            pattern,
            bytes,
            inner,
            rounds: all,
            expected_s: last_s * f64::from(all * inner),
        };
        let seconds = seconds(&team.lead(&step)?, pairs, pattern, inner);
        let both_ways = if pattern == Pattern::Exchange { 1.0 } else { 2.0 };
        last_s = both_ways * seconds.last().copied().unwrap_or(0.0);
        Ok(seconds.into_iter().skip(before as usize).collect())
    }
}

/// Seconds of a message in each round, of the slowest pair. Those of a drained pattern have the empty answer in them.
fn seconds(stamps: &Stamps, pairs: &[Pair], pattern: Pattern, inner: u32) -> Vec<f64> {
    let rounds = stamps.first().map_or(0, |stamps| stamps.len() / 2);
    let parts = if pattern == Pattern::PingPong { 2.0 } else { 1.0 };
    let of = |rank: u32, round: usize| {
        let stamps = &stamps[rank as usize];
        stamps[2 * round + 1].saturating_sub(stamps[2 * round]) as f64 * 1e-9
    };
    let slowest = |round: usize| {
        let both = |pair: &Pair| match pattern {
            Pattern::Exchange => of(pair.0, round).max(of(pair.1, round)),
            _ => of(pair.0, round),
        };
        pairs.iter().map(both).fold(0.0, f64::max) / parts / f64::from(inner)
    };
    (0..rounds).map(slowest).collect()
}

/// Streams until the rate does not depend on a burst.
fn sustained(team: &mut dyn Team, pairs: &[Pair]) -> Result<Option<Sustained>, NetworkError> {
    let (mut bytes, mut took) = (FIRST_BYTES, 0.0);
    loop {
        let one = stream(team, pairs, bytes, took)?;
        let Some((_, seconds)) = one else { return Ok(None) };
        took = seconds;
        if took >= STREAM_S || bytes >= STREAM_BYTES {
            // A large burst may have hidden how slow the link is.
            bytes = ((bytes as f64 * (2.0 * STREAM_S / took).min(1.0)) as u64).max(FIRST_BYTES);
            break;
        }
        let factor = (1.2 * STREAM_S / took.max(1e-6)).clamp(1.5, GROWTH);
        bytes = ((bytes as f64 * factor) as u64).min(STREAM_BYTES);
    }
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        team.lead(&Step::Rest(PAUSE_S))?;
        streams.extend(stream(team, pairs, bytes, took)?.map(|(seen, _)| seen));
    }
    let Some(link) = stream::together(&streams) else { return Ok(None) };
    if link.burst_bytes.is_some_and(|burst| burst > FIRST_BYTES as f64 / 2.0) {
        return Ok(Some(link));
    }
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        team.lead(&Step::Rest(LOOK_PAUSE_S))?;
        let expected_s = FIRST_BYTES as f64 / link.bytes_per_s;
        let (stamps, message) = stamps(team, pairs, FIRST_BYTES, expected_s)?;
        let ahead = |pair: &Pair| stream::ahead_of(&stamps[pair.1 as usize], message, link.bytes_per_s);
        // A burst that each of the pairs has.
        let all: Option<Vec<f64>> = pairs.iter().map(ahead).collect();
        looks.push(all.and_then(|all| all.into_iter().min_by(f64::total_cmp)));
    }
    Ok(Some(Sustained { burst_bytes: stream::burst(looks.into_iter()), ..link }))
}

/// The stamps of a stream of about `bytes` bytes, and the bytes of its messages.
fn stamps(team: &mut dyn Team, pairs: &[Pair], bytes: u64, expected_s: f64) -> Result<(Stamps, u64), NetworkError> {
    let message = (bytes / MESSAGES).clamp(SMALLEST_MESSAGE, LARGEST_MESSAGE);
    let messages = (bytes / message) as u32;
    let stamps = team.lead(&Step::Stream { pairs: pairs.to_vec(), bytes: message, messages, expected_s })?;
    Ok((stamps, message))
}

/// One stream of about `bytes` bytes, of the slowest pair; and its seconds from start to end.
fn stream(
    team: &mut dyn Team,
    pairs: &[Pair],
    bytes: u64,
    expected_s: f64,
) -> Result<Option<(Stream, f64)>, NetworkError> {
    let (stamps, message) = stamps(team, pairs, bytes, expected_s)?;
    let of = |pair: &Pair| {
        let stamps = &stamps[pair.1 as usize];
        let seconds = stamps.last()?.saturating_sub(*stamps.first()?) as f64 * 1e-9;
        Some((stream::seen(stamps, message)?, seconds))
    };
    Ok(pairs.iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1)))
}

/// Measures again, behind a used up burst, the sizes that were faster than the sustained rate allows, or may have been.
fn drained(
    team: &mut dyn Team,
    pairs: &[Pair],
    mut curve: Curve,
    (rate, burst, latency_s): (f64, f64, f64),
) -> Result<Curve, NetworkError> {
    let drain = (1.25 * burst) as u64 + SMALLEST_MESSAGE / 4;
    for known in curve.points.iter_mut().filter(|known| known.bytes as f64 > SUSPECT * rate * known.seconds) {
        let one = drain as f64 / rate + known.bytes as f64 / rate;
        let mut measure = messages(team, pairs, Pattern::Drained(drain), None);
        let rounds = ((2.0 * LONGEST_S / one) as u32).clamp(3, 9);
        let mut seconds: Vec<f64> = measure(Rounds { bytes: known.bytes, inner: 1, rounds })?;
        seconds.iter_mut().for_each(|seconds| *seconds -= latency_s);
        let least_s = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        if let Some(median) = stream::median(&mut seconds) {
            (known.seconds, known.least_s) = (median, least_s);
        }
    }
    Ok(curve)
}

/// Narrows the break of the curve down; the points on the way become some of it.
fn rendezvous(
    team: &mut dyn Team,
    pairs: &[Pair],
    curve: &mut Curve,
    bytes_per_s: f64,
) -> Result<Option<u64>, NetworkError> {
    let Some((mut below, mut above)) = sizes::broken_between(&curve.points, bytes_per_s) else { return Ok(None) };
    let seconds = |curve: &Curve, bytes: u64| {
        curve.points.iter().find(|point| point.bytes == bytes).map_or(0.0, |point| point.least_s)
    };
    for _ in 0..NARROWING {
        let bytes = (below + above) / 2;
        let Some(point) = ping_pong(team, pairs, bytes)? else { break };
        let middle = (seconds(curve, below) + seconds(curve, above)) / 2.0;
        if point.least_s > middle {
            above = bytes
        } else {
            below = bytes
        }
        let at = curve.points.partition_point(|known| known.bytes < bytes);
        curve.points.insert(at, point);
    }
    Ok(Some(above))
}
