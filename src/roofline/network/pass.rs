//! Waiting in the timed pass, from that in the counted pass.
//!
//! ```text
//! room  = Σ over ranks of (elapsed − at work) − Σ of what calls transfer     timed pass
//! scale = min(1, room / Σ waiting)                                           counted pass
//! ```
//!
//! Work that takes longer while it is counted makes other ranks wait longer. Transfers take as long in both.

use crate::profile::Profile;
use crate::profile::mpi::CallSite;

/// `None`: waiting is not known, or ranks have several threads, whose seconds may overlap.
pub fn waiting_scale(profile: &Profile) -> Option<f64> {
    let mpi = profile.mpi.as_ref()?;
    mpi.efficiency?;
    let elapsed: f64 = profile.run.ranks.iter().map(|rank| rank.wall_s).sum::<Option<f64>>()?;
    let work: f64 = profile.functions.iter().filter_map(|f| f.cpu_s).sum();
    let sites = || mpi.sites.iter().filter(|site| site.is_communication() && site.time_s.is_some());
    let waiting = sites().map(|site| site.waiting_s).sum::<Option<f64>>()?;
    let transfer: f64 = sites().filter_map(|site: &CallSite| site.transfer_s).sum();
    (waiting > 0.0).then(|| ((elapsed - work - transfer) / waiting).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Function;
    use crate::profile::mpi::{Efficiency, Mpi};
    use crate::profile::run::Rank;

    #[test]
    fn waiting_has_no_more_room_than_the_timed_pass_leaves() {
        let site = CallSite {
            call: "MPI_Recv".into(),
            time_s: Some(1.5),
            waiting_s: Some(1.0),
            transfer_s: Some(0.5),
            ..CallSite::default()
        };
        let efficiency = Some(Efficiency { parallel: 0.5, load_balance: 0.5, communication: 1.0 });
        let mut profile = Profile {
            mpi: Some(Mpi { sites: vec![site], efficiency, ..Mpi::default() }),
            functions: vec![Function { cpu_s: Some(1.2), ..Function::default() }],
            ..Profile::default()
        };
        let mut scale = |elapsed: f64| {
            profile.run.ranks = vec![Rank { wall_s: Some(elapsed), ..Rank::default() }; 2];
            waiting_scale(&profile).map(|scale| (1000.0 * scale).round() / 1000.0)
        };
        assert_eq!([scale(2.0), scale(1.0), scale(0.5)], [Some(1.0), Some(0.3), Some(0.0)]);
    }
}
