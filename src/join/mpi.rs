//! Names the call sites of MPI.

use super::code_map::CodeMap;
use super::modules::Pass;
use crate::profile::evidence::mpi::{MpiEvidence, MpiSite, Traffic};
use crate::profile::mpi::{CallSite, Mpi, NetworkBytes, NetworkMethod, RankCalls, SizeClass};

/// Why one rank alone does not know what it waited for.
const ONE_RANK: &str = "the other ranks' calls are needed: merge the ranks of the job";

/// The call sites of `evidence`, those of several threads put together, and the single calls.
pub fn mpi(evidence: &MpiEvidence, code: &mut CodeMap) -> (Mpi, RankCalls) {
    let network = Some(network(evidence));
    let mut mpi = Mpi { ranks: evidence.ranks, split_missing: Some(ONE_RANK.into()), network, ..Mpi::default() };
    let mut sites: Vec<CallSite> =
        evidence.sites.iter().map(|site| named(site, evidence.rank, code).unwrap_or_default()).collect();
    if evidence.network.missing.is_some() {
        sites.iter_mut().for_each(|site| (site.network_sent, site.network_received) = (None, None));
    }
    let calls = RankCalls {
        rank: evidence.rank,
        host: String::new(),
        sites: sites.iter().map(CallSite::key).collect(),
        communicators: evidence.communicators.clone(),
        calls: evidence.calls.clone(),
        left_out: evidence.calls_left_out,
    };
    // A place in no module has no name.
    mpi.add(sites.into_iter().filter(|site| site.calls > 0));
    mpi.sort();
    (mpi, calls)
}

/// The bytes of all calls, and of none.
fn network(evidence: &MpiEvidence) -> NetworkBytes {
    let mut all = evidence.network.outside;
    evidence.sites.iter().for_each(|site| all += site.network);
    let known = evidence.network.missing.is_none().then_some(all);
    NetworkBytes {
        sent: known.map(|Traffic { sent, .. }| sent),
        received: known.map(|Traffic { received, .. }| received),
        outside: evidence.network.outside,
        within_host: evidence.network.within_host,
        host_ports: evidence.network.host_ports,
        method: NetworkMethod::SocketCalls,
        missing: evidence.network.missing,
    }
}

/// A call site with names. `None`: its place is in no module.
fn named(site: &MpiSite, rank: Option<u32>, code: &mut CodeMap) -> Option<CallSite> {
    let place = code.place(Pass::Counted, site.at)?;
    let function = code.function(place);
    let line = code.line(place);
    let known = code.known(function);
    Some(CallSite {
        caller: known.name.to_string(),
        module: known.module.to_string(),
        file: line.as_ref().map(|line| line.file.to_string()),
        line: line.map(|line| line.line),
        site: format!("{:#x}", site.at.offset),
        call: site.function.clone(),
        rank,
        calls: site.calls,
        bytes: (site.unknown == 0).then_some(site.bytes),
        unknown_calls: site.unknown,
        time_s: (site.timed > 0).then_some(site.time_s),
        timed_calls: site.timed,
        waiting_s: None,
        transfer_s: None,
        members: None,
        far_calls: None,
        received: None,
        sizes: sizes(&site.sizes, &site.size_bytes),
        network_sent: Some(site.network.sent),
        network_received: Some(site.network.received),
        needed: None,
    })
}

/// Entry i of `by_bits` has the calls of sizes with i bits, entry i of `bytes` their bytes.
fn sizes(by_bits: &[u64], bytes: &[u64]) -> Vec<SizeClass> {
    let lower = |bits: usize| if bits == 0 { 0 } else { 1u64 << (bits - 1) };
    let classes = by_bits.iter().enumerate().filter(|(_, calls)| **calls > 0);
    classes.map(|(bits, calls)| SizeClass(lower(bits), *calls, bytes.get(bits).copied().unwrap_or(0))).collect()
}
