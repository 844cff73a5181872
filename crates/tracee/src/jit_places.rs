//! The places that processes with code made at run time leave its names at: a map in their own `/tmp`, under their own
//! process id, dumps that they map, and images in their memory. All are gone when the process or its namespaces are.
//!
//! ```text
//!  code seen ─▶ remember: inner id, its /tmp held open, its start ─▶ it ends ─▶ collect: /tmp/perf-INNER.map, dumps ─▶ left_by
//!          └─▶ look, while it runs: images in its memory ───────────────────────────────────────────────────────────────┘
//! ```
//!
//! Maps and dumps are read when the process ends: the next one with this inner id, be it that of the next pass, writes over them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use nix::unistd::Pid;

use super::jit_images::JitImages;
use super::proc_status;

/// Largest number of processes to keep the places of.
const MOST_KEPT: usize = 256;

/// Time stamps of files have the resolution of the kernel's ticks: a map may seem to be older than its process by this.
const SLACK: Duration = Duration::from_secs(2);

/// The least time between two looks at the memory of a process that runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

static PLACES: Mutex<BTreeMap<u32, Place>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Place {
    /// Process id in the innermost namespace.
    inner: Option<u32>,
    /// Its `/tmp`.
    tmp: Option<File>,
    /// When it began; older maps are those of others that had its id.
    started: Option<SystemTime>,
    dumps: Vec<File>,
    images: JitImages,
    looked: Option<Instant>,
    /// The process that it was forked from, with the code that this had.
    parent: Option<u32>,
    collected: Option<Left>,
}

/// Data that processes left for profilers, the earliest first.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// Contents of perf maps.
    pub maps: Vec<Vec<u8>>,
    /// Contents of jitdump files.
    pub dumps: Vec<Vec<u8>>,
    /// ELF images that were registered for debuggers.
    pub images: Vec<Vec<u8>>,
}

/// Remembers where process `pid`, which has code made at run time, leaves its names. It should be alive.
pub fn remember(pid: u32) {
    with_place(pid, |place| {
        if place.inner.is_none() {
            place.inner = inner_id(pid);
            place.tmp = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
                .open(format!("/proc/{pid}/root/tmp"))
                .ok();
            place.started = proc_status::started(pid);
        }
    });
}

/// Reads the images that process `pid` registered for debuggers since the last look, unless that was a moment ago or it has no code made at run time. It
/// should be alive.
pub fn look(pid: u32) {
    look_again_after(pid, LOOK_EVERY);
}

/// As [`look`], however short a time ago the last one was: process `pid` is about to end.
pub fn look_a_last_time(pid: u32) {
    look_again_after(pid, Duration::ZERO);
}

fn look_again_after(pid: u32, time: Duration) {
    let Ok(mut places) = PLACES.lock() else { return };
    let Some(place) = places.get_mut(&pid).filter(|place| place.collected.is_none()) else { return };
    if place.looked.is_none_or(|looked| looked.elapsed() >= time) {
        // A process that is gone, or that may not be read, has no further images.
        let _ = place.images.look(Pid::from_raw(pid as i32));
        place.looked = Some(Instant::now());
    }
}

/// Remembers a dump that process `pid` has mapped.
pub fn remember_dump(pid: u32, dump: File) {
    with_place(pid, |place| place.dumps.push(dump));
}

/// Remembers that process `child` was forked with the code of `parent`.
pub fn forked(parent: u32, child: u32) {
    let Ok(mut places) = PLACES.lock() else { return };
    if places.contains_key(&parent) && places.len() < MOST_KEPT {
        places.insert(child, Place { parent: Some(parent), ..Place::default() });
    }
}

/// Forgets all of process `pid`, which executes another program.
pub fn executed(pid: u32) {
    if let Ok(mut places) = PLACES.lock() {
        places.remove(&pid);
    }
}

/// Whether a file that is mapped as code is a dump, by its name.
pub fn is_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump")).is_some()
}

