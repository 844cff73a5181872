//! Reads CPUID if sysfs is silent (containers without `/sys`).

use rprof_profile::machine::Cache;

/// The CPU's description of itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Identity {
    /// Brand string with family and model; `None` if it has none.
    pub brand: Option<String>,
    /// Data and unified caches; empty if the CPU does not report them.
    pub caches: Vec<Cache>,
}

impl Identity {
    /// Asks the CPU.
    pub fn ask() -> Self {
        Identity { brand: brand(), caches: caches() }
    }
}

/// Whether a hypervisor says that it runs this host.
#[cfg(target_arch = "x86_64")]
pub fn is_guest() -> bool {
    raw_cpuid::CpuId::new().get_feature_info().is_some_and(|f| f.has_hypervisor())
}

/// No CPUID here: not known to be one.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_guest() -> bool {
    false
}

/// The brand string, without surplus blanks; the vendor if there is none.
#[cfg(target_arch = "x86_64")]
fn brand() -> Option<String> {
    let cpuid = raw_cpuid::CpuId::new();
    let brand = cpuid.get_processor_brand_string().map(|b| b.as_str().to_owned());
    let vendor = cpuid.get_vendor_info().map(|v| v.as_str().to_owned());
    let name = brand.or(vendor)?.split_whitespace().collect::<Vec<_>>().join(" ");
    let model = cpuid.get_feature_info().map(|f| format!(" (family {} model {})", f.family_id(), f.model_id()));
    Some(name + &model.unwrap_or_default())
}

/// No CPUID here.
#[cfg(not(target_arch = "x86_64"))]
fn brand() -> Option<String> {
    None
}

/// Data and unified caches from leaf 4 (Intel) or 0x8000001D (AMD); empty if neither exists.
#[cfg(target_arch = "x86_64")]
fn caches() -> Vec<Cache> {
    use raw_cpuid::CacheType;
    let cpuid = raw_cpuid::CpuId::new();
    let Some(parameters) = cpuid.get_cache_parameters() else { return Vec::new() };
    let mut caches: Vec<Cache> = parameters
        .filter(|c| matches!(c.cache_type(), CacheType::Data | CacheType::Unified))
        .map(|c| Cache {
            level: u32::from(c.level()),
            size: (c.associativity() * c.physical_line_partitions() * c.coherency_line_size() * c.sets()) as u64,
            ways: c.associativity() as u32,
            line: c.coherency_line_size() as u32,
            shared_by: c.max_cores_for_cache() as u32,
        })
        .filter(|c| c.size > 0)
        .collect();
    caches.sort_by_key(|c| c.level);
    caches
}

/// No CPUID here.
#[cfg(not(target_arch = "x86_64"))]
fn caches() -> Vec<Cache> {
    Vec::new()
}
