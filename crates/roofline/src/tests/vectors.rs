//! Vectors shorten chains that can be split into partial results, and no others.

use super::kernel::Kernel;
use rprof_isa::dependency::ChainStep;
use rprof_isa::facts::AccessKind::Load;
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Function;
use rprof_profile::account::{Account, Cause, WhatIf};
use rprof_profile::vocabulary::Class;

/// A loop of one scalar operation, each of which waits for the one before.
fn looped(op: FpOp, step: ChainStep) -> Kernel {
    // Latencies of the recorded machine.
    let cycles = match op {
        FpOp::Add => 2.0,
        FpOp::Mul => 3.0,
        _ => 4.0,
    };
    let kernel = Kernel::new("f").fp(1, op, Precision::Sp, Width::Scalar).access(1, Load, 4, true);
    kernel.chain(1, &[step]).took(1.05 * cycles)
}

fn step(op: FpOp) -> ChainStep {
    ChainStep::arithmetic(op, Precision::Sp, Width::Scalar)
}

fn replayed(mut kernel: Kernel) -> Function {
    let model_s = kernel.function.cpu_s.expect("timed");
    let parts = [(Cause::Chain, model_s)].into_iter().collect();
    let what_if_s = [(WhatIf::AllLanes.into(), 0.12 * model_s)].into_iter().collect();
    kernel.function.account = Some(Account { model_s, parts, what_if_s, ..Account::default() });
    kernel.analysed()
}

fn vectors(f: &Function) -> Option<&str> {
    f.analysis.savings.iter().find(|s| s.remove == ["simd"]).map(|s| s.advice.as_str())
}

#[test]
fn a_recurrence_is_not_told_to_vectorise() {
    let recurrence = || looped(FpOp::Fma, step(FpOp::Fma).of_factor());
    assert_eq!(vectors(&recurrence().analysed()), None, "x = x·a + b");
    assert_eq!(vectors(&replayed(recurrence())), None, "whatever a replay says");
    let f = recurrence().analysed();
    assert_eq!(f.analysis.class, Some(Class::Ilp));
}

#[test]
fn a_sum_is_told_that_its_order_changes() {
    for op in [FpOp::Add, FpOp::Mul, FpOp::Fma] {
        for f in [looped(op, step(op)).analysed(), replayed(looped(op, step(op)))] {
            let advice = vectors(&f).unwrap_or_else(|| panic!("{op:?}: {:?}", f.analysis.savings));
            assert!(advice.contains("partial results") && advice.contains("last digits"), "{advice}");
        }
    }
    let independent = Kernel::new("f").fp(4, FpOp::Add, Precision::Sp, Width::Scalar).chain(1, &[ChainStep::Integer]);
    let f = independent.took(2.5).analysed();
    assert!(vectors(&f).is_some_and(|advice| !advice.contains("digits")), "{:?}", f.analysis.savings);
}
