//! Classes and savings of functions that communicate more than they work.
//!
//! ```text
//! less than half of its seconds in MPI          no class of the network
//! parts of its seconds in MPI
//!   waiting for other ranks                     waiting-for-ranks
//!   what its calls need without bytes           network-latency
//!   what their bytes need                       network-bandwidth
//! these parts are less than half of them        unknown, and no saving
//! else                                          the largest part
//! saving of the program = seconds of all ranks / ranks     at most the elapsed time of the longest rank
//! ```

use std::collections::BTreeMap;

use super::{cost, ranks_of_a_host};
use crate::order;
use rprof_profile::Profile;
use rprof_profile::communication::{Communication, NetworkSeconds};
use rprof_profile::function::Saving;
use rprof_profile::mpi::{CallSite, Mpi};
use rprof_profile::vocabulary::Class;

use rprof_profile::number;

/// Share of its seconds from which a function is one that communicates, and of those in MPI from which the known parts explain them.
const HALF: f64 = 0.5;
/// A saving is listed from this share of the seconds in MPI on.
const WORTHWHILE: f64 = 0.05;

/// Seconds in MPI, and the known facts about them.
struct InMpi {
    mpi_s: f64,
    waiting_s: Option<f64>,
    network: Option<NetworkSeconds>,
}

/// The known parts of them, with their classes. Without ceilings of the network waiting alone is known.
fn parts(of: &InMpi) -> Vec<(Class, f64)> {
    let mut parts = Vec::new();
    let waiting = of.waiting_s.unwrap_or(0.0);
    if of.waiting_s.is_some() {
        parts.push((Class::WaitingForRanks, waiting));
    }
    if let Some(network) = of.network {
        // A call needs no more than it took.
        let room = (of.mpi_s - waiting).max(0.0);
        let scale = (room / network.seconds().max(f64::MIN_POSITIVE)).min(1.0);
        parts.push((Class::NetworkLatency, scale * network.latency_s));
        parts.push((Class::NetworkBandwidth, scale * network.bandwidth_s));
    }
    parts
}

/// Whether the known parts explain the seconds.
fn is_explained(of: &InMpi) -> bool {
    parts(of).iter().map(|part| part.1).sum::<f64>() >= HALF * of.mpi_s
}

/// The largest known part.
fn nearest(of: &InMpi) -> Option<Class> {
    let known = parts(of).into_iter().filter(|(_, seconds)| *seconds > 0.0);
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(class, _)| class)
}

fn class(of: &InMpi) -> Class {
    nearest(of).filter(|_| is_explained(of)).unwrap_or(Class::Unknown)
}

/// Fills in the class.
pub fn classify(of: &mut Communication) {
    let all = of.mpi_s + of.work_s.unwrap_or(0.0);
    let in_mpi = InMpi { mpi_s: of.mpi_s, waiting_s: of.waiting_s, network: of.network };
    let communicates = of.mpi_s > 0.0 && of.mpi_s >= HALF * all;
    of.class = communicates.then(|| class(&in_mpi));
}

/// Gives functions that are longer in their own calls of MPI than at work the classes and the savings of these calls.
pub fn carry_over(profile: &mut Profile) {
    let ranks = profile.run.ranks.len().max(1) as f64;
    let elapsed_s = profile.run.ranks.iter().filter_map(|rank| rank.wall_s).reduce(f64::max);
    let Some(mpi) = &profile.mpi else { return };
    let mut by_caller: BTreeMap<(&str, &str), Vec<&CallSite>> = BTreeMap::new();
    for site in mpi.sites.iter().filter(|site| site.is_communication()) {
        by_caller.entry((&site.caller, &site.module)).or_default().push(site);
    }
    let cost = |site: &CallSite| {
        let network = profile.network.as_ref()?;
        cost::of_site(site, network, ranks_of_a_host(network))
    };
    for function in &mut profile.functions {
        let Some(sites) = by_caller.get(&(function.name.as_str(), function.module.as_str())) else { continue };
        let in_mpi = InMpi {
            mpi_s: sites.iter().filter_map(|site| mpi.timed_s(site)).sum(),
            waiting_s: sites.iter().map(|site| mpi.timed_waiting_s(site)).sum(),
            network: sites.iter().map(|site| cost(site)).try_fold(NetworkSeconds::default(), |mut sum, one| {
                sum.add(one?, 1.0);
                Some(sum)
            }),
        };
        if in_mpi.mpi_s <= 0.0 || in_mpi.mpi_s < HALF * (in_mpi.mpi_s + function.cpu_s.unwrap_or(0.0)) {
            continue;
        }
        let analysis = &mut function.analysis;
        let is_explained = is_explained(&in_mpi);
        analysis.class = Some(class(&in_mpi));
        analysis.nearest = nearest(&in_mpi).filter(|_| !is_explained);
        analysis.confidence = None;
        let worthwhile = |(_, s): &(Class, f64)| is_explained && *s >= WORTHWHILE * in_mpi.mpi_s;
        let of_network = parts(&in_mpi).into_iter().filter(worthwhile).map(|(class, seconds)| {
            let saving = Saving {
                remove: vec![class.name().to_owned()],
                seconds: seconds / ranks,
                seconds_max: seconds / ranks,
                program_seconds: Some(seconds / ranks),
                advice: advice(class, sites, seconds, mpi),
            };
            saving.within(elapsed_s.unwrap_or(f64::INFINITY))
        });
        analysis.savings.splice(0..0, of_network);
        order::put_in_order(&mut analysis.savings, analysis.class);
    }
}

