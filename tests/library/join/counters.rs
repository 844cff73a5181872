//! Hardware counters of functions and threads, from readings with known answers.

use rprof::isa::operation::{Precision, Width};
use rprof::join::{Evidence, join};
use rprof::profile::counters::Counter;
use rprof::profile::evidence::counters::{
    CounterEvent, CounterEvidence, CounterTotal, LeftOut, ThreadReading, UncoreBytes, UncoreCount,
};
use rprof::profile::evidence::timed::{MappingChange, MappingEvent, TimedEvidence};
use rprof::profile::{Machine, Profile, Run};

use crate::join::evidence::*;

const MS: u64 = 1_000_000;
/// Address at which the program is mapped.
const BASE: u64 = 0x40_0000;

fn event(name: &str, role: &str, weight: f64, total: Result<CounterTotal, String>) -> CounterEvent {
    CounterEvent {
        name: name.into(),
        role: role.into(),
        pmu: "cpu".into(),
        unit: if role == "flops" { "flop".into() } else { "line".into() },
        weight,
        trust: "trusted".into(),
        certified: true,
        precision: None,
        width: None,
        caveat: None,
        betrays: None,
        total,
    }
}

fn total(raw: u64, running_share: f64) -> Result<CounterTotal, String> {
    Ok(CounterTotal { value: raw as f64 / running_share, raw, running_share, error: 0.0 })
}

fn uncore(name: &str, role: &str, bytes: Result<UncoreBytes, String>) -> UncoreCount {
    UncoreCount {
        name: name.into(),
        role: role.into(),
        pmu: "imc".into(),
        trust: "trusted".into(),
        certified: true,
        both_directions: false,
        further: false,
        bytes,
    }
}

/// A reading of thread 1 in function `number`; `None` is its end.
fn reading(ms: u64, number: Option<u64>, values: &[u64]) -> ThreadReading {
    ThreadReading {
        pid: 1,
        tid: 1,
        time_ns: ms * MS,
        ip: number.map(|n| BASE + at(n).offset + 8),
        group: 0,
        enabled_ns: ms * MS,
        running_ns: ms * MS,
        values: values.to_vec(),
    }
}

/// 90 ms of `work`, 10 ms of `other`.
fn program() -> TimedEvidence {
    let samples = (0..100).map(|i| sample(f64::from(i) * 1e-3, 0, &[at(if i < 90 { 1 } else { 2 })]));
    let change = MappingChange::Mapped { start: BASE, end: BASE + 0x1000, module: 0, bias: BASE };
    TimedEvidence { mappings: vec![MappingEvent { time_ns: 0, pid: 1, change }], ..timed(samples.collect()) }
}

fn profile(counters: &CounterEvidence) -> Profile {
    let timed = program();
    let evidence = Evidence { timed: Some(&timed), counters: Some(counters), ..Evidence::default() };
    join(&evidence, Run::default(), Machine::default(), &mut Names::default(), false)
}

fn counter<'a>(counters: &'a [Counter], name: &str) -> &'a Counter {
    counters.iter().find(|c| c.event == name).unwrap_or_else(|| panic!("no {name} among {counters:?}"))
}

/// One event of 2 FLOPs a count.
fn flops(total: Result<CounterTotal, String>, readings: Vec<ThreadReading>) -> CounterEvidence {
    let events = vec![event("fp_arith", "flops", 2.0, total)];
    CounterEvidence { events, groups: vec![vec![0]], readings, ..CounterEvidence::default() }
}

