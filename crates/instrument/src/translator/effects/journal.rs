//! Changes by a repeated run among the files that the first run made, so that these are put back at its end.
//!
//! A file that was there before the first run is not changed: the run ends before. Its birth time says so. The exception is a file that
//! the run empties and that the first run wrote: its earlier content is gone already.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::unrepeatable::Why;

/// Most bytes that are kept aside.
const MOST: u64 = 1 << 30;
/// The kernel stamps files by a clock that advances in steps of at most this length.
const TICK: Duration = Duration::from_millis(10);

/// A file as the first run left it.
#[derive(Debug)]
enum Kept {
    /// There was none.
    Absent,
    /// A regular file: its content, in an unnamed file.
    File(File, Metadata),
    /// A folder.
    Folder(Metadata),
    /// A symbolic link.
    Link(PathBuf),
}

/// The changes of one run.
#[derive(Debug)]
pub struct Journal {
    first_run: SystemTime,
    /// By true path.
    kept: BTreeMap<PathBuf, Kept>,
    bytes: u64,
}

impl Journal {
    /// For a run that repeats the one which began at `first_run`.
    pub fn new(first_run: SystemTime) -> Self {
        Journal { first_run: first_run - TICK, kept: BTreeMap::new(), bytes: 0 }
    }

    /// Whether the run made the file at the true path `path`.
    pub fn has_made(&self, path: &Path) -> bool {
        matches!(self.kept.get(path), Some(Kept::Absent))
    }

    /// The run is about to change, make or remove the file at the true path `path`; `empties`: it writes all of it
    /// anew.
    ///
    /// # Errors
    /// Why it may not.
    pub fn note(&mut self, path: &Path, empties: bool) -> Result<(), Why> {
        if self.kept.contains_key(path) {
            return Ok(());
        }
        let kept = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::Absent,
            // The call will fail, too.
            Err(_) => return Ok(()),
            Ok(meta) => self.keep(path, meta, empties)?,
        };
        self.kept.insert(path.to_owned(), kept);
        Ok(())
    }

    fn keep(&mut self, path: &Path, meta: Metadata, empties: bool) -> Result<Kept, Why> {
        let is_written_anew = empties && meta.is_file() && meta.modified().is_ok_and(|at| at >= self.first_run);
        match meta.created() {
            _ if is_written_anew => {}
            Err(_) => return Err(Why::UnknownAge),
            Ok(made) if made < self.first_run => return Err(Why::Existed),
            Ok(_) => {}
        }
        if meta.is_dir() {
            return Ok(Kept::Folder(meta));
        }
        if meta.is_symlink() {
            return fs::read_link(path).map(Kept::Link).map_err(|_| Why::OtherKind);
        }
        if !meta.is_file() {
            return Err(Why::OtherKind);
        }
        self.bytes += meta.len();
        if self.bytes > MOST {
            return Err(Why::CannotBeKept);
        }
        let copied = || -> io::Result<File> {
            let mut copy = unnamed()?;
            copy_all(File::open(path)?, &mut copy)?;
            Ok(copy)
        };
        copied().map(|copy| Kept::File(copy, meta)).map_err(|_| Why::CannotBeKept)
    }

    /// Whether the run changed any file.
    pub fn has_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Puts all files back. Returns those for which that failed, with the reason.
    pub fn put_back(self) -> Vec<(PathBuf, io::Error)> {
        let mut failed = Vec::new();
        // Folders before what they hold, so that it has a place.
        for (path, kept) in self.kept.iter().filter(|(_, kept)| !matches!(kept, Kept::Absent)) {
            if let Err(error) = kept.restore(path) {
                failed.push((path.clone(), error));
            }
        }
        // The content of a new folder before the folder.
        for (path, _) in self.kept.iter().rev().filter(|(_, kept)| matches!(kept, Kept::Absent)) {
            if let Err(error) = remove(path) {
                failed.push((path.clone(), error));
            }
        }
        failed
    }
}

