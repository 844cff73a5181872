//! The communication-aware roofline (Cardwell 2019, chapter 2, eq. 2.3 to 2.5), for functions with all that they call.
//!
//! ```text
//!  call sites, curves ─ cost ──▶ seconds that the network needs ─┐
//!  samples ──────────── below ─▶ shares of functions below others ┼─▶ communication ─▶ CAI, bound, class ─▶ savings of functions
//!  functions ──────────────────▶ work, FLOPs, bytes ──────────────┘
//! ```
//!
//! Calls are those of the counted pass, in which they may take longer ([`pass`]).
//!
//! A blocking call does nothing else, so its seconds add to those of the work: the bound is a sum, not the lowest of roofs.

mod below;
mod cost;
mod functions;
mod pass;
mod verdict;

use rprof_profile::Profile;
use rprof_profile::network::Network;

/// Fills in what functions communicate, and the classes and savings of those that communicate more than they work. After the analysis of
/// functions.
pub fn analyse(profile: &mut Profile) {
    // One rank alone does not know what it waited for, and its hosts are not known.
    if profile.run.ranks.len() < 2 || profile.mpi.is_none() {
        return;
    }
    let share = pass::timed_share(profile);
    if let Some(mpi) = &mut profile.mpi {
        mpi.timed_share = share;
    }
    let mut found = functions::of(profile);
    found.iter_mut().for_each(verdict::classify);
    verdict::carry_over(profile);
    if let Some(mpi) = &mut profile.mpi {
        mpi.functions = found;
    }
}

/// Most ranks of a host.
fn ranks_of_a_host(network: &Network) -> u32 {
    network.hosts.iter().map(|host| host.ranks.len() as u32).max().unwrap_or(1).max(1)
}
