//! Bytes that the calls of a job have to pass between hosts, whatever the algorithm: lower limits.
//!
//! With n bytes in a call, P ranks, H hosts, and shared memory within a host, between all hosts:
//!
//! ```text
//!  message            n if its ends are on different hosts
//!  broadcast          (H − 1)·n           each other host needs the data once
//!  reduction          (H − 1)·n           each other host sends one partial result
//!  all-reduce         2·(H − 1)·n         reduce-scatter, then all-gather
//!  reduce-scatter     (H − 1)·n           n: the whole contribution of a rank
//!  all-gather         (H − 1)·Σn          n of each rank to each other host
//!  gather             n of each rank on another host than the root
//!  scatter            n for each rank on another host than the root
//!  all-to-all         n for each rank on another host
//!  all-to-all, scatter of uneven parts   (1 − 1/H)·Σn   if all hosts have as many ranks
//! ```
//!
//! Each is a factor times the bytes that the ranks hand over, so that each rank's part can be summed. Ranks and hosts are those of the
//! call's communicator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::groups::{self, Group};
use rprof_profile::evidence::mpi::MpiCall;
use rprof_profile::mpi::{Mpi, RankCalls};
use rprof_profile::mpi_name::MpiName;
use rprof_profile::site_key::SiteKey;

/// The hosts of the ranks of a communicator.
struct Hosts<'r> {
    /// By rank in the communicator.
    of_member: Vec<&'r str>,
    count: f64,
    /// As many ranks on each host.
    is_even: bool,
}

impl<'r> Hosts<'r> {
    fn of(group: &Group, calls: &'r [RankCalls]) -> Hosts<'r> {
        let of_member: Vec<&str> =
            group.members.iter().filter_map(|rank| Some(calls.get(*rank as usize)?.host.as_str())).collect();
        let mut ranks_of: BTreeMap<&str, usize> = BTreeMap::new();
        of_member.iter().for_each(|host| *ranks_of.entry(host).or_default() += 1);
        let counts: BTreeSet<usize> = ranks_of.values().copied().collect();
        Hosts { of_member, count: ranks_of.len() as f64, is_even: counts.len() == 1 }
    }

    /// The host of a rank of the communicator.
    fn get(&self, rank: i32) -> Option<&'r str> {
        self.of_member.get(usize::try_from(rank).ok()?).copied()
    }

    fn ranks(&self) -> f64 {
        self.of_member.len() as f64
    }

    /// The share of the ranks that are on other hosts than this one.
    fn elsewhere(&self, host: &str) -> f64 {
        self.of_member.iter().filter(|other| **other != host).count() as f64 / self.ranks()
    }

    /// Bytes that have to cross for those that a rank on the host `own` hands over, in a collective call with its root on the host `root`.
    fn factor(&self, call: &str, own: &str, root: Option<&str>) -> Option<f64> {
        let others = self.count - 1.0;
        let of_even = self.is_even.then_some(others / self.count);
        match &*MpiName::of(call)?.blocking() {
            "Bcast" | "Allgather" | "Allgatherv" => Some(others),
            "Reduce" | "Reduce_scatter" | "Reduce_scatter_block" => Some(others / self.ranks()),
            "Allreduce" => Some(2.0 * others / self.ranks()),
            "Barrier" => Some(0.0),
            "Gather" | "Gatherv" => root.map(|root| if root == own { 0.0 } else { 1.0 }).or(of_even),
            "Scatter" => root.map(|root| self.elsewhere(root)).or(of_even),
            "Alltoall" => Some(self.elsewhere(own)),
            "Scatterv" | "Alltoallv" => of_even,
            _ => None,
        }
    }

    /// Bytes that one call, by `rank` of the job on the host `own`, has to pass.
    fn of_call(&self, (rank, own): (u32, &str), group: &Group, name: &str, call: &MpiCall) -> Option<f64> {
        match (call.to, call.from) {
            // To no rank.
            (Some((to, _)), _) if to < 0 => Some(0.0),
            (Some((to, _)), _) => Some(if self.get(to)? == own { 0.0 } else { call.bytes? as f64 }),
            // A receive hands over nothing.
            (None, Some(_)) => Some(0.0),
            (None, None) => {
                let root = call.root.and_then(|root| self.get(root));
                let bytes = call.bytes.or_else(|| groups::bytes_of_root(call, name, group, rank))?;
                Some(self.factor(name, own, root)? * bytes as f64)
            }
        }
    }
}

