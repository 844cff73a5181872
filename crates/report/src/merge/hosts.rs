//! The machine of a merged job: its hosts, each with the ceilings for the ranks that ran there.
//!
//! Ranks that share a host share its ceilings: k busy threads there are set against the host's ceiling of k threads. Hosts do not share
//! anything: their ceilings add up.

use std::collections::{BTreeMap, BTreeSet};

use rprof_profile::machine::{Ceiling, Machine};
use rprof_profile::{Profile, run::Thread};

/// One host of a job, or one part of a host that was measured for itself.
struct Part<'a> {
    machine: &'a Machine,
    ranks: u32,
}

/// The machine that the ranks of `profiles` ran on together. `None`: that of the first, which all ran on.
pub fn together(profiles: &[Profile]) -> Option<Machine> {
    let mut parts: Vec<(String, Part<'_>)> = Vec::new();
    for profile in profiles {
        let host = host_of(profile);
        match parts.iter_mut().find(|(known, part)| *known == host && is_shared(part.machine, &profile.machine)) {
            Some((_, part)) => part.ranks += 1,
            None => parts.push((host, Part { machine: &profile.machine, ranks: 1 })),
        }
    }
    let parts: Vec<Part<'_>> = parts.into_iter().map(|(_, part)| part).collect();
    (parts.len() > 1).then(|| sum(&parts))
}

/// Adds the beginning of the boot's id to the names of hosts that have equal ones.
pub fn tell_apart(profiles: &mut [Profile]) {
    let mut boots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rank in profiles.iter().flat_map(|profile| &profile.run.ranks) {
        boots.entry(rank.host.clone()).or_default().extend(rank.boot.clone());
    }
    for profile in profiles {
        let [rank] = &mut profile.run.ranks[..] else { continue };
        let several = boots.get(&rank.host).is_some_and(|boots| boots.len() > 1);
        if let Some(boot) = rank.boot.as_ref().filter(|_| several) {
            rank.host = format!("{} {}", rank.host, boot.get(..8).unwrap_or(boot));
            profile.run.threads.iter_mut().for_each(|thread| thread.host.clone_from(&rank.host));
        }
    }
}

fn host_of(profile: &Profile) -> String {
    profile.run.threads.first().map(|thread: &Thread| thread.host.clone()).unwrap_or_default()
}

/// Whether two ranks of a host have its ceilings in common. Ranks that were measured one by one, each on the one CPU that it was bound
/// to, have not.
fn is_shared(a: &Machine, b: &Machine) -> bool {
    let is_one_measurement = || {
        let values = |machine: &Machine| machine.ceilings.iter().map(|c| c.value).collect::<Vec<_>>();
        values(a) == values(b)
    };
    a.cores > 1 || b.cores > 1 || is_one_measurement()
}

/// Rates of all parts with their ranks at work add up; latencies, counts and everything of one thread are those of the first part.
fn sum(parts: &[Part<'_>]) -> Machine {
    let first = parts[0].machine;
    let mut by_id: BTreeMap<&str, Vec<&Ceiling>> = BTreeMap::new();
    for ceiling in &first.ceilings {
        by_id.entry(&*ceiling.id).or_default().push(ceiling);
    }
    let mut ceilings: Vec<Ceiling> = Vec::new();
    for (id, of_first) in by_id {
        if !of_first[0].unit.ends_with("/s") {
            ceilings.extend(of_first.into_iter().cloned());
            continue;
        }
        ceilings.extend(of_first.iter().filter(|ceiling| ceiling.threads <= 1).map(|&ceiling| ceiling.clone()));
        for ceiling in of_first {
            let counts = parts.iter().map(|part| scaled(ceiling.threads, part.ranks, parts[0].ranks));
            let values: Option<Vec<(u32, f64)>> = parts
                .iter()
                .zip(counts)
                .map(|(part, threads)| Some((threads, at(part.machine, id, threads)?)))
                .collect();
            let Some(values) = values else { continue };
            ceilings.push(Ceiling {
                threads: values.iter().map(|(threads, _)| threads).sum(),
                value: Some(values.iter().map(|(_, value)| value).sum()),
                reason: Some(format!("the sum over {} hosts", parts.len())),
                ..ceiling.clone()
            });
        }
    }
    Machine {
        cores: parts.iter().map(|part| part.machine.cores).sum(),
        ceilings,
        core_to_core: None,
        gpus: Vec::new(),
        ..first.clone()
    }
}

/// Threads at work on a part with `ranks` ranks while `threads` are on one with `of_first`.
fn scaled(threads: u32, ranks: u32, of_first: u32) -> u32 {
    (f64::from(threads) * f64::from(ranks) / f64::from(of_first.max(1))).round().max(1.0) as u32
}

/// Rate `id` with `threads` threads: measured, or in proportion to the nearest lower count.
fn at(machine: &Machine, id: &str, threads: u32) -> Option<f64> {
    if let Some(value) = machine.value(id, threads) {
        return Some(value);
    }
    let measured = machine.ceilings.iter().filter(|c| &*c.id == id).filter_map(|c| Some((c.threads.max(1), c.value?)));
    let (below, value) = measured.filter(|(n, _)| *n <= threads).max_by_key(|(n, _)| *n)?;
    Some(value * f64::from(threads.min(machine.cores.max(below))) / f64::from(below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::run::Rank;

    fn rank_on(host: &str, cores: u32, rates: &[(u32, f64)]) -> Profile {
        let ceilings = rates.iter().map(|(n, rate)| Ceiling::reproduced("dp.fma", *rate, "flop/s", *n)).collect();
        let mut profile = Profile { machine: Machine { cores, ceilings, ..Machine::default() }, ..Profile::default() };
        let thread = Thread { id: 0, pid: 1, tid: 1, rank: Some(0), host: host.into(), cpu_s: 1.0 };
        profile.run.threads.push(thread);
        profile
    }

    #[test]
    fn ranks_of_one_host_share_its_ceilings() {
        let of_host = || rank_on("a", 4, &[(1, 10.0), (2, 20.0), (4, 30.0)]);
        assert_eq!(together(&[of_host(), of_host()]), None);
    }

    #[test]
    fn hosts_add_up() {
        let on = |host| rank_on(host, 4, &[(1, 10.0), (2, 20.0), (4, 30.0)]);
        let machine = together(&[on("a"), on("a"), on("b")]).unwrap();
        // One rank on `b` while two are on `a`.
        assert_eq!(machine.value("dp.fma", 3), Some(30.0));
        assert_eq!((machine.value("dp.fma", 1), machine.cores), (Some(10.0), 8));
    }

    #[test]
    fn hosts_of_equal_names_are_two() {
        let on = |boot: &str| {
            let mut profile = rank_on("node", 4, &[(1, 10.0), (2, 20.0), (4, 30.0)]);
            profile.run.ranks.push(Rank { host: "node".into(), boot: Some(boot.into()), ..Rank::default() });
            profile
        };
        let mut ranks = [on("11111111-a"), on("22222222-b"), on("22222222-b")];
        tell_apart(&mut ranks);
        let hosts: Vec<&str> = ranks.iter().map(|profile| profile.run.ranks[0].host.as_str()).collect();
        assert_eq!(hosts, ["node 11111111", "node 22222222", "node 22222222"]);
        assert_eq!(together(&ranks).unwrap().cores, 8);
        let mut alike = [on("11111111-a"), on("11111111-a")];
        tell_apart(&mut alike);
        assert_eq!((alike[0].run.ranks[0].host.as_str(), together(&alike)), ("node", None));
    }

    #[test]
    fn ranks_measured_on_a_cpu_each_add_up() {
        let machine = together(&[rank_on("a", 1, &[(1, 10.0)]), rank_on("a", 1, &[(1, 12.0)])]).unwrap();
        assert_eq!((machine.value("dp.fma", 2), machine.cores), (Some(22.0), 2));
    }
}
