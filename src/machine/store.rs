//! The cache of measured ceilings: one file for each host, cpuset, kernel and version of rprof.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::MachineError;
use super::lab::Effort;
use super::states::State;
use crate::profile::machine::Machine;

/// After so long nobody is still writing a file.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// What a cached measurement is valid for. Any difference means: measure again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// CPU model.
    pub cpu: String,
    /// CPUs in kernel list form, with their cores.
    pub cpus: String,
    /// Cache sizes.
    pub caches: String,
    /// Kernel release.
    pub kernel: String,
    /// Threads at most.
    pub threads: usize,
    /// Whether DRAM could be measured under the memory limit.
    pub dram: bool,
    /// Version of rprof and of the set of ceilings.
    pub version: String,
}

/// A cache file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is valid for.
    pub key: Key,
    /// `quick` or `full`.
    pub effort: String,
    /// Later runs that have tried again what was in doubt.
    #[serde(default)]
    pub retries: u32,
    /// States of the memory that were met, the present one apart.
    #[serde(default)]
    pub states: Vec<State>,
    /// The ceilings.
    pub machine: Machine,
}

impl Entry {
    /// Whether it was measured at least as thoroughly as `effort` asks.
    pub fn satisfies(&self, effort: Effort) -> bool {
        effort == Effort::Quick || self.effort == Effort::Full.name()
    }
}

/// Why a cache file was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// There is none.
    Absent,
    /// It cannot be read or is no cache of this version; the text says what is wrong.
    Broken(String),
    /// It belongs to another machine, cpuset, kernel or version.
    Foreign,
}

impl Key {
    /// The file name: a hash, so that hosts that share a home directory do not overwrite each other's.
    fn file_name(&self) -> String {
        let text = format!("{self:?}");
        // FNV-1a, 64 bits: stable over versions of the standard library.
        let hash =
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        format!("machine-{hash:016x}.json")
    }
}

/// `$XDG_CACHE_HOME/rprof`, else `~/.cache/rprof`; `None` where neither variable is set.
pub fn directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base =
        variable("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(base.join("rprof"))
}

/// Reads the entry for `key` in `directory`.
///
/// # Errors
/// Why there is nothing to use.
pub fn load(directory: &Path, key: &Key) -> Result<Entry, Unusable> {
    let path = directory.join(key.file_name());
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Unusable::Absent),
        Err(error) => return Err(Unusable::Broken(format!("{}: {error}", path.display()))),
    };
    let entry: Entry =
        serde_json::from_str(&text).map_err(|error| Unusable::Broken(format!("{}: {error}", path.display())))?;
    if entry.key != *key { Err(Unusable::Foreign) } else { Ok(entry) }
}

/// Writes `entry`, replacing the old file in one step.
///
/// # Errors
/// [`MachineError::CacheWrite`].
pub fn save(directory: &Path, entry: &Entry) -> Result<(), MachineError> {
    let path = directory.join(entry.key.file_name());
    let failed = |source| MachineError::CacheWrite { path: path.clone(), source };
    fs::create_dir_all(directory).map_err(failed)?;
    let text = serde_json::to_string(entry).map_err(|e| failed(std::io::Error::other(e)))?;
    let temporary = directory.join(format!(".{}.{}", entry.key.file_name(), std::process::id()));
    sweep(directory);
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        // Not synchronized with the disk, which may take long: half a file would be found out and replaced.
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|error| {
        // The temporary file may not exist; nothing depends on its removal.
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// Removes the unfinished files of runs that were killed.
fn sweep(directory: &Path) {
    let is_unfinished = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(".machine-") && name.contains(".json."))
    };
    let is_old = |entry: &fs::DirEntry| {
        let written = entry.metadata().and_then(|m| m.modified()).ok();
        written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > UNFINISHED)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|e| is_unfinished(e) && is_old(e)) {
        // If it cannot be removed, nothing depends on it.
        let _ = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let key = Key {
            cpu: "c".into(),
            cpus: "0-1".into(),
            caches: "32K".into(),
            kernel: "6".into(),
            threads: 2,
            dram: true,
            version: "1".into(),
        };
        Entry { key, effort: "quick".into(), retries: 0, states: Vec::new(), machine: Machine::default() }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let entry = entry();
        assert_eq!(load(dir.path(), &entry.key), Err(Unusable::Absent));
        save(dir.path(), &entry).expect("save");
        assert_eq!(load(dir.path(), &entry.key), Ok(entry.clone()));
        assert!(entry.satisfies(Effort::Quick) && !entry.satisfies(Effort::Full));
    }

    #[test]
    fn half_a_file_is_broken_and_another_host_is_foreign() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let entry = entry();
        save(dir.path(), &entry).expect("save");
        let path = dir.path().join(entry.key.file_name());
        let text = fs::read_to_string(&path).expect("read");
        fs::write(&path, &text[..text.len() / 2]).expect("write");
        assert!(matches!(load(dir.path(), &entry.key), Err(Unusable::Broken(_))));
        fs::write(&path, text.replace("\"0-1\"", "\"0-7\"")).expect("write");
        assert_eq!(load(dir.path(), &entry.key), Err(Unusable::Foreign));
    }

    #[test]
    fn what_killed_runs_left_is_removed_and_what_others_write_is_not() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let long_ago = std::time::SystemTime::now() - 2 * UNFINISHED;
        let put = |name: &str, old: bool| {
            let file = fs::File::create(dir.path().join(name)).expect("create");
            if old {
                file.set_modified(long_ago).expect("set the time");
            }
        };
        put(".machine-1.json.7", true);
        put(".machine-1.json.8", false);
        put("machine-2.json", true);
        put(".other.json.7", true);
        save(dir.path(), &entry()).expect("save");
        let mut left: Vec<_> = fs::read_dir(dir.path()).expect("read").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left.len(), 4);
        assert_eq!(left[..2], [".machine-1.json.8", ".other.json.7"]);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("write");
        assert!(matches!(save(&file.join("below"), &entry()), Err(MachineError::CacheWrite { .. })));
    }
}
