//! Files that rprof writes whole or not at all, also if it is killed meanwhile.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

/// Age at which no process is still writing a file.
const UNFINISHED: Duration = Duration::from_secs(3600);
/// How the names of unfinished files end.
const TEMPORARY: &str = "tmp";

/// The remedy for a file that cannot be written: `otherwise`, unless a limit of the user's forbids it.
pub fn remedy(source: &io::Error, otherwise: &'static str) -> &'static str {
    match source.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
        _ => otherwise,
    }
}

/// Reads `path`, which must be a file: a pipe may never end.
///
/// # Errors
/// It is none, or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    fs::read(path)
}

/// Writes `path`: the file gets its name when it is complete. If the file system has no files without a name, a temporary one
/// is renamed. A device or pipe is written to; a symbolic link stays one. Nothing is synchronized with the disk.
///
/// # Errors
/// The file cannot be written; the earlier file is unchanged.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return fs::write(path, content);
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let path = target.as_path();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{TEMPORARY}", std::process::id()));
    let temporary = path.with_file_name(name);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = match unnamed(folder) {
        Ok(mut file) => file
            .write_all(content)
            .and_then(|()| name_it(&file, &temporary).or_else(|_| fs::write(&temporary, content))),
        Err(_) => fs::write(&temporary, content),
    };
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // It may not exist; nothing depends on its removal.
        let _ = fs::remove_file(&temporary);
    })
}

/// Removes from a folder of ours the files left by runs that were killed while they wrote.
pub fn remove_unfinished(folder: &Path) {
    let is_old = |entry: &fs::DirEntry| {
        let written = entry.metadata().and_then(|m| m.modified()).ok();
        written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > UNFINISHED)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|e| is_temporary(&e.file_name()) && is_old(e)) {
        // Another run may have removed it already, or it is another user's: the next one tries again.
        let _ = fs::remove_file(entry.path());
    }
}

/// `NAME.PID.tmp`.
fn is_temporary(name: &OsStr) -> bool {
    let mut parts = name.to_str().unwrap_or_default().rsplit('.');
    parts.next() == Some(TEMPORARY)
        && parts.next().is_some_and(|pid| pid.parse::<u32>().is_ok())
        && parts.next().is_some_and(|rest| !rest.is_empty())
}

/// A file in `folder` that vanishes if it is not given a name.
fn unnamed(folder: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(0o666).open(folder)
}

/// Gives an unnamed file a name that is free.
fn name_it(file: &File, path: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, own.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn pipes_and_links_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "temporary files are left");
        let (reader, writer) = io::pipe().unwrap();
        let pipe = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        write(&pipe, b"sent").unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(reader).unwrap(), "sent");
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(write(&folder, b"x").is_err());
        assert!(write(&dir.path().join("none/file"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "temporary files are left");
        assert!(folder.is_dir());
    }

    #[test]
    fn what_killed_runs_left_is_removed_and_what_others_write_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * UNFINISHED;
        let put = |name: &str, old: bool| {
            let file = File::create(dir.path().join(name)).unwrap();
            if old {
                file.set_modified(long_ago).unwrap();
            }
        };
        put("machine-1.json.7.tmp", true);
        put("machine-1.json.8.tmp", false);
        put("machine-2.json", true);
        put("notes.tmp", true);
        remove_unfinished(dir.path());
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["machine-1.json.8.tmp", "machine-2.json", "notes.tmp"]);
    }
}
