//! Cost of collective calls.

use super::NetworkError;
use super::collective::Collective;
use super::hosts::Hosts;
use super::points::{self, Limits, Rounds};
use super::step::Step;
use super::team::{Stamps, Team};
use super::wanted::WantedCollective;
use rprof_profile::network::{CollectiveCurve, Curve, CurvePoint};

/// Calls that take longer, in seconds, are left out.
const LONGEST_S: f64 = 0.5;
/// Bytes of a rank's largest buffer.
const LARGEST_BUFFER: u64 = 256 << 20;
/// Most rounds that use up a burst.
const DRAINING: u32 = 64;

/// A curve to measure, and the functions that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The function called.
    pub call: Collective,
    /// Ranks of a communicator.
    pub members: u32,
    /// Sizes, ascending.
    pub bytes: Vec<u64>,
    /// Functions that cost as much.
    pub names: Vec<String>,
}

impl Planned {
    fn has_room(&self, bytes: u64) -> bool {
        let shape = self.call.shape(bytes, self.members);
        shape.send.max(shape.receive) <= LARGEST_BUFFER
    }

    /// Why a size is left out.
    pub fn too_much(&self, bytes: u64) -> String {
        let why = if self.has_room(bytes) { "a call takes too long" } else { "its buffers are too large" };
        format!("{} of {} ranks, {bytes} bytes: {why}", self.call.name(), self.members)
    }
}

/// The calls of `wanted` that can be measured with `ranks` ranks, each once; and those that cannot, with the reasons.
pub fn plan(wanted: &[WantedCollective], ranks: u32) -> (Vec<Planned>, Vec<String>) {
    let (mut plan, mut missing) = (Vec::<Planned>::new(), Vec::new());
    for one in wanted {
        let Some(call) = Collective::like(&one.call) else {
            missing.push(format!("{}: it is no collective call that is measured", one.call));
            continue;
        };
        let members = one.members.unwrap_or(ranks);
        if members == 0 || members > ranks {
            missing.push(format!("{} of {members} ranks: the job has {ranks}", one.call));
            continue;
        }
        let at = plan.iter().position(|known| (known.call, known.members) == (call, members)).unwrap_or_else(|| {
            plan.push(Planned { call, members, bytes: Vec::new(), names: Vec::new() });
            plan.len() - 1
        });
        let planned = &mut plan[at];
        planned.bytes.extend(one.bytes.iter().map(|bytes| call.shape(*bytes, members).bytes));
        planned.bytes.sort_unstable();
        planned.bytes.dedup();
        if !planned.names.contains(&one.call) {
            planned.names.push(one.call.clone());
        }
    }
    (plan, missing)
}

/// Measures one curve; also says which sizes it has not, and why.
///
/// # Errors
/// [`NetworkError`].
pub fn measure(
    team: &mut dyn Team,
    hosts: &Hosts,
    planned: &Planned,
    burst: Option<u64>,
) -> Result<(Vec<CollectiveCurve>, Vec<String>), NetworkError> {
    let (call, members) = (planned.call, planned.members);
    let sizes: Vec<u64> = planned.bytes.iter().copied().filter(|bytes| planned.has_room(*bytes)).collect();
    let lasts = if call.synchronizes() {
        Lasts::OnAverage
    } else if hosts.have_one_clock() {
        Lasts::UntilTheLast
    } else {
        Lasts::InTheSlowest
    };
    let mut measure = |Rounds { bytes, rounds, .. }: Rounds| {
        let before = burst.map_or(0, |burst| burst * 3 / 2 / bytes.max(1)).min(u64::from(DRAINING)) as u32;
        let before = if bytes == 0 { 0 } else { before };
        let stamps = team.lead(&Step::Collective { call, members, bytes, rounds: rounds + before })?;
        let rounds = 0..stamps.first().map_or(0, |stamps| stamps.len() / 2);
        let seconds = rounds.map(|round| seconds(&stamps, round, members, lasts));
        Ok(seconds.skip(before as usize).collect())
    };
    let cost = points::curve(&sizes, Limits { longest_s: LONGEST_S, inner: 1 }, &mut measure)?;
    let last = cost.points.last().map_or(0, |point| point.bytes);
    let missing = planned.bytes.iter().filter(|bytes| **bytes > last).map(|bytes| planned.too_much(*bytes)).collect();
    let curve = |name: &String| CollectiveCurve {
        call: name.clone(),
        members,
        distance: hosts.distance(members),
        cost: cost.clone(),
    };
    Ok((planned.names.iter().map(curve).collect(), missing))
}

