//! Waiting of ranks for one another, from the single calls of all of them.
//!
//! ```text
//!  receive ── waits for ──▶ its send (late sender)        matched in order by (from, to, tag)
//!  send    ── waits for ──▶ its receive, if it lasted till then (late receiver)
//!  collective ── waits for ▶ the last rank, or the root    matched by their order in the communicator
//! ```
//!
//! The rest of a call's time is transfer and the library's own work. The names are Scalasca's (its patterns of inefficiency).

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{self, Group};
use super::host_clocks;
use super::partners::{CallOf, Collective, Message, Partners, Placed, Rank};
use super::peers;
use rprof_profile::evidence::mpi::MpiCall;
use rprof_profile::function::Source;
use rprof_profile::mpi::{Mpi, RankCalls};
use rprof_profile::site_key::SiteKey;

/// Most calls that are matched: they all lie in memory.
const MOST_CALLS: usize = 100 << 20;

/// Why the waiting of a call site is not known though its times are.
const NOT_FOLLOWED: &str = "its partners are not known: some of its calls, or of those whose requests it may complete, receive from any \
                            source or with any tag, are persistent and start several at once, were cancelled perhaps, are nonblocking \
                            collectives, are one-sided, probe, or are in a communicator that is not followed (MPI_COMM_SELF, \
                            intercommunicators)";

/// What the calls of a rank have to do with others, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// Nanoseconds of waiting; `None`: not known.
    waited: Option<u64>,
    /// The rank that it waited longest for.
    late: Option<u32>,
    /// Bytes of the message that it received; `None`: not known.
    received: Option<u64>,
}

impl Found {
    /// It waited `ns` nanoseconds for `rank`, perhaps among others.
    fn wait(&mut self, ns: u64, rank: u32) {
        if self.waited.is_some_and(|waited| waited < ns) {
            (self.waited, self.late) = (Some(ns), Some(rank));
        }
    }
}

