//! What ranks waited for one another, from the single calls of all of them.
//!
//! ```text
//!  receive ── waits for ──▶ its send (late sender)        matched in order by (from, to, tag)
//!  send    ── waits for ──▶ its receive, if it lasted till then (late receiver)
//!  collective ── waits for ▶ the last rank, or the root    matched by their order in MPI_COMM_WORLD
//! ```
//!
//! The rest of a call's time is transfer and the library's own work. The names are Scalasca's (its patterns of inefficiency).

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::profile::evidence::mpi::MpiCall;
use crate::profile::mpi::{Mpi, RankCalls, SiteKey};

/// Most calls that are matched: they all lie in memory.
const MOST_CALLS: usize = 100 << 20;

/// Whom a collective call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Collective {
    /// Every rank for the last one.
    All,
    /// The others for the root.
    FromRoot,
    /// The root for the others.
    ToRoot,
    /// Each rank for those before it.
    Prefix,
    /// Nobody: it returns at once.
    Nonblocking,
}

fn collective(call: &str) -> Option<Collective> {
    let name = call.strip_prefix("MPI_")?;
    let name = name.strip_suffix("_c").unwrap_or(name);
    Some(match name {
        "Barrier"
        | "Allreduce"
        | "Allgather"
        | "Allgatherv"
        | "Alltoall"
        | "Alltoallv"
        | "Alltoallw"
        | "Reduce_scatter"
        | "Reduce_scatter_block" => Collective::All,
        "Bcast" | "Scatter" | "Scatterv" => Collective::FromRoot,
        "Reduce" | "Gather" | "Gatherv" => Collective::ToRoot,
        "Scan" | "Exscan" => Collective::Prefix,
        "Ibarrier"
        | "Iallreduce"
        | "Iallgather"
        | "Iallgatherv"
        | "Ialltoall"
        | "Ialltoallv"
        | "Ialltoallw"
        | "Ireduce_scatter"
        | "Ireduce_scatter_block"
        | "Ibcast"
        | "Iscatter"
        | "Iscatterv"
        | "Ireduce"
        | "Igather"
        | "Igatherv"
        | "Iscan"
        | "Iexscan" => Collective::Nonblocking,
        _ => return None,
    })
}

/// Whether the call returns before its message has arrived.
fn is_nonblocking(call: &str) -> bool {
    call.strip_prefix("MPI_I").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        && !call.starts_with("MPI_Init")
}

fn completes(call: &str) -> bool {
    ["MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"].contains(&call)
}

/// What a function of MPI does, as far as waiting is concerned.
#[derive(Debug, Clone, Copy)]
struct Kind<'c> {
    name: &'c str,
    collective: Option<Collective>,
    is_nonblocking: bool,
    completes: bool,
}

impl<'c> Kind<'c> {
    fn of(name: &'c str) -> Kind<'c> {
        let (collective, is_nonblocking, completes) = (collective(name), is_nonblocking(name), completes(name));
        Kind { name, collective, is_nonblocking, completes }
    }

    /// Whether `call` never waits for another rank, or its waiting is found with its partners.
    fn is_understood(&self, call: &MpiCall) -> bool {
        let has_partners = self.collective.is_some() || call.to.is_some() || call.from.is_some();
        has_partners && call.in_world
            || self.completes
            || self.is_nonblocking
            || ["MPI_Test", "MPI_Iprobe", "MPI_Start"].iter().any(|name| self.name.starts_with(name))
    }
}

/// The calls of one rank, with the kinds of its call sites.
struct Rank<'r> {
    number: Option<u32>,
    calls: &'r [MpiCall],
    kinds: Vec<Kind<'r>>,
}

impl<'r> Rank<'r> {
    fn of(rank: &'r RankCalls) -> Rank<'r> {
        let kinds = rank.sites.iter().map(|site| Kind::of(&site.call)).collect();
        Rank { number: rank.rank, calls: &rank.calls, kinds }
    }

    fn kind(&self, call: &MpiCall) -> Kind<'r> {
        self.kinds.get(call.site as usize).copied().unwrap_or(Kind::of(""))
    }
}

/// Nanoseconds of waiting by call, in the order of each rank's calls; `None`: not known.
type Waits = Vec<Vec<Option<u64>>>;

