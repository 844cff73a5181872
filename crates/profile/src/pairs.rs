//! Pairs of ranks: messages between them and waiting for one another, of all call sites together.

use std::collections::BTreeMap;

use super::mpi::{CallSite, Mpi};
use super::peer::{Messages, Peer};
use super::site_key::SiteKey;

/// Most rows of a profile: ranks of a large job have many peers.
pub const MOST: usize = 10_000;

/// A rank and one other, at all call sites.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair<'p> {
    /// As in [`Peer`].
    pub rank: u32,
    /// As in [`Peer`].
    pub peer: u32,
    /// Messages to the peer.
    pub sent: Messages,
    /// Messages from it.
    pub received: Messages,
    /// Seconds of waiting for it, if that is known.
    pub waiting_s: f64,
    /// The call site that waits longest for it; `None`: none does.
    pub longest: Option<&'p SiteKey>,
}

impl Mpi {
    /// Puts the peers with most waiting first, then those with most bytes, and keeps at most [`MOST`].
    pub fn sort_peers(&mut self) {
        let bytes = |of: &Peer| most_bytes(of.sent, of.received);
        let waiting = |of: &Peer| of.waiting_s.unwrap_or(0.0);
        self.peers.sort_by(|a, b| {
            let by_figures = waiting(b).total_cmp(&waiting(a)).then(bytes(b).cmp(&bytes(a)));
            by_figures.then_with(|| (a.rank, a.peer, &a.site).cmp(&(b.rank, b.peer, &b.site)))
        });
        self.peers_left_out += self.peers.len().saturating_sub(MOST) as u64;
        self.peers.truncate(MOST);
    }

    /// Ranks and their peers, those that wait longest first, then those that hand over most.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let mut all: BTreeMap<(u32, u32), (Pair<'_>, f64)> = BTreeMap::new();
        for of in &self.peers {
            let (rank, peer, none) = (of.rank, of.peer, Messages::default());
            let new = || (Pair { rank, peer, sent: none, received: none, waiting_s: 0.0, longest: None }, 0.0);
            let (pair, longest_s) = all.entry((rank, peer)).or_insert_with(new);
            pair.sent += of.sent;
            pair.received += of.received;
            let waiting_s = of.waiting_s.unwrap_or(0.0);
            pair.waiting_s += waiting_s;
            if waiting_s > *longest_s {
                (pair.longest, *longest_s) = (Some(&of.site), waiting_s);
            }
        }
        let mut pairs: Vec<Pair<'_>> = all.into_values().map(|(pair, _)| pair).collect();
        let bytes = |pair: &Pair<'_>| most_bytes(pair.sent, pair.received);
        pairs.sort_by(|a, b| b.waiting_s.total_cmp(&a.waiting_s).then(bytes(b).cmp(&bytes(a))));
        pairs
    }

    /// The rank that others wait longest for in the calls of `sites`, and its part of their waiting; `None`: that is not known of all.
    pub fn latest(&self, sites: &[&CallSite]) -> Option<(u32, f64)> {
        if self.peers_left_out > 0 || sites.iter().any(|site| site.waiting_s.is_none()) {
            return None;
        }
        let keys: Vec<SiteKey> = sites.iter().map(|site| site.key()).collect();
        let mut by_peer: BTreeMap<u32, f64> = BTreeMap::new();
        for of in self.peers.iter().filter(|of| keys.contains(&of.site)) {
            *by_peer.entry(of.peer).or_default() += of.waiting_s?;
        }
        let all: f64 = by_peer.values().sum();
        let (peer, waiting_s) = by_peer.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (all > 0.0).then(|| (peer, waiting_s / all))
    }
}

/// Known bytes of the direction that has more.
fn most_bytes(sent: Messages, received: Messages) -> u64 {
    sent.bytes.max(received.bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(call: &str) -> SiteKey {
        SiteKey { caller: "f".into(), module: "m".into(), site: "0x1".into(), call: call.into() }
    }

    fn peer(rank: u32, peer: u32, call: &str, bytes: Option<u64>, waiting_s: Option<f64>) -> Peer {
        let sent = Messages { messages: 1, bytes };
        Peer { rank, peer, site: site(call), sent, received: Messages::default(), waiting_s }
    }

    #[test]
    fn pairs_are_those_of_all_sites() {
        let peers = vec![
            peer(0, 1, "MPI_Send", Some(8), Some(0.5)),
            peer(1, 0, "MPI_Send", Some(80), Some(0.0)),
            peer(0, 1, "MPI_Barrier", None, Some(2.0)),
        ];
        let mpi = Mpi { peers, ..Mpi::default() };
        let pairs = mpi.pairs();
        assert_eq!((pairs[0].rank, pairs[0].peer, pairs[0].waiting_s), (0, 1, 2.5));
        assert_eq!((pairs[0].longest, pairs[0].sent.bytes), (Some(&site("MPI_Barrier")), None));
        assert_eq!((pairs.len(), pairs[1].longest), (2, None));
    }

    #[test]
    fn the_latest_is_whom_most_is_waited_for() {
        let of = |call: &str| CallSite {
            caller: "f".into(),
            module: "m".into(),
            site: "0x1".into(),
            call: call.into(),
            waiting_s: Some(1.0),
            ..CallSite::default()
        };
        let peers = vec![
            peer(0, 1, "MPI_Recv", None, Some(0.5)),
            peer(2, 1, "MPI_Recv", None, Some(1.0)),
            peer(1, 2, "MPI_Recv", None, Some(0.5)),
            peer(1, 0, "MPI_Barrier", None, Some(9.0)),
        ];
        let mut mpi = Mpi { peers, ..Mpi::default() };
        assert_eq!(mpi.latest(&[&of("MPI_Recv")]), Some((1, 0.75)));
        assert_eq!(mpi.latest(&[&of("MPI_Send")]), None);
        assert_eq!(mpi.latest(&[&CallSite { waiting_s: None, ..of("MPI_Recv") }]), None);
        mpi.peers_left_out = 1;
        assert_eq!(mpi.latest(&[&of("MPI_Recv")]), None);
    }

    #[test]
    fn the_shortest_waits_are_left_out() {
        let of = |rank| peer(rank, 0, "MPI_Recv", Some(8), Some(f64::from(rank)));
        let mut mpi = Mpi { peers: (1..=MOST as u32 + 2).map(of).collect(), ..Mpi::default() };
        mpi.sort_peers();
        assert_eq!((mpi.peers.len(), mpi.peers_left_out, mpi.peers[MOST - 1].rank), (MOST, 2, 3));
    }
}
