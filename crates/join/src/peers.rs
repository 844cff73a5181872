//! The ranks that each rank sends messages to, gets them from, and waits for, by call site.

use std::collections::{BTreeMap, BTreeSet};

use super::partners::{Message, Partners, Placed, Rank};
use rprof_profile::mpi::{Mpi, RankCalls};
use rprof_profile::peer::Peer;
use rprof_profile::site_key::SiteKey;

/// Peers of one rank by (call site of [`RankCalls::sites`], peer).
pub type OfRank = BTreeMap<(u32, u32), Peer>;

/// Messages of each rank with others.
pub fn messages(ranks: &[Rank<'_>], partners: &Partners) -> Vec<OfRank> {
    let mut all: Vec<OfRank> = vec![OfRank::new(); ranks.len()];
    for (rank, of_rank) in ranks.iter().zip(&mut all) {
        for call in &rank.calls {
            let Some(to) = call.to.and_then(|(to, _)| u32::try_from(to).ok()) else { continue };
            of_rank.entry((call.call.site, to)).or_default().sent.add(call.call.bytes);
        }
    }
    for &Message { sent: (sender, sent), received: (receiver, received) } in &partners.messages {
        let key = (ranks[receiver].calls[received].call.site, ranks[sender].number);
        all[receiver].entry(key).or_default().received.add(ranks[sender].calls[sent].call.bytes);
    }
    all
}

/// Calls of each rank with messages from or to an unknown rank. One that sends and receives may count twice.
pub fn without_peer(ranks: &[Rank<'_>], partners: &Partners) -> Vec<u64> {
    let mut received = vec![0u64; ranks.len()];
    partners.messages.iter().for_each(|message| received[message.received.0] += 1);
    let of_rank = |(rank, received): (&Rank<'_>, u64)| {
        let count = |is_one: &dyn Fn(&Placed<'_>) -> bool| rank.calls.iter().filter(|call| is_one(call)).count() as u64;
        let sends = count(&|call| call.to.is_some_and(|(to, _)| to < 0));
        let starts = count(&|call| rank.kind(call).starts_prepared && call.group.is_none());
        let receives = count(&|call| call.from.is_some());
        sends + starts + receives.saturating_sub(received)
    };
    ranks.iter().zip(received).map(of_rank).collect()
}

/// Adds that a call of site `site` waited `ns` nanoseconds for `peer`.
pub fn waited(of_rank: &mut OfRank, site: u32, peer: u32, ns: u64) {
    let waiting_s = &mut of_rank.entry((site, peer)).or_default().waiting_s;
    *waiting_s = Some(waiting_s.unwrap_or(0.0) + ns as f64 / 1e9);
}

/// Fills in the peers of a rank; its sites have their waiting already.
pub fn fill(mpi: &mut Mpi, rank: &RankCalls, of_rank: OfRank) {
    let known: BTreeSet<SiteKey> =
        mpi.sites.iter().filter(|site| site.waiting_s.is_some()).map(|site| site.key()).collect();
    let peer = |((site, peer), of): ((u32, u32), Peer)| {
        let site = rank.sites.get(site as usize)?.clone();
        let waiting_s = known.contains(&site).then(|| of.waiting_s.unwrap_or(0.0));
        Some(Peer { rank: rank.rank?, peer, site, waiting_s, ..of })
    };
    mpi.peers = of_rank.into_iter().filter_map(peer).collect();
}
