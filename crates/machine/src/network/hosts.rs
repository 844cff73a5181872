//! Which ranks are on which hosts, and which of them form pairs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::step::Pair;
use crate::host::topology::cpulist;
use rprof_profile::network::{Distance, NetworkHost};
use rprof_tracee::boot::boot_id;

/// The place of a rank, by its own report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Place {
    /// The host's name.
    pub host: String,
    /// Identifies a boot of its kernel: hosts with one are the same machine, and have one clock.
    pub boot: String,
    /// CPUs that the rank may use, as a list of the kernel's.
    pub cpus: String,
}

/// Longest name of a host that is looked at.
const LONGEST_NAME: usize = 64;
/// Longest list of CPUs.
const LONGEST_LIST: usize = 128;

impl Place {
    /// That of this process.
    pub fn own() -> Place {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let status = read("/proc/self/status");
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default().trim();
        Place {
            host: read("/proc/sys/kernel/hostname").chars().take(LONGEST_NAME).collect(),
            boot: boot_id().unwrap_or_default(),
            cpus: cpus.chars().take(LONGEST_LIST).collect(),
        }
    }
}

/// Whether the ranks of each machine may use as many CPUs as they are.
pub fn have_cpus(places: &[Place]) -> bool {
    let mut machines: BTreeMap<&str, (usize, BTreeSet<usize>)> = BTreeMap::new();
    for place in places {
        let (ranks, cpus) = machines.entry(&place.boot).or_default();
        *ranks += 1;
        cpus.extend(cpulist::parse(&place.cpus).unwrap_or_default());
    }
    machines.values().all(|(ranks, cpus)| *ranks <= cpus.len())
}

/// All ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts {
    /// By rank.
    places: Vec<Place>,
    /// Ranks of each host, hosts in the order of their first rank.
    ranks: Vec<Vec<u32>>,
}

impl Hosts {
    /// From the places of all ranks, in order.
    pub fn new(places: Vec<Place>) -> Hosts {
        let mut index: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut ranks: Vec<Vec<u32>> = Vec::new();
        for (rank, place) in places.iter().enumerate() {
            let at = *index.entry((&place.host, &place.boot)).or_insert(ranks.len());
            if at == ranks.len() {
                ranks.push(Vec::new());
            }
            ranks[at].push(rank as u32);
        }
        Hosts { ranks, places }
    }

