//! Recorded kernels with a known truth, found by changing their source: checks the model's verdict on each.
//!
//! `fixtures/profiles/make_cases.py` says how they were recorded. Times are those of a guest that others loaded.

use std::path::Path;

use super::kernel::profile;
use crate::deficiency::{Deficiency, Removed};
use crate::host::{Ceilings, Host};
use crate::surroundings::Surroundings;
use crate::terms::{Subject, TermId};
use crate::{REFUTED, analyse};
use rprof_profile::confidence::Level;
use rprof_profile::function::Saving;
use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile, Run};

fn read(path: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path);
    serde_json::from_str(&std::fs::read_to_string(path).expect("a fixture")).expect("JSON")
}

/// The facts of case `name`.
fn facts(name: &str) -> Profile {
    let mut case = read(&format!("profiles/cases/{name}.json"));
    for (key, empty) in [("exit_status", 0.into()), ("signal", serde_json::Value::Null)] {
        case["run"][key] = empty;
    }
    for list in ["threads", "warnings"] {
        case["run"][list] = serde_json::json!([]);
    }
    let functions: Vec<Function> = serde_json::from_value(case["functions"].take()).expect("functions");
    let run: Run = serde_json::from_value(case["run"].take()).expect("a run");
    let machine = serde_json::from_value(read("machines/granite-guest.json")).expect("a machine");
    Profile { run, ..profile(functions, machine) }
}

/// The analysed functions of case `name`, and the warnings' codes.
fn case(name: &str) -> (Vec<Function>, Profile) {
    let mut analysed = facts(name);
    analyse(&mut analysed);
    for f in &analysed.functions {
        let own = f.time_s.unwrap_or(f64::INFINITY) * (1.0 + 1e-9);
        for s in &f.analysis.savings {
            // Page faults are time in the kernel, besides.
            let time = if s.remove == ["page-faults"] { f.kernel_s.unwrap_or(0.0) * (1.0 + 1e-9) } else { own };
            assert!(s.seconds <= time && s.seconds_max <= time && s.seconds_max >= s.seconds, "{}: {s:?}", f.name);
        }
        let alone = f.team == Some(1);
        assert!(!alone || f.analysis.class != Some(Class::Threads), "{}", f.name);
        assert!(!alone || f.analysis.savings.iter().all(|s| s.remove != ["threads"]), "{}", f.name);
    }
    (analysed.functions.clone(), analysed)
}

fn function(name: &str, symbol: &str) -> Function {
    case(name).0.into_iter().find(|f| f.name.starts_with(symbol)).expect("the function")
}

fn saving<'f>(f: &'f Function, what: &str) -> Option<&'f Saving> {
    f.analysis.savings.iter().find(|s| s.remove == [what])
}

/// Part of its time that removing `what` saves.
fn share(f: &Function, what: &str) -> f64 {
    saving(f, what).map_or(0.0, |s| s.seconds / f.time_s.expect("timed"))
}

fn class(f: &Function) -> Class {
    f.analysis.class.expect("a class")
}

fn says_block(f: &Function) -> bool {
    f.analysis.savings.iter().any(|s| s.advice.contains("block the loop"))
}

#[test]
fn vectors_shorten_chains() {
    // Vectorised by hand: 85 %.
    let f = function("simd", "ssq");
    assert_eq!(class(&f), Class::Simd);
    assert!((share(&f, "simd") - 0.85).abs() < 0.05, "{}", share(&f, "simd"));
}

#[test]
fn integer_lanes_count() {
    // -O3 -march=native: 85 %.
    let f = function("isum", "isum");
    assert_eq!(class(&f), Class::Simd);
    assert!((share(&f, "simd") - 0.85).abs() < 0.12, "{}", share(&f, "simd"));
    assert!(saving(&f, "simd").is_some_and(|s| s.advice.contains("integers of 4 bytes")), "{:?}", f.analysis.savings);
}

#[test]
fn an_interpreter_is_not_told_to_vectorise() {
    for f in case("python").0 {
        assert!(saving(&f, "simd").is_none(), "{}: {:?}", f.name, f.analysis.savings);
        let advice = f.analysis.savings.iter().all(|s| !s.advice.contains("out of the loop"));
        assert!(advice, "{}: {:?}", f.name, f.analysis.savings);
    }
}

