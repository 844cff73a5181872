//! Adds, multiplies and fused multiply-adds of known number, precision and width.

use crate::counters::table::{Event, MaskedLanes, Role};
use crate::counters::trust::KnownWork;
use crate::isa::operation::{FpOp, Precision, Width};
use crate::machine::host::features::Features;
use crate::machine::kernels::x86_64::{fp, opcodes};
use crate::machine::kernels::{Arguments, Kernel};

/// Iterations of a check: some ten million operations, a few milliseconds.
const ITERATIONS: u64 = 100_000;

/// A throughput kernel of one operation, precision and width.
struct FpWork {
    kernel: Kernel,
    op: FpOp,
    precision: Precision,
    width: Width,
    /// Every second lane is masked off.
    masked: bool,
}

impl FpWork {
    /// FLOPs as `event` counts them: of active lanes, or of all if its table says so; `None` if it does not say.
    fn flops(&self, event: &Event) -> Option<f64> {
        let active = (self.kernel.work.flops * ITERATIONS) as f64;
        match (self.masked, event.masked_lanes) {
            (false, _) | (true, MaskedLanes::Skipped) => Some(active),
            (true, MaskedLanes::Counted) => Some(2.0 * active),
            (true, MaskedLanes::Unknown | MaskedLanes::NotApplicable) => None,
        }
    }

    /// Instructions as `event` counts them: some count a fused one twice.
    fn executed(&self, event: &Event) -> f64 {
        let twice = self.op == FpOp::Fma && event.fma_counts == 2;
        (self.kernel.work.payload * ITERATIONS) as f64 * if twice { 2.0 } else { 1.0 }
    }
}

impl KnownWork for FpWork {
    fn name(&self) -> &str {
        &self.kernel.name
    }

    fn expected(&self, event: &Event) -> Option<f64> {
        let vector = self.width != Width::Scalar;
        let applies = event.precision.is_none_or(|p| p == self.precision)
            && event.width.is_none_or(|w| w == self.width)
            && (vector || !event.packed);
        if event.role == Role::Flops && !event.kinds.is_empty() {
            let counted = event.kinds.iter().any(|k| (k.precision, k.width) == (self.precision, self.width));
            return if counted { self.flops(event) } else { Some(0.0) };
        }
        match event.role {
            // Unit masks of events that are not of one width, of packed ones or of the headline may choose operations, or
            // some of the widths; their fields do not say which.
            Role::Flops if event.width.is_none() && !event.packed && !event.headline => None,
            // No document says whether the others count dot products of bfloat16.
            _ if self.precision == Precision::Bf16 && event.precision != Some(Precision::Bf16) => None,
            Role::Flops if applies => self.flops(event),
            Role::Flops => Some(0.0),
            Role::FpInstructions | Role::SimdFpInstructions if event.width.is_some() => {
                Some(if applies { self.executed(event) } else { 0.0 })
            }
            Role::FpInstructions => event.headline.then(|| self.executed(event)),
            Role::SimdFpInstructions if !vector => Some(0.0),
            Role::SimdFpInstructions => event.headline.then(|| self.executed(event)),
            Role::X87 => Some(0.0),
            _ => None,
        }
    }

    fn operations(&self) -> f64 {
        (self.kernel.work.payload * ITERATIONS) as f64
    }

    fn run(&mut self) {
        let mut arguments = Arguments::new();
        // SAFETY: throughput kernels use no arrays, and were emitted for the features that this CPU has.
        unsafe { self.kernel.call(ITERATIONS, &mut arguments) };
    }
}

/// Dot products of bfloat16, and adds, multiplies and fused multiply-adds of both precisions at every width that this CPU has;
/// with masks, too, if it has them.
pub fn kernels(features: Features) -> Vec<Box<dyn KnownWork>> {
    let mut works: Vec<Box<dyn KnownWork>> = Vec::new();
    for precision in [Precision::Dp, Precision::Sp] {
        for width in features.widths() {
            for op in [FpOp::Add, FpOp::Mul, FpOp::Fma] {
                let Some(opcode) = opcodes::floating(op, precision, width, features) else { continue };
                let name = format!("{}.{}.{}", precision.name(), op.name(), width.name());
                let masked = || fp::masked(&format!("{name}.masked"), opcode, precision, width, features);
                let ways = [
                    (fp::throughput(&name, &[opcode], precision, width, features).ok(), false),
                    (if width == Width::W512 { masked().ok() } else { None }, true),
                ];
                for (kernel, masked) in ways {
                    let Some(kernel) = kernel else { continue };
                    works.push(Box::new(FpWork { kernel, op, precision, width, masked }));
                }
            }
        }
    }
    works.extend(features.widths().into_iter().filter_map(|width| bf16(width, features)));
    works
}