#[test]
fn counts_between_two_functions_go_where_counts_are_made() {
    // 100 counts a millisecond in `work`, none in `other`; the change from one to the other lies between two readings.
    let in_work = (1..=90).map(|ms| reading(ms, Some(1), &[100 * ms]));
    let in_other = (91..=100).map(|ms| reading(ms, Some(2), &[9050]));
    let readings = in_work.chain(in_other).chain([reading(101, None, &[9050])]).collect();
    let profile = profile(&flops(total(9050, 1.0), readings));
    let work = counter(&function(&profile, "work").counters, "fp_arith");
    close(work.value, 2.0 * 9050.0, 1e-9);
    let error = work.source.error.expect("what lay between is its error");
    assert!(error > 0.0 && error < 0.02, "{error}");
    let other = counter(&function(&profile, "other").counters, "fp_arith");
    assert_eq!((other.value, other.source.how.as_str()), (Some(0.0), "pmu"), "a measured 0");
    let of_program = counter(&profile.run.counters, "fp_arith");
    assert_eq!((of_program.value, of_program.unattributed), (Some(18_100.0), Some(0.0)));
    assert_eq!((of_program.per_thread[0].thread, of_program.per_thread[0].value), (0, 18_100.0));
}

#[test]
fn functions_that_take_turns_too_fast_have_no_figure() {
    let readings = (1..=100).map(|ms| reading(ms, Some(1 + ms % 2), &[100 * ms])).collect();
    let profile = profile(&flops(total(10_000, 1.0), readings));
    for name in ["work", "other"] {
        let found = counter(&function(&profile, name).counters, "fp_arith");
        assert_eq!(found.value, None);
        assert!(found.source.reason.as_deref().is_some_and(|r| r.contains("too briefly")), "{found:?}");
    }
    assert_eq!(counter(&profile.run.counters, "fp_arith").value, Some(20_000.0), "the program's sum stands");
}

#[test]
fn shared_counters_scale_functions_as_the_program() {
    let readings = (1..=100).map(|ms| reading(ms, Some(1), &[100 * ms])).collect();
    let profile = profile(&flops(total(10_000, 0.25), readings));
    let work = counter(&function(&profile, "work").counters, "fp_arith");
    close(work.value, 2.0 * 40_000.0, 1e-9);
    assert_eq!(work.source.how, "pmu, scaled");
    close(work.source.error, 0.75 / (100.0f64 / 4.0).sqrt(), 0.02);
}

#[test]
fn a_part_of_the_flop_events_is_not_their_sum() {
    let events = vec![
        event("scalar", "flops", 1.0, total(100, 1.0)),
        event("packed", "flops", 8.0, Err("no counter is free".into())),
    ];
    let readings = (1..=10).map(|ms| reading(ms, Some(1), &[10 * ms])).collect();
    let profile = profile(&CounterEvidence { events, groups: vec![vec![0]], readings, ..CounterEvidence::default() });
    let sum = counter(&profile.run.counters, "flops");
    assert_eq!((sum.value, sum.source.reason.as_deref()), (None, Some("no counter is free")));
    assert!(function(&profile, "work").counters.iter().all(|c| c.event != "flops"));
}

#[test]
fn sums_alone_are_split_by_time_and_say_so() {
    let events = vec![event("fp_arith", "flops", 1.0, total(1000, 1.0))];
    let profile = profile(&CounterEvidence { events, ..CounterEvidence::default() });
    let work = counter(&function(&profile, "work").counters, "fp_arith");
    close(work.value, 900.0, 1e-9);
    assert_eq!(work.source.how, "pmu, split by time");
}

