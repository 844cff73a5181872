//! Cost of small pages for scattered accesses and streams, and the savings from huge ones.

use super::kernel::{Kernel, profile, zen5};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::function::ChainStep;
use rprof_profile::machine::{Machine, Sweep};
use rprof_profile::pages::Pages;
use rprof_profile::vocabulary::Class;
use rprof_profile::{Ceiling, Function};

/// Accesses on small pages take this much longer far beyond the caches.
const SLOWER: f64 = 1.25;
/// Bytes of the largest set of the sweeps, and of one that pays half of that.
const LARGEST: f64 = (1u64 << 30) as f64;
const HALF_WAY: u64 = 1 << 25;

/// One chase with every load served by memory, with a share of small pages.
fn chase(small: f64, touched: u64) -> Function {
    let k = Kernel::new("chase").fp(1, FpOp::Add, Precision::Dp, Width::Scalar);
    let k = k.chain(1, &[ChainStep::Load]).traffic(|t| {
        (t.l2_read, t.l3_read, t.dram_read) = (64.0, 64.0, 64.0);
        (t.l1_misses, t.l2_misses, t.l3_misses, t.random_lines) = (1.0, 1.0, 1.0, 1.0);
        (t.small_page_lines, t.huge_page_lines) = (small, 1.0 - small);
    });
    let mut function = k.took(600.0).function;
    function.pages = Some(Pages { touched: touched / Pages::BYTES, at_least: true });
    function
}

/// The recorded machine with those ceilings on small pages for which `has` is true.
fn with_small_pages(has: fn(&Ceiling) -> bool) -> Machine {
    let mut machine = zen5();
    let slower = |c: &Ceiling| Ceiling {
        id: format!("{}.4k", c.id).into(),
        value: c.value.map(|rate| rate / SLOWER),
        ..c.clone()
    };
    let small: Vec<_> = machine.ceilings.iter().filter(|c| has(c)).map(slower).collect();
    assert!(!small.is_empty());
    machine.ceilings.extend(small);
    machine
}

/// The recorded machine with chases on small pages, and with the sweeps if they are wanted.
fn machine(sweeps: bool) -> Machine {
    let mut machine = with_small_pages(|c| c.id.starts_with("dram.chase."));
    let sweep = |id: &str, extra: [f64; 3]| Sweep {
        id: id.into(),
        x_unit: "byte".into(),
        y_unit: "s".into(),
        threads: 1,
        points: [1e6, HALF_WAY as f64, LARGEST].into_iter().zip(extra.map(|ns| (100.0 + ns) * 1e-9)).collect(),
    };
    if sweeps {
        machine.sweeps.extend([sweep("latency.huge", [0.0; 3]), sweep("latency.4k", [0.0, 10.0, 20.0])]);
    }
    machine
}

fn analysed(function: Function, machine: Machine) -> Function {
    let mut profile = profile(vec![function], machine);
    crate::analyse(&mut profile);
    profile.functions.remove(0)
}

/// Times the latency on huge pages.
fn times(function: &Function, machine: Machine) -> f64 {
    let latency = |f: Function| f.analysis.terms.latency.expect("misses are known");
    latency(analysed(function.clone(), machine)) / latency(analysed(function.clone(), zen5()))
}

#[test]
fn tables_that_the_caches_do_not_hold_cost_what_was_measured() {
    for (small, touched, expected) in [
        (1.0, 4 << 30, SLOWER),
        (0.5, 4 << 30, (1.0 + SLOWER) / 2.0),
        (0.0, 4 << 30, 1.0),
        (1.0, HALF_WAY, (1.0 + SLOWER) / 2.0),
        (1.0, 1 << 16, 1.0),
    ] {
        let found = times(&chase(small, touched), machine(true));
        assert!((found - expected).abs() < 1e-9, "{small} of {touched} bytes: {found}, not {expected}");
    }
    assert_eq!(times(&chase(1.0, 4 << 30), machine(false)), 1.0, "without the sweeps nothing is known");
    let mut unknown_pages = chase(1.0, 4 << 30);
    unknown_pages.work.as_mut().unwrap().traffic.as_mut().unwrap().small_page_lines = 0.0;
    assert_eq!(times(&unknown_pages, machine(true)), 1.0, "nor without the kind of the pages");
}

#[test]
fn huge_pages_are_advised_with_what_they_save() {
    let found = analysed(chase(1.0, 4 << 30), machine(true));
    let saving = found.analysis.savings.iter().find(|s| s.remove == ["small-pages"]).expect("a fifth of the time");
    let latency = found.analysis.terms.latency.unwrap();
    assert!((saving.seconds / latency - (1.0 - 1.0 / SLOWER)).abs() < 1e-9, "{saving:?}");
    assert!(saving.advice.starts_with("100 % of its lines from memory lie on pages of 4 KiB"), "{}", saving.advice);
    assert_eq!(found.analysis.class, Some(Class::DramLatency));
    assert!(found.analysis.ceilings.iter().any(|c| c.from.iter().any(|id| id == "dram.chase.1.4k")));
    for huge in [analysed(chase(0.0, 4 << 30), machine(true)), analysed(chase(1.0, 4 << 30), zen5())] {
        assert!(huge.analysis.savings.iter().all(|s| s.remove != ["small-pages"]));
    }
}

/// A copy with stores that fill lines, or go past the caches, with a share of small pages.
fn copy(small: f64, past_caches: bool) -> Function {
    let k = Kernel::new("copy").traffic(|t| {
        (t.dram_read, t.dram_write) = if past_caches { (64.0, 64.0) } else { (128.0, 64.0) };
        (t.dram_fill, t.dram_nt) = if past_caches { (0.0, 64.0) } else { (64.0, 0.0) };
        (t.l3_misses, t.unit_lines) = (2.0, 2.0);
        (t.small_page_lines, t.huge_page_lines) = (2.0 * small, 2.0 * (1.0 - small));
    });
    k.took(30.0).function
}

#[test]
fn streams_on_small_pages_have_the_bandwidth_of_such_pages() {
    let dram = |f: &Function| f.analysis.terms.dram.expect("bytes are known");
    for (small, past_caches, factor) in
        [(1.0, false, SLOWER), (0.5, false, (1.0 + SLOWER) / 2.0), (0.0, false, 1.0), (1.0, true, SLOWER)]
    {
        let function = copy(small, past_caches);
        let before = dram(&analysed(function.clone(), zen5()));
        let found = analysed(function.clone(), with_small_pages(|c| c.id.starts_with("dram.")));
        let times = dram(&found) / before;
        assert!((times - factor).abs() < 1e-9, "{small} of a copy past the caches {past_caches}: {times}");
        let saving = found.analysis.savings.iter().find(|s| s.remove == ["small-pages"]);
        let expected = (small > 0.0).then_some(factor * before - before);
        assert_eq!(saving.is_some(), expected.is_some(), "{:?}", found.analysis.savings);
        assert!(saving.zip(expected).is_none_or(|(s, gain)| (s.seconds / gain - 1.0).abs() < 1e-9), "{saving:?}");
        // If such pages were not measured, the model uses the looser bound.
        let others = with_small_pages(|c| c.id.starts_with("dram.chase."));
        assert_eq!(dram(&analysed(function, others)), before);
    }
}
