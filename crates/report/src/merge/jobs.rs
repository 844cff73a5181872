//! Which profiles belong together: the ranks of one job, each once, all of them.

use std::collections::BTreeMap;

use thiserror::Error;

use rprof_profile::Profile;

/// Most ranks that a message lists.
const LISTED: usize = 8;

/// Why profiles cannot be put together.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MergeError {
    /// Nothing is given.
    #[error("no profile to merge: name the profiles, or the folder of a job")]
    Nothing,
    /// A rank was given more than once.
    #[error("rank {rank} is given {times} times: give each rank once")]
    Twice {
        /// The rank.
        rank: u32,
        /// How often.
        times: usize,
    },
    /// The ranks belong to several jobs.
    #[error("the ranks belong to {jobs} jobs: merge those of one job")]
    Jobs {
        /// How many jobs.
        jobs: usize,
    },
    /// Some are of ranks, some are not.
    #[error("ranks and runs without a rank are mixed: give either the ranks of one job or runs of one program")]
    Mixed,
    /// None is of a rank, although they lie in the folder of a job.
    #[error("no profile in this folder is that of a rank: name the profiles to put runs of one program together")]
    NoRanks,
    /// Some ranks are not there.
    #[error("of {ranks} ranks {missing} {} missing: {}; --partial merges the others", verb(*missing), list(first))]
    Missing {
        /// Ranks of the job.
        ranks: u32,
        /// Ranks without a profile.
        missing: usize,
        /// The first of them.
        first: Vec<u32>,
    },
}

fn verb(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn list(ranks: &[u32]) -> String {
    let mut text = ranks.iter().take(LISTED).map(u32::to_string).collect::<Vec<_>>().join(", ");
    if ranks.len() > LISTED {
        text.push_str(" …");
    }
    text
}

/// How merged parts lay in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Ranks of one job.
    SideBySide,
    /// Runs of a program.
    InTurn,
}

/// How `profiles` belong together. Ranks are those that a launcher numbered. `partial`: ranks may be missing; the number of those is
/// returned, too.
///
/// # Errors
/// They do not belong together.
pub fn arrangement(profiles: &[Profile], partial: bool) -> Result<(Arrangement, usize), MergeError> {
    let ranks_of = |profile: &Profile| -> Vec<u32> {
        if profile.run.ranks.is_empty() {
            // Profiles of before have the rank in their threads alone.
            let mut ranks: Vec<u32> = profile.run.threads.iter().filter_map(|thread| thread.rank).collect();
            ranks.dedup();
            ranks
        } else {
            profile.run.ranks.iter().map(|rank| rank.rank).collect()
        }
    };
    let mut times: BTreeMap<u32, usize> = BTreeMap::new();
    let mut numbered = 0;
    for profile in profiles {
        let ranks = ranks_of(profile);
        numbered += usize::from(!ranks.is_empty());
        ranks.into_iter().for_each(|rank| *times.entry(rank).or_default() += 1);
    }
    match numbered {
        _ if profiles.is_empty() => return Err(MergeError::Nothing),
        0 => return Ok((Arrangement::InTurn, 0)),
        some if some < profiles.len() => return Err(MergeError::Mixed),
        _ => {}
    }
    if let Some((&rank, &times)) = times.iter().find(|(_, times)| **times > 1) {
        return Err(MergeError::Twice { rank, times });
    }
    let mut jobs: Vec<&str> = profiles.iter().flat_map(|p| &p.run.ranks).filter_map(|r| r.job.as_deref()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    if jobs.len() > 1 {
        return Err(MergeError::Jobs { jobs: jobs.len() });
    }
    let known = profiles.iter().flat_map(|p| &p.run.ranks).filter_map(|rank| rank.ranks).max();
    let missing: Vec<u32> = (0..known.unwrap_or(0)).filter(|rank| !times.contains_key(rank)).collect();
    match (known, missing.len()) {
        (Some(ranks), 1..) if !partial => {
            let first = missing.iter().copied().take(LISTED + 1).collect();
            Err(MergeError::Missing { ranks, missing: missing.len(), first })
        }
        (_, missing) => Ok((Arrangement::SideBySide, missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::run::Rank;

    fn rank(rank: u32, job: &str) -> Profile {
        let mut profile = Profile::default();
        profile.run.ranks = vec![Rank { rank, ranks: Some(3), job: Some(job.into()), ..Rank::default() }];
        profile
    }

    #[test]
    fn ranks_of_one_job_belong_together() {
        let all = [rank(0, "j"), rank(2, "j"), rank(1, "j")];
        assert_eq!(arrangement(&all, false), Ok((Arrangement::SideBySide, 0)));
        assert_eq!(arrangement(&[Profile::default(), Profile::default()], false), Ok((Arrangement::InTurn, 0)));
    }

    #[test]
    fn what_does_not_is_refused() {
        let refusal = |profiles: &[Profile], partial| arrangement(profiles, partial).unwrap_err().to_string();
        assert!(refusal(&[], false).contains("no profile"));
        assert!(refusal(&[rank(1, "j"), rank(1, "j")], true).contains("rank 1 is given 2 times"));
        assert!(refusal(&[rank(0, "j"), rank(1, "k"), rank(2, "k")], true).contains("2 jobs"));
        assert!(refusal(&[rank(0, "j"), Profile::default()], true).contains("mixed"));
        assert_eq!(refusal(&[rank(1, "j")], false), "of 3 ranks 2 are missing: 0, 2; --partial merges the others");
        assert_eq!(arrangement(&[rank(1, "j")], true), Ok((Arrangement::SideBySide, 2)));
    }
}
