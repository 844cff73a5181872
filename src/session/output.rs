//! The output folder: made before the program runs, an earlier one kept, files never half-written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SessionError;

const DEFAULT: &str = "rprof.out";
/// Where MPI launchers put the rank, in the order of precedence.
const RANK_VARIABLES: [&str; 5] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"];

/// A folder that was created and found writable.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
}

/// The MPI rank that this process was started as.
pub fn mpi_rank() -> Option<u32> {
    let launched = |v: &str| v != "SLURM_PROCID" || std::env::var_os("SLURM_STEP_ID").is_some();
    RANK_VARIABLES.into_iter().filter(|v| launched(v)).find_map(|v| std::env::var(v).ok()?.parse().ok())
}

impl OutputFolder {
    /// Creates the folder that `chosen` and the MPI rank say. An existing one is renamed to `NAME.N`, N the first free
    /// number; under MPI that is left to the user, since the ranks do not start at once.
    pub fn create(chosen: Option<&Path>, rank: Option<u32>) -> Result<OutputFolder, SessionError> {
        let base = chosen.unwrap_or(Path::new(DEFAULT));
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| SessionError::Output { path, source }
        };
        let path = match rank {
            Some(rank) => base.join(format!("rank-{rank}")),
            None => base.to_owned(),
        };
        if path.symlink_metadata().is_ok() {
            keep(&path).map_err(fail(&path))?;
        }
        fs::create_dir_all(&path).map_err(fail(&path))?;
        let probe = path.join(".writable");
        fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).map_err(fail(&path))?;
        Ok(OutputFolder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file whole or not at all.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), SessionError> {
        write_whole(&self.path.join(name), content)
    }
}

/// Writes `path` whole or not at all: a temporary file beside it is renamed onto it.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), SessionError> {
    let fail = |source| SessionError::Output { path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path)).map_err(|e| {
        let _ = fs::remove_file(&temporary);
        fail(e)
    })
}

/// Renames `path` to the first free `path.N`.
fn keep(path: &Path) -> io::Result<()> {
    for n in 1u32.. {
        let mut kept = path.as_os_str().to_owned();
        kept.push(format!(".{n}"));
        let kept = PathBuf::from(kept);
        if kept.symlink_metadata().is_err() {
            return fs::rename(path, kept);
        }
    }
    unreachable!("a folder has fewer than 2^32 entries")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_folders_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for n in 0..3 {
            let folder = OutputFolder::create(Some(&path), None).unwrap();
            folder.write("profile.json", n.to_string().as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name).join("profile.json")).unwrap();
        assert_eq!([read("out.1"), read("out.2"), read("out")], ["0", "1", "2"]);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "temporary files are left");
    }

    #[test]
    fn ranks_have_their_own_folders() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OutputFolder::create(Some(dir.path()), Some(3)).unwrap();
        assert_eq!(folder.path(), dir.path().join("rank-3"));
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let error = OutputFolder::create(Some(Path::new("/proc/rprof.out")), None).unwrap_err();
        assert!(error.to_string().contains("/proc/rprof.out"), "{error}");
        assert_eq!(error.exit_code(), 125);
    }
}
