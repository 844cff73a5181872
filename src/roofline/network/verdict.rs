//! Classes and savings of functions that communicate more than they work.
//!
//! ```text
//! less than half of its seconds in MPI          no class of the network
//! else the largest of
//!   waiting for other ranks                     waiting-for-ranks
//!   what its calls need without bytes           network-latency
//!   what their bytes need                       network-bandwidth
//!   the rest of its seconds in MPI              unknown
//! saving of the program = seconds of all ranks / ranks
//! ```

use crate::profile::communication::Communication;
use crate::profile::function::Saving;
use crate::profile::mpi::CallSite;
use crate::profile::{Function, Profile};

use crate::profile::number;

/// Share of its seconds from which a function is one that communicates.
const HALF: f64 = 0.5;
/// A saving is listed from this share of the seconds in MPI on.
const WORTHWHILE: f64 = 0.05;

/// Parts of the seconds in MPI, with their classes. Without ceilings of the network waiting alone is known.
fn parts(of: &Communication) -> Vec<(&'static str, f64)> {
    let mut parts = Vec::new();
    let waiting = of.waiting_s.unwrap_or(0.0);
    if of.waiting_s.is_some() {
        parts.push(("waiting-for-ranks", waiting));
    }
    if let Some(network) = of.network {
        // A call needs no more than it took.
        let room = (of.mpi_s - waiting).max(0.0);
        let scale = (room / network.seconds().max(f64::MIN_POSITIVE)).min(1.0);
        parts.push(("network-latency", scale * network.latency_s));
        parts.push(("network-bandwidth", scale * network.bandwidth_s));
    }
    let rest = of.mpi_s - parts.iter().map(|part| part.1).sum::<f64>();
    parts.push(("unknown", rest.max(0.0)));
    parts
}

/// Fills in the class.
pub fn classify(of: &mut Communication) {
    let all = of.mpi_s + of.work_s.unwrap_or(0.0);
    let largest = parts(of).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    of.class = largest.filter(|_| of.mpi_s > 0.0 && of.mpi_s >= HALF * all).map(|(class, _)| class.to_owned());
}

/// Gives functions of the profile that call MPI themselves the classes and the savings of `found`.
pub fn carry_over(profile: &mut Profile, found: &[Communication]) {
    let ranks = profile.run.ranks.len().max(1) as f64;
    let Some(mpi) = &profile.mpi else { return };
    for of in found.iter().filter(|of| of.calls_mpi) {
        let sites: Vec<&CallSite> = mpi
            .sites
            .iter()
            .filter(|site| site.caller == of.name && site.module == of.module && site.is_communication())
            .collect();
        let in_it: f64 = sites.iter().filter_map(|site| site.time_s).sum();
        let is_it = |f: &&mut Function| f.name == of.name && f.module == of.module;
        let Some(function) = profile.functions.iter_mut().find(is_it) else { continue };
        // Its calls of MPI against its own work: what it calls beside MPI is about other functions.
        let own = function.cpu_s.unwrap_or(0.0);
        if in_it <= 0.0 || in_it < HALF * (in_it + own) {
            continue;
        }
        let share = if of.mpi_s > 0.0 { (in_it / of.mpi_s).min(1.0) } else { 0.0 };
        let analysis = &mut function.analysis;
        if let Some((class, _)) = parts(of).into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            analysis.class = Some(class.to_owned());
            analysis.nearest = None;
            analysis.confidence = None;
        }
        let savings = parts(of).into_iter().filter(|(class, s)| *class != "unknown" && *s >= WORTHWHILE * of.mpi_s);
        let of_network = savings.map(|(class, seconds)| Saving {
            remove: vec![class.to_owned()],
            seconds: share * seconds / ranks,
            seconds_max: share * seconds / ranks,
            program_seconds: Some(share * seconds / ranks),
            advice: advice(class, &sites, share * seconds, mpi.efficiency.map(|e| e.load_balance)),
        });
        analysis.savings.splice(0..0, of_network);
        analysis.savings.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    }
}

fn advice(class: &str, sites: &[&CallSite], seconds: f64, load_balance: Option<f64>) -> String {
    let longest = sites.iter().max_by(|a, b| a.time_s.unwrap_or(0.0).total_cmp(&b.time_s.unwrap_or(0.0)));
    let call = longest.map_or("MPI", |site| site.call.as_str());
    let calls: u64 = sites.iter().map(|site| site.calls).sum();
    let bytes: Option<u64> = sites.iter().map(|site| site.bytes).sum();
    let seconds = number::seconds(seconds);
    match class {
        "waiting-for-ranks" => {
            let balance =
                load_balance.map_or(String::new(), |lambda| format!(" (load balance {:.0} %)", 100.0 * lambda));
            format!(
                "Ranks wait {seconds} of all ranks' time in {call} until others come: give each rank the same work{balance}, or do work \
                 that needs no answer before the call."
            )
        }
        "network-latency" => {
            let each = bytes.map_or(String::new(), |bytes| {
                format!(" of {} on average", number::si(bytes as f64 / calls.max(1) as f64, "B"))
            });
            format!(
                "{calls} calls{each} cost {seconds} of all ranks' time before a byte has crossed: send several messages as one, or \
                 exchange less often."
            )
        }
        _ => {
            let all =
                bytes.map_or(String::new(), |bytes| format!("{} in {calls} calls ", number::si(bytes as f64, "B")));
            format!(
                "{all}need {seconds} of all ranks' time at the rate of the network: send fewer or shorter values, or start the \
                 messages earlier (MPI_I…) and work meanwhile."
            )
        }
    }
}
