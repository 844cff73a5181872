//! The output folder: made before the program runs, an earlier one kept, files never half-written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::SessionError;
use crate::tracee::whole_file;

const DEFAULT: &str = "rprof.out";
/// Files that distinguish a folder of reports from one of the user's.
const OURS: [&str; 4] = ["profile.json", "machine.json", "report.html", "job.json"];
/// A folder that was created and found writable.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    /// Locked as long as its run lasts: a run that begins meanwhile writes elsewhere.
    _lock: Option<Flock<File>>,
}

/// The folder that the user has `chosen`, without the slash that a shell's completion writes; else the usual one.
pub fn base(chosen: Option<&Path>) -> PathBuf {
    chosen.unwrap_or(Path::new(DEFAULT)).components().collect()
}

impl OutputFolder {
    /// Creates the folder given by `chosen`. It renames an existing one to `NAME.N`, N the first free number, but never anything that
    /// is no folder, holds no report, or holds the working folder or one of `needed`. If a run that still goes on has it, the new one is
    /// `NAME.N`.
    ///
    /// # Errors
    /// It cannot be made or written to, or must not be renamed.
    pub fn create(chosen: Option<&Path>, needed: &[&Path]) -> Result<OutputFolder, SessionError> {
        let named = base(chosen);
        let mut path = named.clone();
        for n in 1u32.. {
            if !is_in_use(&path) {
                set_aside(&path, chosen.is_some(), needed)
                    .map_err(|source| SessionError::Output { path: path.clone(), source })?;
                let mut folder = OutputFolder::at(path)?;
                // Two runs may have made it at once.
                folder._lock = lock(&folder.path);
                if folder._lock.is_some() || !is_in_use(&folder.path) {
                    return Ok(folder);
                }
            }
            path = aside(&named, n);
        }
        unreachable!("a folder has fewer than 2^32 entries")
    }

    /// Creates a rank's folder. An existing one is set aside, unless it `is_shared` with the launch that made it.
    ///
    /// # Errors
    /// As of [`OutputFolder::create`].
    pub fn of_rank(path: PathBuf, is_shared: bool, needed: &[&Path]) -> Result<OutputFolder, SessionError> {
        if !is_shared {
            set_aside(&path, true, needed).map_err(|source| SessionError::Output { path: path.clone(), source })?;
        }
        OutputFolder::at(path)
    }

    /// One that is there already.
    pub fn existing(path: &Path) -> OutputFolder {
        OutputFolder { path: path.to_owned(), _lock: None }
    }

    fn at(path: PathBuf) -> Result<OutputFolder, SessionError> {
        let probe = path.join(".writable");
        fs::create_dir_all(&path)
            .and_then(|()| fs::write(&probe, b""))
            .and_then(|()| fs::remove_file(&probe))
            .map_err(|source| SessionError::Output { path: path.clone(), source })?;
        Ok(OutputFolder { path, _lock: None })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes files of a report that was written here before.
    ///
    /// # Errors
    /// One is there and cannot be removed.
    pub fn remove(&self, names: &[&str]) -> Result<(), SessionError> {
        names.iter().map(|name| self.path.join(name)).try_for_each(|path| match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SessionError::Output { path, source }),
            _ => Ok(()),
        })
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

/// Renames the file or folder at `path` to the first free `path.N`, if it is anything but an empty folder. A folder that the user
/// has `chosen` must hold a report.
///
/// # Errors
/// It must not be renamed, or cannot be.
pub fn set_aside(path: &Path, chosen: bool, needed: &[&Path]) -> io::Result<()> {
    if path.symlink_metadata().is_err() || is_empty_folder(path) {
        return Ok(());
    }
    may_be_renamed(path, needed)?;
    if chosen {
        is_ours(path)?;
    }
    keep(path)
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

/// The lock of a folder, if no other run has it.
fn lock(path: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(path).ok()?, FlockArg::LockExclusiveNonblock).ok()
}

/// Whether a run that still goes on has the folder. File systems without locks say no.
fn is_in_use(path: &Path) -> bool {
    let refused = |folder| Flock::lock(folder, FlockArg::LockExclusiveNonblock).err().map(|(_, error)| error);
    File::open(path).ok().and_then(refused) == Some(Errno::EWOULDBLOCK)
}

/// Refuses a folder that the user chose, but that no report was written to before.
fn is_ours(path: &Path) -> io::Result<()> {
    if OURS.iter().any(|name| path.join(name).exists()) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder holds other things than a report of rprof's"))
}

/// The path at which the n-th folder of this path is kept.
pub fn aside(path: &Path, n: u32) -> PathBuf {
    let mut kept = path.as_os_str().to_owned();
    kept.push(format!(".{n}"));
    PathBuf::from(kept)
}

/// Renames `path` to the first free `path.N`.
fn keep(path: &Path) -> io::Result<()> {
    for n in 1u32.. {
        let kept = aside(path, n);
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
            let folder = OutputFolder::create(Some(&path), &[]).unwrap();
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
            let folder = OutputFolder::create(Some(&path), &[]).unwrap();
            folder.write("profile.json", n.to_string().as_bytes()).unwrap();
        }
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn two_runs_at_once_have_a_folder_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let folders: Vec<_> = (0..3).map(|_| OutputFolder::create(Some(&path), &[]).unwrap()).collect();
        let names: Vec<_> = folders.iter().map(|f| f.path().file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["out", "out.1", "out.2"]);
        folders[0].write("profile.json", b"first").unwrap();
        drop(folders);
        let last = OutputFolder::create(Some(&path), &[]).unwrap();
        assert_eq!(last.path(), path, "the first run has ended");
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let error = OutputFolder::create(Some(Path::new("/proc/rprof.out")), &[]).unwrap_err();
        assert!(error.to_string().contains("/proc/rprof.out"), "{error}");
        assert_eq!(error.exit_code(), 125);
    }

    #[test]
    fn only_folders_that_nothing_needs_are_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |path: &Path, needed: &[&Path]| {
            let error = OutputFolder::create(Some(path), needed).unwrap_err();
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
