//! Properties of this host that the model needs beyond its list of caches.

use std::path::Path;

use rprof_profile::machine::Cache;
use rprof_profile::run::Warning;

use crate::address::page_color::PageColoring;
use crate::caches::geometry::{Geometry, LastLevelPolicy};

impl Geometry {
    /// The geometry of this host with the `caches` of its topology, for a program that may use `cores` CPUs.
    ///
    /// `cpuid` reports inclusion (Intel leaf 4, AMD leaf 8000_001Dh, bit 1 of EDX). A last level that is not inclusive is a victim cache
    /// on all x86-64 CPUs that have an L2 before it.
    pub fn of_host(caches: &[Cache], cores: u32) -> (Geometry, Vec<Warning>) {
        let policy = match inclusive(3) {
            Some(true) => LastLevelPolicy::Inclusive,
            Some(false) => LastLevelPolicy::Victim,
            None => LastLevelPolicy::NonInclusive,
        };
        Geometry::from_caches(caches, policy, inclusive(2).unwrap_or(false), cores)
    }
}

/// Whether the CPU's unified cache of `level` includes the lines of the levels before it; `None` if the CPU does not report it.
#[cfg(target_arch = "x86_64")]
fn inclusive(level: u8) -> Option<bool> {
    let caches = raw_cpuid::CpuId::new().get_cache_parameters()?;
    let mut unified = caches.filter(|c| c.level() == level && c.cache_type() == raw_cpuid::CacheType::Unified);
    unified.next().map(|c| c.is_inclusive())
}

#[cfg(not(target_arch = "x86_64"))]
fn inclusive(_level: u8) -> Option<bool> {
    None
}

impl PageColoring {
    /// How this host places a program's pages: in 2 MiB runs if transparent huge pages are `always` on.
    pub fn of_host() -> PageColoring {
        Self::from_setting(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"))
    }

    fn from_setting(file: &Path) -> PageColoring {
        match std::fs::read_to_string(file) {
            Ok(text) if text.contains("[always]") => PageColoring::HugePages,
            _ => PageColoring::SmallPages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_described_even_without_a_list_of_caches() {
        let (geometry, warnings) = Geometry::of_host(&[], 2);
        assert!(geometry.l1.sets() > 0 && geometry.last.size > geometry.l1.size);
        assert!(!warnings.is_empty());
    }

    #[test]
    fn the_setting_in_brackets_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("enabled");
        for (text, placement) in [
            ("[always] madvise never\n", PageColoring::HugePages),
            ("always [madvise] never\n", PageColoring::SmallPages),
            ("always madvise [never]\n", PageColoring::SmallPages),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(PageColoring::from_setting(&file), placement);
        }
        assert_eq!(PageColoring::from_setting(&dir.path().join("none")), PageColoring::SmallPages);
    }
}
