//! A control group with one limit, of either version; removed when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Limit of a group.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// The first CPU that this process may use.
    OneCpu,
    /// 50 ms of CPU time in every 100 ms.
    HalfACpu,
    /// Bytes of memory.
    Memory(u64),
}

/// The group.
pub struct Cgroup {
    path: PathBuf,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Cgroup {
    /// Makes the group; or why that is not possible here.
    pub fn new(limit: Limit) -> Result<Cgroup, String> {
        let (controller, settings) = settings(limit)?;
        let name = format!("rprof-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let first = Path::new("/sys/fs/cgroup").join(controller);
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers");
        let (base, version) = if unified.exists() { (PathBuf::from("/sys/fs/cgroup"), 2) } else { (first, 1) };
        if version == 2 {
            put(&base.join("cgroup.subtree_control"), &format!("+{controller}"))?;
        }
        let path = base.join(name);
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let group = Cgroup { path };
        for (file, value) in settings[version - 1].iter() {
            put(&group.path.join(file), value)?;
        }
        Ok(group)
    }

    /// The file that a process writes its id to in order to join.
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that is still in it keeps it; nothing else depends on its removal.
        let _ = fs::remove_dir(&self.path);
    }
}

type Settings = Vec<(&'static str, String)>;

/// The controller of `limit`, and the files to write in version 1 and 2.
fn settings(limit: Limit) -> Result<(&'static str, [Settings; 2]), String> {
    Ok(match limit {
        Limit::OneCpu => {
            let cpus = rprof::machine::host::limits::Limits::read().cpus;
            let first = cpus.first().ok_or("no CPU")?.to_string();
            let nodes = fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.mems").unwrap_or_else(|_| "0".into());
            let old = vec![("cpuset.cpus", first.clone()), ("cpuset.mems", nodes.trim().to_owned())];
            ("cpuset", [old, vec![("cpuset.cpus", first)]])
        }
        Limit::HalfACpu => {
            let old = vec![("cpu.cfs_period_us", "100000".into()), ("cpu.cfs_quota_us", "50000".into())];
            ("cpu", [old, vec![("cpu.max", "50000 100000".into())]])
        }
        Limit::Memory(bytes) => {
            let file = |name| vec![(name, bytes.to_string())];
            ("memory", [file("memory.limit_in_bytes"), file("memory.max")])
        }
    })
}

fn put(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value).map_err(|e| format!("{}: {e}", file.display()))
}