/// Splits the time of the call sites of each rank in `sites` (same order as `ranks`) into waiting and the rest, and reports what they
/// received, from which ranks, and how many ranks took part.
///
/// # Errors
/// Why it cannot: nothing is changed then.
pub fn split(ranks: &[RankCalls], sites: &mut [&mut Mpi]) -> Result<(), String> {
    if let Some(left_out) = ranks.iter().map(|rank| rank.left_out).max().filter(|n| *n > 0) {
        return Err(format!("a rank made {left_out} more calls than are kept one by one"));
    }
    if ranks.iter().map(|rank| rank.calls.len()).sum::<usize>() > MOST_CALLS {
        return Err("the ranks made more calls than can be compared at once".into());
    }
    if ranks.len() < 2 || ranks.iter().enumerate().any(|(i, rank)| rank.rank != Some(i as u32)) {
        return Err("ranks are missing, or did not ask for their number".into());
    }
    let groups = groups::groups(ranks);
    let hosts = ranks.iter().map(|rank| rank.host.as_str()).collect::<BTreeSet<_>>().len();
    let host = |rank: u32| ranks.get(rank as usize).map(|rank| rank.host.as_str());
    let clocks: Vec<&str> = ranks.iter().map(|rank| rank.clock.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    let clock_of: Vec<usize> =
        ranks.iter().map(|rank| clocks.iter().position(|name| *name == rank.clock).unwrap_or(0)).collect();
    let mut placed: Vec<Rank<'_>> = ranks.iter().zip(&groups).enumerate().map(Rank::of).collect();
    let partners = Partners::of(&placed);
    let compared = match clocks.len() {
        1 => Ok(None),
        several => host_clocks::compare(&placed, &clock_of, several, &partners).map(Some),
    };
    if let Ok(Some(found)) = &compared {
        placed.iter_mut().zip(&clock_of).for_each(|(rank, clock)| rank.shift(found.offsets_ns[*clock]));
    }
    let found = found(&placed, &partners);
    let without_peer = peers::without_peer(&placed, &partners);
    let with_peers = peers::messages(&placed, &partners).into_iter().zip(without_peer);
    let (clock_error_s, missing) = match compared {
        Ok(clocks) => (clocks.map(|clocks| clocks.error_ns as f64 / 1e9), None),
        Err(reason) => (None, Some(reason)),
    };
    for ((((rank, found), groups), mpi), (mut peers, without_peer)) in
        ranks.iter().zip(found).zip(&groups).zip(sites).zip(with_peers)
    {
        let mut of_site: BTreeMap<&SiteKey, OfSite> = BTreeMap::new();
        let mut of_roots: BTreeMap<&SiteKey, Vec<u64>> = BTreeMap::new();
        for (call, found) in rank.calls.iter().zip(found) {
            let Some(key) = rank.sites.get(call.site as usize) else { continue };
            let group = call.communicator.and_then(|i| groups.get(i as usize)?.as_ref());
            let members = group.map(|group| group.members.len() as u32);
            let is_far = hosts > 1 && far(call, group, host, &rank.host);
            let one = OfSite { found, members, far_calls: u64::from(is_far) };
            if let Some((late, ns)) = found.late.zip(found.waited) {
                peers::waited(&mut peers, call.site, late, ns);
            }
            of_site.entry(key).and_modify(|site| site.add(one)).or_insert(one);
            let bytes_of_root =
                || groups::bytes_of_root(call, &key.call, group?, rank.rank?).filter(|_| call.bytes.is_none());
            if let Some(bytes) = bytes_of_root() {
                of_roots.entry(key).or_default().push(bytes);
            }
        }
        for site in &mut mpi.sites {
            let of_site = of_site.get(&site.key());
            let waited = of_site.and_then(|site| site.found.waited).filter(|_| missing.is_none());
            site.waiting_s = waited.map(|ns| ns as f64 / 1e9);
            if waited.is_none() && missing.is_none() && site.timed_calls > 0 {
                site.source.insert("waiting_s".into(), Source::not_measured(NOT_FOLLOWED));
            }
            site.transfer_s = site.time_s.zip(site.waiting_s).map(|(time, waiting)| (time - waiting).max(0.0));
            site.received = of_site.and_then(|site| site.found.received);
            site.members = of_site.and_then(|site| site.members);
            site.far_calls = of_site.map(|site| site.far_calls);
            let known = of_roots.get(&site.key()).map_or(&[][..], Vec::as_slice);
            known.iter().for_each(|bytes| site.knows_bytes(*bytes));
        }
        peers::fill(mpi, rank, peers);
        mpi.calls_without_peer = without_peer;
        mpi.split_missing.clone_from(&missing);
        mpi.clock_error_s = clock_error_s;
    }
    Ok(())
}

/// Whether a partner of the call is on another host than its own.
fn far<'h>(call: &MpiCall, group: Option<&Group>, host: impl Fn(u32) -> Option<&'h str>, own: &str) -> bool {
    let Some(group) = group else { return false };
    let is_far = |rank: u32| host(rank).is_some_and(|host| host != own);
    let partners = [call.to, call.from].into_iter().flatten();
    let mut ranks = partners.filter_map(|(rank, _)| group.members.get(usize::try_from(rank).ok()?).copied()).peekable();
    match ranks.peek() {
        Some(_) => ranks.any(is_far),
        None if call.to.is_some() || call.from.is_some() => false,
        None => group.members.iter().copied().any(is_far),
    }
}

/// What the calls of one site have to do with others.
#[derive(Debug, Clone, Copy)]
struct OfSite {
    found: Found,
    members: Option<u32>,
    far_calls: u64,
}

impl OfSite {
    fn add(&mut self, other: OfSite) {
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        self.found.waited = both(self.found.waited, other.found.waited);
        self.found.received = both(self.found.received, other.found.received);
        self.members = self.members.filter(|_| self.members == other.members);
        self.far_calls += other.far_calls;
    }
}

