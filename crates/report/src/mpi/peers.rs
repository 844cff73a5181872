//! Which ranks wait for which, and the messages between them.

use super::NAME_WIDTH;
use crate::name;
use crate::number::{NOT_MEASURED, seconds, si};
use crate::regions::Rows;
use crate::table;
use rprof_profile::Profile;
use rprof_profile::pairs::Pair;
use rprof_profile::peer::Messages;

/// Pairs of ranks, at most `most`, those with most waiting first. `None`: no calls of several ranks were compared.
pub fn rows(profile: &Profile, most: usize) -> Option<Rows> {
    let mpi = profile.mpi.as_ref().filter(|mpi| !mpi.peers.is_empty())?;
    let pairs = mpi.pairs();
    let is_known = |pair: &&Pair<'_>| pair.waiting_s > 0.0 || pair.sent.messages + pair.received.messages > 0;
    let shown: Vec<&Pair<'_>> = pairs.iter().filter(is_known).collect();
    let rows: Vec<Vec<String>> = shown.iter().take(most).map(|pair| row(pair)).collect();
    if rows.is_empty() {
        return None;
    }
    let mut notes = vec![
        "waiting: seconds of the counted pass, for the rank that came last to a call; it may have waited itself before"
            .to_owned(),
        "messages from point to point, and their bytes".to_owned(),
    ];
    match mpi.calls_without_peer {
        0 => {}
        1 => notes.push("1 call is not there: the other rank of its messages is not known".into()),
        calls => notes.push(format!("{calls} calls are not there: the other rank of their messages is not known")),
    }
    notes.extend(table::rest(shown.len() - rows.len(), "pair"));
    if mpi.peers_left_out > 0 {
        notes
            .push(format!("{} more call sites with a peer are not kept: figures are lower limits", mpi.peers_left_out));
    }
    let unknown = mpi.sites.iter().filter(|site| site.is_communication() && site.waiting_s.is_none()).count();
    if unknown > 0 {
        let sites = if unknown == 1 { "1 call site".into() } else { format!("{unknown} call sites") };
        notes.push(format!("without the waiting of {sites}, which is {NOT_MEASURED}"));
    }
    Some(Rows {
        title: "Ranks: who waits for whom".into(),
        titles: vec!["rank", "peer", "waits for it", "sends to it", "gets from it", "waits most in"],
        rows,
        words: vec![0, 5],
        notes,
    })
}

fn row(pair: &Pair<'_>) -> Vec<String> {
    let longest = pair
        .longest
        .map(|site| format!("{} in {}", name::printable(&site.call), name::shorten(&site.caller, NAME_WIDTH)));
    vec![
        pair.rank.to_string(),
        pair.peer.to_string(),
        seconds(pair.waiting_s),
        messages(pair.sent),
        messages(pair.received),
        longest.unwrap_or_else(|| "–".into()),
    ]
}

/// `400, 3.20 MB`
fn messages(of: Messages) -> String {
    if of.messages == 0 {
        return "–".into();
    }
    let bytes = of.bytes.map_or_else(|| NOT_MEASURED.to_owned(), |bytes| si(bytes as f64, "B"));
    format!("{}, {bytes}", of.messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::mpi::{CallSite, Mpi};
    use rprof_profile::peer::Peer;
    use rprof_profile::site_key::SiteKey;

    fn peer(rank: u32, peer: u32, waiting_s: Option<f64>, messages: u64) -> Peer {
        let site = SiteKey { caller: "halo".into(), module: "m".into(), site: "0x1".into(), call: "MPI_Recv".into() };
        let received = Messages { messages, bytes: (messages > 0).then_some(8 * messages) };
        Peer { rank, peer, site, waiting_s, received, ..Peer::default() }
    }

    #[test]
    fn whom_a_rank_waits_for_longest_is_first() {
        let peers = vec![peer(0, 1, Some(0.25), 4), peer(2, 0, Some(1.5), 0), peer(1, 2, None, 1), peer(1, 0, None, 0)];
        let sites = vec![CallSite { call: "MPI_Wait".into(), ..CallSite::default() }];
        let mut profile = Profile { mpi: Some(Mpi { peers, sites, ..Mpi::default() }), ..Profile::default() };
        let shown = rows(&profile, 2).unwrap();
        assert_eq!(shown.rows[0], ["2", "0", "1.50 s", "–", "–", "MPI_Recv in halo"]);
        assert_eq!(shown.rows[1], ["0", "1", "250 ms", "–", "4, 32.0 B", "MPI_Recv in halo"]);
        assert_eq!(
            shown.notes[2..],
            ["… and 1 more pair", "without the waiting of 1 call site, which is not measured"]
        );
        profile.mpi.as_mut().unwrap().peers.clear();
        assert!(rows(&profile, 2).is_none());
    }
}
