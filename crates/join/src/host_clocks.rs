//! The clocks of a job's hosts against one another, by what cannot be: nothing is received before it was sent.
//!
//! ```text
//! message from A to B       end of the receive on B's clock + offset(B) ≥ start of the send on A's clock + offset(A)
//! collective of all ranks   no rank leaves it before the last one has come: the same between any two
//! ```
//!
//! The narrowest of these bounds in each direction leave an interval for the difference of two clocks; its middle is taken, half of its
//! width is the error. That the clocks run at the same speed is assumed: if they do not, the bounds contradict one another.

use std::collections::HashMap;

use super::partners::{Collective, Partners, Rank};

/// The corrections to add to the times of each host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostClocks {
    /// Nanoseconds by host.
    pub offsets_ns: Vec<i64>,
    /// Their error in nanoseconds.
    pub error_ns: u64,
}

/// Compares the clocks of hosts 0 to `hosts` − 1. `host_of`: the host of each rank.
///
/// # Errors
/// Why they cannot be compared.
pub fn compare(ranks: &[Rank<'_>], host_of: &[usize], hosts: usize, partners: &Partners) -> Result<HostClocks, String> {
    // (a, b): offset(a) − offset(b) is at most this value.
    let mut most: HashMap<(usize, usize), i64> = HashMap::new();
    let mut bound = |a: usize, b: usize, ns: i64| {
        if a != b {
            most.entry((a, b)).and_modify(|known| *known = ns.min(*known)).or_insert(ns);
        }
    };
    for message in &partners.messages {
        let ((sender, sent), (receiver, received)) = (message.sent, message.received);
        let (send, receive) = (&ranks[sender].calls[sent], &ranks[receiver].calls[received]);
        // The message of a call that returns at once has not arrived when it returns.
        if !ranks[receiver].kind(receive).is_nonblocking {
            bound(host_of[sender], host_of[receiver], difference(receive.end_ns, send.start_ns));
        }
    }
    for round in &partners.rounds {
        let kind = |&(rank, i): &(usize, usize)| ranks[rank].kind(&ranks[rank].calls[i]).collective;
        if round.first().and_then(kind) != Some(Collective::All) {
            continue;
        }
        let mut of_host: HashMap<usize, (u64, u64)> = HashMap::new();
        for &(rank, i) in round {
            let call = ranks[rank].calls[i];
            let (last_start, first_end) = of_host.entry(host_of[rank]).or_insert((0, u64::MAX));
            (*last_start, *first_end) = (call.start_ns.max(*last_start), call.end_ns.min(*first_end));
        }
        for (a, (start, _)) in &of_host {
            for (b, (_, end)) in &of_host {
                bound(*a, *b, difference(*end, *start));
            }
        }
    }
    let above = shortest(&most, hosts, |a, b| (a, b));
    let below = shortest(&most, hosts, |a, b| (b, a));
    let mut clocks = HostClocks { offsets_ns: vec![0], error_ns: 0 };
    for host in 1..hosts {
        // offset(host) − offset(0) ≤ above, and offset(0) − offset(host) ≤ below.
        let (Some(above), Some(below)) = (above[host], below[host]) else {
            return Err(format!("no calls between {hosts} hosts compare their clocks"));
        };
        if above + below < 0 {
            return Err(format!("the clocks of {hosts} hosts run at different speeds"));
        }
        clocks.offsets_ns.push((above - below) / 2);
        clocks.error_ns = clocks.error_ns.max(((above + below) / 2) as u64);
    }
    Ok(clocks)
}

fn difference(end_ns: u64, start_ns: u64) -> i64 {
    end_ns as i64 - start_ns as i64
}

/// The least bound of each host against host 0, over others, too. `key(a, 0)` is the bound of host a.
fn shortest(
    most: &HashMap<(usize, usize), i64>,
    hosts: usize,
    key: fn(usize, usize) -> (usize, usize),
) -> Vec<Option<i64>> {
    let mut least: Vec<Option<i64>> = vec![None; hosts];
    least[0] = Some(0);
    for _ in 0..hosts {
        let before = least.clone();
        for (&pair, &ns) in most {
            let (from, to) = key(pair.0, pair.1);
            if let Some(sum) = least[to].map(|known| known + ns)
                && least[from].is_none_or(|known| sum < known)
                && from != 0
            {
                least[from] = Some(sum);
            }
        }
        if least == before {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::mpi::{Communicator, Made, MpiCall};
    use rprof_profile::mpi::RankCalls;
    use rprof_profile::site_key::SiteKey;

    /// Calls of one rank: (function, start, end, to, from).
    type Calls<'c> = [(&'c str, u64, u64, Option<(i32, i32)>, Option<(i32, i32)>)];

    fn rank(number: u32, calls: &Calls<'_>) -> RankCalls {
        let key =
            |call: &str| SiteKey { caller: "f".into(), module: "m".into(), site: "0x1".into(), call: call.into() };
        RankCalls {
            rank: Some(number),
            sites: calls.iter().map(|call| key(call.0)).collect(),
            communicators: vec![Communicator { made: Made::World, parent: 0, order: 0, size: None, rank: None }],
            calls: (0..)
                .zip(calls)
                .map(|(site, &(_, start_ns, end_ns, to, from))| MpiCall {
                    site,
                    start_ns,
                    end_ns,
                    bytes: None,
                    bytes_of_root: None,
                    to,
                    from,
                    root: None,
                    communicator: Some(0),
                })
                .collect(),
            ..RankCalls::default()
        }
    }

    fn clocks(calls: [&Calls<'_>; 2]) -> Result<HostClocks, String> {
        let job = [rank(0, calls[0]), rank(1, calls[1])];
        let groups = crate::groups::groups(&job);
        let ranks: Vec<Rank<'_>> = job.iter().zip(&groups).enumerate().map(Rank::of).collect();
        compare(&ranks, &[0, 1], 2, &Partners::of(&ranks))
    }

    #[test]
    fn messages_in_both_directions_leave_an_interval() {
        // The second clock is 1,000 behind; a message takes 10 to arrive, 20 on the way back.
        let first: &Calls<'_> =
            &[("MPI_Send", 5000, 5001, Some((1, 0)), None), ("MPI_Recv", 5000, 5040, None, Some((1, 0)))];
        let second: &Calls<'_> =
            &[("MPI_Recv", 3990, 4010, None, Some((0, 0))), ("MPI_Send", 4020, 4021, Some((0, 0)), None)];
        assert_eq!(clocks([first, second]), Ok(HostClocks { offsets_ns: vec![0, 1005], error_ns: 15 }));
        assert!(clocks([&first[..1], &second[..1]]).unwrap_err().contains("no calls between 2 hosts"));
    }

    #[test]
    fn a_barrier_compares_both_ways_and_contradictions_are_found() {
        let barrier = |start, end| ("MPI_Barrier", start, end, None, None);
        assert_eq!(
            clocks([&[barrier(100, 130)], &[barrier(1110, 1130)]]),
            Ok(HostClocks { offsets_ns: vec![0, -1005], error_ns: 25 })
        );
        let drifted = clocks([&[barrier(100, 130), barrier(900, 905)], &[barrier(1110, 1130), barrier(2900, 2905)]]);
        assert!(drifted.unwrap_err().contains("different speeds"));
    }
}
