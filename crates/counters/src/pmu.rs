//! The PMUs that the kernel lists in `/sys/bus/event_source/devices`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// Path of the list, below the root of sysfs.
pub const DEVICES: &str = "bus/event_source/devices";

/// A PMU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pmu {
    /// Its name: `cpu`, `uncore_imc_0`.
    pub name: String,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// CPUs to open it on (one a socket for uncore boxes), or that have it (hybrid core PMUs); empty: any.
    pub cpus: Vec<u32>,
    /// Whether `cpus` came from `cpumask` (one CPU a socket) rather than from `cpus` (hybrid core PMUs).
    pub per_socket: bool,
    /// Bit fields of the config words: `event` → `config:0-7,32-35`.
    pub format: BTreeMap<String, String>,
    /// Events that the kernel names: `cas_count_read` → `event=0x04,umask=0x03`.
    pub events: BTreeMap<String, String>,
}

/// Reads all PMUs below `sysfs` in name order, with numbers in numeric order. Leaves out a PMU with an unreadable `type`.
pub fn list(sysfs: &Path) -> Vec<Pmu> {
    let Ok(entries) = fs::read_dir(sysfs.join(DEVICES)) else { return Vec::new() };
    let mut pmus: Vec<Pmu> = entries.flatten().filter_map(|e| read(&e.path())).collect();
    pmus.sort_by_key(|p| split_number(&p.name));
    pmus
}

impl Pmu {
    /// A PMU of all cores with the encoding fields `format` (name, bits), for tests.
    #[cfg(test)]
    pub fn of_all_cores(format: &[(&str, &str)]) -> Pmu {
        Pmu {
            name: "cpu".into(),
            kind: 4,
            cpus: Vec::new(),
            per_socket: false,
            format: format.iter().map(|(name, bits)| ((*name).to_owned(), (*bits).to_owned())).collect(),
            events: BTreeMap::new(),
        }
    }

    /// Whether this is `family` itself or a box of it, by number (`uncore_imc_3` of `uncore_imc`) or by address
    /// (`arm_dmc620_10008c000` of `arm_dmc620`).
    pub fn is_box_of(&self, family: &str) -> bool {
        match self.name.strip_prefix(family) {
            Some("") => true,
            Some(rest) => {
                rest.strip_prefix('_').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_hexdigit()))
            }
            None => false,
        }
    }
}

fn read(path: &Path) -> Option<Pmu> {
    let kind = fs::read_to_string(path.join("type")).ok()?.trim().parse().ok()?;
    let cpumask = fs::read_to_string(path.join("cpumask")).ok();
    let cpus = cpumask.clone().or_else(|| fs::read_to_string(path.join("cpus")).ok());
    Some(Pmu {
        name: path.file_name()?.to_str()?.to_owned(),
        kind,
        per_socket: cpumask.is_some(),
        cpus: cpus.map(|c| cpu_list(&c)).unwrap_or_default(),
        format: files(&path.join("format")),
        events: files(&path.join("events")).into_iter().filter(|(n, _)| !n.contains('.')).collect(),
    })
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|e| Some((e.file_name().into_string().ok()?, fs::read_to_string(e.path()).ok()?.trim().to_owned())))
        .collect()
}

/// `0-3,8,10-11` as numbers; skips parts that do not parse.
pub fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            cpus.extend(first..=last.min(first.saturating_add(65_536)));
        }
    }
    cpus
}

/// Ascending numbers as `0-3,8`.
pub fn cpu_ranges(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let run = |r: &[u32]| if r.len() == 1 { r[0].to_string() } else { format!("{}-{}", r[0], r[r.len() - 1]) };
    runs.map(run).collect::<Vec<_>>().join(",")
}

fn split_number(name: &str) -> (String, u64) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (stem, number) = name.split_at(name.len() - digits);
    (stem.to_owned(), number.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmu(name: &str) -> Pmu {
        Pmu {
            name: name.into(),
            kind: 1,
            cpus: vec![],
            per_socket: false,
            format: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }

    #[test]
    fn boxes_belong_to_their_family_only() {
        assert!(pmu("uncore_imc_11").is_box_of("uncore_imc"));
        assert!(pmu("amd_df").is_box_of("amd_df"));
        assert!(pmu("arm_dmc620_10008c000").is_box_of("arm_dmc620"), "the address is hexadecimal");
        assert!(!pmu("uncore_imc_free_running_0").is_box_of("uncore_imc"));
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,8\n"), [0, 1, 2, 8]);
        assert!(cpu_list("\n").is_empty());
        assert!(cpu_list("x-y").is_empty());
        assert_eq!(cpu_ranges(&[0, 1, 2, 8]), "0-2,8");
    }

    #[test]
    fn this_host_lists_software_events() {
        let found = list(Path::new("/sys"));
        if found.is_empty() {
            println!("SKIPPED: pmu: sysfs lists no event sources");
            return;
        }
        assert!(found.iter().any(|p| p.name == "software" && p.kind == 1));
    }
}