#[test]
fn conflicts_of_private_caches_and_strides_have_savings() {
    // Padding saves 78 %, another order of the loops 90 %.
    let f = function("matmul1024", "matmul");
    assert_eq!(class(&f), Class::PrivateCacheConflict);
    assert_eq!(f.analysis.confidence.as_ref().map(|c| c.level), Some(Level::Low), "no account tells");
    let (padding, order) = (saving(&f, "private-conflicts").expect("padding"), saving(&f, "strides").expect("order"));
    let time = f.time_s.expect("timed");
    assert!(padding.seconds < 0.78 * time && padding.seconds_max > 0.78 * time, "{padding:?}");
    assert!(order.seconds_max > 0.85 * time, "{order:?}");
    assert!(padding.advice.contains("pad rows") && order.advice.contains("order of the"), "{padding:?} {order:?}");
    let small = function("matmul", "matmul");
    assert!([Class::CacheLatency, Class::L3Bandwidth].contains(&class(&small)), "{}", class(&small));
}

#[test]
fn what_another_function_had_is_fused() {
    let (functions, _) = case("single");
    let consume = functions.iter().find(|f| f.name == "consume").expect("consume");
    assert!(!says_block(consume));
    let fuse = saving(consume, "separate-passes").expect("fuse");
    assert!(fuse.advice.contains("produce") && fuse.advice.contains("fuse"), "{fuse:?}");
    let produce = functions.iter().find(|f| f.name == "produce").expect("produce");
    assert_eq!(class(produce), Class::PageFaults);
    assert!(produce.analysis.remarks.iter().any(|r| r.contains("page faults")), "{:?}", produce.analysis.remarks);
}

#[test]
fn what_one_call_uses_once_is_not_blocked() {
    let spmv = function("spmv", "spmv");
    assert!(!says_block(&spmv));
    assert!(spmv.analysis.remarks.iter().any(|r| r.contains("nothing to block")), "{:?}", spmv.analysis.remarks);
    assert!(case("stream").0.iter().all(|f| !says_block(f)));
}

#[test]
fn nine_streams_of_stores_go_past_the_caches_too() {
    // With non-temporal stores 0.24 instead of 0.36 s.
    let f = function("lbmv", "step");
    assert_eq!(class(&f), Class::DramBandwidth);
    let saved = saving(&f, "write-allocate").expect("non-temporal stores");
    assert!(saved.advice.contains("non-temporal"), "{saved:?}");
    assert!((share(&f, "write-allocate") - 0.33).abs() < 0.1, "{}", share(&f, "write-allocate"));
    // Of scalar stores, with lines that push each other out of L1 meanwhile, the same is known; there instructions hold
    // it.
    let scalar = function("lbm", "step").work.and_then(|work| work.traffic).expect("simulated");
    assert!(scalar.dram_fill > 0.0 && scalar.needless_fills() > 0.9 * scalar.dram_fill, "{scalar:?}");
}

#[test]
fn a_chain_that_restarts_in_every_iteration_is_none() {
    let (functions, analysed) = case("imbal");
    assert!(analysed.run.warnings.iter().all(|w| w.code != REFUTED), "{:?}", analysed.run.warnings);
    assert_eq!(class(&functions[0]), Class::LoadImbalance);
}

#[test]
fn a_recurrence_has_no_partial_results() {
    let f = function("rec", "iir");
    assert_eq!(class(&f), Class::Ilp);
    assert!(saving(&f, "ilp").is_none() && saving(&f, "simd").is_none(), "{:?}", f.analysis.savings);
    assert!(f.analysis.remarks.iter().any(|r| r.contains("independent sequences")), "{:?}", f.analysis.remarks);
    // A mutant: a sum in the place of the recurrence.
    let mut mutant = facts("rec");
    let chain = &mut mutant.functions[0].work.as_mut().expect("counted").chains[0];
    chain.stored = false;
    chain.cycles.iter_mut().for_each(|cycle| cycle.steps.truncate(1));
    mutant.functions[0].time_s = mutant.functions[0].time_s.map(|t| t / 2.0);
    analyse(&mut mutant);
    assert!(saving(&mutant.functions[0], "ilp").is_some());
}

#[test]
fn a_walk_keeps_what_sixteen_leave() {
    let f = function("chase", "walk");
    assert_eq!(class(&f), Class::DramLatency);
    let latency = saving(&f, "latency").expect("several lists");
    let left = 1.0 - latency.seconds / f.analysis.terms.latency.expect("chased").min(f.time_s.expect("timed"));
    assert!(left > 1.0 / 20.0 && left < 1.0 / 8.0, "{left}");
    assert!(latency.advice.contains("of one list, store the nodes"), "{latency:?}");
}

