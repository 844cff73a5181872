//! Single calls of MPI of each rank: a file in the rank's folder, read when the ranks are merged.

use std::path::{Path, PathBuf};

use super::SessionError;
use super::launcher::LaunchedRank;
use super::output::OutputFolder;
use crate::join::{late, needed, uneven};
use crate::profile::Profile;
use crate::profile::mpi::{Mpi, RankCalls};
use crate::report::merge;
use crate::tracee::whole_file;

/// Its name: MessagePack, and behind it the CRC-32 of that (4 bytes, little endian).
const FILE: &str = "mpi.calls";

/// Completes the calls' information by the launcher's.
pub fn of_rank(profile: &mut Profile, rank: &LaunchedRank) {
    let of_rank = profile.run.ranks.first();
    if let Some(calls) = &mut profile.mpi_calls {
        calls.rank = calls.rank.or(Some(rank.rank));
        calls.job = of_rank.and_then(|rank| rank.job.clone());
        calls.host = of_rank.map(|rank| rank.host.clone()).unwrap_or_default();
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
    let mut bytes = rmp_serde::to_vec(calls).map_err(|e| SessionError::Report(format!("{FILE}: {e}")))?;
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    folder.write(FILE, &bytes)
}

/// Splits the time of MPI of `profiles`, those of `ranks` (number, path of the profile), into waiting and the rest; or says in them why that
/// cannot be done.
pub fn compare(profiles: &mut [Profile], ranks: &[(u32, PathBuf)]) {
    let calls: Result<Vec<RankCalls>, String> =
        profiles.iter().zip(ranks).map(|(profile, (rank, path))| read(profile, *rank, path)).collect();
    let all = profiles.len();
    let mut mpis: Vec<&mut Mpi> = profiles.iter_mut().filter_map(|profile| profile.mpi.as_mut()).collect();
    if mpis.len() == all && all > 1 && mpis.iter().all(|mpi| mpi.is_sampled()) {
        return uneven::split(&mut mpis);
    }
    let split = match calls {
        Ok(calls) if calls.len() == mpis.len() => {
            needed::fill(&calls, &mut mpis);
            late::split(&calls, &mut mpis)
        }
        Ok(_) => Err("a rank has no record of its calls".to_owned()),
        Err(reason) => Err(reason),
    };
    if let Err(reason) = split {
        mpis.iter_mut().for_each(|mpi| mpi.split_missing = Some(reason.clone()));
    }
}

/// As [`compare`], for the profiles in the files `paths`; nothing unless each is that of one rank.
pub fn compare_in_any_order(profiles: &mut Vec<Profile>, paths: &[PathBuf]) {
    let rank_of = |profile: &Profile| match &profile.run.ranks[..] {
        [rank] => Some(rank.rank),
        _ => None,
    };
    let Some(numbers) = profiles.iter().map(rank_of).collect::<Option<Vec<u32>>>() else { return };
    let ranks = numbers.into_iter().zip(paths.iter().cloned());
    let mut all: Vec<((u32, PathBuf), Profile)> = ranks.zip(std::mem::take(profiles)).collect();
    all.sort_by_key(|((rank, _), _)| *rank);
    let (ranks, sorted): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    *profiles = sorted;
    merge::tell_hosts_apart(profiles);
    compare(profiles, &ranks);
}

/// The calls of a rank, which are beside its profile at `path`; or why they are not known.
fn read(profile: &Profile, rank: u32, path: &Path) -> Result<RankCalls, String> {
    let bytes =
        whole_file::read(&path.with_file_name(FILE)).map_err(|_| format!("rank {rank} has no record of its calls"))?;
    let calls = checked(&bytes).and_then(|calls| rmp_serde::from_slice(calls).ok());
    let calls: RankCalls =
        calls.ok_or_else(|| format!("{FILE} of rank {rank} is damaged, or of another version of rprof"))?;
    let of_rank = profile.run.ranks.first();
    if (calls.rank, &calls.job) != (Some(rank), &of_rank.and_then(|rank| rank.job.clone())) {
        return Err(format!("{FILE} of rank {rank} belongs to another rank or job"));
    }
    // Hosts of equal names have new ones.
    let host = of_rank.map_or_else(|| calls.host.clone(), |rank| rank.host.clone());
    let clock = of_rank.and_then(|rank| rank.boot.clone()).unwrap_or_else(|| host.clone());
    Ok(RankCalls { host, clock, ..calls })
}

/// The bytes before the checksum; `None`: they are not as they were written.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (calls, sum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(calls) == u32::from_le_bytes(*sum)).then_some(calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::run::Rank;

    fn of(rank: u32, job: &str) -> Profile {
        let mut profile = Profile { mpi_calls: Some(RankCalls::default()), ..Profile::default() };
        profile.run.ranks = vec![Rank { rank, job: Some(job.into()), boot: Some("b".into()), ..Rank::default() }];
        profile
    }

    #[test]
    fn calls_are_those_of_the_profile_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, path) = (OutputFolder::existing(dir.path()), dir.path().join("profile.json"));
        let error = |of_rank: &Profile, rank| read(of_rank, rank, &path).unwrap_err();
        assert_eq!(error(&of(1, "j"), 1), "rank 1 has no record of its calls");
        let mut own = of(1, "j");
        of_rank(&mut own, &LaunchedRank { rank: 1, ranks: Some(2), job: Some("j".into()), starts_twice: false });
        write(&folder, &own).unwrap();
        assert_eq!(read(&own, 1, &path).unwrap().clock, "b");
        let foreign = "mpi.calls of rank 1 belongs to another rank or job";
        assert_eq!(error(&of(1, "k"), 1), foreign);
        assert_eq!(error(&of(2, "j"), 2), foreign.replace('1', "2"));
        let mut changed = std::fs::read(dir.path().join(FILE)).unwrap();
        changed[2] ^= 1;
        for damaged in [&changed[..], &changed[..3], b""] {
            folder.write(FILE, damaged).unwrap();
            assert_eq!(error(&own, 1), "mpi.calls of rank 1 is damaged, or of another version of rprof");
        }
    }

    #[test]
    fn ranks_that_are_named_one_by_one_are_compared_by_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = |rank| dir.path().join(format!("{rank}/profile.json"));
        let rank = |number| Profile { mpi: Some(Mpi::default()), ..of(number, "j") };
        let mut profiles = vec![rank(1), rank(0)];
        compare_in_any_order(&mut profiles, &[path(1), path(0)]);
        let numbers: Vec<u32> = profiles.iter().map(|profile| profile.run.ranks[0].rank).collect();
        let missing = profiles[0].mpi.as_ref().unwrap().split_missing.as_deref();
        assert_eq!((&numbers[..], missing), (&[0, 1][..], Some("rank 0 has no record of its calls")));
        let mut runs = vec![Profile::default(), rank(0)];
        compare_in_any_order(&mut runs, &[path(1), path(0)]);
        assert_eq!((runs.len(), runs[1].mpi.as_ref().unwrap().split_missing.as_deref()), (2, None));
    }
}
