//! Instructions that this CPU executes quickly, and not in microcode.

use std::sync::LazyLock;

use raw_cpuid::CpuId;

/// Whether `loop` is one operation: on AMD since 2011 (Fog, Instruction tables).
pub fn has_quick_loop() -> bool {
    static QUICK: LazyLock<bool> = LazyLock::new(is_amd);
    *QUICK
}

/// Whether `pext` exists and is quick: on AMD since family 19h (Fog, Instruction tables).
pub fn has_quick_extract() -> bool {
    let family = CpuId::new().get_feature_info().map_or(0, |info| info.family_id());
    std::arch::is_x86_feature_detected!("bmi2") && (!is_amd() || family >= 0x19)
}

fn is_amd() -> bool {
    CpuId::new().get_vendor_info().is_some_and(|vendor| ["AuthenticAMD", "HygonGenuine"].contains(&vendor.as_str()))
}
