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
//!  gather, scatter, all-to-all   (1 − 1/H)·Σn   if all hosts have as many ranks
//! ```
//!
//! Each is a factor times the bytes that the ranks hand over, so that each rank's part can be summed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::profile::evidence::mpi::MpiCall;
use crate::profile::mpi::{Mpi, RankCalls, SiteKey};
use crate::profile::mpi_name::MpiName;

/// The index of `MPI_COMM_WORLD` among a rank's communicators.
const WORLD: u32 = 0;

/// Ranks of a job, and their hosts.
struct Placed<'r> {
    hosts: BTreeMap<i32, &'r str>,
    /// As many ranks on each host.
    is_even: bool,
    host_count: f64,
    ranks: f64,
}

impl Placed<'_> {
    fn new(calls: &[RankCalls]) -> Option<Placed<'_>> {
        let hosts: BTreeMap<i32, &str> =
            calls.iter().map(|rank| Some((rank.rank? as i32, rank.host.as_str()))).collect::<Option<_>>()?;
        let mut ranks_of: BTreeMap<&str, usize> = BTreeMap::new();
        hosts.values().for_each(|host| *ranks_of.entry(host).or_default() += 1);
        let counts: BTreeSet<usize> = ranks_of.values().copied().collect();
        let complete = hosts.len() == calls.len();
        complete.then_some(Placed {
            is_even: counts.len() == 1,
            host_count: ranks_of.len() as f64,
            ranks: hosts.len() as f64,
            hosts,
        })
    }

    /// Bytes that have to cross for those that a rank hands over, in a collective call.
    fn factor(&self, call: &str) -> Option<f64> {
        let others = self.host_count - 1.0;
        Some(match &*MpiName::of(call)?.blocking() {
            "Bcast" | "Allgather" | "Allgatherv" => others,
            "Reduce" | "Reduce_scatter" | "Reduce_scatter_block" => others / self.ranks,
            "Allreduce" => 2.0 * others / self.ranks,
            "Barrier" => 0.0,
            "Gather" | "Gatherv" | "Scatter" | "Scatterv" | "Alltoall" | "Alltoallv" if self.is_even => {
                others / self.host_count
            }
            _ => return None,
        })
    }

    /// Bytes that one call of `rank` has to pass.
    fn of_call(&self, rank: i32, name: &str, call: &MpiCall) -> Option<f64> {
        if call.communicator != Some(WORLD) {
            return None;
        }
        match (call.to, call.from) {
            (Some((to, _)), _) => {
                let crosses = self.hosts.get(&to).is_some_and(|host| *host != self.hosts[&rank]);
                Some(if crosses { call.bytes? as f64 } else { 0.0 })
            }
            // A receive hands over nothing.
            (None, Some(_)) => Some(0.0),
            (None, None) => Some(self.factor(name)? * call.bytes? as f64),
        }
    }
}

/// Sets the needed bytes of the call sites of `mpis`, whose ranks have made `calls`.
pub fn fill(calls: &[RankCalls], mpis: &mut [&mut Mpi]) {
    let Some(placed) = Placed::new(calls) else { return };
    for (calls, mpi) in calls.iter().zip(mpis) {
        let complete = mpi.ranks.is_none_or(|ranks| f64::from(ranks) == placed.ranks);
        let Some(rank) = calls.rank.filter(|_| complete && calls.left_out == 0) else { continue };
        let mut sums: HashMap<&SiteKey, (Option<f64>, u64)> = HashMap::new();
        for call in &calls.calls {
            let Some(key) = calls.sites.get(call.site as usize) else { continue };
            let (sum, count) = sums.entry(key).or_insert((Some(0.0), 0));
            *sum = sum.zip(placed.of_call(rank as i32, &key.call, call)).map(|(sum, one)| sum + one);
            *count += 1;
        }
        for site in &mut mpi.sites {
            // Calls that did not return have no record.
            let whole = sums.get(&site.key()).filter(|(_, count)| *count == site.calls);
            site.needed = whole.and_then(|(sum, _)| *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::mpi::CallSite;

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

    /// What a job needs whose ranks on `hosts` make one call each.
    fn needs(name: &str, hosts: &[&str], one: impl Fn(usize) -> MpiCall) -> Option<f64> {
        let site = CallSite { call: name.into(), calls: 1, ..CallSite::default() };
        let calls: Vec<RankCalls> = hosts
            .iter()
            .enumerate()
            .map(|(rank, host)| RankCalls {
                communicators: Vec::new(),
                rank: Some(rank as u32),
                host: (*host).into(),
                sites: vec![site.key()],
                calls: vec![one(rank)],
                left_out: 0,
            })
            .collect();
        let mut mpis: Vec<Mpi> = hosts.iter().map(|_| Mpi { sites: vec![site.clone()], ..Mpi::default() }).collect();
        fill(&calls, &mut mpis.iter_mut().collect::<Vec<_>>());
        mpis.iter().map(|mpi| mpi.sites[0].needed).sum()
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
