//! Reads `/sys/devices/system`; every file may be missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Cpu, cpulist};
use rprof_profile::machine::Cache;

/// Caches as sysfs describes them.
#[derive(Debug, Default)]
pub struct Caches {
    /// Data and unified caches, first level first.
    pub data: Vec<Cache>,
    /// Bytes and ways of the first-level instruction cache.
    pub l1i: Option<(u64, u64)>,
    /// Distinct last-level caches that the CPUs reach.
    pub llc_instances: usize,
}

fn read(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: PathBuf) -> Option<T> {
    read(path)?.parse().ok()
}

fn cpu_dir(root: &Path, cpu: usize) -> PathBuf {
    root.join(format!("devices/system/cpu/cpu{cpu}"))
}

/// The CPUs with their cores and nodes. A CPU without topology files counts as a core of its own.
pub fn cpus(root: &Path, allowed: &[usize]) -> Vec<Cpu> {
    let node_of = node_lists(root);
    allowed
        .iter()
        .map(|&id| {
            let dir = cpu_dir(root, id);
            let package = number(dir.join("topology/physical_package_id")).unwrap_or(0);
            let core = number(dir.join("topology/core_id"));
            let die = number::<usize>(dir.join("topology/die_id")).unwrap_or(0);
            Cpu {
                id,
                core: (package * 1024 + die, core.unwrap_or(id)),
                node: node_of.iter().find(|(_, list)| list.contains(&id)).map_or(0, |(node, _)| *node),
                capacity: number(dir.join("cpu_capacity")).unwrap_or_else(|| hybrid_capacity(root, id)),
            }
        })
        .collect()
}

/// Hybrid x86 hosts name their slow cores in the list of the `cpu_atom` PMU.
fn hybrid_capacity(root: &Path, cpu: usize) -> u32 {
    let atoms = read(root.join("devices/cpu_atom/cpus")).and_then(|t| cpulist::parse(&t)).unwrap_or_default();
    if atoms.contains(&cpu) { 512 } else { 1024 }
}

fn node_lists(root: &Path) -> Vec<(usize, Vec<usize>)> {
    let Ok(entries) = fs::read_dir(root.join("devices/system/node")) else { return Vec::new() };
    let mut lists: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((node, cpulist::parse(&read(entry.path().join("cpulist"))?)?))
        })
        .collect();
    lists.sort_unstable();
    lists
}

/// NUMA nodes that hold one of `cpus`, at least node 0.
pub fn nodes(root: &Path, cpus: &[Cpu]) -> Vec<usize> {
    let with_cpus: BTreeSet<usize> = cpus.iter().map(|c| c.node).collect();
    let nodes: Vec<usize> =
        node_lists(root).into_iter().map(|(node, _)| node).filter(|n| with_cpus.contains(n)).collect();
    if nodes.is_empty() { vec![0] } else { nodes }
}

/// The caches of the first allowed CPU, and how many last-level caches the allowed CPUs reach together.
pub fn caches(root: &Path, allowed: &[usize]) -> Caches {
    let mut found = Caches::default();
    let Some(&first) = allowed.first() else { return found };
    let mut last_level = None;
    for index in 0..16 {
        let dir = cpu_dir(root, first).join(format!("cache/index{index}"));
        let Some(level) = number::<u32>(dir.join("level")) else { continue };
        let Some(size) = read(dir.join("size")).and_then(|t| bytes(&t)).filter(|s| *s > 0) else { continue };
        let kind = read(dir.join("type")).unwrap_or_default();
        if kind == "Instruction" {
            if level == 1 {
                found.l1i = Some((size, number(dir.join("ways_of_associativity")).unwrap_or(8)));
            }
            continue;
        }
        let shared = read(dir.join("shared_cpu_list")).and_then(|t| cpulist::parse(&t)).unwrap_or_default();
        found.data.push(Cache {
            level,
            size,
            ways: number(dir.join("ways_of_associativity")).unwrap_or(8),
            line: number(dir.join("coherency_line_size")).unwrap_or(64),
            shared_by: shared.len().max(1) as u32,
        });
        if last_level.is_none_or(|(deepest, _)| level > deepest) {
            last_level = Some((level, index));
        }
    }
    found.data.sort_by_key(|c| c.level);
    if let Some((_, index)) = last_level {
        let instances: BTreeSet<String> = allowed
            .iter()
            .filter_map(|&cpu| read(cpu_dir(root, cpu).join(format!("cache/index{index}/shared_cpu_list"))))
            .collect();
        found.llc_instances = instances.len().max(1);
    }
    found
}

/// `32K`, `1024K`, `32M`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text[digits.len()..].chars().next() {
        None => 1,
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        Some(_) => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("32K"), Some(32 << 10));
        assert_eq!(bytes("1M"), Some(1 << 20));
        assert_eq!(bytes("12Q"), None);
    }

    #[test]
    fn an_empty_tree_yields_a_core_for_each_cpu() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let cpus = cpus(dir.path(), &[0, 1]);
        assert_ne!(cpus[0].core, cpus[1].core);
        assert!(caches(dir.path(), &[0]).data.is_empty());
        assert_eq!(nodes(dir.path(), &cpus), [0]);
    }

    #[test]
    fn a_two_socket_tree_is_read() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("create directory");
            fs::write(path, text).expect("write file");
        };
        for cpu in 0..4 {
            let base = format!("devices/system/cpu/cpu{cpu}");
            put(&format!("{base}/topology/physical_package_id"), if cpu < 2 { "0" } else { "1" });
            put(&format!("{base}/topology/core_id"), &(cpu % 2).to_string());
            put(&format!("{base}/cache/index0/level"), "1");
            put(&format!("{base}/cache/index0/type"), "Data");
            put(&format!("{base}/cache/index0/size"), "48K");
            put(&format!("{base}/cache/index0/shared_cpu_list"), &cpu.to_string());
            put(&format!("{base}/cache/index3/level"), "3");
            put(&format!("{base}/cache/index3/type"), "Unified");
            put(&format!("{base}/cache/index3/size"), "16M");
            put(&format!("{base}/cache/index3/shared_cpu_list"), if cpu < 2 { "0-1" } else { "2-3" });
        }
        put("devices/system/node/node0/cpulist", "0-1");
        put("devices/system/node/node1/cpulist", "2-3");
        let cpus = cpus(dir.path(), &[0, 1, 2, 3]);
        assert_eq!(nodes(dir.path(), &cpus), [0, 1]);
        let caches = caches(dir.path(), &[0, 1, 2, 3]);
        assert_eq!(caches.llc_instances, 2);
        assert_eq!(caches.data.last().map(|c| (c.size, c.shared_by)), Some((16 << 20, 2)));
    }
}
