//! Limits of this process: CPUs, CPU time per period, memory.

use std::fs;
use std::path::Path;

use rprof_tracee::own_limits;

/// Limits that a measurement (and the program) runs under.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// CPUs of the affinity mask.
    pub cpus: Vec<usize>,
    /// CPUs' worth of time that the cgroup grants, if it limits it.
    pub cpu_quota: Option<f64>,
    /// Bytes of available memory: the least of the free memory and the rest of the cgroup's limit.
    pub memory: u64,
}

impl Limits {
    /// Reads the limits of the calling process.
    pub fn read() -> Self {
        Limits { cpus: affinity(), cpu_quota: smallest(&["cpu.max", "cpu.cfs_quota_us"], cpu_quota), memory: memory() }
    }
}

/// CPUs of the calling thread's affinity mask, ascending; empty if the kernel refuses to report it.
fn affinity() -> Vec<usize> {
    use nix::sched::{CpuSet, sched_getaffinity};
    use nix::unistd::Pid;
    match sched_getaffinity(Pid::from_raw(0)) {
        Ok(set) => (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Bytes of available memory: `MemAvailable`, or less if a cgroup or RLIMIT_AS leaves less.
fn memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(1 << 30, |kib| kib << 10);
    let cgroup = smallest(&["memory.max", "memory.limit_in_bytes"], |dir, name| {
        let limit: f64 = fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()?;
        let current = if name == "memory.max" { "memory.current" } else { "memory.usage_in_bytes" };
        let used: f64 = fs::read_to_string(dir.join(current)).ok()?.trim().parse().ok()?;
        Some((limit - used).max(0.0))
    });
    // No limit is the largest number.
    available.min(cgroup.map_or(u64::MAX, |b| b as u64)).min(own_limits::address_space())
}

fn cpu_quota(dir: &Path, name: &str) -> Option<f64> {
    let text = fs::read_to_string(dir.join(name)).ok()?;
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = match words.next() {
        Some(word) => word.parse().ok()?,
        None => fs::read_to_string(dir.join("cpu.cfs_period_us")).ok()?.trim().parse().ok()?,
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The smallest value that `read` finds under one of `names` in this process's cgroups and their parents.
fn smallest(names: &[&str], read: impl Fn(&Path, &str) -> Option<f64>) -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut least: Option<f64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let base = Path::new(root).join(controllers.split(',').next().unwrap_or(""));
            let full = base.join(path.trim_start_matches('/'));
            for dir in full.ancestors().take_while(|d| d.starts_with("/sys/fs/cgroup")) {
                for value in names.iter().filter_map(|name| read(dir, name)) {
                    least = Some(least.map_or(value, |l: f64| l.min(value)));
                }
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_cpu_and_memory() {
        let limits = Limits::read();
        assert!(!limits.cpus.is_empty());
        assert!(limits.memory > 1 << 20);
    }

    #[test]
    fn both_forms_of_quota_are_read() {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::write(dir.path().join("cpu.max"), "150000 100000\n").expect("write");
        assert_eq!(cpu_quota(dir.path(), "cpu.max"), Some(1.5));
        fs::write(dir.path().join("cpu.max"), "max 100000\n").expect("write");
        assert_eq!(cpu_quota(dir.path(), "cpu.max"), None);
        fs::write(dir.path().join("cpu.cfs_quota_us"), "-1\n").expect("write");
        fs::write(dir.path().join("cpu.cfs_period_us"), "100000\n").expect("write");
        assert_eq!(cpu_quota(dir.path(), "cpu.cfs_quota_us"), None);
    }
}
