//! The profile that a command is given: a file, a folder, or a rank in the folder of a job.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rprof::profile::Profile;
use rprof::{report, session};

/// A profile, and its path.
pub struct Given {
    /// Its folder, or the file, as a command line names it.
    pub name: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub profile: Profile,
}

impl Given {
    /// Reads the profile in `given`; with a rank, that of this rank in the folder of its job.
    ///
    /// # Errors
    /// It cannot be read, or the job has no such rank, or another job's is in its place.
    pub fn read(given: &Path, rank: Option<u32>) -> Result<Given> {
        let name = rank.map_or_else(|| Ok(given.to_owned()), |rank| of_rank(given, rank))?;
        let path = path(&name);
        let profile = report::json::read(&path)?;
        if let Some(rank) = rank {
            session::job::check_rank(&profile, rank, &path, session::job::read(given).as_ref())?;
        }
        Ok(Given { name, path, profile })
    }

    /// The profile of a recording of perf.
    ///
    /// # Errors
    /// It is none.
    pub fn of_perf(recording: &Path, full_names: bool) -> Result<Given> {
        let profile = session::recorded::profile(recording, full_names)?;
        Ok(Given { name: recording.to_owned(), path: recording.to_owned(), profile })
    }

    /// Whether it was read from `other`.
    pub fn is(&self, other: &Path) -> bool {
        other.canonicalize().is_ok_and(|other| self.path.canonicalize().is_ok_and(|path| path == other))
    }
}

/// The folder of a rank in that of its job.
fn of_rank(given: &Path, rank: u32) -> Result<PathBuf> {
    let folder = given.join(session::job::folder_name(rank));
    if folder.join("profile.json").is_file() {
        return Ok(folder);
    }
    let there: Vec<String> =
        session::job::rank_profiles(given).into_iter().map(|(rank, _)| rank.to_string()).take(9).collect();
    let there = if there.is_empty() { "no ranks".to_owned() } else { format!("ranks {}", there.join(", ")) };
    anyhow::bail!("--rank {rank}: {} has no such rank; it has {there}", given.display())
}

/// A folder means the profile in it.
pub fn path(given: &Path) -> PathBuf {
    if given.is_dir() { given.join("profile.json") } else { given.to_owned() }
}