#[test]
fn bytes_at_the_controllers_follow_the_misses() {
    let events = vec![event("llc", "llc_miss", 1.0, total(1000, 1.0))];
    let readings = (1..=100)
        .map(|ms| reading(ms, Some(if ms <= 50 { 1 } else { 2 }), &[if ms <= 50 { 0 } else { 20 * (ms - 50) }]));
    let bytes = UncoreBytes { net: 64_000.0, error: 640.0, balance: Some(0.9), boxes: 2, ..UncoreBytes::default() };
    let count = |bytes| uncore("imc", "dram_read_lines", bytes);
    let mut evidence = CounterEvidence {
        events,
        groups: vec![vec![0]],
        readings: readings.collect(),
        uncore: vec![count(Ok(bytes))],
        ..CounterEvidence::default()
    };
    let with_misses = profile(&evidence);
    let other = counter(&function(&with_misses, "other").counters, "imc");
    assert_eq!(other.source.how, "uncore, split by last-level misses");
    close(other.value, 64_000.0, 1e-9);
    assert_eq!(counter(&with_misses.run.counters, "imc").balance, Some(0.9));
    evidence.events.clear();
    evidence.groups.clear();
    evidence.readings.clear();
    let by_time = profile(&evidence);
    let work = counter(&function(&by_time, "work").counters, "imc");
    assert_eq!(work.source.how, "uncore, split by time");
    close(work.value, 0.9 * 64_000.0, 1e-9);
    evidence.uncore = vec![count(Err("the kernel does not allow it to this user".into()))];
    let refused = profile(&evidence);
    let refused = counter(&refused.run.counters, "imc");
    assert_eq!((refused.value, refused.source.how.as_str()), (None, "not measured"));
}

#[test]
fn bytes_at_the_controllers_follow_the_misses_of_all_kinds_of_cores() {
    let core = CounterEvent { pmu: "cpu_core".into(), ..event("llc", "llc_miss", 1.0, total(1000, 1.0)) };
    let atom = CounterEvent { pmu: "cpu_atom".into(), ..event("llc", "llc_miss", 1.0, total(1500, 0.5)) };
    // A second event of the same PMU counts the same misses.
    let again = CounterEvent { name: "llc.loads".into(), ..core.clone() };
    // `work` missed on the one kind alone, `other` on the other, with a counter that had half of the time.
    let counted = |ms: u64, from: u64, each: u64| each * ms.saturating_sub(from).min(50);
    let readings = (1..=100).map(|ms| {
        let core = counted(ms, 0, 20);
        reading(ms, Some(if ms <= 50 { 1 } else { 2 }), &[core, counted(ms, 50, 30), core])
    });
    let bytes = UncoreBytes { net: 64_000.0, error: 640.0, boxes: 2, ..UncoreBytes::default() };
    let mut evidence = CounterEvidence {
        events: vec![core, atom, again],
        groups: vec![vec![0, 1, 2]],
        readings: readings.collect(),
        uncore: vec![uncore("imc", "dram_read_lines", Ok(bytes))],
        ..CounterEvidence::default()
    };
    let found = profile(&evidence);
    for (name, share) in [("work", 0.25), ("other", 0.75)] {
        let of_function = counter(&function(&found, name).counters, "imc");
        assert_eq!(of_function.source.how, "uncore, split by last-level misses");
        close(of_function.value, share * 64_000.0, 1e-9);
    }
    evidence.events[1].total = Err("no counter is free".into());
    let by_time = profile(&evidence);
    let work = counter(&function(&by_time, "work").counters, "imc");
    assert_eq!(work.source.how, "uncore, split by time", "misses of one kind of core are a part");
}

/// FLOP events by precision and width, and misses, all read in `work` alone.
fn certified(events: Vec<CounterEvent>) -> CounterEvidence {
    let n = events.len();
    let readings = (1..=100).map(|ms| reading(ms, Some(if ms <= 90 { 1 } else { 2 }), &vec![10 * ms.min(90); n]));
    CounterEvidence { groups: vec![(0..n).collect()], events, readings: readings.collect(), ..Default::default() }
}

fn wide(name: &str, weight: f64, width: Width) -> CounterEvent {
    CounterEvent { precision: Some(Precision::Dp), width: Some(width), ..event(name, "flops", weight, total(900, 1.0)) }
}