    /// Ranks of the job.
    pub fn count(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether all ranks have one clock.
    pub fn have_one_clock(&self) -> bool {
        self.places.windows(2).all(|pair| pair[0].boot == pair[1].boot && !pair[0].boot.is_empty())
    }

    /// For the profile. Hosts of one name get the beginning of their boot id.
    pub fn listed(&self) -> Vec<NetworkHost> {
        let first = |ranks: &Vec<u32>| &self.places[ranks[0] as usize];
        let is_twice = |name: &str| self.ranks.iter().filter(|ranks| first(ranks).host == name).count() > 1;
        let name = |place: &Place| match is_twice(&place.host) {
            true => format!("{} {}", place.host, place.boot.get(..8).unwrap_or_default()),
            false => place.host.clone(),
        };
        self.ranks.iter().map(|ranks| NetworkHost { name: name(first(ranks)), ranks: ranks.clone() }).collect()
    }

    /// CPUs of the ranks, by rank.
    pub fn cpus(&self) -> Vec<String> {
        self.places.iter().map(|place| place.cpus.clone()).collect()
    }

    /// How far apart the members of communicators are that consist of `members` ranks in turn.
    pub fn distance(&self, members: u32) -> Distance {
        let host = |rank: usize| (&self.places[rank].host, &self.places[rank].boot);
        let members = members.max(1) as usize;
        let complete = 0..self.places.len() / members * members;
        let is_apart = complete.into_iter().any(|rank| host(rank) != host(rank / members * members));
        if is_apart { Distance::OtherHost } else { Distance::SameHost }
    }

    /// As many pairs of a distance as there can be at the same time, no rank in two; on several hosts first those that are farthest
    /// apart in the job's order.
    pub fn pairs(&self, distance: Distance) -> Vec<Pair> {
        match distance {
            Distance::SameHost => {
                self.ranks.iter().flat_map(|ranks| ranks.chunks_exact(2).map(|two| (two[0], two[1]))).collect()
            }
            Distance::OtherHost => {
                let mut left: Vec<Vec<u32>> =
                    self.ranks.iter().map(|ranks| ranks.iter().rev().copied().collect()).collect();
                let mut pairs = Vec::new();
                loop {
                    let fullest = |left: &[Vec<u32>], not: Option<usize>| {
                        let others = (0..left.len()).filter(|host| Some(*host) != not && !left[*host].is_empty());
                        // The first host of the fullest ones; for the other side the last.
                        match not {
                            None => others.rev().max_by_key(|host| left[*host].len()),
                            Some(_) => others.max_by_key(|host| left[*host].len()),
                        }
                    };
                    let Some(a) = fullest(&left, None) else { return pairs };
                    let Some(b) = fullest(&left, Some(a)) else { return pairs };
                    pairs.extend(left[a].pop().zip(left[b].pop()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &str) -> Hosts {
        let place = |name: char| Place { host: name.into(), boot: "b".into(), cpus: "0".into() };
        Hosts::new(names.chars().map(place).collect())
    }

    #[test]
    fn pairs_are_as_many_as_there_can_be() {
        use Distance::*;
        let pairs = |names, distance| hosts(names).pairs(distance);
        assert_eq!(pairs("aa", SameHost), [(0, 1)]);
        assert_eq!(pairs("aa", OtherHost), []);
        assert_eq!(pairs("abcd", OtherHost), [(0, 3), (1, 2)]);
        assert_eq!(pairs("abcd", SameHost), []);
        assert_eq!(pairs("aabb", OtherHost), [(0, 2), (1, 3)]);
        assert_eq!(pairs("aabb", SameHost), [(0, 1), (2, 3)]);
        assert_eq!(pairs("aaab", OtherHost), [(0, 3)]);
        assert_eq!(pairs("abc", OtherHost), [(0, 2)]);
        assert_eq!(pairs("aaabc", OtherHost).len(), 2, "each of the few with one of the many");
    }

    #[test]
    fn hosts_are_listed_by_their_first_rank() {
        let listed = hosts("abab").listed();
        let found: Vec<_> = listed.iter().map(|host| (host.name.as_str(), host.ranks.clone())).collect();
        assert_eq!(found, [("a", vec![0, 2]), ("b", vec![1, 3])]);
        let mut places = vec![Place { host: "n".into(), boot: "11111111-1".into(), cpus: String::new() }; 2];
        places[1].boot = "22222222-2".into();
        let two = Hosts::new(places);
        assert_eq!(two.listed()[1].name, "n 22222222", "two hosts of one name");
        assert!(!two.have_one_clock() && hosts("ab").have_one_clock());
    }

    #[test]
    fn ranks_have_cpus_if_their_machine_has_as_many() {
        let place = |boot: &str, cpus: &str| Place { host: boot.into(), boot: boot.into(), cpus: cpus.into() };
        assert!(have_cpus(&[place("a", "0-1"), place("a", "0-1"), place("b", "0")]));
        assert!(have_cpus(&[place("a", "0"), place("a", "1")]), "each its own");
        assert!(!have_cpus(&[place("a", "0"), place("a", "0")]));
    }

    #[test]
    fn communicators_are_near_or_far() {
        assert_eq!(hosts("aabb").distance(2), Distance::SameHost);
        assert_eq!(hosts("aabb").distance(4), Distance::OtherHost);
        assert_eq!(hosts("aabbc").distance(2), Distance::SameHost, "the incomplete one does not count");
        assert_eq!(hosts("abab").distance(2), Distance::OtherHost);
    }
}
