//! Which calls of which ranks belong together: a message's send and receive, and the calls of a collective.
//!
//! Messages are matched in the order of their starts by (communicator, sender, receiver, tag), collective calls by their order in the
//! communicator. Only each rank's own clock orders its calls.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::groups::Group;
use rprof_profile::evidence::mpi::MpiCall;
use rprof_profile::mpi::RankCalls;
use rprof_profile::mpi_name::MpiName;

/// The ranks that a collective call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// Every rank for the last one.
    All,
    /// The others for the root.
    FromRoot,
    /// The root for the others.
    ToRoot,
    /// Each rank for those before it.
    Prefix,
    /// None: it returns at once.
    Nonblocking,
}

fn collective(name: MpiName<'_>) -> Option<Collective> {
    let blocking = match &*name.blocking() {
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
        _ => return None,
    };
    Some(if name.is_nonblocking { Collective::Nonblocking } else { blocking })
}

fn completes(call: &str) -> bool {
    ["MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"].contains(&call)
}

/// Whether the call receives a message, or starts to.
fn receives(call: &str) -> bool {
    let name = call.strip_prefix("MPI_").unwrap_or(call).to_ascii_lowercase();
    name.contains("recv") || name.starts_with("start")
}

/// They prepare a message, without any exchange.
const PREPARE: [&str; 5] = ["MPI_Send_init", "MPI_Bsend_init", "MPI_Ssend_init", "MPI_Rsend_init", "MPI_Recv_init"];

/// What a function of MPI does, as far as waiting is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'c> {
    pub name: &'c str,
    pub collective: Option<Collective>,
    pub is_nonblocking: bool,
    pub completes: bool,
    pub receives: bool,
    /// It may take a message; whether it does, and from which rank, is not known.
    pub may_take_any: bool,
    /// It may undo a receive or a send before, which one is not known.
    pub cancels: bool,
    /// It starts a prepared message or collective call.
    pub starts_prepared: bool,
    /// It starts something that a later call waits for, which is not followed: a collective call.
    starts_unfollowed: bool,
}

impl<'c> Kind<'c> {
    pub fn of(name: &'c str) -> Kind<'c> {
        let of_mpi = MpiName::of(name);
        let collective = of_mpi.and_then(collective);
        let starts_prepared = name.starts_with("MPI_Start");
        Kind {
            name,
            collective,
            is_nonblocking: starts_prepared || of_mpi.is_some_and(|of_mpi| of_mpi.is_nonblocking),
            completes: completes(name),
            receives: receives(name),
            may_take_any: name == "MPI_Improbe",
            cancels: name == "MPI_Cancel",
            starts_prepared,
            starts_unfollowed: collective == Some(Collective::Nonblocking) || name.starts_with("MPI_Comm_idup"),
        }
    }

    /// Whether `call` starts something that a later call waits for, which is not followed.
    pub fn starts_unfollowed(&self, call: &Placed<'_>) -> bool {
        self.starts_unfollowed || self.starts_prepared && call.group.is_none()
    }

    /// Whether `call` never waits for another rank, or its waiting is found with its partners.
    pub fn is_understood(&self, call: &Placed<'_>) -> bool {
        let has_partners = self.collective.is_some() || call.to.is_some() || call.from.is_some();
        has_partners && call.group.is_some()
            || self.completes
            || self.is_nonblocking
            || ["MPI_Test", "MPI_Iprobe", "MPI_Cancel"].iter().any(|name| self.name.starts_with(name))
            || PREPARE.contains(&self.name)
    }
}

/// A call with its partners, by their ranks in `MPI_COMM_WORLD`.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'r> {
    pub call: &'r MpiCall,
    /// Nanoseconds at its start and at its end, on the clock that all ranks are compared by.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Its communicator; `None`: not known.
    pub group: Option<&'r Group>,
    /// (rank, tag)
    pub to: Option<(i32, i32)>,
    /// (rank, tag); negative: any rank.
    pub from: Option<(i32, i32)>,
    pub root: Option<i32>,
}

impl<'r> Placed<'r> {
    pub fn of(call: &'r MpiCall, groups: &'r [Option<Group>]) -> Placed<'r> {
        let group = call.communicator.and_then(|i| groups.get(i as usize)?.as_ref());
        let in_world = |rank: i32| -> i32 {
            let member = group.and_then(|group| group.members.get(usize::try_from(rank).ok()?));
            member.map_or(-1, |rank| *rank as i32)
        };
        let side = |(rank, tag): (i32, i32)| (in_world(rank), tag);
        let (start_ns, end_ns) = (call.start_ns, call.end_ns);
        let (to, from, root) = (call.to.map(side), call.from.map(side), call.root.map(in_world));
        Placed { call, start_ns, end_ns, group, to, from, root }
    }
}

/// The calls of one rank, with the kinds of its call sites.
pub struct Rank<'r> {
    pub number: u32,
    pub calls: Vec<Placed<'r>>,
    pub kinds: Vec<Kind<'r>>,
    /// The indices of `calls` in the order of their start.
    pub order: Vec<usize>,
}

