//! `rprof query PROFILE mpi`: the call sites of MPI with most time.

use serde_json::{Value, json};

use crate::{View, mpi, regions, wrap};
use rprof_profile::Profile;
use rprof_profile::mpi::{CallSite, Mpi};

/// What a text says if no call was seen.
const NONE: &str = "No call of MPI is in this profile: it made none, or neither a counted pass nor samples saw one.";

/// As JSON; `mpi` is `null` if no call was seen.
pub fn json(profile: &Profile, limit: usize) -> Value {
    json!({ "run": super::run(profile), "mpi": profile.mpi.as_ref().map(|mpi| of_mpi(mpi, limit)) })
}

fn of_mpi(mpi: &Mpi, limit: usize) -> Value {
    let all = by_time(mpi);
    let sum = |of: fn(&CallSite) -> Option<f64>| all.iter().map(|site| of(site)).sum::<Option<f64>>();
    json!({
        "ranks": mpi.ranks, "at_least": mpi.at_least, "efficiency": mpi.efficiency, "network": mpi.network,
        "calls": all.iter().map(|site| site.calls).sum::<Option<u64>>(),
        "bytes": all.iter().map(|site| site.bytes).sum::<Option<u64>>(),
        "time_s": sum(|site| site.time_s), "waiting_s": sum(|site| site.waiting_s), "waiting_missing": mpi.split_missing,
        "sites": super::list(all.iter().take(limit).map(|site| of_site(site)).collect(), all.len()),
        "peers": super::list(mpi.peers.iter().take(limit).map(|peer| json!(peer)).collect(), mpi.peers.len()),
    })
}

/// Sites that communicate, those with most time first.
fn by_time(mpi: &Mpi) -> Vec<&CallSite> {
    let mut all: Vec<&CallSite> = mpi.sites.iter().filter(|site| site.is_communication()).collect();
    all.sort_by(|a, b| b.time_s.unwrap_or(0.0).total_cmp(&a.time_s.unwrap_or(0.0)));
    all
}

/// Without its sizes, which are a list of their own.
fn of_site(site: &CallSite) -> Value {
    json!({
        "call": site.call, "caller": site.caller, "module": site.module, "file": site.file, "line": site.line,
        "rank": site.rank, "calls": site.calls, "bytes": site.bytes, "unknown_calls": site.unknown_calls,
        "time_s": site.time_s, "waiting_s": site.waiting_s, "transfer_s": site.transfer_s, "members": site.members,
        "network_sent": site.network_sent, "network_received": site.network_received, "needed": site.needed, "source": site.source,
    })
}

/// As a table.
pub fn text(profile: &Profile, limit: usize, view: &View) -> String {
    match mpi::rows(profile, limit) {
        Some(rows) => regions::text(&rows, view.width).trim_start().to_owned(),
        None => wrap::hanging(NONE, view.width, 0),
    }
}