/// Splits the time of the call sites of each rank in `sites` (same order as `ranks`) into waiting and the rest.
///
/// # Errors
/// Why it cannot: nothing is changed then.
pub fn split(ranks: &[RankCalls], sites: &mut [&mut Mpi]) -> Result<(), String> {
    let hosts = ranks.iter().map(|rank| rank.host.as_str()).collect::<std::collections::BTreeSet<_>>();
    if hosts.len() > 1 {
        return Err(format!("the clocks of {} hosts are not compared", hosts.len()));
    }
    if let Some(left_out) = ranks.iter().map(|rank| rank.left_out).max().filter(|n| *n > 0) {
        return Err(format!("a rank made {left_out} more calls than are kept one by one"));
    }
    if ranks.iter().map(|rank| rank.calls.len()).sum::<usize>() > MOST_CALLS {
        return Err("the ranks made more calls than can be compared at once".into());
    }
    let mut numbers: Vec<u32> = ranks.iter().filter_map(|rank| rank.rank).collect();
    numbers.sort_unstable();
    if numbers.len() < 2 || numbers.iter().enumerate().any(|(i, n)| i as u32 != *n) {
        return Err("ranks are missing, or did not ask for their number".into());
    }
    let waits = waits(ranks);
    for ((rank, waits), mpi) in ranks.iter().zip(waits).zip(sites) {
        let mut of_site: BTreeMap<&SiteKey, Option<u64>> = BTreeMap::new();
        for (call, wait) in rank.calls.iter().zip(waits) {
            let Some(key) = rank.sites.get(call.site as usize) else { continue };
            let sum = of_site.entry(key).or_insert(Some(0));
            *sum = sum.zip(wait).map(|(a, b)| a + b);
        }
        for site in &mut mpi.sites {
            site.waiting_s = of_site.get(&site.key()).copied().flatten().map(|ns| ns as f64 / 1e9);
            site.transfer_s = site.time_s.zip(site.waiting_s).map(|(time, waiting)| (time - waiting).max(0.0));
        }
        mpi.split_missing = None;
    }
    Ok(())
}

fn waits(ranks: &[RankCalls]) -> Waits {
    let ranks: Vec<Rank<'_>> = ranks.iter().map(Rank::of).collect();
    let of_rank =
        |rank: &Rank<'_>| rank.calls.iter().map(|call| rank.kind(call).is_understood(call).then_some(0)).collect();
    let mut waits: Waits = ranks.iter().map(of_rank).collect();
    messages(&ranks, &mut waits);
    collectives(&ranks, &mut waits);
    waits
}

/// The indices of a rank's calls in the order of their start.
fn by_start(calls: &[MpiCall]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&i| calls[i].start_ns);
    order
}

fn within(until_ns: u64, call: &MpiCall) -> u64 {
    until_ns.min(call.end_ns).saturating_sub(call.start_ns)
}

