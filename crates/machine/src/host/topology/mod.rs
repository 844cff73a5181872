//! Cores, SMT siblings, NUMA nodes and caches of the host.
//!
//! ```text
//! sysfs (a root that tests can fake) ─▶ what it lacks: CPUID ─▶ what that lacks: stated defaults with a warning
//! ```

mod cpuid;
pub mod cpulist;
mod sysfs;

use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};

pub use cpuid::{Identity, is_guest};

use rprof_profile::machine::Cache;
use rprof_profile::run::Warning;

/// CPUs of the host, whether this process may use them or not; 1 if the C library cannot say.
pub fn online_cpus() -> u32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1)
}

/// The host as far as placing threads and choosing sizes needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// CPU model as it names itself.
    pub cpu: String,
    /// The CPUs that may be used, by number.
    pub cpus: Vec<Cpu>,
    /// Data and unified caches from the core outwards.
    pub caches: Vec<Cache>,
    /// Bytes of the first-level instruction cache.
    pub l1i_bytes: u64,
    /// Bytes of one way of it.
    pub l1i_way_bytes: u64,
    /// Bytes of all last-level caches that the usable CPUs reach.
    pub llc_total: u64,
    /// NUMA nodes with memory or usable CPUs.
    pub nodes: Vec<usize>,
}

/// One logical CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: usize,
    /// (package, core): SMT siblings share it.
    pub core: (usize, usize),
    /// NUMA node.
    pub node: usize,
    /// Capacity relative to the fastest kind (1024), which distinguishes hybrid cores.
    pub capacity: u32,
}

impl Topology {
    /// Reads the topology of `allowed` CPUs below `sysfs` (normally `/sys`).
    ///
    /// Also returns the doubts: one names each figure that had to be assumed.
    pub fn detect(sysfs: &Path, allowed: &[usize]) -> (Topology, Vec<Warning>) {
        Topology::detect_of(Identity::ask(), sysfs, allowed)
    }

    /// Like [`detect`](Self::detect), for a CPU that describes itself as `identity`.
    pub fn detect_of(identity: Identity, sysfs: &Path, allowed: &[usize]) -> (Topology, Vec<Warning>) {
        let mut warnings = Vec::new();
        let cpus = sysfs::cpus(sysfs, allowed);
        let found = sysfs::caches(sysfs, allowed);
        let mut caches = found.data;
        if caches.is_empty() {
            caches = identity.caches;
            if caches.is_empty() {
                caches = assumed_caches(allowed.len() as u32);
                warnings.push(Warning::new(
                    "cache-sizes-assumed",
                    "neither sysfs nor CPUID reports the cache sizes; 32 KiB, 1 MiB and 32 MiB are assumed",
                    "the bandwidths of the levels may belong to another level",
                    "mount /sys in the container",
                ));
            }
        }
        let instances = found.llc_instances.max(1);
        let llc_total = caches.last().map_or(0, |c| c.size) * instances as u64;
        let topology = Topology {
            cpu: identity.brand.unwrap_or_else(|| "unknown x86-64 CPU".into()),
            nodes: sysfs::nodes(sysfs, &cpus),
            cpus,
            caches,
            l1i_bytes: found.l1i.map_or(32 << 10, |(bytes, _)| bytes),
            l1i_way_bytes: found.l1i.map_or(4096, |(bytes, ways)| bytes / ways.max(1)),
            llc_total,
        };
        (topology, warnings)
    }

    /// The CPUs that `threads` threads are pinned to: one on each core first, SMT siblings after, fast cores before slow.
    pub fn placement(&self, threads: usize) -> Vec<usize> {
        let mut ranked: Vec<(usize, std::cmp::Reverse<u32>, usize)> = Vec::new();
        for cpu in &self.cpus {
            let turn = self.cpus.iter().filter(|c| c.core == cpu.core && c.id < cpu.id).count();
            ranked.push((turn, std::cmp::Reverse(cpu.capacity), cpu.id));
        }
        ranked.sort_unstable();
        ranked.into_iter().take(threads).map(|(_, _, id)| id).collect()
    }

    /// Physical cores among the usable CPUs.
    pub fn cores(&self) -> usize {
        let mut cores: Vec<_> = self.cpus.iter().map(|c| c.core).collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len()
    }

    /// CPUs of the fastest kind; on hybrid hosts these have ceilings of their own.
    pub fn fast_cpus(&self) -> usize {
        let highest = self.cpus.iter().map(|c| c.capacity).max().unwrap_or(0);
        self.cpus.iter().filter(|c| c.capacity == highest).count()
    }

