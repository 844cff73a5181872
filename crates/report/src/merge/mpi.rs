//! Calls of MPI of several ranks: call sites of one place are put together, and how the ranks' work compares.

use std::collections::BTreeMap;

use rprof_profile::Profile;
use rprof_profile::mpi::{Efficiency, Mpi};
use rprof_profile::run::{Rank, Warning};

/// Adds the call sites of `part`.
pub fn add(whole: &mut Option<Mpi>, part: Option<Mpi>) {
    let Some(part) = part else { return };
    let Some(into) = whole else {
        *whole = Some(part);
        return;
    };
    into.ranks = into.ranks.max(part.ranks);
    into.at_least |= part.at_least;
    into.clock_error_s = into.clock_error_s.or(part.clock_error_s);
    into.network = into.network.zip(part.network).map(|(a, b)| a.plus(b));
    into.split_missing = into.split_missing.take().or(part.split_missing);
    into.peers.extend(part.peers);
    into.peers_left_out += part.peers_left_out;
    into.calls_without_peer += part.calls_without_peer;
    into.add(part.sites);
}

/// Leaves out the calls and bytes of all ranks, and says so, if some were counted and others were not: their sum would be that of a part.
pub fn leave_uncounted_out(profiles: &mut [Profile]) -> Option<Warning> {
    let is_counted = |profile: &Profile| profile.run.passes.iter().any(|pass| pass.kind != "timed");
    let uncounted = || profiles.iter().filter(|profile| !is_counted(profile));
    let ranks: Vec<u32> = uncounted().flat_map(|profile| &profile.run.ranks).map(|rank| rank.rank).collect();
    if ranks.is_empty() || uncounted().count() == profiles.len() {
        return None;
    }
    let what = match ranks[..] {
        [rank] => format!("rank {rank} was not counted, others were"),
        _ => format!("{} ranks were not counted, others were: the first is rank {}", ranks.len(), ranks[0]),
    };
    for profile in profiles {
        let sites = profile.mpi.iter_mut().flat_map(|mpi| &mut mpi.sites);
        sites.for_each(|site| site.leave_calls_out(&what));
        profile.blas.iter_mut().for_each(|blas| blas.at_least = true);
    }
    Some(Warning::new(
        "ranks-not-counted",
        what,
        "calls and bytes of MPI are not stated; counts are missing of functions that this rank executed",
        "launch the counted pass of all ranks again into this folder",
    ))
}

/// Compares the work of the ranks of a merged profile. `parts`: for each rank, CPU seconds at work, and threads that had some.
pub fn compare(whole: &mut Profile, parts: &[(Option<f64>, usize)]) {
    if let Some(mpi) = &mut whole.mpi {
        mpi.sort();
        mpi.sort_peers();
        mpi.efficiency = efficiency(&whole.run.ranks, parts);
    }
}

/// `None`: a rank was not timed, or has several threads with work that may overlap.
fn efficiency(ranks: &[Rank], parts: &[(Option<f64>, usize)]) -> Option<Efficiency> {
    if parts.len() < 2 || parts.iter().any(|(_, threads)| *threads > 1) {
        return None;
    }
    let work: Vec<f64> = parts.iter().map(|(seconds, _)| *seconds).collect::<Option<_>>()?;
    let elapsed = ranks.iter().map(|rank| rank.wall_s).collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
    let busiest = work.iter().copied().fold(0.0, f64::max);
    if elapsed <= 0.0 || busiest <= 0.0 {
        return None;
    }
    let mean = work.iter().sum::<f64>() / work.len() as f64;
    Some(Efficiency { parallel: mean / elapsed, load_balance: mean / busiest, communication: busiest / elapsed })
}

/// CPU seconds at work of a rank's profile, and how many threads had more than a hundredth of them.
pub fn work(profile: &Profile) -> (Option<f64>, usize) {
    let seconds = profile.functions.iter().filter_map(|f| f.cpu_s).reduce(|a, b| a + b);
    let mut by_thread: BTreeMap<u32, f64> = BTreeMap::new();
    for thread in profile.functions.iter().flat_map(|f| &f.per_thread) {
        *by_thread.entry(thread.thread).or_default() += thread.cpu_s.unwrap_or(0.0);
    }
    let at_work = by_thread.values().filter(|s| **s > 0.01 * seconds.unwrap_or(0.0)).count();
    (seconds, at_work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::mpi::CallSite;
    use rprof_profile::run::Pass;

    #[test]
    fn efficiencies_are_the_ranks_work_against_time() {
        let rank = |wall_s| Rank { wall_s: Some(wall_s), ..Rank::default() };
        let both = efficiency(&[rank(2.0), rank(2.5)], &[(Some(2.0), 1), (Some(1.0), 1)]).unwrap();
        assert_eq!((both.parallel, both.load_balance, both.communication), (0.6, 0.75, 0.8));
        assert_eq!(efficiency(&[rank(2.0), rank(2.0)], &[(Some(2.0), 1), (None, 1)]), None);
        assert_eq!(efficiency(&[rank(2.0), rank(2.0)], &[(Some(2.0), 1), (Some(1.0), 4)]), None);
    }

    #[test]
    fn calls_of_a_part_of_the_ranks_are_not_stated() {
        let rank = |rank, kind: &str| {
            let site = CallSite { call: "MPI_Send".into(), calls: Some(2), bytes: Some(16), ..CallSite::default() };
            let mut profile = Profile { mpi: Some(Mpi { sites: vec![site], ..Mpi::default() }), ..Profile::default() };
            profile.run.ranks = vec![Rank { rank, ..Rank::default() }];
            profile.run.passes = vec![Pass { kind: kind.into(), ..Pass::default() }];
            profile
        };
        let calls = |profiles: &[Profile]| profiles[0].mpi.as_ref().unwrap().sites[0].calls;
        let mut all = [rank(0, "counted"), rank(1, "windows")];
        assert_eq!((leave_uncounted_out(&mut all), calls(&all)), (None, Some(2)));
        let mut some = [rank(0, "counted"), rank(1, "timed")];
        assert_eq!(leave_uncounted_out(&mut some).unwrap().text, "rank 1 was not counted, others were");
        assert_eq!(calls(&some), None);
        assert_eq!(leave_uncounted_out(&mut [rank(0, "timed"), rank(1, "timed")]), None);
    }

    #[test]
    fn a_site_that_all_ranks_have_is_one() {
        let rank = |rank, calls, bytes| Mpi {
            sites: vec![CallSite {
                caller: "halo".into(),
                call: "MPI_Send".into(),
                rank: Some(rank),
                calls: Some(calls),
                bytes,
                ..CallSite::default()
            }],
            ..Mpi::default()
        };
        let mut whole = Some(rank(0, 2, Some(16)));
        add(&mut whole, Some(rank(1, 3, Some(24))));
        let site = &whole.as_ref().unwrap().sites[0];
        assert_eq!((site.calls, site.bytes, site.rank), (Some(5), Some(40), None));
        add(&mut whole, Some(rank(2, 1, None)));
        assert_eq!(whole.unwrap().sites[0].bytes, None);
    }
}
