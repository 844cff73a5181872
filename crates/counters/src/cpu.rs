//! Which CPU this is, as the event tables key it.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// CPUID vendor, display family and display model (x86); `ARM`, implementer and part (Arm).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuId {
    /// `GenuineIntel`, `AuthenticAMD`, `ARM`.
    pub vendor: String,
    /// Display family, or implementer.
    pub family: u32,
    /// Display model, or part number.
    pub model: u32,
    /// Marketing name.
    pub name: String,
    /// Runs under a hypervisor.
    pub guest: bool,
}

const MIDR: &str = "devices/system/cpu/cpu0/regs/identification/midr_el1";

/// Asks CPUID, or `midr_el1` under `sysfs` on Arm. `None` if neither answers.
pub fn identify(sysfs: &Path) -> Option<CpuId> {
    #[cfg(target_arch = "x86_64")]
    if let Some(id) = cpuid() {
        return Some(id);
    }
    let midr = fs::read_to_string(sysfs.join(MIDR)).ok()?;
    from_midr(u64::from_str_radix(midr.trim().trim_start_matches("0x"), 16).ok()?)
}

#[cfg(target_arch = "x86_64")]
fn cpuid() -> Option<CpuId> {
    let cpuid = raw_cpuid::CpuId::new();
    let features = cpuid.get_feature_info()?;
    Some(CpuId {
        vendor: cpuid.get_vendor_info()?.as_str().to_owned(),
        family: u32::from(features.family_id()),
        model: u32::from(features.model_id()),
        name: cpuid.get_processor_brand_string().map(|b| b.as_str().trim().to_owned()).unwrap_or_default(),
        guest: features.has_hypervisor(),
    })
}

/// Splits the main id register: implementer in bits 31:24, part number in bits 15:4.
fn from_midr(midr: u64) -> Option<CpuId> {
    let (implementer, part) = ((midr >> 24) as u32 & 0xff, (midr >> 4) as u32 & 0xfff);
    (implementer != 0).then(|| CpuId {
        vendor: "ARM".into(),
        family: implementer,
        model: part,
        name: format!("Arm implementer {implementer:#x} part {part:#x}"),
        guest: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neoverse_v2_is_found_by_its_midr() {
        let id = from_midr(0x410f_d4f1).unwrap();
        assert_eq!((id.family, id.model), (0x41, 0xd4f));
        let tables = crate::tables::all().unwrap();
        assert!(crate::tables::for_cpu(&tables, &id.vendor, id.family, id.model).is_some());
    }
}