impl<'r> Rank<'r> {
    pub fn of((number, (rank, groups)): (usize, (&'r RankCalls, &'r Vec<Option<Group>>))) -> Rank<'r> {
        let kinds = rank.sites.iter().map(|site| Kind::of(&site.call)).collect();
        let calls: Vec<Placed<'_>> = rank.calls.iter().map(|call| Placed::of(call, groups)).collect();
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|&i| calls[i].start_ns);
        Rank { number: number as u32, calls, kinds, order }
    }

    /// Moves its calls by `offset_ns` nanoseconds.
    pub fn shift(&mut self, offset_ns: i64) {
        for call in &mut self.calls {
            call.start_ns = call.start_ns.saturating_add_signed(offset_ns);
            call.end_ns = call.end_ns.saturating_add_signed(offset_ns);
        }
    }

    pub fn kind(&self, call: &Placed<'_>) -> Kind<'r> {
        self.kinds.get(call.call.site as usize).copied().unwrap_or(Kind::of(""))
    }
}

/// A call: (place of the rank, index of its call).
pub type CallOf = (usize, usize);

/// A message that was sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    pub sent: CallOf,
    pub received: CallOf,
}

/// The calls that belong together.
#[derive(Debug, Default)]
pub struct Partners {
    /// Messages, those of one receiver in the order of its receives.
    pub messages: Vec<Message>,
    /// Receives without a known send, and sends without a known receive.
    pub unmatched: Vec<CallOf>,
    /// Collective calls: one of each member of the communicator, in its order.
    pub rounds: Vec<Vec<CallOf>>,
    /// Collective calls from where the members of a communicator differ in what they call.
    pub out_of_step: Vec<CallOf>,
}

/// (communicator, from, to, tag); ranks of `MPI_COMM_WORLD`.
type Queue = (u32, i32, i32, i32);

impl Partners {
    /// Of all ranks of a job, by their number.
    pub fn of(ranks: &[Rank<'_>]) -> Partners {
        let mut partners = Partners::default();
        partners.match_messages(ranks);
        partners.match_collectives(ranks);
        partners
    }

    fn match_messages(&mut self, ranks: &[Rank<'_>]) {
        let mut sends: HashMap<Queue, VecDeque<CallOf>> = HashMap::new();
        let cancels: Vec<bool> = ranks.iter().map(|rank| rank.calls.iter().any(|c| rank.kind(c).cancels)).collect();
        for (sender, rank) in ranks.iter().enumerate() {
            for &i in &rank.order {
                let call = &rank.calls[i];
                if cancels[sender] && call.to.is_some() {
                    self.unmatched.push((sender, i));
                } else if let (Some((to, tag)), Some(group)) = (call.to, call.group) {
                    sends.entry((group.id, rank.number as i32, to, tag)).or_default().push_back((sender, i));
                }
            }
        }
        for (receiver, rank) in ranks.iter().enumerate() {
            let received = |call: &Placed<'_>| Some((call.group?.id, call.from?));
            // A receive from any rank takes a message that belongs to no queue for sure.
            let is_any = |(group, (from, tag)): (u32, (i32, i32))| (from < 0 || tag < 0).then_some(group);
            let takes_any: BTreeSet<u32> = rank.calls.iter().filter_map(received).filter_map(is_any).collect();
            let in_all = cancels[receiver] || rank.calls.iter().any(|call| rank.kind(call).may_take_any);
            for &i in &rank.order {
                let Some((group, (from, tag))) = received(&rank.calls[i]) else { continue };
                let queue = (!in_all && !takes_any.contains(&group))
                    .then(|| sends.get_mut(&(group, from, rank.number as i32, tag)));
                match queue.flatten().and_then(VecDeque::pop_front) {
                    Some(sent) => self.messages.push(Message { sent, received: (receiver, i) }),
                    None => self.unmatched.push((receiver, i)),
                }
            }
        }
        self.unmatched.extend(sends.into_values().flatten());
    }

    fn match_collectives(&mut self, ranks: &[Rank<'_>]) {
        // By communicator: its ranks, and the collective calls of each in order.
        let mut sequences: BTreeMap<u32, (&[u32], Vec<Vec<usize>>)> = BTreeMap::new();
        for (place, rank) in ranks.iter().enumerate() {
            for &i in &rank.order {
                let call = &rank.calls[i];
                let Some(group) = call.group.filter(|_| rank.kind(call).collective.is_some()) else { continue };
                let new = || (&*group.members, vec![Vec::new(); group.members.len()]);
                let (members, calls) = sequences.entry(group.id).or_insert_with(new);
                if let Some(own) = members.iter().position(|member| *member as usize == place) {
                    calls[own].push(i);
                }
            }
        }
        for (members, calls) in sequences.into_values() {
            self.match_communicator(ranks, members, &calls);
        }
    }

    /// `sequences`: for each of `members`, its collective calls in order.
    fn match_communicator(&mut self, ranks: &[Rank<'_>], members: &[u32], sequences: &[Vec<usize>]) {
        let rounds = sequences.iter().map(Vec::len).max().unwrap_or(0);
        for round in 0..rounds {
            let of_round = |(rank, calls): (&u32, &Vec<usize>)| Some((*rank as usize, *calls.get(round)?));
            let calls: Option<Vec<CallOf>> = members.iter().zip(sequences).map(of_round).collect();
            let name = |(rank, i): CallOf| ranks[rank].kind(&ranks[rank].calls[i]).name;
            match calls.filter(|calls| calls.iter().all(|call| name(*call) == name(calls[0]))) {
                Some(calls) => self.rounds.push(calls),
                None => {
                    // From here on the order says nothing.
                    for (rank, calls) in members.iter().zip(sequences) {
                        let rest = &calls[round.min(calls.len())..];
                        self.out_of_step.extend(rest.iter().map(|&i| (*rank as usize, i)));
                    }
                    return;
                }
            }
        }
    }
}