/// Process `pid` has ended: reads what it left, if it has a place and if that was not done before.
pub fn collect(pid: u32) {
    look_a_last_time(pid);
    let Ok(mut places) = PLACES.lock() else { return };
    let Some(place) = places.get_mut(&pid).filter(|place| place.collected.is_none()) else { return };
    let images = std::mem::take(&mut place.images).into_images();
    let mut left = Left { maps: map_of(pid, Some(place)).into_iter().collect(), dumps: Vec::new(), images };
    for dump in &mut place.dumps {
        let mut bytes = Vec::new();
        if dump.rewind().and_then(|()| dump.read_to_end(&mut bytes)).is_ok() {
            left.dumps.push(bytes);
        }
    }
    place.collected = Some(left);
}

/// Those left by process `pid`, and by those that it has its code from.
pub fn left_by(pid: u32) -> Left {
    collect(pid);
    let mut left = Left::default();
    let Ok(places) = PLACES.lock() else { return left };
    if !places.contains_key(&pid) {
        left.maps.extend(map_of(pid, None));
    }
    let (mut next, mut seen, mut inherited) = (Some(pid), Vec::new(), Vec::new());
    while let Some(place) = next.filter(|pid| !seen.contains(pid)).and_then(|pid| places.get(&pid)) {
        seen.extend(next);
        if let Some(own) = &place.collected {
            left.maps.extend(own.maps.iter().cloned());
            left.dumps.extend(own.dumps.iter().cloned());
            inherited.push(&own.images);
        }
        next = place.parent;
    }
    // The own names of a process come last, as they count.
    left.maps.reverse();
    left.dumps.reverse();
    left.images = inherited.into_iter().rev().flatten().cloned().collect();
    left
}

fn with_place(pid: u32, change: impl FnOnce(&mut Place)) {
    let Ok(mut places) = PLACES.lock() else { return };
    if places.len() < MOST_KEPT || places.contains_key(&pid) {
        change(places.entry(pid).or_default());
    }
}

fn map_of(pid: u32, place: Option<&Place>) -> Option<Vec<u8>> {
    let inner = place.and_then(|place| place.inner).unwrap_or(pid);
    let started = place.and_then(|place| place.started);
    let folders = [place.and_then(|place| place.tmp.as_ref()).map(of_descriptor), Some(PathBuf::from("/tmp"))];
    // Without a namespace of its own, or if it is not known, the map lies in our /tmp under our id of it.
    let own = [(folders[0].clone(), inner), (folders[1].clone(), pid)];
    own.into_iter().find_map(|(folder, id)| read_map(&folder?.join(format!("perf-{id}.map")), started).ok())
}

/// Reads a map that was written since `started`.
fn read_map(path: &Path, started: Option<SystemTime>) -> io::Result<Vec<u8>> {
    let data = fs::metadata(path)?;
    let written = data.modified()?;
    if !data.is_file() || started.is_some_and(|started| written + SLACK < started) {
        return Err(io::ErrorKind::NotFound.into());
    }
    fs::read(path)
}

fn of_descriptor(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// The last of the ids in `NSpid: 4711 1`.
fn inner_id(pid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own_id_and_start() {
        let pid = std::process::id();
        assert!(inner_id(pid).is_some());
        let start = proc_status::started(pid).unwrap();
        let age = SystemTime::now().duration_since(start).unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
        assert!(is_dump("/a/jit-12.dump") && !is_dump("/a/jit-12.so") && !is_dump("/a/core.dump"));
    }

    #[test]
    fn a_forked_process_has_the_names_of_its_parent_until_it_executes() {
        // Ids that no process has.
        let (parent, child) = (0x7fff_0001, 0x7fff_0002);
        let dump = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            file
        };
        remember_dump(parent, dump("parent's"));
        forked(parent, child);
        remember_dump(child, dump("own"));
        collect(parent);
        assert_eq!(left_by(child).dumps, [b"parent's".to_vec(), b"own".to_vec()]);
        executed(child);
        assert!(left_by(child).dumps.is_empty());
    }

    #[test]
    fn a_map_older_than_its_process_is_another_ones() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let now = SystemTime::now();
        assert!(read_map(file.path(), Some(now)).is_ok());
        file.as_file().set_modified(now - Duration::from_secs(60)).unwrap();
        assert!(read_map(file.path(), Some(now)).is_err());
    }
}