impl Kept {
    fn restore(&self, path: &Path) -> io::Result<()> {
        let now = fs::symlink_metadata(path).ok();
        match self {
            Kept::Absent => Ok(()),
            Kept::Folder(meta) => {
                if now.is_none() {
                    fs::create_dir(path)?;
                    own(path, meta)?;
                }
                Ok(())
            }
            Kept::Link(target) => match now {
                Some(_) if fs::read_link(path).is_ok_and(|there| there == *target) => Ok(()),
                Some(_) => fs::remove_file(path).and_then(|()| symlink(target, path)),
                None => symlink(target, path),
            },
            Kept::File(copy, meta) => {
                if now.as_ref().is_some_and(|now| is_as_before(now, meta)) {
                    return Ok(());
                }
                if now.is_some_and(|now| !now.is_file()) {
                    remove(path)?;
                }
                let mut file = File::options().write(true).create(true).truncate(true).open(path)?;
                copy_all(File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?, &mut file)?;
                own(path, meta)?;
                set_times(path, meta)
            }
        }
    }
}

/// Copies the rest of `from`. `std::io::copy` fails when one of rprof's ticks interrupts it in the kernel.
fn copy_all(mut from: File, to: &mut File) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 18];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&bytes[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_as_before(now: &Metadata, before: &Metadata) -> bool {
    let key = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
    key(now) == key(before)
}

/// Gives `path` the owner and permissions of `meta`.
fn own(path: &Path, meta: &Metadata) -> io::Result<()> {
    // An ordinary user's files have the right owner already.
    let _ = chown(path, Some(meta.uid()), Some(meta.gid()));
    fs::set_permissions(path, Permissions::from_mode(meta.mode() & 0o7777))
}

fn set_times(path: &Path, meta: &Metadata) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let times = [(meta.atime(), meta.atime_nsec()), (meta.mtime(), meta.mtime_nsec())]
        .map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec });
    // SAFETY: a live path and two live times.
    match unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn unnamed() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
    File::options().read(true).write(true).custom_flags(flags).open(std::env::temp_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_again_as_the_first_run_left_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| folder.join(name);
        fs::write(at("old"), "before").unwrap();
        fs::write(at("log"), "of another day").unwrap();
        std::thread::sleep(3 * TICK);
        let first_run = SystemTime::now();
        for name in ["written", "removed", "replaced", "log"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("written", at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let stamp = fs::metadata(at("written")).unwrap().modified().unwrap();
        std::thread::sleep(3 * TICK);
        let mut journal = Journal::new(first_run);
        assert_eq!(journal.note(&at("old"), true), Err(Why::Existed));
        assert_eq!(journal.note(&at("log"), false), Err(Why::Existed), "it may be appended to");
        assert_eq!(journal.note(&at("log"), true), Ok(()));
        fs::write(at("log"), "").unwrap();
        for name in ["written", "removed", "replaced", "link", "folder", "new", "made", "made/inner", "folder/inner"] {
            assert_eq!(journal.note(&at(name), false), Ok(()), "{name}");
        }
        assert!(journal.has_made(&at("new")) && !journal.has_made(&at("written")));
        fs::write(at("written"), "").unwrap();
        fs::remove_file(at("removed")).unwrap();
        fs::write(at("new"), "new").unwrap();
        fs::rename(at("new"), at("replaced")).unwrap();
        fs::remove_file(at("link")).unwrap();
        fs::create_dir(at("made")).unwrap();
        fs::write(at("made/inner"), "").unwrap();
        fs::remove_dir(at("folder")).unwrap();
        assert!(journal.put_back().is_empty());
        for name in ["written", "removed", "replaced", "log"] {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), name);
        }
        assert_eq!(fs::metadata(at("written")).unwrap().modified().unwrap(), stamp);
        assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("written"));
        assert!(at("folder").is_dir() && !at("made").exists() && !at("new").exists());
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "before");
    }

    #[test]
    fn ticks_do_not_interrupt_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap().join("result");
        let mut ticks = rprof_tracee::wake_up::Ticks::new(Duration::from_micros(50));
        let content: Vec<u8> = (0..8 << 20).map(|i: u32| (i % 251) as u8).collect();
        for _ in 0..20 {
            let mut journal = Journal::new(SystemTime::now());
            fs::write(&path, &content).unwrap();
            ticks.go_on();
            assert_eq!(journal.note(&path, true), Ok(()));
            fs::write(&path, "of the second run").unwrap();
            assert!(journal.put_back().is_empty());
            ticks.rest();
            assert!(fs::read(&path).unwrap() == content, "the content is the first run's");
        }
    }
}