#[test]
fn certified_counts_fill_what_no_pass_has_measured() {
    let events = vec![
        wide("scalar", 1.0, Width::Scalar),
        wide("256", 4.0, Width::W256),
        event("l2_in", "l2_fill", 1.0, total(900, 1.0)),
    ];
    let profile = profile(&certified(events));
    let work = function(&profile, "work");
    let flops = work.flops.expect("the PMU has counted them");
    assert_eq!((flops.total, flops.dp, flops.sp), (4500, 4500, 0));
    assert_eq!((flops.by_width.scalar, flops.by_width.w256), (900, 3600));
    assert!(
        flops.missing_parts.op
            && flops.missing_parts.rare
            && !flops.missing_parts.width
            && !flops.missing_parts.precision
    );
    assert_eq!((work.source["flops"].how.as_str(), work.source["flops.by_op"].how.as_str()), ("pmu", "not measured"));
    let misses = work.cache_misses.expect("fills of L2 are its misses");
    assert_eq!((misses.l1, misses.l2, misses.l3), (None, Some(900), None));
    assert_eq!(work.source["cache_misses.l3"].how, "not measured");
    assert_eq!((work.instructions, work.bytes), (None, None), "what is not counted stays unknown");
}

#[test]
fn precision_that_is_not_told_is_null() {
    let profile = profile(&certified(vec![event("all", "flops", 1.0, total(900, 1.0))]));
    let flops = function(&profile, "work").flops.unwrap();
    assert!(flops.missing_parts.precision && flops.missing_parts.width);
    let json = serde_json::to_value(flops).unwrap();
    assert_eq!((&json["total"], &json["dp"], &json["by_width"]), (&900.into(), &().into(), &().into()));
}

#[test]
fn flops_that_may_be_the_neighbours_are_no_rate() {
    // The thread's counts before its first reading are booked on `other`, which counts nothing while it is watched.
    let in_other = (1..=50).map(|ms| reading(ms, Some(2), &[100]));
    let in_work = (51..=100).map(|ms| reading(ms, Some(1), &[100 * (ms - 50)]));
    let readings = in_other.chain(in_work).collect();
    let evidence = CounterEvidence {
        events: vec![event("all", "flops", 1.0, total(5000, 1.0))],
        groups: vec![vec![0]],
        readings,
        ..CounterEvidence::default()
    };
    let profile = profile(&evidence);
    let other = function(&profile, "other");
    let told = counter(&other.counters, "flops");
    assert!(told.value.is_some() && told.source.error.is_some_and(|e| e > 0.9), "{told:?}");
    let source = &other.source["flops"];
    assert_eq!((other.flops, source.how.as_str()), (None, "not measured"));
    assert!(source.reason.as_deref().is_some_and(|r| r.contains("± 100 % only")), "{source:?}");
    assert!(function(&profile, "work").flops.is_some());
}

#[test]
fn flops_that_the_events_leave_out_are_no_zero() {
    let betrayed = |count| CounterEvent {
        betrays: Some(LeftOut { reason: "x87 arithmetic is in no FLOP event".into(), at_most: 0.01 }),
        certified: false,
        trust: "not checked".into(),
        ..event("uops.x87", "x87", 1.0, count)
    };
    let few = profile(&certified(vec![event("all", "flops", 1.0, total(900, 1.0)), betrayed(total(9, 1.0))]));
    assert_eq!(function(&few, "work").flops.unwrap().total, 900);
    let many = profile(&certified(vec![event("all", "flops", 1.0, total(900, 1.0)), betrayed(total(10, 1.0))]));
    let told = "x87 arithmetic is in no FLOP event, and uops.x87 counted 10";
    assert_eq!(function(&many, "work").flops, None);
    assert_eq!(function(&many, "work").source["flops"].reason.as_deref(), Some(told));
    let sum = counter(&many.run.counters, "flops");
    assert_eq!((sum.value, sum.source.reason.as_deref()), (None, Some(told)));
    let unread = profile(&certified(vec![event("all", "flops", 1.0, total(900, 1.0)), betrayed(Err("EIO".into()))]));
    assert_eq!(function(&unread, "work").flops, None);
}

