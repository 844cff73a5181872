//! Seconds that the network needs for the calls of a call site.
//!
//! ```text
//! collective           calls × cost(bytes)        of as many ranks; calls of the root alone (MPI_Scatter) × ranks
//! send, receive        calls × one way(bytes)     the share of calls to other hosts by their curve
//! send and receive     calls × exchange(bytes)
//! short send           0: the library takes it over (below the size from which sender and receiver meet)
//! nonblocking          as the blocking one, but work may overlap it; a receive and the wait for it cost nothing of their own
//! ```
//!
//! Curves are taken at the mean size of each class of sizes, for receives at the mean of all. The part of a call without bytes is latency.

use rprof_profile::communication::NetworkSeconds;
use rprof_profile::mpi::{CallSite, SizeClass};
use rprof_profile::mpi_name::MpiName;
use rprof_profile::network::{Curve, Distance, Network, PairCurve};

/// Bytes from which a send is taken to wait for its receiver if no such size was measured.
const LONG: u64 = 64 << 10;

/// What a call does, as far as its cost is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All ranks of the communicator take part; the root alone hands over what counts.
    Collective { from_root: bool },
    /// A message away from here.
    Send,
    /// One that comes.
    Receive,
    /// Both.
    Exchange,
    /// Nothing of its own.
    Completion,
}

/// What a call does, by the name of its blocking form. `None`: a call of unknown cost.
fn kind(blocking: &str) -> Option<Kind> {
    Some(match blocking {
        "Send" | "Bsend" | "Ssend" | "Rsend" => Kind::Send,
        "Recv" => Kind::Receive,
        "Sendrecv" | "Sendrecv_replace" => Kind::Exchange,
        "Bcast" | "Scatter" | "Scatterv" => Kind::Collective { from_root: true },
        "Barrier"
        | "Reduce"
        | "Allreduce"
        | "Gather"
        | "Gatherv"
        | "Allgather"
        | "Allgatherv"
        | "Alltoall"
        | "Alltoallv"
        | "Reduce_scatter"
        | "Reduce_scatter_block"
        | "Scan"
        | "Exscan" => Kind::Collective { from_root: false },
        "Wait" | "Waitall" | "Waitany" | "Waitsome" | "Test" | "Testall" | "Testany" | "Testsome" => Kind::Completion,
        // They ask, or make handles.
        _ if ["Comm_", "Type_", "Cart_"].iter().any(|begin| blocking.starts_with(begin)) => Kind::Completion,
        _ => return None,
    })
}

/// Of `calls` calls that hand over `bytes` together.
fn of_calls(curve: &Curve, calls: f64, bytes: f64) -> Option<NetworkSeconds> {
    let all = calls * curve.seconds(bytes / calls.max(1.0))?;
    let latency_s = (calls * curve.seconds(0.0)?).min(all);
    Some(NetworkSeconds { latency_s, bandwidth_s: all - latency_s, overlappable_s: 0.0 })
}

/// Seconds, summed over ranks, that the network needs for the calls of `site`, which belongs to a merged profile. `at_once`: ranks of a host.
/// `None`: not known.
pub fn of_site(site: &CallSite, network: &Network, at_once: u32) -> Option<NetworkSeconds> {
    let name = MpiName::of(&site.call)?;
    let (blocking, nonblocking) = (name.blocking(), name.is_nonblocking);
    let kind = kind(&blocking)?;
    let all_calls = site.calls? as f64;
    let mut all = NetworkSeconds::default();
    let classes = || site.sizes.iter().filter(|class| class.1 > 0);
    let add = |all: &mut NetworkSeconds, curve: &Curve, calls: f64, bytes: f64, factor: f64| {
        of_calls(curve, calls, bytes).map(|seconds| all.add(seconds, factor))
    };
    match kind {
        Kind::Completion => {}
        Kind::Collective { from_root } => {
            let members = site.members?;
            let curve = &network.collective(&site.call, members)?.cost;
            // A root hands over for all: its calls represent those of the other ranks.
            let has_bytes = classes().any(|class| class.0 > 0);
            for &SizeClass(from, calls, bytes) in classes() {
                if from_root && has_bytes && from == 0 {
                    continue;
                }
                let factor = if from_root && has_bytes { f64::from(members) } else { 1.0 };
                add(&mut all, curve, calls as f64, bytes as f64, factor)?;
            }
        }
        Kind::Send | Kind::Receive | Kind::Exchange => {
            let far = site.far_calls.map(|far| far as f64 / all_calls.max(1.0));
            let far = far.or((network.distance() == Distance::SameHost).then_some(0.0))?;
            for (distance, share) in [(Distance::OtherHost, far), (Distance::SameHost, 1.0 - far)] {
                if share <= 0.0 {
                    continue;
                }
                let pair = network.pair(distance, at_once)?;
                if kind == Kind::Receive {
                    add(&mut all, &pair.one_way, all_calls, site.received? as f64, share)?;
                    continue;
                }
                for &SizeClass(_, calls, bytes) in classes() {
                    let is_eager = kind == Kind::Send && !nonblocking && blocking != "Ssend";
                    if is_eager && bytes < calls * pair.rendezvous_bytes.unwrap_or(LONG) {
                        continue;
                    }
                    add(&mut all, curve_of(pair, kind), calls as f64, bytes as f64, share)?;
                }
            }
        }
    }
    // The sent message is on its way while the received one is waited for: the time counts once.
    if nonblocking && kind == Kind::Receive {
        return Some(NetworkSeconds::default());
    }
    all.overlappable_s = if nonblocking { all.seconds() } else { 0.0 };
    Some(all)
}

