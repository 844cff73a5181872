//! Names the call sites of MPI.

use super::code_map::CodeMap;
use super::modules::Pass;
use crate::profile::evidence::mpi::MpiEvidence;
use crate::profile::mpi::{CallSite, Mpi, RankCalls};

/// Why one rank alone does not know what it waited for.
const ONE_RANK: &str = "the other ranks' calls are needed: merge the ranks of the job";

/// The call sites of `evidence`, those of several threads put together, and the single calls.
pub fn mpi(evidence: &MpiEvidence, code: &mut CodeMap) -> (Mpi, RankCalls) {
    let mut sites: Vec<CallSite> = Vec::new();
    let mut keys = Vec::new();
    for site in &evidence.sites {
        let Some(place) = code.place(Pass::Counted, site.at) else {
            keys.push(CallSite::default().key());
            continue;
        };
        let function = code.function(place);
        let line = code.line(place);
        let known = code.known(function);
        let named = CallSite {
            caller: known.name.to_string(),
            module: known.module.to_string(),
            file: line.as_ref().map(|line| line.file.to_string()),
            line: line.map(|line| line.line),
            site: format!("{:#x}", site.at.offset),
            call: site.function.clone(),
            rank: evidence.rank,
            calls: site.calls,
            bytes: (site.unknown == 0).then_some(site.bytes),
            unknown_calls: site.unknown,
            time_s: (site.timed > 0).then_some(site.time_s),
            timed_calls: site.timed,
            waiting_s: None,
            transfer_s: None,
            sizes: sizes(&site.sizes),
        };
        keys.push(named.key());
        match sites.iter_mut().find(|known| known.key() == named.key()) {
            Some(known) => known.plus(&named),
            None => sites.push(named),
        }
    }
    sites.sort_by(|a, b| b.time_s.unwrap_or(0.0).total_cmp(&a.time_s.unwrap_or(0.0)));
    let calls = RankCalls {
        rank: evidence.rank,
        host: String::new(),
        sites: keys,
        calls: evidence.calls.clone(),
        left_out: evidence.calls_left_out,
    };
    (
        Mpi { ranks: evidence.ranks, sites, at_least: false, split_missing: Some(ONE_RANK.into()), efficiency: None },
        calls,
    )
}

/// Entry i of `by_bits` has the calls of sizes with i bits.
fn sizes(by_bits: &[u64]) -> Vec<(u64, u64)> {
    let lower = |bits: usize| if bits == 0 { 0 } else { 1u64 << (bits - 1) };
    by_bits.iter().enumerate().filter(|(_, calls)| **calls > 0).map(|(bits, calls)| (lower(bits), *calls)).collect()
}
