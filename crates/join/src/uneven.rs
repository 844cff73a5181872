//! Time that ranks waited for one another, if single calls are not known: from how long each rank's samples are in the calls of one
//! site.
//!
//! ```text
//! waiting of a rank at a site = its seconds there − those of the rank that is there for the shortest time
//! ```
//!
//! It is too little if ranks wait in turn. Sites that not all ranks have, and calls in which one rank has another part than the others (a
//! root), are left out.

use std::collections::BTreeMap;

use rprof_profile::mpi::{CallSite, Mpi};
use rprof_profile::mpi_name::MpiName;
use rprof_profile::site_key::SiteKey;
use rprof_profile::source::Source;

/// Why the others are not split.
const ONE_SIDED: &str =
    "not all ranks were seen to call there, or one is the root: only single calls tell, which --passes counted records";
/// The same of all sites.
const NO_SITE: &str =
    "no site was seen in all ranks that they call alike: only single calls tell, which --passes counted records";

/// Splits the sampled seconds of each rank in `ranks`, all of a job, into waiting and the rest.
pub fn split(ranks: &mut [&mut Mpi]) {
    let mut seconds: BTreeMap<SiteKey, Vec<(f64, f64)>> = BTreeMap::new();
    for mpi in ranks.iter() {
        for site in mpi.sites.iter().filter(|site| site.is_sampled() && is_alike(site)) {
            let Some(time_s) = site.time_s else { continue };
            seconds.entry(site.key()).or_default().push((time_s, half_width(site)));
        }
    }
    seconds.retain(|_, of_ranks| of_ranks.len() == ranks.len());
    let least = |of: &Vec<(f64, f64)>| of.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0));
    for mpi in ranks.iter_mut() {
        for site in mpi.sites.iter_mut().filter(|site| site.is_sampled()) {
            let least = seconds.get(&site.key()).and_then(least);
            let (waiting, source) = match site.time_s.zip(least) {
                Some((time_s, (least_s, of_least))) => {
                    let waiting_s = time_s - least_s;
                    let half = if waiting_s > 0.0 { half_width(site).hypot(of_least) } else { 0.0 };
                    let error = (waiting_s > 0.0).then(|| half / waiting_s);
                    (Some(waiting_s), Source { how: "estimated".into(), error, reason: None })
                }
                None => (None, Source::not_measured(ONE_SIDED)),
            };
            site.waiting_s = waiting;
            site.transfer_s = site.time_s.zip(waiting).map(|(time, waiting)| time - waiting);
            site.source.insert("waiting_s".into(), source);
        }
        mpi.split_missing = seconds.is_empty().then(|| NO_SITE.to_owned());
    }
}

/// Seconds.
fn half_width(site: &CallSite) -> f64 {
    site.time_s.unwrap_or(0.0) * site.error("time_s").unwrap_or(0.0)
}

/// Whether all ranks have the same part in its calls.
fn is_alike(site: &CallSite) -> bool {
    let rooted = ["Bcast", "Scatter", "Scatterv", "Gather", "Gatherv", "Reduce"];
    MpiName::of(&site.call).is_some_and(|name| !rooted.contains(&&*name.blocking()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(sites: &[(&str, f64)]) -> Mpi {
        let site = |&(call, time_s): &(&str, f64)| CallSite {
            call: call.into(),
            time_s: Some(time_s),
            source: [("time_s".to_owned(), Source { how: "sampled".into(), error: Some(0.1), reason: None })].into(),
            ..CallSite::default()
        };
        Mpi { sites: sites.iter().map(site).collect(), ..Mpi::default() }
    }

    fn split_of(mut ranks: Vec<Mpi>) -> Vec<Mpi> {
        split(&mut ranks.iter_mut().collect::<Vec<_>>());
        ranks
    }

    #[test]
    fn a_rank_waits_for_as_long_as_it_is_there_longer_than_another() {
        let ranks = split_of(vec![rank(&[("MPI_Allreduce", 3.0)]), rank(&[("MPI_Allreduce", 1.0)])]);
        let waited: Vec<_> = ranks.iter().map(|mpi| (mpi.sites[0].waiting_s, mpi.sites[0].transfer_s)).collect();
        assert_eq!(waited, [(Some(2.0), Some(1.0)), (Some(0.0), Some(1.0))]);
        let error = ranks[0].sites[0].error("waiting_s").unwrap();
        assert!((error - 0.3f64.hypot(0.1) / 2.0).abs() < 1e-9, "{error}");
        assert_eq!(ranks[0].split_missing, None);
    }

    #[test]
    fn roots_and_calls_of_some_ranks_are_left_out() {
        let ranks = split_of(vec![rank(&[("MPI_Bcast", 3.0), ("MPI_Send", 1.0)]), rank(&[("MPI_Bcast", 1.0)])]);
        assert!(ranks.iter().flat_map(|mpi| &mpi.sites).all(|site| site.waiting_s.is_none()));
        assert!(ranks[0].sites[1].source["waiting_s"].reason.as_ref().unwrap().contains("not all ranks"));
        assert!(ranks[0].split_missing.is_some());
    }
}
