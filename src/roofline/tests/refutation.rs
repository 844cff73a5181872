//! A measurement above a ceiling refutes the ceiling: it is left out and warned about, never clamped.

use super::kernel::{Kernel, profile, zen5};
use crate::isa::facts::AccessKind::Load;
use crate::isa::operation::{FpOp, Precision, Width};
use crate::roofline::{REFUTED, analyse};

/// Reads 512 bytes of DRAM an iteration in the time of one third of them: the bandwidth ceiling cannot be right.
fn impossible() -> Kernel {
    let k = Kernel::new("fast").fp(8, FpOp::Add, Precision::Dp, Width::W512).access(8, Load, 64, true);
    k.traffic(|t| (t.l2_read, t.l3_read, t.dram_read) = (512.0, 512.0, 512.0)).took(512.0 / 41e9 * 4.2e9 / 3.0)
}

#[test]
fn a_refuted_ceiling_is_left_out_and_warned_about() {
    let mut p = profile(vec![impossible().function], zen5());
    analyse(&mut p);
    let a = &p.functions[0].analysis;
    assert!(a.ceilings.iter().find(|c| c.id == "dram").unwrap().refuted);
    assert_ne!(a.binding.as_deref(), Some("dram"));
    assert!(a.terms.dram.unwrap() > 2.9 * p.functions[0].time_s.unwrap(), "the term itself is not clamped");
    let warnings: Vec<_> = p.run.warnings.iter().filter(|w| w.code == REFUTED).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].text.contains("dram.read"), "{}", warnings[0].text);
}

#[test]
fn within_its_error_a_ceiling_stands() {
    let k = Kernel::new("close").fp(12, FpOp::Fma, Precision::Dp, Width::W512).took(6.0 / 1.04);
    let f = k.analysed();
    assert!(f.analysis.ceilings.iter().all(|c| !c.refuted));
    assert!((f.analysis.roof_fraction.unwrap() - 1.04).abs() < 1e-6);
}

#[test]
fn a_wide_time_interval_is_unknown() {
    let mut k = Kernel::new("short").fp(12, FpOp::Fma, Precision::Dp, Width::W512).took(6.0);
    k.function.time_ci95_s = k.function.time_s.map(|t| 0.15 * t);
    let a = k.analysed().analysis;
    assert_eq!((a.class.as_deref(), a.nearest.as_deref()), (Some("unknown"), Some("peak")));
}
