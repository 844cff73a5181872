//! Adds, multiplies and fused multiply-adds of known number, precision and width.

use crate::counters::table::{Event, MaskedLanes, Role};
use crate::counters::trust::KnownWork;
use crate::isa::operation::{FpOp, Precision, Width};
use crate::machine::features::Features;
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
    /// FLOPs as `event` counts them: of active lanes, or of all where its table says so; `None` where it does not say.
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
        let applies =
            event.precision.is_none_or(|p| p == self.precision) && event.width.is_none_or(|w| w == self.width);
        let vector = self.width != Width::Scalar;
        match event.role {
            // events without a width may still be bound to some widths by their unit mask: only the specific ones and
            // the sum over all are predictable
            Role::Flops if event.precision.is_none() != event.width.is_none() => None,
            Role::Flops if event.precision.is_none() && !event.headline => None,
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

/// Adds, multiplies and fused multiply-adds of both precisions at every width that this CPU has; with masks, too, where it has
/// them.
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
    works
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::table;

    #[test]
    fn masked_lanes_are_expected_as_the_table_says() {
        let tables = table::all().unwrap();
        let event = |vendor: &str, family, model, name: &str| {
            let table = table::for_cpu(&tables, vendor, family, model).unwrap();
            table.events.into_iter().find(|e| e.name == name).unwrap()
        };
        let Some(masked) = kernels(Features::detect()).into_iter().find(|w| w.name() == "dp.add.512.masked") else {
            println!("SKIPPED: this CPU has no AVX-512");
            return;
        };
        // Eight lanes, four of them active: Intel's events count all, of AMD's nobody says.
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
    fn every_kernel_predicts_the_events_of_its_kind() {
        let tables = table::all().unwrap();
        let intel = table::for_cpu(&tables, "GenuineIntel", 6, 0x6a).unwrap();
        let event = |name: &str| intel.events.iter().find(|e| e.name == name).unwrap();
        let works = kernels(Features::detect());
        let add = works.iter().find(|w| w.name() == "dp.add.scalar").unwrap();
        assert_eq!(add.expected(event("fp_arith.scalar_dp")), Some(add.operations()));
        assert_eq!(add.expected(event("fp_arith.scalar_sp")), Some(0.0));
        assert_eq!(add.expected(event("fp_arith.256_dp")), Some(0.0));
        assert_eq!(add.expected(event("l1d.replacement")), None);
        let Some(fused) = works.iter().find(|w| w.name() == "dp.fma.256") else {
            println!("SKIPPED: this CPU has no AVX2 FMA");
            return;
        };
        assert_eq!(fused.expected(event("fp_arith.vector")), Some(2.0 * fused.operations()), "counted twice");
    }
}
