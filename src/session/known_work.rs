//! The machine's microkernels as known work for the trust check of hardware counters.

use crate::counters::check::certify;
use crate::counters::cpu;
use crate::counters::group::{Free, nmi_watchdog};
use crate::counters::kernel::Linux;
use crate::counters::listing::Listing;
use crate::counters::pmu;
use crate::counters::table::{self, Event, Role};
use crate::counters::trust::{Certificate, KnownWork};
use crate::isa::operation::{FpOp, Precision, Width};
use crate::machine::features::Features;
use crate::machine::kernels::x86_64::{fp, opcodes};
use crate::machine::kernels::{Arguments, Kernel};

use std::path::Path;

/// Iterations of a check: some ten million operations, a few milliseconds.
const ITERATIONS: u64 = 100_000;

/// A throughput kernel of one operation, precision and width.
struct FpWork {
    kernel: Kernel,
    precision: Precision,
    width: Width,
}

impl FpWork {
    fn executed(&self) -> f64 {
        (self.kernel.work.payload * ITERATIONS) as f64
    }
}

impl KnownWork for FpWork {
    fn name(&self) -> &str {
        &self.kernel.name
    }

    fn expected(&self, event: &Event) -> Option<f64> {
        let applies =
            event.precision.is_none_or(|p| p == self.precision) && event.width.is_none_or(|w| w == self.width);
        let flops = (self.kernel.work.flops * ITERATIONS) as f64;
        let vector = self.width != Width::Scalar;
        match event.role {
            // events without a width may still be bound to some widths by their unit mask: only the specific ones and
            // the sum over all are predictable
            Role::Flops if event.precision.is_none() != event.width.is_none() => None,
            Role::Flops if event.precision.is_none() && !event.headline => None,
            Role::Flops => Some(if applies { flops } else { 0.0 }),
            Role::SimdFpInstructions if event.width.is_some() => Some(if applies { self.executed() } else { 0.0 }),
            Role::SimdFpInstructions if !vector => Some(0.0),
            Role::X87 => Some(0.0),
            _ => None,
        }
    }

    fn operations(&self) -> f64 {
        self.executed()
    }

    fn run(&mut self) {
        let mut arguments = Arguments::new();
        // SAFETY: throughput kernels use no arrays, and were emitted for the features that this CPU has.
        unsafe { self.kernel.call(ITERATIONS, &mut arguments) };
    }
}

/// Adds, multiplies and fused multiply-adds of both precisions at every width that this CPU has.
pub fn kernels() -> Vec<Box<dyn KnownWork>> {
    let features = Features::detect();
    let mut works: Vec<Box<dyn KnownWork>> = Vec::new();
    for precision in [Precision::Dp, Precision::Sp] {
        for width in features.widths() {
            for op in [FpOp::Add, FpOp::Mul, FpOp::Fma] {
                let Some(opcode) = opcodes::floating(op, precision, width, features) else { continue };
                let name = format!("{}.{}.{}", precision.name(), op.name(), width.name());
                if let Ok(kernel) = fp::throughput(&name, &[opcode], precision, width, features) {
                    works.push(Box::new(FpWork { kernel, precision, width }));
                }
            }
        }
    }
    works
}

/// Adds to `listing` what this host could check. Whether anything was refuted is for the caller to ask.
pub fn check(listing: &mut Listing) -> Vec<Certificate> {
    let sysfs = Path::new("/sys");
    let tables = table::all().unwrap_or_default();
    let Some(id) = cpu::identify(sysfs) else { return Vec::new() };
    let Some(table) = table::for_cpu(&tables, &id.vendor, id.family, id.model) else { return Vec::new() };
    let free = Free::of(&table.cpu, nmi_watchdog(Path::new("/proc")));
    let certificates = certify(&Linux, &pmu::list(sysfs), &table, free, &mut kernels());
    for event in &mut listing.events {
        event.certificate = certificates.iter().find(|c| c.event == event.name).cloned();
    }
    certificates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_predicts_the_events_of_its_kind() {
        let tables = table::all().unwrap();
        let intel = table::for_cpu(&tables, "GenuineIntel", 6, 0x6a).unwrap();
        let event = |name: &str| intel.events.iter().find(|e| e.name == name).unwrap();
        let works = kernels();
        let fma = works.iter().find(|w| w.name() == "dp.add.scalar").unwrap();
        assert_eq!(fma.expected(event("fp_arith.scalar_dp")), Some(fma.operations()));
        assert_eq!(fma.expected(event("fp_arith.scalar_sp")), Some(0.0));
        assert_eq!(fma.expected(event("fp_arith.256_dp")), Some(0.0));
        assert_eq!(fma.expected(event("l1d.replacement")), None);
    }
}
