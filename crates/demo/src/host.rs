//! The facts about this host that the kernels need: its CPUs, caches and memory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::error::DemoError;
use super::kernels::Level;

/// CPUs, cache sizes and memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// L1 data cache of one core.
    pub l1: usize,
    /// L2 cache of one core.
    pub l2: usize,
    /// One last-level cache; `None` if L2 is the last.
    pub l3: Option<usize>,
    /// All last-level caches that the CPUs use.
    pub last_level_total: usize,
    /// Memory that can be had.
    pub available: usize,
}

impl Host {
    /// Reads sysfs and procfs. Caches that they do not describe are taken as 32 KiB, 1 MiB and 32 MiB.
    pub fn read() -> Result<Host, DemoError> {
        let cpus = allowed_cpus()?;
        Ok(Self::from_trees(Path::new("/sys/devices/system/cpu"), Path::new("/proc/meminfo"), cpus))
    }

    fn from_trees(sysfs: &Path, meminfo: &Path, cpus: Vec<usize>) -> Host {
        let first = cpus.first().copied().unwrap_or(0);
        let caches = data_caches(&sysfs.join(format!("cpu{first}/cache")));
        let size = |level| caches.iter().find(|c| c.level == level).map(|c| c.bytes);
        let known = size(1).is_some() && size(2).is_some();
        let l2 = size(2).unwrap_or(1 << 20);
        let l3 = if known { size(3) } else { Some(32 << 20) };
        let instances = cpus
            .iter()
            .filter_map(|cpu| {
                let last = data_caches(&sysfs.join(format!("cpu{cpu}/cache"))).into_iter().max_by_key(|c| c.level)?;
                Some(last.shared_by)
            })
            .collect::<BTreeSet<_>>()
            .len()
            .max(1);
        let available = fs::read_to_string(meminfo).ok().and_then(|t| mem_available(&t)).unwrap_or(1 << 30);
        Host {
            l1: size(1).unwrap_or(32 << 10),
            l2,
            l3,
            last_level_total: l3.unwrap_or(l2) * instances,
            cpus,
            available,
        }
    }

    /// Bytes of a working set that lies in `level` and in no cache nearer to the core; for DRAM of all threads together.
    pub fn working_set(&self, level: Level) -> usize {
        match level {
            Level::L1 => self.l1 * 3 / 4,
            Level::L2 => self.l2 / 2,
            Level::L3 => (self.l2 as f64 * self.l3.unwrap_or(self.l2) as f64).sqrt() as usize,
            Level::Dram => {
                let last = self.last_level_total;
                (4 * last).max((8 * last).min(512 << 20)).min(self.available / 4)
            }
        }
    }
}

struct DataCache {
    level: u32,
    bytes: usize,
    shared_by: String,
}

fn data_caches(folder: &Path) -> Vec<DataCache> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok().map(|s| s.trim().to_owned());
            if read("type")? == "Instruction" {
                return None;
            }
            Some(DataCache {
                level: read("level")?.parse().ok()?,
                bytes: size(&read("size")?)?,
                shared_by: read("shared_cpu_list")?,
            })
        })
        .collect()
}

/// `32K`, `1M`, `65536` in bytes.
fn size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<usize>().ok().map(|n| n * unit)
}

fn mem_available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|kb| kb << 10)
}

/// The CPUs that the calling thread may use.
pub fn allowed_cpus() -> Result<Vec<usize>, DemoError> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|e| DemoError::Affinity { operation: "read", source: io::Error::from(e) })?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// Lets the calling thread run on `cpus` only.
pub fn pin(cpus: &[usize]) -> Result<(), DemoError> {
    let set_error = |e| DemoError::Affinity { operation: "set", source: io::Error::from(e) };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).map_err(set_error)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(set_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(root: &Path, cpu: usize, index: usize, fields: [&str; 4]) {
        let folder = root.join(format!("cpu{cpu}/cache/index{index}"));
        fs::create_dir_all(&folder).unwrap();
        for (name, value) in ["level", "type", "size", "shared_cpu_list"].iter().zip(fields) {
            fs::write(folder.join(name), format!("{value}\n")).unwrap();
        }
    }

    #[test]
    fn reads_caches_and_counts_last_level_instances() {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..4 {
            let own = cpu.to_string();
            cache(root.path(), cpu, 0, ["1", "Data", "48K", &own]);
            cache(root.path(), cpu, 1, ["1", "Instruction", "32K", &own]);
            cache(root.path(), cpu, 2, ["2", "Unified", "2048K", &own]);
            cache(root.path(), cpu, 3, ["3", "Unified", "16M", if cpu < 2 { "0-1" } else { "2-3" }]);
        }
        let meminfo = root.path().join("meminfo");
        fs::write(&meminfo, "MemTotal:  9000000 kB\nMemAvailable:    8000000 kB\n").unwrap();
        let host = Host::from_trees(root.path(), &meminfo, vec![0, 1, 2, 3]);
        assert_eq!((host.l1, host.l2, host.l3), (48 << 10, 2 << 20, Some(16 << 20)));
        assert_eq!(host.last_level_total, 32 << 20);
        assert_eq!(host.working_set(Level::Dram), 256 << 20);
        assert_eq!(host.working_set(Level::L1), 36 << 10);
        let one = Host::from_trees(root.path(), &meminfo, vec![3]);
        assert_eq!(one.last_level_total, 16 << 20);
    }

    #[test]
    fn a_host_without_sysfs_has_stated_defaults() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::from_trees(root.path(), &root.path().join("none"), vec![0]);
        assert_eq!((host.l1, host.l2, host.l3), (32 << 10, 1 << 20, Some(32 << 20)));
        assert_eq!(host.working_set(Level::Dram), 256 << 20, "a quarter of the assumed 1 GiB");
    }
}