/// Dot products of bfloat16 at `width`, if this CPU has them.
fn bf16(width: Width, features: Features) -> Option<Box<dyn KnownWork>> {
    let (precision, opcode) = (Precision::Bf16, opcodes::bf16_dot(width, features)?);
    let name = format!("{}.dot.{}", precision.name(), width.name());
    let kernel = fp::throughput(&name, &[opcode], precision, width, features).ok()?;
    Some(Box::new(FpWork { kernel, op: FpOp::Other, precision, width, masked: false }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::tables;

    #[test]
    fn masked_lanes_are_expected_as_the_table_says() {
        let tables = tables::all().unwrap();
        let event = |vendor: &str, family, model, name: &str| {
            let table = tables::for_cpu(&tables, vendor, family, model).unwrap();
            table.events.into_iter().find(|e| e.name == name).unwrap()
        };
        let Some(masked) = kernels(Features::detect()).into_iter().find(|w| w.name() == "dp.add.512.masked") else {
            println!("SKIPPED: avx512: this CPU has no AVX-512");
            return;
        };
        // Eight lanes, four of them active: Intel's events count all; for AMD's no document says.
        let operations = masked.operations();
        let intel = |name: &str| masked.expected(&event("GenuineIntel", 6, 0x6a, name));
        assert_eq!(intel("fp_arith.512_dp"), Some(8.0 * operations));
        assert_eq!((intel("fp_arith.256_dp"), intel("fp_arith.512_sp")), (Some(0.0), Some(0.0)));
        let mut skipped = event("GenuineIntel", 6, 0x6a, "fp_arith.512_dp");
        skipped.masked_lanes = MaskedLanes::Skipped;
        assert_eq!(masked.expected(&skipped), Some(4.0 * operations));
        let amd = event("AuthenticAMD", 0x19, 0x11, "fp_ops_retired.all");
        if amd.masked_lanes == MaskedLanes::Unknown {
            assert_eq!(masked.expected(&amd), None);
        }
    }

    #[test]
    fn every_event_of_flops_is_exercised_where_the_cpu_has_the_operations() {
        let features = Features::detect();
        let works = kernels(features);
        for table in tables::all().unwrap() {
            for event in table.events.iter().filter(|e| e.role == Role::Flops && e.headline) {
                let here = event.width.is_none_or(|w| features.widths().contains(&w));
                let x86 = table.cpu.vendor != "ARM";
                let positive = works.iter().filter_map(|w| w.expected(event)).filter(|n| *n > 0.0).count();
                assert!(!(here && x86) || positive > 1, "{} of {}: {positive}", event.name, table.cpu.name);
            }
        }
    }

    #[test]
    fn merged_events_expect_their_kinds_alone() {
        let tables = tables::all().unwrap();
        let ice_lake = tables::for_cpu(&tables, "GenuineIntel", 6, 0x6a).unwrap();
        let works = kernels(Features::detect());
        let expected = |work: &str, name: &str| {
            let event = ice_lake.events.iter().find(|e| e.name == name).unwrap();
            let work = works.iter().find(|w| w.name() == work)?;
            Some(work.expected(event).unwrap() / work.operations())
        };
        for name in ["dp.add.scalar", "sp.add.scalar"] {
            assert_eq!((expected(name, "fp_arith.scalar"), expected(name, "fp_arith.4_flops")), (Some(1.0), Some(0.0)));
        }
        assert_eq!(expected("sp.add.128", "fp_arith.4_flops"), Some(4.0));
        assert_eq!(expected("dp.add.128", "fp_arith.4_flops"), Some(0.0));
        let Some(fused) = expected("dp.fma.256", "fp_arith.4_flops") else {
            println!("SKIPPED: avx2: this CPU has no AVX2 FMA");
            return;
        };
        assert_eq!((fused, expected("sp.fma.256", "fp_arith.4_flops")), (8.0, Some(0.0)));
    }

    #[test]
    fn packed_events_expect_vectors_of_every_width_and_no_scalar() {
        let zen5 = tables::for_cpu(&tables::all().unwrap(), "AuthenticAMD", 0x1a, 0x02).unwrap();
        let event = |name: &str| zen5.events.iter().find(|e| e.name == name).unwrap();
        let works = kernels(Features::detect());
        let expected = |work: &str, name: &str| {
            works.iter().find(|w| w.name() == work).unwrap_or_else(|| panic!("no {work}")).expected(event(name))
        };
        let flops = |work: &str| expected(work, "fp_ops_retired.all").unwrap();
        assert_eq!(expected("dp.add.scalar", "fp_ops_retired.dp_packed"), Some(0.0));
        assert_eq!(expected("dp.add.128", "fp_ops_retired.dp_packed"), Some(flops("dp.add.128")));
        assert_eq!(expected("sp.mul.128", "fp_ops_retired.dp_packed"), Some(0.0));
        assert_eq!(expected("dp.add.128", "fp_ops_retired.add_sub"), None, "bound to operations");
        if !works.iter().any(|w| w.name() == "bf16.dot.512") {
            println!("SKIPPED: bf16: this CPU has no AVX512-BF16");
            return;
        }
        assert!(expected("bf16.dot.512", "fp_ops_retired.bf16").is_some_and(|flops| flops > 0.0));
        assert_eq!(expected("dp.add.128", "fp_ops_retired.bf16"), Some(0.0));
        assert_eq!(expected("bf16.dot.512", "fp_ops_retired.all"), None);
    }

    #[test]
    fn every_kernel_predicts_the_events_of_its_kind() {
        let tables = tables::all().unwrap();
        let intel = tables::for_cpu(&tables, "GenuineIntel", 6, 0x6a).unwrap();
        let event = |name: &str| intel.events.iter().find(|e| e.name == name).unwrap();
        let works = kernels(Features::detect());
        let add = works.iter().find(|w| w.name() == "dp.add.scalar").unwrap();
        assert_eq!(add.expected(event("fp_arith.scalar_dp")), Some(add.operations()));
        assert_eq!(add.expected(event("fp_arith.scalar_sp")), Some(0.0));
        assert_eq!(add.expected(event("fp_arith.256_dp")), Some(0.0));
        assert_eq!(add.expected(event("l1d.replacement")), None);
        let Some(fused) = works.iter().find(|w| w.name() == "dp.fma.256") else {
            println!("SKIPPED: avx2: this CPU has no AVX2 FMA");
            return;
        };
        assert_eq!(fused.expected(event("fp_arith.vector")), Some(2.0 * fused.operations()), "counted twice");
    }
}