fn messages(ranks: &[Rank<'_>], waits: &mut Waits) {
    // (from, to, tag) → sends in order: (rank's place in `ranks`, call).
    let mut sends: HashMap<(i32, i32, i32), VecDeque<(usize, usize)>> = HashMap::new();
    for (place, rank) in ranks.iter().enumerate() {
        for i in by_start(rank.calls) {
            let call = &rank.calls[i];
            if let (Some((to, tag)), Some(from), true) = (call.to, rank.number, call.in_world) {
                sends.entry((from as i32, to, tag)).or_default().push_back((place, i));
            }
        }
    }
    for (place, rank) in ranks.iter().enumerate() {
        let receives = || rank.calls.iter().filter(|call| call.in_world && call.from.is_some());
        // A receive from anybody takes a message that belongs to no queue for sure.
        let takes_any = receives().any(|call| call.from.is_some_and(|(from, tag)| from < 0 || tag < 0));
        let order = by_start(rank.calls);
        let mut arrivals: Vec<(u64, u64)> = Vec::new();
        for &i in &order {
            let call = &rank.calls[i];
            let (Some((from, tag)), Some(to), true) = (call.from, rank.number, call.in_world) else { continue };
            let send =
                if takes_any { None } else { sends.get_mut(&(from, to as i32, tag)).and_then(VecDeque::pop_front) };
            let Some((sender, sent)) = send else {
                waits[place][i] = None;
                continue;
            };
            let send = ranks[sender].calls[sent];
            if rank.kind(call).is_nonblocking {
                arrivals.push((call.start_ns, send.start_ns));
            } else if let Some(wait) = &mut waits[place][i] {
                *wait = (*wait).max(within(send.start_ns, call));
            }
            // A send that lasts until its receive begins has waited for it.
            let blocks = !ranks[sender].kind(&send).is_nonblocking;
            if blocks
                && send.end_ns >= call.start_ns
                && let Some(wait) = &mut waits[sender][sent]
            {
                *wait = (*wait).max(within(call.start_ns, &send));
            }
        }
        late_arrivals(rank, &order, &arrivals, &mut waits[place]);
    }
}

/// Messages for receives that returned at once are waited for in the first call that completes requests after they were sent.
/// `arrivals`: (receive's start, send's start), in order of the former.
fn late_arrivals(rank: &Rank<'_>, order: &[usize], arrivals: &[(u64, u64)], waits: &mut [Option<u64>]) {
    let completing: Vec<usize> = order.iter().copied().filter(|&i| rank.kind(&rank.calls[i]).completes).collect();
    for &(received_ns, sent_ns) in arrivals {
        let first = completing.partition_point(|&i| rank.calls[i].start_ns < received_ns);
        let found = completing[first..].iter().find(|&&i| rank.calls[i].end_ns >= sent_ns);
        if let Some(&i) = found
            && let Some(wait) = &mut waits[i]
        {
            *wait = (*wait).max(within(sent_ns, &rank.calls[i]));
        }
    }
}

fn collectives(ranks: &[Rank<'_>], waits: &mut Waits) {
    let of_rank = |rank: &Rank<'_>| -> Vec<usize> {
        let is_one = |i: &usize| rank.calls[*i].in_world && rank.kind(&rank.calls[*i]).collective.is_some();
        by_start(rank.calls).into_iter().filter(is_one).collect()
    };
    let sequences: Vec<Vec<usize>> = ranks.iter().map(of_rank).collect();
    let rounds = sequences.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        let calls: Vec<Option<usize>> = sequences.iter().map(|sequence| sequence.get(round).copied()).collect();
        let kinds: Vec<Kind<'_>> =
            ranks.iter().zip(&calls).filter_map(|(rank, i)| Some(rank.kind(&rank.calls[(*i)?]))).collect();
        let is_one_call = kinds.len() == ranks.len() && kinds.iter().all(|other| other.name == kinds[0].name);
        if !is_one_call {
            // From here on the order says nothing.
            for (place, sequence) in sequences.iter().enumerate() {
                sequence[round.min(sequence.len())..].iter().for_each(|&i| waits[place][i] = None);
            }
            return;
        }
        let Some(kind) = kinds[0].collective else { continue };
        let started: Vec<(u32, u64)> = calls
            .iter()
            .enumerate()
            .filter_map(|(place, i)| Some((ranks[place].number?, ranks[place].calls[(*i)?].start_ns)))
            .collect();
        let last = |before: u32| started.iter().filter(|(rank, _)| *rank < before).map(|(_, ns)| *ns).max();
        for (place, i) in calls.iter().enumerate() {
            let (Some(i), Some(own)) = (*i, ranks[place].number) else { continue };
            let call = &ranks[place].calls[i];
            let is_root = call.root == Some(own as i32);
            let of_root = || started.iter().find(|(rank, _)| Some(*rank as i32) == call.root).map(|(_, ns)| *ns);
            let until = match kind {
                Collective::All => last(u32::MAX),
                Collective::FromRoot if !is_root => of_root(),
                Collective::ToRoot if is_root => last(u32::MAX),
                Collective::Prefix => last(own),
                Collective::FromRoot | Collective::ToRoot | Collective::Nonblocking => None,
            };
            if let (Some(until), Some(wait)) = (until, &mut waits[place][i]) {
                *wait = within(until, call);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call: &str) -> SiteKey {
        SiteKey { caller: "f".into(), module: "m".into(), site: "0x1".into(), call: call.into() }
    }

    /// A rank whose i-th call is of its i-th site: (function, start, end, to, from, root).
    type Made<'c> = (&'c str, u64, u64, Option<(i32, i32)>, Option<(i32, i32)>, Option<i32>);

    fn rank(number: u32, made: &[Made<'_>]) -> RankCalls {
        let calls = made.iter().enumerate().map(|(i, &(_, start_ns, end_ns, to, from, root))| MpiCall {
            site: i as u32,
            start_ns,
            end_ns,
            bytes: Some(8),
            to,
            from,
            root,
            in_world: true,
        });
        RankCalls {
            rank: Some(number),
            host: "a".into(),
            calls: calls.collect(),
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
        let elsewhere = RankCalls { host: "b".into(), ..rank(1, &[]) };
        assert!(refusal([rank(0, &[]), elsewhere]).contains("clocks of 2 hosts"));
        assert!(refusal([rank(0, &[]), rank(0, &[])]).contains("missing"));
        assert!(refusal([rank(0, &[]), RankCalls { left_out: 3, ..rank(1, &[]) }]).contains("3 more calls"));
    }
}