/// How long a call lasts, of which each rank knows its own begin and end.
#[derive(Debug, Clone, Copy)]
enum Lasts {
    /// As long as in the mean rank: calls follow one another, and each waits for all ranks.
    OnAverage,
    /// From the mean of the ranks' starts until the last has ended: they leave the barrier before the call one after the other.
    UntilTheLast,
    /// As long as in the slowest rank: there is a barrier before the call, and the ranks' clocks differ.
    InTheSlowest,
}

/// Seconds of a round of the slowest communicator.
fn seconds(stamps: &Stamps, round: usize, members: u32, lasts: Lasts) -> f64 {
    let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 * 1e-9;
    let of_group = |group: &[Vec<u64>]| {
        let spans: Vec<(u64, u64)> = group.iter().map(|stamps| (stamps[2 * round], stamps[2 * round + 1])).collect();
        let own = || spans.iter().map(|span| seconds(span.0, span.1));
        match lasts {
            Lasts::OnAverage => own().sum::<f64>() / spans.len() as f64,
            Lasts::UntilTheLast => {
                let last = spans.iter().map(|span| span.1).max().unwrap_or(0);
                let first = spans.iter().map(|span| span.0).min().unwrap_or(0);
                let after: f64 = spans.iter().map(|span| seconds(first, span.0)).sum();
                (seconds(first, last) - after / spans.len() as f64).max(0.0)
            }
            Lasts::InTheSlowest => own().fold(0.0, f64::max),
        }
    };
    stamps.chunks_exact(members.max(1) as usize).map(of_group).fold(0.0, f64::max)
}

/// Adds curves to those that are known: points of one call are one curve, of equal sizes the new ones.
pub fn add(known: &mut Vec<CollectiveCurve>, new: Vec<CollectiveCurve>) {
    for curve in new {
        match known.iter_mut().find(|old| (&old.call, old.members) == (&curve.call, curve.members)) {
            Some(old) => old.cost = joined(&old.cost, &curve.cost),
            None => known.push(curve),
        }
    }
    known.sort_unstable_by(|a, b| (&a.call, a.members).cmp(&(&b.call, b.members)));
}

fn joined(old: &Curve, new: &Curve) -> Curve {
    let is_new = |bytes: u64| new.points.iter().any(|point| point.bytes == bytes);
    let kept = old.points.iter().filter(|point| !is_new(point.bytes));
    let mut points: Vec<CurvePoint> = kept.chain(&new.points).copied().collect();
    points.sort_by_key(|point| point.bytes);
    Curve { points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(call: &str, members: Option<u32>, bytes: &[u64]) -> WantedCollective {
        WantedCollective { call: call.into(), members, bytes: bytes.to_vec() }
    }

    #[test]
    fn forms_that_cost_the_same_are_measured_once() {
        let all = [
            wanted("MPI_Allgather", None, &[8, 64]),
            wanted("MPI_Allgatherv", Some(4), &[64, 80]),
            wanted("MPI_Allgather", Some(2), &[8]),
            wanted("MPI_Win_fence", None, &[0]),
            wanted("MPI_Bcast", Some(9), &[8]),
        ];
        let (plan, missing) = plan(&all, 4);
        assert_eq!(plan.len(), 2);
        assert_eq!((plan[0].bytes.clone(), plan[0].names.len()), (vec![8, 64, 80], 2));
        assert_eq!(missing.len(), 2, "{missing:?}");
    }

    #[test]
    fn a_round_lasts_until_the_last_rank_returns() {
        // Two communicators of two ranks.
        let stamps = vec![vec![100, 200], vec![140, 240], vec![0, 90], vec![0, 95]];
        let of = |lasts| seconds(&stamps, 0, 2, lasts);
        let one = of(Lasts::UntilTheLast);
        assert!((one - 120e-9).abs() < 1e-12, "240 less the mean of 100 and 140: {one}");
        assert!((of(Lasts::InTheSlowest) - 100e-9).abs() < 1e-12);
        assert!((of(Lasts::OnAverage) - 100e-9).abs() < 1e-12, "the second pair takes 92.5");
        let three = seconds(&stamps[..3].to_vec(), 0, 2, Lasts::UntilTheLast);
        assert!((three - 120e-9).abs() < 1e-12, "the third has no partner");
    }

    #[test]
    fn points_are_added_to_a_known_curve() {
        let curve = |points: &[(u64, f64)]| CollectiveCurve {
            call: "MPI_Bcast".into(),
            members: 2,
            cost: Curve {
                points: points.iter().map(|&(bytes, s)| CurvePoint { bytes, seconds: s, least_s: s }).collect(),
            },
            ..CollectiveCurve::default()
        };
        let mut known = vec![curve(&[(8, 1.0), (64, 2.0)])];
        add(&mut known, vec![curve(&[(16, 1.5), (64, 3.0)])]);
        assert_eq!(known, [curve(&[(8, 1.0), (16, 1.5), (64, 3.0)])]);
    }
}
