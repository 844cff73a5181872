//! The file behind a mapping: its path may lead elsewhere from here, or nowhere.
//!
//! ```text
//!  path seen from the process's root ─▶ the mapping itself (map_files) ─▶ its program (exe) ─▶ its open files (fd) ─▶ path from here
//! ```
//!
//! The last is for processes that are gone. Deleted files and those in memory (`memfd_create`) have no path that leads to them.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nix::unistd::Pid;

use super::address::Address;
use super::elf_layout::ElfLayout;
use super::elf_reader::ElfReader;
use super::maps::{Mapping, read_maps};
use super::{path_text, proc_status};

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

/// Known facts about a mapped file besides its name.
#[derive(Debug, Clone, Copy)]
pub enum Known<'a> {
    /// Its number, as the kernel has it.
    Inode(u64),
    /// Its build id, in lower-case hexadecimal.
    BuildId(&'a str),
    /// Nothing.
    Nothing,
}

impl Known<'_> {
    fn is(self, file: &File) -> bool {
        match self {
            Known::Inode(number) => file.metadata().is_ok_and(|data| data.ino() == number),
            Known::BuildId(id) => build_id_of(file).as_deref() == Some(id),
            Known::Nothing => true,
        }
    }
}

fn build_id_of(file: &File) -> Option<String> {
    ElfLayout::of(&ElfReader::at(file.try_clone().ok()?, 0).ok()?).ok()?.build_id
}

/// Opens the regular file that is mapped into `pid` at `start`. `path`: its name in the process's map, as [`path_text`] writes
/// it.
///
/// # Errors
/// Nothing leads to the file any more, or it is not regular.
pub fn open(pid: Pid, start: Address, path: &str, known: Known) -> io::Result<Opened> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let name = path_text::decode(path);
    let by_name = match path.ends_with(DELETED) || path.starts_with("/memfd:") {
        true => Err(io::ErrorKind::NotFound.into()),
        false => named(&process, &name),
    };
    if let Ok(found) = &by_name
        && known.is(&found.file)
    {
        return by_name;
    }
    let linked = by_mapping(&process, pid, start, path, known).or_else(|| by_link(&process, &name, known));
    if let Some(file) = linked {
        return Ok(Opened { file, by_path: false });
    }
    // Some file systems give a file another number in maps than elsewhere (overlays). One that was there before this run is it all
    // the same; a later one has replaced the file that is mapped.
    let is_old = |found: &Opened| matches!(known, Known::Inode(_)) && unchanged_since_our_start(&found.file);
    by_name.and_then(|found| if is_old(&found) { Ok(found) } else { Err(io::ErrorKind::NotFound.into()) })
}

/// Metadata of the file now at `path`, a name in the map of `pid`, as that process sees it.
pub fn metadata(pid: Pid, path: &str) -> Option<Metadata> {
    fs::metadata(below(&PathBuf::from(format!("/proc/{pid}/root")), &path_text::decode(path))).ok()
}

/// The file at a path that the process sees; as we see it if the process is gone.
fn named(process: &Path, name: &Path) -> io::Result<Opened> {
    match open_regular(&below(&process.join("root"), name)) {
        Ok(file) => {
            let by_path = open_regular(name).is_ok_and(|own| is_same(&own, &file));
            Ok(Opened { file, by_path })
        }
        Err(error) if process.join("root").exists() => Err(error),
        Err(_) => open_regular(name).map(|file| Opened { file, by_path: true }),
    }
}

fn unchanged_since_our_start(file: &File) -> bool {
    let started = proc_status::started(std::process::id()).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let changed = file.metadata().ok().map(|data| Duration::new(data.ctime().max(0) as u64, data.ctime_nsec() as u32));
    matches!((changed, started), (Some(changed), Some(started)) if changed < started)
}

/// Opens a file if it is regular: devices may do something when they are opened.
fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    File::open(path)
}

/// The mapping's own link, which needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. The file may have another name by now.
fn by_mapping(process: &Path, pid: Pid, start: Address, path: &str, known: Known) -> Option<File> {
    let maps = read_maps(pid).ok()?;
    let mapping = maps.iter().find(|m: &&Mapping| m.contains(start))?;
    let link = format!("map_files/{:x}-{:x}", mapping.start.get(), mapping.end.get());
    let file = open_regular(&process.join(link)).ok()?;
    let has_its_name = bare(mapping.path.as_bytes()) == bare(path.as_bytes());
    let is_it = match known {
        Known::BuildId(_) => known.is(&file),
        Known::Inode(_) => known.is(&file) || has_its_name,
        Known::Nothing => has_its_name,
    };
    is_it.then_some(file)
}

/// The program of the process, which may have another name by now, or one of its open files that has this name, if it is the file looked
/// for.
fn by_link(process: &Path, name: &Path, known: Known) -> Option<File> {
    let program = process.join("exe");
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = std::iter::once(program.clone()).chain(open);
    let name = bare(name.as_os_str().as_bytes());
    let named = links.filter(|link| {
        let needs_no_name = *link == program && !matches!(known, Known::Nothing);
        needs_no_name || fs::read_link(link).is_ok_and(|to| bare(to.as_os_str().as_bytes()) == name)
    });
    named.filter_map(|link| open_regular(&link).ok()).find(|file| known.is(file))
}

/// A path without the mark of deleted files, which it may have got meanwhile.
fn bare(path: &[u8]) -> &[u8] {
    path.strip_suffix(DELETED.as_bytes()).unwrap_or(path)
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
        let open_it = |name: &str, inode| open(Pid::this(), Address::new(0), name, Known::Inode(inode));
        assert_eq!(read(open_it(name, inode).unwrap()), ("named".into(), true));

        // Another file at its path, while it is still open.
        let held = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        assert_eq!(read(open_it(&format!("{name} (deleted)"), inode).unwrap()), ("named".into(), false));
        assert_eq!(read(open_it(name, inode).unwrap()), ("named".into(), false), "as it was called before");
        drop(held);
        assert!(open_it(name, inode).is_err(), "the other one is not it");
        assert!(open_it(&format!("{name} (deleted)"), inode).is_err());

        let memory = nix::sys::memfd::memfd_create("code", nix::sys::memfd::MFdFlags::empty()).unwrap();
        let mut memory = File::from(memory);
        memory.write_all(b"in memory").unwrap();
        std::io::Seek::rewind(&mut memory).unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", memory.as_raw_fd())).unwrap();
        let inode = memory.metadata().unwrap().ino();
        assert_eq!(read(open_it(link.to_str().unwrap(), inode).unwrap()), ("in memory".into(), false));
    }

    #[test]
    fn devices_are_not_opened() {
        assert!(open(Pid::this(), Address::new(0), "/dev/zero", Known::Nothing).is_err());
    }
}
