//! The output folder: made before the program runs, an earlier one kept, files never half-written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SessionError;
use crate::tracee::whole_file;

const DEFAULT: &str = "rprof.out";
/// Files that distinguish a folder of reports from one of the user's.
const OURS: [&str; 3] = ["profile.json", "machine.json", "report.html"];
/// Variables in which MPI launchers put the rank, in the order of precedence.
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
    /// Creates the folder given by `chosen` and the MPI rank. It renames an existing one to `NAME.N`, N the first free number;
    /// under MPI it leaves that to the user, since the ranks do not start at once. It never renames anything that is no folder,
    /// holds no report, or holds the working folder or one of `needed`.
    pub fn create(chosen: Option<&Path>, rank: Option<u32>, needed: &[&Path]) -> Result<OutputFolder, SessionError> {
        // Without the slash that a shell's completion writes.
        let base: PathBuf = chosen.unwrap_or(Path::new(DEFAULT)).components().collect();
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| SessionError::Output { path, source }
        };
        let path = match rank {
            Some(rank) => base.join(format!("rank-{rank}")),
            None => base,
        };
        if path.symlink_metadata().is_ok() && !is_empty_folder(&path) {
            may_be_renamed(&path, needed)
                .and_then(|()| if chosen.is_some() { is_ours(&path) } else { Ok(()) })
                .and_then(|()| keep(&path))
                .map_err(fail(&path))?;
        }
        fs::create_dir_all(&path).map_err(fail(&path))?;
        let probe = path.join(".writable");
        fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).map_err(fail(&path))?;
        Ok(OutputFolder { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file whole or not at all.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), SessionError> {
        write_whole(&self.path.join(name), content)
    }
}

/// Writes `path` whole or not at all, and names it if that fails.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), SessionError> {
    whole_file::write(path, content).map_err(|source| SessionError::Output { path: path.to_owned(), source })
}

/// Refuses to rename a path that is no folder, and a folder without which the run could not go on.
fn may_be_renamed(path: &Path, needed: &[&Path]) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it exists and is not a folder"));
    }
    let folder = fs::canonicalize(path)?;
    let here = std::env::current_dir()?;
    for used in needed.iter().copied().chain([here.as_path()]) {
        if fs::canonicalize(used).is_ok_and(|used| used.starts_with(&folder)) {
            let problem = format!("it holds {}, so it cannot be set aside", used.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
    }
    Ok(())
}

/// Whether `path` is an empty folder, which need not be kept.
fn is_empty_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Refuses a folder that the user chose, but that no report was written to before.
fn is_ours(path: &Path) -> io::Result<()> {
    if OURS.iter().any(|name| path.join(name).exists()) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder holds other things than a report of rprof's"))
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
            let folder = OutputFolder::create(Some(&path), None, &[]).unwrap();
            folder.write("profile.json", n.to_string().as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name).join("profile.json")).unwrap();
        assert_eq!([read("out.1"), read("out.2"), read("out")], ["0", "1", "2"]);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "temporary files are left");
    }

    #[test]
    fn a_slash_behind_the_name_changes_nothing_and_an_empty_folder_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out/");
        fs::create_dir(&path).unwrap();
        for n in 0..2 {
            let folder = OutputFolder::create(Some(&path), None, &[]).unwrap();
            folder.write("profile.json", n.to_string().as_bytes()).unwrap();
        }
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn ranks_have_their_own_folders() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OutputFolder::create(Some(dir.path()), Some(3), &[]).unwrap();
        assert_eq!(folder.path(), dir.path().join("rank-3"));
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let error = OutputFolder::create(Some(Path::new("/proc/rprof.out")), None, &[]).unwrap_err();
        assert!(error.to_string().contains("/proc/rprof.out"), "{error}");
        assert_eq!(error.exit_code(), 125);
    }

    #[test]
    fn only_folders_that_nothing_needs_are_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |path: &Path, needed: &[&Path]| {
            let error = OutputFolder::create(Some(path), None, needed).unwrap_err();
            assert!(path.exists(), "{} was renamed", path.display());
            error.to_string()
        };
        let file = dir.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(refusal(&file, &[]).contains("not a folder"));
        let build = dir.path().join("build");
        fs::create_dir(&build).unwrap();
        let program = build.join("app");
        fs::write(&program, "").unwrap();
        assert!(refusal(&build, &[&program]).contains("app"));
        assert!(refusal(&build, &[]).contains("other things"));
        assert!(refusal(Path::new("."), &[]).contains("cannot be set aside"));
        assert!(refusal(Path::new("/"), &[]).contains("cannot be set aside"));
    }
}
