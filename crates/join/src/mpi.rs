//! Names the call sites of MPI.

use std::collections::BTreeMap;
use std::fmt;

use super::code_map::CodeMap;
use super::modules::{Pass, Place};
use super::sampled::InMpi;
use rprof_profile::evidence::mpi::{MpiEvidence, MpiSite, OfWindows, Traffic};
use rprof_profile::mpi::{CallSite, Mpi, NetworkBytes, NetworkMethod, RankCalls, SizeClass};
use rprof_profile::mpi_name::MpiName;
use rprof_profile::source::Source;

/// Why one rank alone does not know what it waited for.
const ONE_RANK: &str = "the other ranks' calls are needed: merge the ranks of the job";
/// Why the bytes of a site are not known.
const NO_BYTES: &str = "the datatype or the communicator of some calls is not known";
const NOT_READ: &str = "the parts that this call passes are not read";
/// Why a site has neither calls nor bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoCalls {
    NotCounted,
    NotMet,
    TooFewWindows,
    SlowWindows,
}

impl fmt::Display for NoCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoCalls::NotCounted => "nothing was counted",
            NoCalls::NotMet => "no window met a call",
            NoCalls::TooFewWindows => "too few windows tell how many calls there were",
            NoCalls::SlowWindows => "the windows were too slow to tell how many calls there were",
        })
    }
}

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
        job: None,
        host: String::new(),
        clock: String::new(),
        sites: sites.iter().map(CallSite::key).collect(),
        communicators: evidence.communicators.clone(),
        calls: evidence.calls.clone(),
        left_out: evidence.calls_left_out,
    };
    // A place in no module has no name.
    mpi.add(sites.into_iter().filter(|site| site.calls > Some(0)));
    mpi.sort();
    (mpi, calls)
}

/// The call sites that samples and windows saw: `seconds` by the samples, calls and bytes by the `windows`. `None`: neither saw one.
pub fn estimated(
    windows: Option<&MpiEvidence>,
    is_counted: bool,
    mut seconds: BTreeMap<Place, InMpi>,
    code: &mut CodeMap,
) -> Option<Mpi> {
    let ranks = windows.and_then(|evidence| evidence.ranks);
    let mut mpi = Mpi { ranks, split_missing: Some(ONE_RANK.into()), ..Mpi::default() };
    for (evidence, site) in windows.iter().flat_map(|evidence| evidence.sites.iter().map(move |site| (evidence, site)))
    {
        let place = code.place(Pass::Counted, site.at).filter(|_| site.calls > 0);
        let Some((place, mut named)) = place.zip(named(site, evidence.rank, code)) else { continue };
        (named.time_s, named.network_sent, named.network_received) = (None, None, None);
        match (evidence.windows, site.errors) {
            (Some(OfWindows::TooSlow), _) => named.leave_calls_out(&NoCalls::SlowWindows.to_string()),
            (_, None) => named.leave_calls_out(&NoCalls::TooFewWindows.to_string()),
            (_, Some((of_calls, of_bytes))) => {
                named.members = ranks.filter(|_| site.world_calls == site.calls);
                let how = |error| Source { how: "estimated".into(), error: Some(error), reason: None };
                named.source.extend([("calls".to_owned(), how(of_calls)), ("bytes".to_owned(), how(of_bytes))]);
            }
        }
        // Sites of several threads share the samples of their place, which go to the first.
        sampled_time(&mut named, seconds.remove(&place).as_ref());
        mpi.add([named]);
    }
    for (place, in_mpi) in seconds {
        let mut site = at(place, code);
        site.call.clone_from(&in_mpi.call);
        let why = if is_counted { NoCalls::NotMet } else { NoCalls::NotCounted };
        site.leave_calls_out(&why.to_string());
        sampled_time(&mut site, Some(&in_mpi));
        mpi.add([site]);
    }
    mpi.sort();
    (!mpi.sites.is_empty()).then_some(mpi)
}

/// Whether the bytes of `call` follow from its arguments: not those of neighbours, and not of an array of datatypes.
fn reads_parts(call: &str) -> bool {
    let Some(name) = MpiName::of(call).map(|name| name.blocking()) else { return true };
    !name.starts_with("Neighbor_") && name != "Alltoallw"
}

/// Sets the seconds that samples say.
fn sampled_time(site: &mut CallSite, in_mpi: Option<&InMpi>) {
    site.time_s = in_mpi.map(|in_mpi| in_mpi.seconds);
    let error = in_mpi.map(|in_mpi| 2.0 / f64::from(in_mpi.samples).sqrt());
    let reason = in_mpi.is_none().then(|| "no sample met a call".to_owned());
    site.source.insert("time_s".into(), Source { how: "sampled".into(), error, reason });
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
    let mut source = BTreeMap::new();
    if site.unknown > 0 {
        let reason = if reads_parts(&site.function) { NO_BYTES } else { NOT_READ };
        source.insert("bytes".to_owned(), Source::not_measured(reason));
    }
    Some(CallSite {
        source,
        call: site.function.clone(),
        rank,
        calls: Some(site.calls),
        bytes: (site.unknown == 0).then_some(site.bytes),
        unknown_calls: site.unknown,
        time_s: (site.timed > 0).then_some(site.time_s),
        timed_calls: site.timed,
        sizes: sizes(&site.sizes, &site.size_bytes),
        network_sent: Some(site.network.sent),
        network_received: Some(site.network.received),
        ..at(place, code)
    })
}

/// A call site of which only the place is known.
fn at(place: Place, code: &mut CodeMap) -> CallSite {
    let function = code.function(place);
    let line = code.line(place);
    let known = code.known(function);
    CallSite {
        caller: known.name.to_string(),
        module: known.module.to_string(),
        file: line.as_ref().map(|line| line.file.to_string()),
        line: line.map(|line| line.line),
        site: format!("{:#x}", place.offset),
        ..CallSite::default()
    }
}

/// Entry i of `by_bits` has the calls of sizes with i bits, entry i of `bytes` their bytes.
fn sizes(by_bits: &[u64], bytes: &[u64]) -> Vec<SizeClass> {
    let lower = |bits: usize| if bits == 0 { 0 } else { 1u64 << (bits - 1) };
    let classes = by_bits.iter().enumerate().filter(|(_, calls)| **calls > 0);
    classes.map(|(bits, calls)| SizeClass(lower(bits), *calls, bytes.get(bits).copied().unwrap_or(0))).collect()
}