/// By rank, in the order of its calls.
fn found(ranks: &[Rank<'_>], partners: &Partners) -> Vec<Vec<Found>> {
    let unmatched = |rank: &Rank<'_>, call: &Placed<'_>| {
        let is_received = call.from.is_some() || call.group.is_none() && rank.kind(call).receives;
        let waited = rank.kind(call).is_understood(call).then_some(0);
        Found { waited, late: None, received: (!is_received).then_some(0) }
    };
    let of_rank = |rank: &Rank<'_>| rank.calls.iter().map(|call| unmatched(rank, call)).collect();
    let mut found: Vec<Vec<Found>> = ranks.iter().map(of_rank).collect();
    messages(ranks, partners, &mut found);
    collectives(ranks, partners, &mut found);
    found
}

fn within(until_ns: u64, call: &Placed<'_>) -> u64 {
    until_ns.min(call.end_ns).saturating_sub(call.start_ns)
}

/// Waiting of messages.
fn messages(ranks: &[Rank<'_>], partners: &Partners, found: &mut [Vec<Found>]) {
    let mut arrivals: Vec<Vec<Awaited>> = vec![Vec::new(); ranks.len()];
    let mut late_receives: Vec<Vec<Awaited>> = vec![Vec::new(); ranks.len()];
    // A call that completes several may have waited for any of them.
    let mut unfollowed: Vec<bool> =
        ranks.iter().map(|rank| rank.calls.iter().any(|c| rank.kind(c).starts_unfollowed(c))).collect();
    for &(rank, i) in &partners.unmatched {
        let kind = ranks[rank].kind(&ranks[rank].calls[i]);
        if kind.is_nonblocking {
            unfollowed[rank] = true;
        } else {
            found[rank][i].waited = None;
        }
        if ranks[rank].calls[i].from.is_some() {
            found[rank][i].received = None;
        }
    }
    for ((rank, found), _) in ranks.iter().zip(found.iter_mut()).zip(&unfollowed).filter(|(_, unfollowed)| **unfollowed)
    {
        let completing = rank.calls.iter().zip(found).filter(|(call, _)| rank.kind(call).completes);
        completing.for_each(|(_, found)| found.waited = None);
    }
    for &Message { sent: (sender, sent), received: (receiver, i) } in &partners.messages {
        let (send, receive) = (ranks[sender].calls[sent], ranks[receiver].calls[i]);
        found[receiver][i].received = send.call.bytes;
        let (from, to) = (ranks[sender].number, ranks[receiver].number);
        if ranks[receiver].kind(&receive).is_nonblocking {
            arrivals[receiver].push(Awaited { posted_ns: receive.start_ns, until_ns: send.start_ns, rank: from });
        } else {
            found[receiver][i].wait(within(send.start_ns, &receive), from);
        }
        if ranks[sender].kind(&send).is_nonblocking {
            // The call that completes it right after may have waited for the receive.
            late_receives[sender].push(Awaited { posted_ns: send.start_ns, until_ns: receive.start_ns, rank: to });
        } else if send.end_ns >= receive.start_ns {
            // A send that lasts until its receive begins has waited for it.
            found[sender][sent].wait(within(receive.start_ns, &send), to);
        }
    }
    for (i, (rank, found)) in ranks.iter().zip(found).enumerate() {
        let completing = completing(rank);
        late_arrivals(rank, &completing, &arrivals[i], found);
        received_late(rank, &completing, &late_receives[i], found);
    }
}

/// A call that returned at once, and the rank that a later one may wait for because of it.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    /// When it started.
    posted_ns: u64,
    /// When the other one came.
    until_ns: u64,
    /// The other one.
    rank: u32,
}

/// The calls of a rank that complete others, in the order of their start.
fn completing(rank: &Rank<'_>) -> Vec<usize> {
    let is_one = |i: &usize| rank.kind(&rank.calls[*i]).completes;
    rank.order.iter().copied().filter(is_one).collect()
}

/// Messages for receives that returned at once are waited for in the first call that completes requests after they were sent.
/// `arrivals`: in the order of the receives.
fn late_arrivals(rank: &Rank<'_>, completing: &[usize], arrivals: &[Awaited], found: &mut [Found]) {
    for send in arrivals {
        let first = completing.partition_point(|&i| rank.calls[i].start_ns < send.posted_ns);
        let completes = completing[first..].iter().find(|&&i| rank.calls[i].end_ns >= send.until_ns);
        if let Some(&i) = completes {
            found[i].wait(within(send.until_ns, &rank.calls[i]), send.rank);
        }
    }
}

/// A send that returned at once is waited for until its receive began in the first call that completes requests after it, if that lasted
/// so long: a short message is taken over, and completes at once.
fn received_late(rank: &Rank<'_>, completing: &[usize], sends: &[Awaited], found: &mut [Found]) {
    for receive in sends {
        let first = completing.partition_point(|&i| rank.calls[i].start_ns < receive.posted_ns);
        if let Some(&i) = completing.get(first)
            && rank.calls[i].end_ns >= receive.until_ns
        {
            found[i].wait(within(receive.until_ns, &rank.calls[i]), receive.rank);
        }
    }
}

/// Waiting of collective calls.
fn collectives(ranks: &[Rank<'_>], partners: &Partners, found: &mut [Vec<Found>]) {
    for &(rank, i) in &partners.out_of_step {
        found[rank][i].waited = None;
    }
    for calls in &partners.rounds {
        let call = |(rank, i): (usize, usize)| &ranks[rank].calls[i];
        let Some(collective) = calls.first().and_then(|first| ranks[first.0].kind(call(*first)).collective) else {
            continue;
        };
        let last = |of: &[CallOf]| of.iter().copied().max_by_key(|of| call(*of).start_ns);
        for (own, &(rank, i)) in calls.iter().enumerate() {
            let root = call((rank, i)).root;
            let is_root = root == Some(rank as i32);
            let of_root = || calls.iter().copied().find(|(rank, _)| Some(*rank as i32) == root);
            let awaited = match collective {
                Collective::All => last(calls),
                Collective::FromRoot if !is_root => of_root(),
                Collective::ToRoot if is_root => last(calls),
                Collective::Prefix => last(&calls[..own]),
                Collective::FromRoot | Collective::ToRoot | Collective::Nonblocking => None,
            };
            if let Some(of) = awaited {
                found[rank][i].wait(within(call(of).start_ns, call((rank, i))), ranks[of.0].number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::mpi::{self as evidence, Communicator};
    use rprof_profile::mpi::CallSite;
    use rprof_profile::peer::Peer;

    fn waits(ranks: &[RankCalls]) -> Vec<Vec<Option<u64>>> {
        let groups = groups::groups(ranks);
        let ranks: Vec<Rank<'_>> = ranks.iter().zip(&groups).enumerate().map(Rank::of).collect();
        let found = found(&ranks, &Partners::of(&ranks));
        found.iter().map(|of_rank| of_rank.iter().map(|found| found.waited).collect()).collect()
    }

    fn key(call: &str) -> SiteKey {
        SiteKey { caller: "f".into(), module: "m".into(), site: "0x1".into(), call: call.into() }
    }

    /// A rank's calls, the i-th of site i: (function, start, end, to, from, root).
    type Made<'c> = (&'c str, u64, u64, Option<(i32, i32)>, Option<(i32, i32)>, Option<i32>);

    fn rank(number: u32, made: &[Made<'_>]) -> RankCalls {
        let calls = made.iter().enumerate().map(|(i, &(_, start_ns, end_ns, to, from, root))| MpiCall {
            site: i as u32,
            start_ns,
            end_ns,
            bytes: Some(8),
            bytes_of_root: None,
            to,
            from,
            root,
            communicator: Some(0),
        });
        RankCalls {
            rank: Some(number),
            job: None,
            host: "a".into(),
            clock: String::new(),
            calls: calls.collect(),
            communicators: vec![Communicator {
                made: evidence::Made::World,
                parent: 0,
                order: 0,
                size: None,
                rank: None,
            }],
            sites: made.iter().map(|made| key(made.0)).collect(),
            left_out: 0,
        }
    }

    #[test]
    fn a_receive_waits_for_its_send_and_a_long_send_for_its_receive() {
        let late_sender = rank(0, &[("MPI_Send", 100, 110, Some((1, 7)), None, None)]);
        let receiver = rank(1, &[("MPI_Recv", 20, 115, None, Some((0, 7)), None)]);
        assert_eq!(waits(&[late_sender, receiver]), [[Some(0)], [Some(80)]]);
        let sender = rank(0, &[("MPI_Ssend", 10, 60, Some((1, 7)), None, None)]);
        let late_receiver = rank(1, &[("MPI_Recv", 50, 60, None, Some((0, 7)), None)]);
        assert_eq!(waits(&[sender, late_receiver]), [[Some(40)], [Some(0)]]);
        let eager = rank(0, &[("MPI_Send", 10, 12, Some((1, 7)), None, None)]);
        let late_receiver = rank(1, &[("MPI_Recv", 50, 60, None, Some((0, 7)), None)]);
        assert_eq!(waits(&[eager, late_receiver]), [[Some(0)], [Some(0)]]);
    }

    #[test]
    fn a_probe_that_matches_takes_its_message() {
        let sender = |at: u64| ("MPI_Send", at, at + 5, Some((1, 7)), None, None);
        let sends = rank(0, &[sender(10), sender(100)]);
        let matched = rank(
            1,
            &[
                ("MPI_Mprobe", 8, 12, None, Some((0, 7)), None),
                ("MPI_Mrecv", 12, 14, None, None, None),
                ("MPI_Recv", 20, 110, None, Some((0, 7)), None),
            ],
        );
        assert_eq!(waits(&[sends.clone(), matched]), [vec![Some(0); 2], vec![Some(2), None, Some(80)]]);
        let tried =
            rank(1, &[("MPI_Improbe", 15, 16, None, None, None), ("MPI_Recv", 20, 110, None, Some((0, 7)), None)]);
        assert_eq!(waits(&[sends, tried])[1], [Some(0), None], "it may have taken the first one");
    }

    #[test]
    fn messages_overtake_only_those_of_other_tags() {
        let sender = rank(
            0,
            &[("MPI_Send", 100, 101, Some((1, 7)), None, None), ("MPI_Send", 200, 201, Some((1, 8)), None, None)],
        );
        let receiver = rank(
            1,
            &[("MPI_Recv", 50, 205, None, Some((0, 8)), None), ("MPI_Recv", 206, 207, None, Some((0, 7)), None)],
        );
        assert_eq!(waits(&[sender.clone(), receiver])[1], [Some(150), Some(0)]);
        let from_anybody = rank(1, &[("MPI_Recv", 50, 205, None, Some((-1, 8)), None)]);
        assert_eq!(waits(&[sender, from_anybody])[1], [None]);
    }

    #[test]
    fn a_message_received_later_is_waited_for_where_its_request_is_completed() {
        let sender = rank(0, &[("MPI_Isend", 100, 101, Some((1, 7)), None, None)]);
        let receiver =
            rank(1, &[("MPI_Irecv", 10, 11, None, Some((0, 7)), None), ("MPI_Waitall", 60, 110, None, None, None)]);
        assert_eq!(waits(&[sender, receiver])[1], [Some(0), Some(40)]);
    }

    #[test]
    fn whom_a_rank_waited_for_is_known_by_site() {
        let sender =
            rank(0, &[("MPI_Isend", 100, 101, Some((1, 7)), None, None), ("MPI_Barrier", 110, 301, None, None, None)]);
        let receiver = rank(
            1,
            &[
                ("MPI_Irecv", 10, 11, None, Some((0, 7)), None),
                ("MPI_Waitall", 60, 110, None, None, None),
                ("MPI_Barrier", 120, 301, None, None, None),
            ],
        );
        let last = rank(2, &[("MPI_Barrier", 300, 301, None, None, None)]);
        let ranks = [sender, receiver, last];
        let mut mpis = ranks.each_ref().map(|rank| Mpi {
            sites: rank
                .sites
                .iter()
                .map(|of| CallSite { call: of.call.clone(), time_s: Some(1.0), ..site(of) })
                .collect(),
            ..Mpi::default()
        });
        split(&ranks, &mut mpis.each_mut()).unwrap();
        let shown = |mpi: &Mpi| -> Vec<String> {
            let one = |of: &Peer| {
                let waiting_ns = of.waiting_s.map_or(-1.0, |s| s * 1e9);
                format!("{} {} {waiting_ns:.0} {}/{}", of.peer, of.site.call, of.sent.messages, of.received.messages)
            };
            mpi.peers.iter().map(one).collect()
        };
        assert_eq!(shown(&mpis[0]), ["1 MPI_Isend 0 1/0", "2 MPI_Barrier 190 0/0"]);
        assert_eq!(shown(&mpis[1]), ["0 MPI_Irecv 0 0/1", "0 MPI_Waitall 40 0/0", "2 MPI_Barrier 180 0/0"]);
        assert_eq!(shown(&mpis[2]), Vec::<String>::new());
    }

    #[test]
    fn a_prepared_message_is_sent_and_received_where_it_is_started() {
        let sender = rank(0, &[("MPI_Start", 100, 101, Some((1, 7)), None, None)]);
        let prepare = ("MPI_Recv_init", 5, 6, None, None, None);
        let start = ("MPI_Start", 10, 11, None, Some((0, 7)), None);
        let receiver = rank(1, &[prepare, start, ("MPI_Wait", 60, 110, None, None, None)]);
        assert_eq!(waits(&[sender, receiver]), [vec![Some(0)], vec![Some(0), Some(0), Some(40)]]);
    }

    #[test]
    fn messages_of_a_rank_that_cancels_are_not_matched() {
        let send = |at: u64| ("MPI_Send", at, at + 5, Some((1, 7)), None, None);
        let cancelled = [
            ("MPI_Irecv", 10, 11, None, Some((0, 7)), None),
            ("MPI_Cancel", 11, 12, None, None, None),
            ("MPI_Wait", 12, 13, None, None, None),
            ("MPI_Recv", 20, 110, None, Some((0, 7)), None),
        ];
        let receiver = rank(1, &cancelled);
        let expected = [vec![None], vec![Some(0), Some(0), None, None]];
        assert_eq!(waits(&[rank(0, &[send(100)]), receiver.clone()]), expected);
        let ranks = [rank(0, &[send(100)]), receiver];
        let groups = groups::groups(&ranks);
        let placed: Vec<Rank<'_>> = ranks.iter().zip(&groups).enumerate().map(Rank::of).collect();
        assert_eq!(peers::without_peer(&placed, &Partners::of(&placed)), [0, 2]);
    }

    #[test]
    fn what_is_not_followed_is_not_known() {
        let wait = ("MPI_Wait", 60, 110, None, None, None);
        let other = rank(1, &[("MPI_Ibarrier", 100, 101, None, None, None)]);
        let nonblocking = rank(0, &[("MPI_Ibarrier", 10, 11, None, None, None), wait]);
        assert_eq!(waits(&[nonblocking, other.clone()])[0], [Some(0), None]);
        let mut prepared = rank(0, &[("MPI_Start", 10, 11, None, None, None), wait]);
        prepared.calls[0].communicator = None;
        assert_eq!(waits(&[prepared, other.clone()])[0], [Some(0), None]);
        let made = rank(0, &[("MPI_Intercomm_create", 10, 90, None, None, None)]);
        assert_eq!(waits(&[made, other])[0], [None]);
        // Any rank may have received the first, so it is not known what the send waited for.
        let sender = rank(0, &[("MPI_Send", 10, 90, Some((1, 7)), None, None)]);
        let from_anybody = rank(1, &[("MPI_Recv", 80, 90, None, Some((-1, 7)), None)]);
        assert_eq!(waits(&[sender, from_anybody]), [[None], [None]]);
    }

    #[test]
    fn a_long_message_that_was_sent_at_once_waits_for_its_receive_where_it_is_completed() {
        let sender =
            |end| rank(0, &[("MPI_Isend", 10, 11, Some((1, 7)), None, None), ("MPI_Wait", 12, end, None, None, None)]);
        let late = rank(1, &[("MPI_Recv", 50, 60, None, Some((0, 7)), None)]);
        assert_eq!(waits(&[sender(60), late.clone()])[0], [Some(0), Some(38)]);
        assert_eq!(waits(&[sender(13), late])[0], [Some(0), Some(0)], "it was taken over");
    }

    #[test]
    fn collectives_wait_for_the_last_rank_or_for_the_root() {
        let both = |call: &'static str, root| {
            let first = rank(0, &[(call, 10, 100, None, None, root)]);
            let second = rank(1, &[(call, 70, 100, None, None, root)]);
            let waits = waits(&[first, second]);
            [waits[0][0], waits[1][0]]
        };
        assert_eq!(both("MPI_Barrier", None), [Some(60), Some(0)]);
        assert_eq!(both("MPI_Allreduce_c", None), [Some(60), Some(0)]);
        assert_eq!(both("MPI_Bcast", Some(1)), [Some(60), Some(0)]);
        assert_eq!(both("MPI_Bcast", Some(0)), [Some(0), Some(0)]);
        assert_eq!(both("MPI_Reduce", Some(0)), [Some(60), Some(0)]);
        assert_eq!(both("MPI_Reduce", Some(1)), [Some(0), Some(0)]);
        assert_eq!(both("MPI_Scan", None), [Some(0), Some(0)]);
        assert_eq!(both("MPI_Iallreduce", None), [Some(0), Some(0)]);
        assert_eq!(both("MPI_Win_fence", None), [None, None]);
    }

    #[test]
    fn ranks_that_call_different_things_are_not_compared_from_there_on() {
        let first = rank(0, &[("MPI_Barrier", 10, 50, None, None, None), ("MPI_Barrier", 60, 70, None, None, None)]);
        let second = rank(1, &[("MPI_Barrier", 40, 50, None, None, None)]);
        assert_eq!(waits(&[first, second]), [vec![Some(30), None], vec![Some(0)]]);
    }

    #[test]
    fn what_cannot_be_compared_says_why() {
        let mut mpis = [Mpi::default(), Mpi::default()];
        let mut refusal = |ranks: [RankCalls; 2]| {
            let [a, b] = &mut mpis;
            split(&ranks, &mut [a, b]).unwrap_err()
        };
        assert!(refusal([rank(0, &[]), rank(0, &[])]).contains("missing"));
        assert!(refusal([rank(0, &[]), RankCalls { left_out: 3, ..rank(1, &[]) }]).contains("3 more calls"));
        let elsewhere = RankCalls { host: "b".into(), clock: "b".into(), ..rank(1, &[]) };
        let [a, b] = &mut mpis;
        split(&[rank(0, &[]), elsewhere], &mut [a, b]).unwrap();
        assert!(mpis[0].split_missing.as_ref().unwrap().contains("no calls between 2 hosts"));
    }

    #[test]
    fn ranks_of_a_part_wait_for_one_another_and_a_receive_knows_its_bytes() {
        let part = |number: u32, made: &[Made<'_>]| {
            let mut rank = rank(number, made);
            let split = evidence::Made::Split { color: i32::from(number > 0), key: 0 };
            rank.communicators.push(Communicator { made: split, parent: 0, order: 0, size: None, rank: None });
            rank.calls.iter_mut().for_each(|call| call.communicator = Some(1));
            rank
        };
        let ranks = [
            part(0, &[("MPI_Barrier", 5, 9, None, None, None)]),
            part(1, &[("MPI_Bcast", 10, 20, None, None, Some(1)), ("MPI_Send", 30, 31, Some((1, 0)), None, None)]),
            part(2, &[("MPI_Bcast", 15, 20, None, None, Some(1)), ("MPI_Recv", 25, 35, None, Some((0, 0)), None)]),
        ];
        assert_eq!(waits(&ranks), [vec![Some(0)], vec![Some(5), Some(0)], vec![Some(0), Some(5)]]);
        let mut mpis = ranks.each_ref().map(|rank| Mpi {
            sites: rank.sites.iter().map(|key| CallSite { call: key.call.clone(), ..site(key) }).collect(),
            ..Mpi::default()
        });
        let [a, b, c] = &mut mpis;
        split(&ranks, &mut [a, b, c]).unwrap();
        let received = |mpi: &Mpi| mpi.sites.iter().map(|site| (site.received, site.members)).collect::<Vec<_>>();
        assert_eq!(received(&mpis[0]), [(Some(0), Some(1))]);
        assert_eq!(received(&mpis[2]), [(Some(0), Some(2)), (Some(8), Some(2))]);
    }

    #[test]
    fn the_job_knows_who_is_the_root_of_a_part() {
        let part = |number: u32| {
            let mut rank = rank(number, &[("MPI_Bcast", 10, 20, None, None, Some(1))]);
            let split = evidence::Made::Split { color: 0, key: -(number as i32) };
            rank.communicators.push(Communicator { made: split, parent: 0, order: 0, size: None, rank: None });
            let call = &mut rank.calls[0];
            (call.communicator, call.bytes, call.bytes_of_root) = (Some(1), None, Some(800));
            rank
        };
        let ranks = [part(0), part(1)];
        let mut mpis = ranks.each_ref().map(|rank| {
            let unknown =
                CallSite { call: "MPI_Bcast".into(), calls: Some(1), unknown_calls: 1, ..site(&rank.sites[0]) };
            Mpi { sites: vec![unknown], ..Mpi::default() }
        });
        let [a, b] = &mut mpis;
        split(&ranks, &mut [a, b]).unwrap();
        // By their keys the second rank is the first there.
        assert_eq!(mpis.each_ref().map(|mpi| mpi.sites[0].bytes), [Some(800), Some(0)]);
        assert_eq!(mpis[0].sites[0].sizes, [rprof_profile::mpi::SizeClass(512, 1, 800)]);
    }

    fn site(key: &SiteKey) -> CallSite {
        CallSite {
            caller: key.caller.clone(),
            module: key.module.clone(),
            site: key.site.clone(),
            ..CallSite::default()
        }
    }
}
