//! A measurement above a ceiling refutes the ceiling: the model leaves it out and warns, and never clamps it.

use super::kernel::{Kernel, profile, zen5};
use crate::{KEPT, REFUTED, analyse};
use rprof_isa::facts::AccessKind::Load;
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Function;
use rprof_profile::confidence::{Confidence, Doubt, Level};
use rprof_profile::function::Source;
use rprof_profile::machine::{Cache, Machine, Sweep};
use rprof_profile::pages::Pages;
use rprof_profile::run::Pass;
use rprof_profile::vocabulary::Class;

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
fn bytes_known_to_a_factor_of_two_hold_nothing_down() {
    let bound_by = |error: f64| {
        let k = Kernel::new("unsure").fp(8, FpOp::Add, Precision::Dp, Width::W512).access(8, Load, 64, true);
        let mut k =
            k.traffic(|t| (t.l2_read, t.l3_read, t.dram_read) = (512.0, 512.0, 512.0)).took(512.0 / 41e9 * 4.2e9);
        k.function
            .source
            .insert("bytes.dram".into(), Source { how: "simulated".into(), error: Some(error), reason: None });
        let mut p = profile(vec![k.function], zen5());
        analyse(&mut p);
        let a = p.functions.remove(0).analysis;
        assert!(a.terms.dram.unwrap() > 0.0, "it is shown");
        a.binding
    };
    assert_eq!(bound_by(0.5).as_deref(), Some("dram"));
    assert_ne!(bound_by(1.0).as_deref(), Some("dram"));
}

#[test]
fn within_its_error_a_ceiling_stands() {
    let k = Kernel::new("close").fp(12, FpOp::Fma, Precision::Dp, Width::W512).took(6.0 / 1.04);
    let f = k.analysed();
    assert!(f.analysis.ceilings.iter().all(|c| !c.refuted));
    assert!((f.analysis.roof_fraction.unwrap() - 1.04).abs() < 1e-6);
}

#[test]
fn few_samples_leave_the_class_and_lower_the_confidence() {
    // 0.143 s.
    let sampled = |hz: f64| {
        let k = Kernel::new("short").fp(12, FpOp::Fma, Precision::Dp, Width::W512).took(6.0);
        let mut p = profile(vec![k.function], zen5());
        p.run.passes = vec![timed(hz)];
        analyse(&mut p);
        let a = p.functions.remove(0).analysis;
        (a.class, a.confidence.expect("a class"))
    };
    let peak = Some(Class::Peak);
    assert_eq!(sampled(1000.0), (peak, Confidence { level: Level::High, reasons: vec![] }));
    let few = |samples| vec![Doubt::FewSamples { samples }];
    assert_eq!(sampled(300.0), (peak, Confidence { level: Level::Medium, reasons: few(43) }));
    assert_eq!(sampled(100.0), (peak, Confidence { level: Level::Low, reasons: few(14) }));
}

fn timed(hz: f64) -> Pass {
    serde_json::from_value(serde_json::json!({
        "kind": "timed", "source": "perf:cpu-clock", "wall_s": 1.0, "cpu_s": 1.0, "frequency_hz": hz
    }))
    .expect("a pass")
}

#[test]
fn chance_refutes_nothing() {
    // A third of the time that memory allows: refuted by 143 samples if 429 are expected, not by 1 or 3 if 4 or 10 are.
    let refuted = |hz: f64| {
        let kernel = impossible();
        let seconds = kernel.function.time_s.expect("timed");
        let mut p = profile(vec![kernel.function], zen5());
        p.run.passes = vec![timed(hz / seconds)];
        analyse(&mut p);
        p.run.warnings.iter().any(|w| w.code == REFUTED)
    };
    assert_eq!([143.0, 30.0, 3.0, 1.0].map(refuted), [true, true, false, false]);
}

/// The rates of reading from the last level and from memory of [`zen5`], which has no sweep, and a sweep that is `rate` for
/// 64 MiB of streams, twice its last level.
fn with_sweep(rate: f64) -> Machine {
    let mut machine = zen5();
    let far = machine.value("dram.read", 1).expect("recorded");
    let mib = f64::from(1 << 20);
    let points =
        vec![(16.0 * mib, machine.value("l3.read", 1).expect("recorded")), (64.0 * mib, rate), (512.0 * mib, far)];
    machine.caches = vec![Cache { level: 3, size: 32 << 20, ways: 16, line: 64, shared_by: 2 }];
    let (x_unit, y_unit) = ("byte".into(), "byte/s".into());
    machine.sweeps = vec![Sweep { id: "workingset.read".into(), x_unit, y_unit, threads: 1, points }];
    machine
}

/// A cyclic stream of 64 MiB, in `share` of the time that reading all of it from memory takes; `unit` of its lines come with a
/// stride.
fn going_round(share: f64, unit: f64) -> Function {
    let k = Kernel::new("round").fp(8, FpOp::Add, Precision::Dp, Width::W512).access(8, Load, 64, true);
    let mut k = k.traffic(|t| {
        (t.l2_read, t.l3_read, t.dram_read) = (512.0, 512.0, 512.0);
        (t.l1_misses, t.l2_misses, t.l3_misses, t.capacity) = (8.0, 8.0, 8.0, 8.0);
        (t.unit_lines, t.random_lines) = (8.0 * unit, 8.0 * (1.0 - unit));
    });
    k.function.pages = Some(Pages { touched: (64 << 20) / Pages::BYTES, at_least: true });
    let all = {
        let mut p = profile(vec![k.function.clone()], zen5());
        analyse(&mut p);
        p.functions[0].analysis.terms.dram.expect("bytes and a ceiling")
    };
    k.function.time_s = Some(share * all);
    k.function
}

#[test]
fn what_a_last_level_may_keep_of_a_stream_refutes_nothing() {
    let (near, far) = (zen5().value("l3.read", 1).unwrap(), zen5().value("dram.read", 1).unwrap());
    // Half of the lines from the last level.
    let half = 2.0 / (1.0 / near + 1.0 / far);
    let found = |function: Function, machine| {
        let mut p = profile(vec![function], machine);
        analyse(&mut p);
        let told = |code| p.run.warnings.iter().filter(|w| w.code == code).count();
        (told(REFUTED), told(KEPT), p.functions[0].analysis.binding.clone())
    };
    let dram = Some("dram".to_owned());
    assert_eq!(found(going_round(0.7, 1.0), with_sweep(half)), (0, 1, dram.clone()), "half may be kept");
    for (function, machine, why) in [
        (going_round(0.7, 1.0), with_sweep(far), "nothing is"),
        (going_round(0.7, 0.0), with_sweep(half), "lines without a stride are met as LRU has it"),
        (going_round(0.3, 1.0), with_sweep(half), "not that much"),
    ] {
        let (refuted, told, binding) = found(function, machine);
        assert!(refuted > 0 && told == 0 && binding != dram, "{why}: {refuted} {told} {binding:?}");
    }
    assert_eq!(found(going_round(1.0, 1.0), with_sweep(far)), (0, 0, dram), "nothing to tell");
}
