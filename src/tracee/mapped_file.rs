//! The file behind a mapping: its path may lead elsewhere from here, or nowhere.
//!
//! ```text
//!  path seen from the process's root ─▶ the mapping itself (map_files) ─▶ its program (exe) ─▶ its open files (fd) ─▶ path from here
//! ```
//!
//! The last is for processes that are gone. Deleted files and those in memory (`memfd_create`) have no path that leads to them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::address::Address;
use super::maps::read_maps;
use super::path_text;

/// How the kernel marks the path of a file without a name.
const DELETED: &str = " (deleted)";

/// An open file and whether its path leads to it.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Whether it can be opened by its path later, from here.
    pub by_path: bool,
}

/// Opens the regular file that is mapped into `pid` at `start`. `path`: its name in the process's map, as [`path_text`] writes
/// it; `inode`: its number, if that is known.
///
/// # Errors
/// Nothing leads to the file, or it is not regular.
pub fn open(pid: Pid, start: Address, path: &str, inode: Option<u64>) -> io::Result<Opened> {
    let is_it = |file: &File| inode.is_none_or(|wanted| file.metadata().is_ok_and(|data| data.ino() == wanted));
    let process = PathBuf::from(format!("/proc/{pid}"));
    let name = path_text::decode(path);
    let has_path = !path.ends_with(DELETED) && !path.starts_with("/memfd:");
    let inside = has_path.then(|| open_regular(&below(&process.join("root"), &name)));
    let own = || if has_path { open_regular(&name) } else { Err(io::ErrorKind::NotFound.into()) };
    let inside = match inside {
        Some(Ok(file)) if is_it(&file) => {
            let by_path = own().is_ok_and(|own| is_same(&own, &file));
            return Ok(Opened { file, by_path });
        }
        other => other,
    };
    let without_path = by_mapping(&process, pid, start, path).or_else(|| by_link(&process, &name, &is_it));
    if let Some(file) = without_path {
        return Ok(Opened { file, by_path: false });
    }
    match inside {
        // Some file systems number files otherwise in maps: without a better one it is believed.
        Some(Ok(file)) => {
            let by_path = own().is_ok_and(|own| is_same(&own, &file));
            Ok(Opened { file, by_path })
        }
        Some(Err(error)) if process.join("root").exists() => Err(error),
        _ => own().map(|file| Opened { file, by_path: true }),
    }
}

/// Opens a file if it is regular: devices may do something when they are opened.
fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    File::open(path)
}

/// The mapping's own link, which needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
fn by_mapping(process: &Path, pid: Pid, start: Address, path: &str) -> Option<File> {
    let maps = read_maps(pid).ok()?;
    let mapping = maps.iter().find(|m| m.contains(start) && m.path == path)?;
    let link = format!("map_files/{:x}-{:x}", mapping.start.get(), mapping.end.get());
    open_regular(&process.join(link)).ok()
}

/// The program of the process, or one of its open files, if it has this name.
fn by_link(process: &Path, name: &Path, is_it: &dyn Fn(&File) -> bool) -> Option<File> {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = std::iter::once(process.join("exe")).chain(open);
    let named = links.filter(|link| fs::read_link(link).is_ok_and(|target| target == name));
    named.filter_map(|link| open_regular(&link).ok()).find(|file| is_it(file))
}

/// `root` + `/a/b`, which `join` would replace.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(OsStr::from_bytes(path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default()))
}

fn is_same(a: &File, b: &File) -> bool {
    let id = |file: &File| file.metadata().map(|data| (data.dev(), data.ino()));
    matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    fn read(mut opened: Opened) -> (String, bool) {
        let mut text = String::new();
        opened.file.read_to_string(&mut text).unwrap();
        (text, opened.by_path)
    }

    #[test]
    fn files_with_and_without_a_path_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "named").unwrap();
        let name = path.to_str().unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let open_it = |name: &str, inode| open(Pid::this(), Address::new(0), name, inode);
        assert_eq!(read(open_it(name, Some(inode)).unwrap()), ("named".into(), true));

        // Another file at its path, while it is still open.
        let held = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        assert_eq!(read(open_it(&format!("{name} (deleted)"), Some(inode)).unwrap()), ("named".into(), false));
        drop(held);
        assert!(open_it(&format!("{name} (deleted)"), Some(inode)).is_err());

        let memory = nix::sys::memfd::memfd_create("code", nix::sys::memfd::MFdFlags::empty()).unwrap();
        let mut memory = File::from(memory);
        memory.write_all(b"in memory").unwrap();
        std::io::Seek::rewind(&mut memory).unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", memory.as_raw_fd())).unwrap();
        let inode = memory.metadata().unwrap().ino();
        assert_eq!(read(open_it(link.to_str().unwrap(), Some(inode)).unwrap()), ("in memory".into(), false));
    }

    #[test]
    fn devices_are_not_opened() {
        assert!(open(Pid::this(), Address::new(0), "/dev/zero", None).is_err());
    }
}
