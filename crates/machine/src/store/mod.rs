//! The cache of measured ceilings: one file for each host, cpuset, kernel and version of rprof.

#[cfg(target_arch = "x86_64")]
mod drift;
#[cfg(target_arch = "x86_64")]
pub mod measure;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::MachineError;
use crate::suite::campaign::Effort;
use rprof_profile::machine::Machine;
use rprof_tracee::whole_file;

/// The conditions under which a cached measurement is valid. Any difference requires a new measurement.
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

/// Largest size of a cache file: a hundred times the size for a large host.
const LARGEST: u64 = 64 << 20;

/// A cache file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The conditions under which it is valid.
    pub key: Key,
    /// `quick` or `full`.
    pub effort: String,
    /// Number of later runs that have retried late or noisy ceilings.
    #[serde(default)]
    pub retries: u32,
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
    /// It cannot be read or is no cache of this version; the text names the problem.
    Broken(String),
    /// It belongs to another machine, cpuset, kernel or version.
    Foreign,
}

impl Key {
    /// The file name: a hash, so that hosts that share a home directory do not overwrite each other's.
    fn file_name(&self) -> String {
        format!("machine-{:016x}.json", hash(&format!("{self:?}")))
    }
}

/// FNV-1a, 64 bits: for names of files, stable over versions of the standard library.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// `$XDG_CACHE_HOME/rprof`, else `~/.cache/rprof`; `None` if neither variable is set.
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
    let broken = |what: &dyn std::fmt::Display| Unusable::Broken(format!("{}: {what}", path.display()));
    // Reading a pipe or a device might never end.
    let read = fs::metadata(&path).and_then(|data| match data.is_file() && data.len() <= LARGEST {
        true => fs::read_to_string(&path),
        false => Err(std::io::Error::other("is no file of ceilings")),
    });
    let text = match read {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Unusable::Absent),
        Err(error) => return Err(broken(&error)),
    };
    let entry: Entry = serde_json::from_str(&text).map_err(|error| broken(&error))?;
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
    // Writing to a pipe or device in the file's place might never end.
    if fs::metadata(&path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        fs::remove_file(&path).map_err(failed)?;
    }
    whole_file::remove_unfinished(directory);
    whole_file::write(&path, text.as_bytes()).map_err(failed)
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
        Entry { key, effort: "quick".into(), retries: 0, machine: Machine::default() }
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
    fn a_directory_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("write");
        assert!(matches!(save(&file.join("below"), &entry()), Err(MachineError::CacheWrite { .. })));
    }
}