#[test]
fn one_thread_that_moves_all_has_the_bandwidth_of_one_core() {
    // Others had a CPU while it was recorded; on a quiet host both threads are at work all the time.
    let at_once = |mut p: Profile| {
        p.functions[0].concurrency = vec![0.0, 1.0];
        analyse(&mut p);
        p.functions.remove(0)
    };
    let f = at_once(facts("memimb"));
    let (dram, machine) = (f.analysis.terms.dram.expect("moved"), facts("memimb").machine);
    let bytes = f.bytes.and_then(|b| b.dram).expect("counted") as f64;
    let one = machine.value("dram.read.4k", 1).or(machine.value("dram.read", 1)).expect("measured");
    assert!((dram / (bytes / one) - 1.0).abs() < 0.1, "{dram} s for {bytes} bytes at {one}");
    // A mutant: both threads move half.
    let mut mutant = facts("memimb");
    mutant.functions[0].per_thread.iter_mut().for_each(|t| t.dram_bytes = Some(1 << 30));
    assert!(at_once(mutant).analysis.terms.dram.is_some_and(|even| even < 0.6 * dram));
}

#[test]
fn branches_and_latency_are_no_instruction_mix() {
    let quick = function("qsort", "quick");
    assert_eq!(class(&quick), Class::Unknown);
    assert!(quick.analysis.savings.is_empty(), "{:?}", quick.analysis.savings);
    assert!(quick.analysis.remarks.iter().any(|r| r.contains("predicted wrongly")), "{:?}", quick.analysis.remarks);
    let look = function("hash", "look");
    assert_eq!(class(&look), Class::CacheLatency);
    assert!(saving(&look, "mix").is_none(), "{:?}", look.analysis.savings);
}

#[test]
fn strides_have_advice() {
    let f = function("transp", "transpose");
    let strides = saving(&f, "strides").expect("unit stride");
    assert!(strides.advice.contains("one after the other") && strides.advice.contains("blocks"), "{strides:?}");
}

#[test]
fn one_thread_is_a_statement_about_the_program() {
    for name in ["simd", "isum", "matmul", "rec", "chase", "qsort"] {
        let used = case(name).1.run.parallelism.expect("timed");
        assert_eq!(used.allowed, 2, "{name}");
    }
}

#[test]
fn no_bound_exceeds_the_peak_and_replacing_divisions_costs() {
    let f = function("demo_div", "demo_div");
    assert_eq!(class(&f), Class::DivSqrt);
    let peak = facts("demo_div").machine.value("dp.peak", 2).expect("measured");
    let rungs = f.analysis.ceilings.iter().filter(|c| c.kind != "memory").filter_map(|c| c.value);
    assert!(rungs.clone().all(|value| value <= peak * 1.01), "{:?}", rungs.collect::<Vec<_>>());
    // Six multiplies each in the place of a division, at 512 bits.
    assert!(share(&f, "divsqrt") < 0.85, "{}", share(&f, "divsqrt"));
}

#[test]
fn terms_depend_on_no_other_deficiencies_than_they_say() {
    let names =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profiles/cases")).expect("cases");
    let mut shorter = 0;
    for name in names {
        let path = name.expect("a case").path();
        let Some(name) = path.file_stem().filter(|_| path.extension().is_some_and(|e| e == "json")) else { continue };
        let profile = facts(&name.to_string_lossy());
        let ceilings = Ceilings::of(&profile.machine).during(&profile.run);
        let around = Surroundings::of(&profile);
        for f in profile.functions.iter().filter(|f| f.work.is_some()).take(5) {
            let subject = Subject::new(f, Host::new(&ceilings).of(f), &around);
            for (a, b) in Deficiency::ALL.into_iter().flat_map(|a| Deficiency::ALL.map(|b| (a, b))) {
                let removed = Removed::only(a).and(b);
                for id in TermId::ALL {
                    let all = subject.term(id, removed).seconds;
                    let own = subject.term(id, removed.within(id.depends_on())).seconds;
                    assert_eq!(all, own, "{name:?} {} {id:?} {a:?} {b:?}", f.name);
                    shorter += u32::from(all < subject.term(id, Removed::NONE).seconds);
                }
            }
        }
    }
    assert!(shorter > 100, "nothing was removed: {shorter}");
}