    /// The cache of `level`.
    pub fn cache(&self, level: u32) -> Option<&Cache> {
        self.caches.iter().find(|c| c.level == level)
    }

    /// Thread counts to measure: 1, powers of two, the fast CPUs of a hybrid host, the cores, all CPUs.
    pub fn thread_counts(&self, most: usize) -> Vec<usize> {
        let most = most.clamp(1, self.cpus.len().max(1));
        let mut counts: Vec<usize> =
            std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
        counts.push(most);
        if self.cores() < most {
            counts.push(self.cores());
        }
        let fast = self.fast_cpus();
        if fast < most {
            counts.push(fast);
        }
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

fn assumed_caches(cpus: u32) -> Vec<Cache> {
    let cache = |level, size, ways, shared_by| Cache { level, size, ways, line: 64, shared_by };
    vec![cache(1, 32 << 10, 8, 1), cache(2, 1 << 20, 8, 1), cache(3, 32 << 20, 16, cpus.max(1))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cores_with_siblings() -> Topology {
        let cpu = |id, core| Cpu { id, core: (0, core), node: 0, capacity: 1024 };
        Topology {
            cpu: "test".into(),
            cpus: vec![cpu(0, 0), cpu(1, 0), cpu(2, 1), cpu(3, 1)],
            caches: assumed_caches(4),
            l1i_bytes: 32 << 10,
            l1i_way_bytes: 4096,
            llc_total: 32 << 20,
            nodes: vec![0],
        }
    }

    #[test]
    fn caches_come_from_sysfs_else_from_cpuid_else_from_stated_defaults() {
        let empty = tempfile::tempdir().unwrap();
        let cache = |size| vec![Cache { level: 1, size, ways: 8, line: 64, shared_by: 1 }];
        let identity = |caches| Identity { brand: None, caches };
        let (told, warnings) = Topology::detect_of(identity(cache(64 << 10)), empty.path(), &[0, 1]);
        assert_eq!((told.caches, warnings), (cache(64 << 10), Vec::new()));
        let (assumed, warnings) = Topology::detect_of(identity(Vec::new()), empty.path(), &[0, 1]);
        assert_eq!(assumed.caches, assumed_caches(2));
        assert_eq!(warnings.iter().map(|w| w.code.as_str()).collect::<Vec<_>>(), ["cache-sizes-assumed"]);
        // A host that shows its caches is believed, whatever CPUID says.
        let (seen, _) = Topology::detect_of(identity(cache(1 << 10)), Path::new("/sys"), &[0]);
        match Path::new("/sys/devices/system/cpu/cpu0/cache/index0").exists() {
            true => assert_ne!(seen.caches, cache(1 << 10)),
            false => println!("SKIPPED: caches: this host hides its caches"),
        }
    }

    #[test]
    fn cores_come_before_siblings() {
        let topology = two_cores_with_siblings();
        assert_eq!(topology.placement(2), [0, 2]);
        assert_eq!(topology.placement(4), [0, 2, 1, 3]);
        assert_eq!(topology.thread_counts(4), [1, 2, 4]);
    }

    #[test]
    fn slow_cores_come_last() {
        let mut topology = two_cores_with_siblings();
        topology.cpus = vec![
            Cpu { id: 0, core: (0, 0), node: 0, capacity: 400 },
            Cpu { id: 1, core: (0, 1), node: 0, capacity: 1024 },
        ];
        assert_eq!(topology.placement(1), [1]);
    }

    #[test]
    fn fast_cores_of_a_hybrid_host_have_a_count_of_their_own() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has a parent")).expect("create directory");
            std::fs::write(path, text).expect("write file");
        };
        // Three fast cores, the first two with two threads each, and three slow ones.
        for (cpu, core) in [(0, 0), (1, 0), (2, 4), (3, 4), (4, 8), (5, 12), (6, 13), (7, 14)] {
            put(&format!("devices/system/cpu/cpu{cpu}/topology/core_id"), &core.to_string());
        }
        put("devices/cpu_atom/cpus", "5-7\n");
        let (topology, _) = Topology::detect(dir.path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((topology.fast_cpus(), topology.cores()), (5, 6));
        assert_eq!(topology.placement(8), [0, 2, 4, 5, 6, 7, 1, 3]);
        assert_eq!(topology.thread_counts(8), [1, 2, 4, 5, 6, 8]);
    }
}