/// Sets the needed bytes of the call sites of `mpis`, from the `calls` of their ranks: all ranks of a job, by their
/// number.
pub fn fill(calls: &[RankCalls], mpis: &mut [&mut Mpi]) {
    if calls.iter().enumerate().any(|(i, rank)| rank.rank != Some(i as u32)) {
        return;
    }
    let groups = groups::groups(calls);
    let mut hosts: HashMap<u32, Hosts<'_>> = HashMap::new();
    for (((rank, calls_of), groups), mpi) in (0..).zip(calls).zip(&groups).zip(mpis) {
        let is_complete = mpi.ranks.is_none_or(|ranks| ranks as usize == calls.len());
        if !is_complete || calls_of.left_out > 0 {
            continue;
        }
        let mut sums: HashMap<&SiteKey, (Option<f64>, u64)> = HashMap::new();
        for call in &calls_of.calls {
            let Some(key) = calls_of.sites.get(call.site as usize) else { continue };
            let (sum, count) = sums.entry(key).or_insert((Some(0.0), 0));
            let group = call.communicator.and_then(|i| groups.get(i as usize)?.as_ref());
            let one = group.and_then(|group| {
                let hosts = hosts.entry(group.id).or_insert_with(|| Hosts::of(group, calls));
                hosts.of_call((rank, &calls_of.host), group, &key.call, call)
            });
            *sum = sum.zip(one).map(|(sum, one)| sum + one);
            *count += 1;
        }
        for site in &mut mpi.sites {
            // Calls that did not return have no record.
            let whole = sums.get(&site.key()).filter(|(_, count)| Some(*count) == site.calls);
            site.needed = whole.and_then(|(sum, _)| *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::mpi::{Communicator, Made};
    use rprof_profile::mpi::CallSite;

    /// The index of `MPI_COMM_WORLD` among a rank's communicators.
    const WORLD: u32 = 0;

    fn call(bytes: u64, to: Option<i32>) -> MpiCall {
        let to = to.map(|to| (to, 0));
        MpiCall {
            site: 0,
            start_ns: 0,
            end_ns: 1,
            bytes: Some(bytes),
            bytes_of_root: None,
            to,
            from: None,
            root: None,
            communicator: Some(WORLD),
        }
    }

    /// The needs of a job with ranks on `hosts` that make one call each, in their second communicator.
    fn needs_in(
        made: impl Fn(usize) -> Made,
        name: &str,
        hosts: &[&str],
        one: impl Fn(usize) -> MpiCall,
    ) -> Option<f64> {
        let site = CallSite { call: name.into(), calls: Some(1), ..CallSite::default() };
        let calls: Vec<RankCalls> = hosts
            .iter()
            .enumerate()
            .map(|(rank, host)| RankCalls {
                communicators: [Made::World, made(rank)]
                    .map(|made| Communicator { made, parent: 0, order: 0, size: None, rank: None })
                    .to_vec(),
                rank: Some(rank as u32),
                job: None,
                host: (*host).into(),
                clock: String::new(),
                sites: vec![site.key()],
                calls: vec![one(rank)],
                left_out: 0,
            })
            .collect();
        let mut mpis: Vec<Mpi> = hosts.iter().map(|_| Mpi { sites: vec![site.clone()], ..Mpi::default() }).collect();
        fill(&calls, &mut mpis.iter_mut().collect::<Vec<_>>());
        mpis.iter().map(|mpi| mpi.sites[0].needed).sum()
    }

    /// The same in `MPI_COMM_WORLD`.
    fn needs(name: &str, hosts: &[&str], one: impl Fn(usize) -> MpiCall) -> Option<f64> {
        needs_in(|_| Made::Same, name, hosts, one)
    }

    #[test]
    fn parts_of_the_job_need_what_crosses_between_their_hosts() {
        let hosts = ["a", "a", "b", "b"];
        let split = |color: fn(usize) -> i32| move |rank| Made::Split { color: color(rank), key: 0 };
        let within = split(|rank| (rank / 2) as i32);
        let across = split(|rank| (rank % 2) as i32);
        let one = |_| MpiCall { communicator: Some(1), ..call(800, None) };
        assert_eq!(needs_in(within, "MPI_Allreduce", &hosts, one), Some(0.0));
        // Two communicators of two hosts: 2 · n each.
        assert_eq!(needs_in(across, "MPI_Allreduce", &hosts, one), Some(3200.0));
        // To rank 1 of the communicator, which is rank 2 or 3 of the job.
        let to_second = |_| MpiCall { communicator: Some(1), ..call(8, Some(1)) };
        assert_eq!(needs_in(across, "MPI_Send", &hosts, to_second), Some(16.0), "rank 0 and 1 are on the other host");
        assert_eq!(needs_in(within, "MPI_Send", &hosts, to_second), Some(0.0));
        assert_eq!(needs_in(|_| Made::Other, "MPI_Allreduce", &hosts, one), None);
        // Whether a rank is the root is known by the job alone.
        let root = |_| MpiCall {
            communicator: Some(1),
            bytes: None,
            bytes_of_root: Some(100),
            root: Some(0),
            ..call(0, None)
        };
        assert_eq!(needs_in(across, "MPI_Bcast", &hosts, root), Some(200.0));
    }

    #[test]
    fn uneven_hosts_need_what_the_root_and_the_others_lack() {
        let hosts = ["a", "b", "a"];
        let rooted = |bytes: u64| move |_| MpiCall { root: Some(0), ..call(bytes, None) };
        assert_eq!(needs("MPI_Gather", &hosts, rooted(8)), Some(8.0));
        // The root hands over a part of 8 bytes for each of three ranks.
        let scatter = |rank| MpiCall { root: Some(0), ..call(if rank == 0 { 24 } else { 0 }, None) };
        assert_eq!(needs("MPI_Scatter", &hosts, scatter), Some(8.0));
        // Each rank has 8 bytes for each: 1 + 2 + 1 parts cross.
        assert_eq!(needs("MPI_Alltoall", &hosts, |_| call(24, None)), Some(32.0));
        assert_eq!(needs("MPI_Alltoallv", &hosts, |_| call(24, None)), None);
    }

    #[test]
    fn collectives_need_each_host_once() {
        let hosts = ["a", "b", "a", "b"];
        let root = |rank| call(if rank == 0 { 800 } else { 0 }, None);
        let all = |_| call(800, None);
        assert_eq!(needs("MPI_Bcast", &hosts, root), Some(800.0));
        assert_eq!(needs("MPI_Reduce", &hosts, all), Some(800.0));
        assert_eq!(needs("MPI_Iallreduce", &hosts, all), Some(1600.0));
        assert_eq!(needs("MPI_Allgather", &hosts, all), Some(3200.0));
        // 4 ranks with 200 for each rank: 2 · 2 · 2 of 16 parts cross.
        assert_eq!(needs("MPI_Alltoall", &hosts, all), Some(1600.0));
        assert_eq!(needs("MPI_Bcast", &["a", "a"], root), Some(0.0));
        assert_eq!(needs("MPI_Gather", &["a", "b", "a"], all), None, "depends on the root");
        assert_eq!(needs("MPI_Scan", &hosts, all), None);
    }

    #[test]
    fn messages_need_the_network_between_hosts() {
        let hosts = ["a", "b", "a"];
        assert_eq!(needs("MPI_Send", &hosts, |rank| call(8, Some((rank as i32 + 1) % 3))), Some(16.0));
        assert_eq!(needs("MPI_Send", &hosts, |_| call(8, Some(-2))), Some(0.0), "to nobody");
        let elsewhere = |_| MpiCall { communicator: None, ..call(8, Some(0)) };
        assert_eq!(needs("MPI_Send", &hosts, elsewhere), None);
    }
}
