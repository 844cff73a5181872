//! Properties of the ladder, the bound and the savings over arbitrary functions.

use proptest::prelude::*;

use super::kernel::{Kernel, zen5};
use crate::bound::Bound;
use crate::deficiency::{Deficiency, Removed};
use crate::host::{Ceilings, Host};
use crate::surroundings::Surroundings;
use crate::terms::Subject;
use rprof_isa::facts::AccessKind::{Load, Store};
use rprof_isa::facts::InstructionClass::{Alu, Mov};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::function::ChainStep;
use rprof_profile::vocabulary::Class;
use rprof_profile::{Ceiling, Function, Machine};

fn ops() -> impl Strategy<Value = FpOp> {
    prop::sample::select(vec![FpOp::Add, FpOp::Mul, FpOp::Fma, FpOp::Div, FpOp::Sqrt, FpOp::Other])
}

fn widths() -> impl Strategy<Value = Width> {
    prop::sample::select(vec![Width::Scalar, Width::W128, Width::W256, Width::W512])
}

prop_compose! {
    fn kernels()(
        mix in prop::collection::vec((1u64..40, ops(), prop::bool::ANY, widths()), 1..5),
        fillers in (0u64..60, 0u64..60),
        accesses in (0u64..9, 0u64..5, widths()),
        traffic in (0.0..512.0f64, 0.0..256.0f64, 0.0..128.0f64, 0.0..1.0f64),
        chains in 0usize..4,
        threads in (1u32..3, 1u32..3),
        cycles in 0.5..500.0f64,
    ) -> Kernel {
        let mut k = Kernel::new("any").filler(Alu, fillers.0).filler(Mov, fillers.1);
        for (n, op, sp, width) in mix {
            let precision = if sp { Precision::Sp } else { Precision::Dp };
            k = k.fp(n, op, precision, width);
            if chains > 0 {
                k = k.chain(chains, &[ChainStep::arithmetic(op, precision, width)]);
            }
        }
        let bytes = accesses.2.lanes(Precision::Dp) * 8;
        k = k.access(accesses.0, Load, bytes, true).access(accesses.1, Store, bytes, true);
        let (l2, l3, dram, share) = traffic;
        k = k.traffic(|t| {
            (t.l2_read, t.l3_read, t.dram_read) = (l2, l3, dram * (1.0 - share));
            (t.dram_write, t.capacity, t.compulsory) = (dram * share, 1.0, 1.0);
            (t.dram_fill, t.dram_overwritten) = (dram * share * 0.5, dram * share * 0.5);
        });
        k.threads(threads.0.min(threads.1), threads.1).took(cycles)
    }
}

/// Bytes of a function that the ceiling `id` is about, by the name of its level.
fn level(f: &Function, id: &str) -> Option<(&'static str, f64)> {
    let bytes = f.bytes.unwrap_or_default();
    let (level, bytes) = match id {
        "l1" => ("l1", bytes.l1),
        "l2" => ("l2", bytes.l2),
        "l3" => ("l3", bytes.l3),
        _ => ("dram", bytes.dram),
    };
    Some((level, bytes.filter(|bytes| *bytes > 0)? as f64))
}

#[test]
fn no_bandwidth_of_a_function_is_above_the_best_that_was_measured() {
    let mut compared = 0;
    for seed in 0..500 {
        let mut made = super::random::profile(seed);
        crate::analyse(&mut made);
        let f = &made.functions[0];
        let Some(rate) = f.analysis.flop_rate else { continue };
        let work = rate * f.time_s.expect("drawn");
        for ceiling in f.analysis.ceilings.iter().filter(|ceiling| ceiling.kind == "memory") {
            let Some(((level, bytes), value)) = level(f, &ceiling.id).zip(ceiling.value) else { continue };
            let of_level = |c: &&Ceiling| {
                let kind = c.id.split('.').nth(1).unwrap_or_default();
                let is_stream = ["read", "copy", "triad", "update", "write"].contains(&kind);
                c.id.split('.').next() == Some(level) && c.threads <= f.team.expect("drawn") && is_stream
            };
            let best = made.machine.ceilings.iter().filter(of_level).filter_map(|c| c.value).fold(0.0, f64::max);
            let bandwidth = value * bytes / work;
            assert!(bandwidth <= best * (1.0 + 1e-9), "seed {seed}, {}: {bandwidth} above {best}", ceiling.id);
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn core_ladder_never_falls(kernel in kernels()) {
        let f = kernel.analysed();
        let rungs: Vec<f64> =
            f.analysis.ceilings.iter().filter(|c| c.kind != "memory").filter_map(|c| c.value).collect();
        prop_assert!(rungs.len() >= 2);
        prop_assert!(rungs.windows(2).all(|p| p[1] >= p[0] * (1.0 - 1e-12)), "{rungs:?}");
    }

    #[test]
    fn removing_never_costs(kernel in kernels()) {
        let machine = zen5();
        let ceilings = Ceilings::of(&machine);
        let around = Surroundings::default();
        let subject = Subject::new(&kernel.function, Host::new(&ceilings), &around);
        let bound = Bound::of(&subject, &around);
        let Some(before) = bound.seconds() else { return Ok(()) };
        for a in Deficiency::ALL {
            let single = bound.without(&subject, Removed::only(a)).unwrap();
            prop_assert!(single <= before);
            for b in Deficiency::ALL {
                prop_assert!(bound.without(&subject, Removed::only(a).and(b)).unwrap() <= single * (1.0 + 1e-9), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn savings_stay_within_the_time(kernel in kernels()) {
        let f = kernel.analysed();
        for s in &f.analysis.savings {
            prop_assert!(s.seconds > 0.0 && s.seconds_max >= s.seconds, "{s:?}");
            prop_assert!(s.remove.len() <= 2 && !s.advice.is_empty());
        }
    }

    #[test]
    fn analysis_is_idempotent(kernel in kernels()) {
        let mut once = super::kernel::profile(vec![kernel.function], zen5());
        crate::analyse(&mut once);
        let mut twice = once.clone();
        crate::analyse(&mut twice);
        prop_assert_eq!(once, twice);
    }
}

#[test]
fn without_ceilings_everything_is_missing_and_says_why() {
    let k = Kernel::new("bare").fp(1, FpOp::Add, Precision::Dp, Width::Scalar).took(2.0);
    let mut profile = super::kernel::profile(vec![k.function], Machine::default());
    crate::analyse(&mut profile);
    let f = &profile.functions[0];
    assert_eq!(f.analysis.class, Some(Class::Unknown));
    assert_eq!(f.analysis.roof_fraction, None);
    assert!(f.source["terms.issue"].reason.as_ref().unwrap().contains("issue"));
    assert!(f.analysis.ceilings.iter().all(|c| c.value.is_none_or(|v| v > 0.0)));
}

#[test]
fn balanced_kernels_have_fma_at_the_bottom() {
    let fused = Kernel::new("fma").fp(12, FpOp::Fma, Precision::Dp, Width::Scalar).took(6.0).analysed();
    assert_eq!(fused.analysis.ceilings[0].id, "fma");
    let adds = Kernel::new("add").fp(12, FpOp::Add, Precision::Dp, Width::Scalar).took(6.0).analysed();
    assert_ne!(adds.analysis.ceilings[0].id, "fma");
    let simd = adds.analysis.ceilings.iter().find(|c| c.id == "simd").unwrap();
    let roof = adds.analysis.ceilings.iter().find(|c| c.id == "peak").unwrap().value_alone.unwrap();
    assert!((simd.value_alone.unwrap() / roof - 0.125).abs() < 1e-9, "A.3: the roof times the lanes used");
}