#[test]
fn what_is_counted_otherwise_is_said_once() {
    let caveat = |text: &str, e: CounterEvent| CounterEvent { caveat: Some(text.into()), ..e };
    let events = vec![
        caveat("minima and maxima are counted", wide("scalar", 1.0, Width::Scalar)),
        caveat(
            "lanes that a mask switches off are counted, minima and maxima are counted",
            wide("512", 8.0, Width::W512),
        ),
    ];
    let profile = profile(&certified(events));
    let told = "minima and maxima are counted, lanes that a mask switches off are counted";
    assert_eq!(counter(&profile.run.counters, "flops").source.reason.as_deref(), Some(told));
    assert_eq!(function(&profile, "work").source["flops"].reason.as_deref(), Some(told));
}

#[test]
fn one_event_without_a_certificate_fills_nothing() {
    let unchecked = CounterEvent { certified: false, trust: "not checked".into(), ..wide("512", 8.0, Width::W512) };
    let profile = profile(&certified(vec![wide("scalar", 1.0, Width::Scalar), unchecked]));
    let work = function(&profile, "work");
    assert_eq!((work.flops, work.source["flops"].how.as_str()), (None, "not measured"));
    assert!(counter(&work.counters, "flops").value.is_some(), "it is told beside the others all the same");
}

#[test]
fn a_corrected_count_is_divided_and_a_shared_one_says_its_error() {
    let half = CounterEvent { trust: "counts × 2.000, corrected".into(), ..wide("scalar", 0.5, Width::Scalar) };
    let corrected = profile(&certified(vec![half]));
    assert_eq!(function(&corrected, "work").flops.unwrap().total, 450);
    let shared = CounterEvent { total: total(900, 0.5), ..wide("scalar", 1.0, Width::Scalar) };
    let shared = profile(&certified(vec![shared]));
    let source = &function(&shared, "work").source["flops"];
    assert_eq!(source.how, "pmu, scaled");
    assert!(source.error.is_some_and(|e| e > 0.0));
}

#[test]
fn bytes_of_certified_controllers_stand_where_there_is_no_model() {
    let bytes = |net| Ok(UncoreBytes { net, error: 0.01 * net, ..UncoreBytes::default() });
    let mut evidence = certified(vec![event("llc", "llc_miss", 1.0, total(900, 1.0))]);
    evidence.uncore =
        vec![uncore("rd", "dram_read_lines", bytes(64_000.0)), uncore("wr", "dram_write_lines", bytes(320.0))];
    let found = profile(&evidence);
    let dram = function(&found, "work").bytes.expect("the controllers have counted them");
    assert_eq!((dram.dram, dram.dram_read, dram.dram_write), (Some(64_320), Some(64_000), Some(320)));
    assert_eq!(function(&found, "work").source["bytes.dram"].how, "uncore, split by last-level misses");
    // Further memory of the host is no part of that: its traffic is added, or nothing is known.
    let hbm = |name: &str, role: &str, net| UncoreCount {
        pmu: "hbm".into(),
        further: true,
        ..uncore(name, role, bytes(net))
    };
    let mut beside = evidence.clone();
    beside.uncore.extend([hbm("hbm rd", "dram_read_lines", 1000.0), hbm("hbm wr", "dram_write_lines", 24.0)]);
    let dram = function(&profile(&beside), "work").bytes.expect("both memories were counted");
    assert_eq!((dram.dram, dram.dram_read, dram.dram_write), (Some(65_344), Some(65_000), Some(344)));
    beside.uncore[3].certified = false;
    assert_eq!(function(&profile(&beside), "work").bytes, None, "one of two memories is a part");
    evidence.uncore[1].certified = false;
    assert_eq!(function(&profile(&evidence), "work").bytes, None, "reads alone are not the traffic");
    evidence.uncore[1].certified = true;
    evidence.uncore[1].bytes = Ok(UncoreBytes { net: 10.0, error: 500.0, ..UncoreBytes::default() });
    assert_eq!(function(&profile(&evidence), "work").bytes, None, "less than its own error is no figure");
}
