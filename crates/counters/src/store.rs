//! The cache of trust certificates: one file for each CPU, microcode, kernel and set of tables, beside the ceilings.
//!
//! Checks that could not be made are not kept: rprof tries them again at every run. `rprof events --check` checks everything
//! anew.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cpu::CpuId;
use super::pmu::Pmu;
use super::table::EventTable;
use super::trust::{Certificate, Verdict};
use rprof_tracee::whole_file;

/// The conditions under which certificates are valid. Any difference requires a new check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// CPU with vendor, family, model and whether it is virtual.
    pub cpu: String,
    /// Microcode revision; empty if the kernel does not report it.
    pub microcode: String,
    /// Kernel release.
    pub kernel: String,
    /// PMUs with the kernel's number and bit fields for each.
    pub pmus: String,
    /// Version of rprof, and a hash of its event tables.
    pub tables: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    key: Key,
    certificates: Vec<Certificate>,
}

/// A set of certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("cannot {operation} the certificates of hardware counters in {path}: {source}")]
    File {
        /// `read`, `keep`, `forget`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A count cannot be divided by its correction.
    #[error("{path} corrects {event} by an impossible factor: the ratio must be a number above 0")]
    Factor {
        /// The file.
        path: PathBuf,
        /// The event.
        event: String,
    },
    /// It is no such file.
    #[error("{path} holds no certificates of hardware counters: {source}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The place and the error.
        source: serde_json::Error,
    },
}

impl Key {
    /// The key of `cpu` with these `tables` and `pmus`; `proc_root`: the mount point of proc.
    pub fn of(cpu: Option<&CpuId>, tables: &[EventTable], pmus: &[Pmu], proc_root: &Path) -> Key {
        let text = |path: &str| fs::read_to_string(proc_root.join(path)).unwrap_or_default();
        let cpuinfo = text("cpuinfo");
        let microcode =
            cpuinfo.lines().find_map(|l| l.strip_prefix("microcode")?.split_once(':')).map(|(_, r)| r.trim());
        Key {
            cpu: cpu.map(|c| format!("{c:?}")).unwrap_or_default(),
            microcode: microcode.unwrap_or_default().to_owned(),
            kernel: text("sys/kernel/osrelease").trim().to_owned(),
            pmus: pmus.iter().map(|p| format!("{}={} {:?}; ", p.name, p.kind, p.format)).collect(),
            tables: format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hash(&format!("{tables:?}"))),
        }
    }

    fn file(&self, directory: &Path) -> PathBuf {
        directory.join(format!("counters-{:016x}.json", hash(&format!("{self:?}"))))
    }
}

/// Another release of the standard library may hash differently: then everything is checked once more.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The certificates kept for `key`; none if there is no file, or if it is damaged or of another host.
pub fn load(directory: &Path, key: &Key) -> Vec<Certificate> {
    let text = fs::read_to_string(key.file(directory)).unwrap_or_default();
    let entry: Option<Entry> = serde_json::from_str(&text).ok();
    entry
        .filter(|e| e.key == *key && e.certificates.iter().all(is_possible))
        .map(|e| e.certificates)
        .unwrap_or_default()
}

/// Certificates that were recorded in a file of one's own.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn recorded(path: &Path) -> Result<Vec<Certificate>, StoreError> {
    let text = fs::read_to_string(path).map_err(|source| StoreError::File {
        operation: "read",
        path: path.to_owned(),
        source,
    })?;
    let certificates: Vec<Certificate> =
        serde_json::from_str(&text).map_err(|source| StoreError::Syntax { path: path.to_owned(), source })?;
    match certificates.iter().find(|c| !is_possible(c)) {
        Some(c) => Err(StoreError::Factor { path: path.to_owned(), event: c.event.clone() }),
        None => Ok(certificates),
    }
}

/// No event is off by more than this, nor by its inverse; beyond it sums would end in infinity or in 0.
const LEAST_RATIO: f64 = 1e-9;

/// A factor that counts can be divided by.
fn is_possible(certificate: &Certificate) -> bool {
    match certificate.verdict {
        Verdict::Corrected { ratio } => (LEAST_RATIO..=1.0 / LEAST_RATIO).contains(&ratio),
        _ => true,
    }
}

