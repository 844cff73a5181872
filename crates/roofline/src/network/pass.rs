//! Seconds in calls of MPI in the timed pass, from those in the counted pass.
//!
//! ```text
//! room  = Σ over ranks of (elapsed − at work)       timed pass
//! share = min(1, room / Σ seconds in calls)         counted pass, with those that begin and end MPI
//! ```
//!
//! Work that takes longer while it is counted makes other ranks wait longer, and with as many ranks as CPUs rprof takes some of their
//! time. The room holds what the program does outside of calls and work, too: its start, reading and sleeping.

use rprof_profile::Profile;

/// `None`: not known, or ranks have several threads, with seconds that may overlap.
pub fn timed_share(profile: &Profile) -> Option<f64> {
    let mpi = profile.mpi.as_ref()?;
    let work: f64 = profile.functions.iter().filter_map(|f| f.cpu_s).sum();
    if work > 0.0 {
        mpi.efficiency?;
    }
    let elapsed: f64 = profile.run.ranks.iter().map(|rank| rank.wall_s).sum::<Option<f64>>()?;
    let in_calls: f64 = mpi.sites.iter().filter_map(|site| site.time_s).sum();
    (in_calls > 0.0).then(|| ((elapsed - work) / in_calls).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::Function;
    use rprof_profile::mpi::{CallSite, Efficiency, Mpi};
    use rprof_profile::run::Rank;

    #[test]
    fn calls_have_no_more_room_than_the_timed_pass_leaves() {
        let site = |call: &str, s| CallSite { call: call.into(), time_s: Some(s), ..CallSite::default() };
        let sites = vec![site("MPI_Recv", 1.5), site("MPI_Init", 0.5)];
        let efficiency = Some(Efficiency { parallel: 0.5, load_balance: 0.5, communication: 1.0 });
        let mut profile = Profile {
            mpi: Some(Mpi { sites, efficiency, ..Mpi::default() }),
            functions: vec![Function { cpu_s: Some(1.0), ..Function::default() }],
            ..Profile::default()
        };
        let mut share = |elapsed: f64| {
            profile.run.ranks = vec![Rank { wall_s: Some(elapsed), ..Rank::default() }; 2];
            timed_share(&profile)
        };
        assert_eq!([share(2.0), share(1.0), share(0.5)], [Some(1.0), Some(0.5), Some(0.0)]);
    }
}
