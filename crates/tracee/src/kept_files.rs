//! The files that the program ran from, for those that read them after it has ended.
//!
//! Evidence names files by path. This remembers what was at that path. Files that no path leads to stay open, and so do those
//! in build folders, which are replaced while they run. Of all others enough is known to decide whether they changed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Mutex;

use super::mapped_file::Opened;
use super::path_text;

/// The most files that are kept open; more could exhaust the descriptors of this process.
const MOST_OPEN: usize = 128;

/// Bytes that are compared at once.
const CHUNK: usize = 1 << 20;

/// (path, build id).
type Key = (String, Option<String>);

static SEEN: Mutex<BTreeMap<Key, Seen>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    open: Option<File>,
    /// Another file ran from there, too.
    is_one_of_several: bool,
}

/// Changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// That of the file with this metadata.
    pub fn of(data: &Metadata) -> Stamp {
        Stamp { device: data.dev(), inode: data.ino(), bytes: data.len(), changed: (data.mtime(), data.mtime_nsec()) }
    }
}

/// Remembers a file that code runs from, by the path and build id that evidence has of it. The first one counts; if no build id
/// distinguishes it from another one that follows, it is not known which one evidence means.
pub fn remember(path: &str, build_id: Option<&str>, opened: Opened) {
    let Ok(data) = opened.file.metadata() else { return };
    let Ok(mut seen) = SEEN.lock() else { return };
    let room = seen.values().filter(|s| s.open.is_some()).count() < MOST_OPEN;
    let keep = room && (!opened.by_path || is_pinned(data.dev()));
    match seen.entry((path.to_owned(), build_id.map(str::to_owned))) {
        Entry::Vacant(entry) => {
            let open = keep.then_some(opened.file);
            entry.insert(Seen { stamp: Stamp::of(&data), open, is_one_of_several: false });
        }
        Entry::Occupied(mut known) if build_id.is_none() => {
            let known = known.get_mut();
            let is_same = Stamp::of(&data) == known.stamp
                || known.open.as_ref().is_some_and(|first| have_same_content(first, &opened.file).unwrap_or(false));
            known.is_one_of_several |= !is_same;
        }
        Entry::Occupied(_) => {}
    }
}

/// Whether two files have the same bytes, as one that is built again between two passes has.
fn have_same_content(a: &File, b: &File) -> io::Result<bool> {
    let (size, other) = (a.metadata()?.len(), b.metadata()?.len());
    let (mut of_a, mut of_b) = (vec![0; CHUNK], vec![0; CHUNK]);
    for at in (0..size).step_by(CHUNK) {
        let now = CHUNK.min((size - at) as usize);
        a.read_exact_at(&mut of_a[..now], at)?;
        b.read_exact_at(&mut of_b[..now], at)?;
        if of_a[..now] != of_b[..now] {
            return Ok(false);
        }
    }
    Ok(size == other)
}

/// Whether this process keeps the file system in use anyway, by its root or its folder: an open file on another one could make the
/// program fail to unmount it.
fn is_pinned(device: u64) -> bool {
    ["/", "."].iter().any(|folder| std::fs::metadata(folder).is_ok_and(|data| data.dev() == device))
}

/// Opens a file that evidence names.
///
/// # Errors
/// It cannot be opened, or no build id shows which one is meant and it is not the one that was remembered
/// ([`Changed`](Reopened::Changed)).
pub fn open(path: &str, build_id: Option<&str>) -> io::Result<Reopened> {
    let by_path = || File::open(path_text::decode(path));
    let Ok(seen) = SEEN.lock() else { return by_path().map(Reopened::Same) };
    let Some(known) = seen.get(&(path.to_owned(), build_id.map(str::to_owned))) else {
        return by_path().map(Reopened::Same);
    };
    let file = known.open.as_ref().map_or_else(by_path, File::try_clone)?;
    let same = build_id.is_some() || !known.is_one_of_several && Stamp::of(&file.metadata()?) == known.stamp;
    Ok(if same { Reopened::Same(file) } else { Reopened::Changed })
}

/// A file that evidence names.
#[derive(Debug)]
pub enum Reopened {
    /// The file; its build id, if it has one, is still to be compared.
    Same(File),
    /// Another one is there now.
    Changed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    fn content(path: &str, build_id: Option<&str>) -> Option<String> {
        let Reopened::Same(mut file) = open(path, build_id).unwrap() else { return None };
        let mut text = String::new();
        // Clones of a file share its position.
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn a_file_that_changed_is_told_from_the_one_that_ran() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, "as it ran").unwrap();
        let name = path.to_str().unwrap();
        assert_eq!(content(name, None).as_deref(), Some("as it ran"), "unknown files are believed");
        let opened = |by_path| Opened { file: File::open(&path).unwrap(), by_path };
        remember(name, None, opened(true));
        remember(name, Some("1f"), opened(true));
        remember(name, Some("2f"), opened(false));
        assert_eq!(content(name, None).as_deref(), Some("as it ran"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "rebuilt").unwrap();
        assert_eq!(content(name, None), None);
        assert_eq!(content(name, Some("1f")).as_deref(), Some("rebuilt"), "its build id decides");
        assert_eq!(content(name, Some("2f")).as_deref(), Some("as it ran"));
    }

    #[test]
    fn a_file_where_programs_are_built_is_kept() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("program");
        let name = path.to_str().unwrap();
        std::fs::write(&path, "as it ran").unwrap();
        remember(name, None, Opened { file: File::open(&path).unwrap(), by_path: true });
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        std::fs::write(&path, "rebuilt").unwrap();
        assert_eq!(content(name, None).as_deref(), Some("as it ran"));
        std::fs::write(dir.path().join("old"), "written over").unwrap();
        assert_eq!(content(name, None), None);
    }

    #[test]
    fn of_two_files_that_ran_from_one_path_neither_is_meant() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("library");
        let name = path.to_str().unwrap();
        for (text, expected) in [("first", Some("first")), ("first", Some("first")), ("other", None)] {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            remember(name, None, Opened { file: File::open(&path).unwrap(), by_path: true });
            assert_eq!(content(name, None).as_deref(), expected);
        }
    }
}