/// Keeps those of `certificates` that have a verdict, and replaces the old file in one step.
///
/// # Errors
/// The file cannot be written.
pub fn keep(directory: &Path, key: &Key, certificates: &[Certificate]) -> Result<(), StoreError> {
    let said = |c: &&Certificate| !matches!(c.verdict, Verdict::NotChecked { .. });
    let certificates: Vec<Certificate> = certificates.iter().filter(said).cloned().collect();
    if certificates.is_empty() {
        return Ok(());
    }
    let path = key.file(directory);
    let write = || {
        let text = serde_json::to_string(&Entry { key: key.clone(), certificates }).map_err(io::Error::other)?;
        fs::create_dir_all(directory)?;
        whole_file::write(&path, text.as_bytes())
    };
    write().map_err(|source| StoreError::File { operation: "keep", path: path.clone(), source })
}

/// Drops the certificates kept for `key`, so that the next run checks everything again.
///
/// # Errors
/// The file cannot be removed.
pub fn forget(directory: &Path, key: &Key) -> Result<(), StoreError> {
    let path = key.file(directory);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::File { operation: "forget", path, source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Comparison;

    fn key(kernel: &str) -> Key {
        let text = |t: &str| t.to_owned();
        Key { cpu: text("c"), microcode: text("0x1"), kernel: text(kernel), pmus: text("cpu=4"), tables: text("0.1") }
    }

    fn certificates() -> Vec<Certificate> {
        let comparison = Comparison { kernel: "dp.add".into(), expected: 1e6, counted: 2e6, error: 0.0 };
        let of = |event: &str, verdict| Certificate {
            event: event.into(),
            pmu: "cpu".into(),
            verdict,
            comparisons: vec![comparison.clone()],
        };
        vec![
            of("right", Verdict::Trusted),
            of("double", Verdict::Corrected { ratio: 2.0 }),
            of("wrong", Verdict::Refuted { found: "x".into() }),
            of("open", Verdict::NotChecked { why: "y".into() }),
        ]
    }

    #[test]
    fn what_was_found_is_kept_and_what_was_not_checked_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path(), &key("6.1")).is_empty());
        keep(dir.path(), &key("6.1"), &certificates()).unwrap();
        assert_eq!(load(dir.path(), &key("6.1")), certificates()[..3]);
        assert!(load(dir.path(), &key("6.2")).is_empty(), "another kernel is another host");
        forget(dir.path(), &key("6.1")).unwrap();
        forget(dir.path(), &key("6.1")).unwrap();
        assert!(load(dir.path(), &key("6.1")).is_empty());
    }

    #[test]
    fn a_damaged_or_moved_file_is_no_certificate() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &key("6.1"), &certificates()).unwrap();
        let (path, other) = (key("6.1").file(dir.path()), key("6.2").file(dir.path()));
        fs::copy(&path, other).unwrap();
        assert!(load(dir.path(), &key("6.2")).is_empty());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(load(dir.path(), &key("6.1")).is_empty());
        assert!(recorded(&path).unwrap_err().to_string().contains("holds no certificates"));
        for ratio in ["0.0", "-2.0", "1e-320", "1e-300", "1e300"] {
            let text = format!(
                "[{{\"event\":\"e\",\"pmu\":\"p\",\"verdict\":\"corrected\",\"ratio\":{ratio},\"comparisons\":[]}}]"
            );
            fs::write(&path, text).unwrap();
            assert!(recorded(&path).unwrap_err().to_string().contains("corrects e by an impossible factor"), "{ratio}");
        }
    }

    #[test]
    fn microcode_and_kernel_are_part_of_the_key() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/kernel")).unwrap();
        fs::write(dir.path().join("cpuinfo"), "processor\t: 0\nmicrocode\t: 0xd0003a5\n").unwrap();
        fs::write(dir.path().join("sys/kernel/osrelease"), "6.18.0\n").unwrap();
        let key = Key::of(None, &[], &[], dir.path());
        assert_eq!((key.microcode.as_str(), key.kernel.as_str()), ("0xd0003a5", "6.18.0"));
    }
}