fn curve_of(pair: &PairCurve, kind: Kind) -> &Curve {
    if kind == Kind::Exchange { &pair.exchange } else { &pair.one_way }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::network::{CollectiveCurve, CurvePoint};

    /// 1 µs and 1 ns a byte.
    fn curve(factor: f64) -> Curve {
        let point = |bytes: u64| {
            let seconds = factor * (1e-6 + 1e-9 * bytes as f64);
            CurvePoint { bytes, seconds, least_s: seconds }
        };
        Curve { points: [0, 1 << 20].map(point).to_vec() }
    }

    fn network() -> Network {
        let pair = |distance, factor| PairCurve {
            distance,
            at_once: 1,
            one_way: curve(factor),
            exchange: curve(2.0 * factor),
            rendezvous_bytes: Some(512),
            ..PairCurve::default()
        };
        let collective = |call: &str| CollectiveCurve {
            call: call.into(),
            members: 4,
            distance: Distance::SameHost,
            cost: curve(3.0),
        };
        Network {
            pairs: vec![pair(Distance::SameHost, 1.0), pair(Distance::OtherHost, 10.0)],
            collectives: ["MPI_Bcast", "MPI_Allreduce"].map(collective).to_vec(),
            ..Network::default()
        }
    }

    fn cost(call: &str, sizes: &[(u64, u64, u64)], site: CallSite) -> Option<(f64, f64, f64)> {
        let calls = Some(sizes.iter().map(|size| size.1).sum());
        let sizes = sizes.iter().map(|&(from, calls, bytes)| SizeClass(from, calls, bytes)).collect();
        let site = CallSite { call: call.into(), calls, sizes, ..site };
        let round = |s: f64| (s * 1e9).round() / 1e3;
        of_site(&site, &network(), 1).map(|s| (round(s.latency_s), round(s.bandwidth_s), round(s.overlappable_s)))
    }

    #[test]
    fn microseconds_of_messages_and_of_collectives() {
        let far = |far_calls| CallSite { far_calls: Some(far_calls), ..CallSite::default() };
        assert_eq!(cost("MPI_Send", &[(512, 10, 10_000)], far(0)), Some((10.0, 10.0, 0.0)));
        assert_eq!(cost("MPI_Send", &[(512, 10, 10_000)], far(5)), Some((55.0, 55.0, 0.0)), "half of them far");
        assert_eq!(cost("MPI_Send", &[(256, 10, 4_000)], far(0)), Some((0.0, 0.0, 0.0)), "taken over");
        assert_eq!(cost("MPI_Sendrecv", &[(512, 10, 10_000)], far(0)), Some((20.0, 20.0, 0.0)));
        assert_eq!(cost("MPI_Isend", &[(512, 10, 10_000)], far(0)), Some((10.0, 10.0, 20.0)));
        let received = CallSite { received: Some(4000), ..far(0) };
        assert_eq!(cost("MPI_Recv", &[(0, 4, 0)], received), Some((4.0, 4.0, 0.0)));
        let four = || CallSite { members: Some(4), ..CallSite::default() };
        assert_eq!(cost("MPI_Allreduce_c", &[(8, 40, 320)], four()), Some((120.0, 0.96, 0.0)));
        assert_eq!(cost("MPI_Iallreduce", &[(8, 40, 320)], four()), Some((120.0, 0.96, 120.96)));
        // Ten broadcasts of 1,000 bytes by four ranks.
        assert_eq!(cost("MPI_Bcast", &[(0, 30, 0), (512, 10, 10_000)], four()), Some((120.0, 120.0, 0.0)));
    }

    #[test]
    fn what_has_no_curve_has_no_cost() {
        let three = CallSite { members: Some(3), ..CallSite::default() };
        assert_eq!(cost("MPI_Allreduce", &[(8, 40, 320)], three), None);
        assert_eq!(cost("MPI_Put", &[(8, 40, 320)], CallSite::default()), None);
        assert_eq!(cost("MPI_Waitall", &[(0, 40, 0)], CallSite::default()), Some((0.0, 0.0, 0.0)));
    }
}
