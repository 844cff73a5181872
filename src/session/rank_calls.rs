//! Single calls of MPI of each rank: a file in the rank's folder, read when the ranks are merged.

use std::fs;
use std::path::PathBuf;

use super::SessionError;
use super::launcher::LaunchedRank;
use super::output::OutputFolder;
use crate::join::{late, needed, uneven};
use crate::profile::Profile;
use crate::profile::mpi::{Mpi, RankCalls};

/// Its name.
const FILE: &str = "mpi.calls";

/// Completes what the calls say by what the launcher does.
pub fn of_rank(profile: &mut Profile, rank: &LaunchedRank) {
    let host = profile.run.ranks.first().map(|rank| rank.host.clone()).unwrap_or_default();
    if let Some(calls) = &mut profile.mpi_calls {
        calls.rank = calls.rank.or(Some(rank.rank));
        calls.host = host;
    }
    if let Some(mpi) = &mut profile.mpi {
        mpi.ranks = mpi.ranks.or(rank.ranks);
        mpi.sites.iter_mut().for_each(|site| site.rank = site.rank.or(Some(rank.rank)));
    }
}

/// Writes the calls of a rank, if it made any.
///
/// # Errors
/// The file cannot be written.
pub fn write(folder: &OutputFolder, profile: &Profile) -> Result<(), SessionError> {
    let Some(calls) = &profile.mpi_calls else { return Ok(()) };
    let bytes = rmp_serde::to_vec(calls).map_err(|e| SessionError::Report(format!("{FILE}: {e}")))?;
    folder.write(FILE, &bytes)
}

/// Splits the time of MPI of `profiles`, those of `ranks` (number, path of the profile), into waiting and the rest; or says in them why that
/// cannot be done.
pub fn compare(profiles: &mut [Profile], ranks: &[(u32, PathBuf)]) {
    let read = |(profile, (_, path)): (&Profile, &(u32, PathBuf))| -> Option<RankCalls> {
        let calls: RankCalls = rmp_serde::from_slice(&fs::read(path.parent()?.join(FILE)).ok()?).ok()?;
        let of_rank = profile.run.ranks.first();
        // Hosts of equal names have new ones.
        let host = of_rank.map_or_else(|| calls.host.clone(), |rank| rank.host.clone());
        let clock = of_rank.and_then(|rank| rank.boot.clone()).unwrap_or_else(|| host.clone());
        Some(RankCalls { host, clock, ..calls })
    };
    let calls: Option<Vec<RankCalls>> = profiles.iter().zip(ranks).map(read).collect();
    let all = profiles.len();
    let mut mpis: Vec<&mut Mpi> = profiles.iter_mut().filter_map(|profile| profile.mpi.as_mut()).collect();
    if mpis.len() == all && all > 1 && mpis.iter().all(|mpi| mpi.is_sampled()) {
        return uneven::split(&mut mpis);
    }
    let split = match calls {
        Some(calls) if calls.len() == mpis.len() => {
            needed::fill(&calls, &mut mpis);
            late::split(&calls, &mut mpis)
        }
        _ => Err("a rank has no record of its calls".to_owned()),
    };
    if let Err(reason) = split {
        mpis.iter_mut().for_each(|mpi| mpi.split_missing = Some(reason.clone()));
    }
}