fn advice(class: Class, sites: &[&CallSite], seconds: f64, mpi: &Mpi) -> String {
    let longest = sites.iter().max_by(|a, b| a.time_s.unwrap_or(0.0).total_cmp(&b.time_s.unwrap_or(0.0)));
    let call = longest.map_or("MPI", |site| site.call.as_str());
    let calls: Option<u64> = sites.iter().map(|site| site.calls).sum();
    let count = calls.map_or(String::new(), |calls| format!("{calls} "));
    let bytes: Option<u64> = sites.iter().map(|site| site.bytes).sum();
    let seconds = number::seconds(seconds);
    match class {
        Class::WaitingForRanks => {
            let balance =
                mpi.efficiency.map_or(String::new(), |e| format!(" (load balance {:.0} %)", 100.0 * e.load_balance));
            let whom = mpi
                .latest(sites)
                .filter(|(_, part)| *part >= HALF)
                .map_or("others".into(), |(rank, part)| format!("others, {:.0} % of it for rank {rank}", 100.0 * part));
            format!(
                "Ranks spend {seconds} (summed) in {call} waiting for {whom}: give each rank the same work{balance}, or do work \
                 that needs no answer before the call."
            )
        }
        Class::NetworkLatency => {
            let each = bytes.zip(calls).map_or(String::new(), |(bytes, calls)| {
                format!(" of {} on average", number::si(bytes as f64 / calls.max(1) as f64, "B"))
            });
            format!(
                "{count}calls{each} cost {seconds} of all ranks' time before a byte has crossed: send several messages as one, or \
                 exchange less often."
            )
        }
        _ => {
            let all =
                bytes.map_or(String::new(), |bytes| format!("{} in {count}calls ", number::si(bytes as f64, "B")));
            format!(
                "{all}need {seconds} of all ranks' time at the rate of the network: send fewer or shorter values, or start the \
                 messages earlier (MPI_I…) and work meanwhile."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_mpi(mpi_s: f64, waiting_s: Option<f64>, network: Option<(f64, f64)>) -> InMpi {
        let network =
            network.map(|(latency_s, bandwidth_s)| NetworkSeconds { latency_s, bandwidth_s, overlappable_s: 0.0 });
        InMpi { mpi_s, waiting_s, network }
    }

    #[test]
    fn the_largest_part_decides() {
        let class = |of: InMpi| (class(&of), nearest(&of));
        assert_eq!(class(in_mpi(1.0, Some(0.6), Some((0.1, 0.1)))).0, Class::WaitingForRanks);
        assert_eq!(class(in_mpi(1.0, Some(0.1), Some((0.5, 0.2)))).0, Class::NetworkLatency);
        assert_eq!(class(in_mpi(1.0, Some(0.1), Some((0.1, 0.7)))).0, Class::NetworkBandwidth);
        assert_eq!(class(in_mpi(1.0, Some(0.1), Some((0.2, 0.1)))), (Class::Unknown, Some(Class::NetworkLatency)));
        assert_eq!(class(in_mpi(1.0, Some(0.6), None)).0, Class::WaitingForRanks);
        assert_eq!(class(in_mpi(1.0, None, None)), (Class::Unknown, None));
        // More than half is explained, by several parts.
        assert_eq!(class(in_mpi(1.0, Some(0.3), Some((0.25, 0.1)))).0, Class::WaitingForRanks);
        // A network that needs more than the calls took leaves no rest.
        assert_eq!(class(in_mpi(1.0, Some(0.2), Some((9.0, 1.0)))).0, Class::NetworkLatency);
    }

    #[test]
    fn what_is_not_explained_has_no_saving() {
        use rprof_profile::{Function, run::Rank};
        let with_waiting = |waiting_s| {
            let site = CallSite {
                caller: "exchange".into(),
                call: "MPI_Allreduce".into(),
                time_s: Some(1.0),
                waiting_s: Some(waiting_s),
                ..CallSite::default()
            };
            let mut profile = Profile {
                mpi: Some(Mpi { sites: vec![site], ..Mpi::default() }),
                functions: vec![Function { name: "exchange".into(), ..Function::default() }],
                ..Profile::default()
            };
            profile.run.ranks = vec![Rank::default(); 2];
            carry_over(&mut profile);
            let analysis = profile.functions.remove(0).analysis;
            let savings: Vec<f64> = analysis.savings.iter().map(|saving| saving.seconds).collect();
            (analysis.class.unwrap(), analysis.nearest, savings)
        };
        assert_eq!(with_waiting(0.25), (Class::Unknown, Some(Class::WaitingForRanks), vec![]));
        assert_eq!(with_waiting(0.75), (Class::WaitingForRanks, None, vec![0.375]));
    }

    #[test]
    fn work_and_communication_are_weighed() {
        let mut of = Communication { mpi_s: 1.0, waiting_s: Some(0.9), work_s: Some(0.5), ..Communication::default() };
        classify(&mut of);
        assert_eq!(of.class, Some(Class::WaitingForRanks));
        of.work_s = Some(2.0);
        classify(&mut of);
        assert_eq!(of.class, None);
    }
}
