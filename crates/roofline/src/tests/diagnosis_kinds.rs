//! Kinds of causes that one function alone does not show.

use rprof_profile::account::{Account, Cause};
use rprof_profile::core_to_core::CoreToCore;
use rprof_profile::disassembly::{Disassembly, LoopInstruction};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::{Chain, ChainStep, Cycle, Work};
use rprof_profile::run::Thread;
use rprof_profile::system::{FileKind, Reason, System, SystemCall, Wait};
use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile, ProfileSample, Stack};

use super::diagnosis::{WALL_S, found, frame, function, place, profile, saving};

/// Samples of stacks, innermost name last, each with its seconds; frames are made as needed.
fn sampled(all: &mut Profile, stacks: &[(&[(&str, &str)], f64)]) {
    for (names, seconds) in stacks {
        let mut parent = None;
        for (name, module) in *names {
            let is_it = |known: &rprof_profile::Frame| known.name == *name && known.module == *module;
            let number = all.frames.iter().position(is_it).unwrap_or_else(|| {
                all.frames.push(frame(name, module));
                all.frames.len() - 1
            });
            all.stacks.push(Stack { parent, frame: number as u32 });
            parent = Some(all.stacks.len() as u32 - 1);
        }
        all.samples.push(ProfileSample { t_s: 0.5, weight_s: *seconds, thread: 0, stack: parent, waiting: false });
    }
}

fn thread(id: u32, pid: u32, cpu_s: f64) -> Thread {
    Thread { id, pid, tid: pid, rank: None, host: String::new(), cpu_s }
}

#[test]
fn mispredicted_calls_through_pointers_are_their_callers() {
    let callee = |name: &str| {
        let mut callee = function(name, "app", 0.6, Class::Mispredict);
        callee.analysis.savings = vec![saving("mispredict", 0.5)];
        callee
    };
    let text = "call qword ptr [rbx]".to_owned();
    let call = LoopInstruction { text, ..LoopInstruction::default() };
    let mut total = function("total", "app", 0.5, Class::Mispredict);
    total.loops = vec![Function {
        disassembly: Some(Disassembly { instructions: vec![call], left_out: 0 }),
        ..Function::default()
    }];
    let mut all = profile(vec![callee("square"), callee("box"), total]);
    let main = ("main", "app");
    sampled(
        &mut all,
        &[(&[main, ("total", "app"), ("square", "app")], 0.6), (&[main, ("total", "app"), ("box", "app")], 0.6)],
    );
    let of_caller = found(&all);
    assert_eq!((of_caller.cause, place(&of_caller)), (Class::Mispredict, "total"));
    assert!(of_caller.advice.as_ref().is_some_and(|advice| advice.contains("sort by kind")), "{of_caller:?}");
    assert!(of_caller.saves_s.is_some_and(|saves| saves.most > 1.0));
    all.functions[2].loops.clear();
    assert_ne!(place(&found(&all)), "total", "a direct call says where it goes");
}

#[test]
fn faults_of_copies_are_spared_by_copying_less() {
    let mut copy = function("__memcpy_avx_unaligned_erms", "libc.so.6", 0.6, Class::PageFaults);
    (copy.kernel_s, copy.fault_s) = (Some(1.3), Some(1.3));
    let mut all = profile(vec![copy, function("build", "app", 0.05, Class::InstructionMix)]);
    sampled(&mut all, &[(&[("main", "app"), ("build", "app"), ("__memcpy_avx_unaligned_erms", "libc.so.6")], 1.9)]);
    let found = found(&all);
    assert_eq!((found.cause, place(&found)), (Class::PageFaults, "build"));
    assert!(found.advice.as_ref().is_some_and(|advice| advice.contains("append in place")), "{found:?}");
    assert!(found.saves_s.is_some_and(|saves| saves.most > 1.8), "the copies themselves are spared as well: {found:?}");
}

#[test]
fn regions_that_do_little_cost_their_start() {
    let mut body = function("axpy._omp_fn.0", "app", 0.4, Class::InstructionMix);
    (body.team, body.time_s, body.allowed_cpus) = (Some(2), Some(0.3), Some(2));
    body.work = Some(Work { calls: Some(2_000_000), ..Work::default() });
    body.analysis.savings = vec![saving("imbalance", 0.2)];
    let runtime =
        Function { team: Some(2), ..function("gomp_team_barrier_wait_end", "libgomp.so.1.0.0", 3.4, Class::Ilp) };
    let short = found(&profile(vec![body.clone(), runtime.clone()]));
    assert_eq!((short.cause, place(&short)), (Class::Waiting, "axpy"));
    assert!(short.advice.is_some_and(|advice| advice.contains("more to do")));
    assert!(short.others.iter().all(|other| other.class != Class::LoadImbalance));
    body.work = Some(Work { calls: Some(20), ..Work::default() });
    let long = found(&profile(vec![body, runtime]));
    assert!(long.advice.is_none_or(|advice| !advice.contains("more to do")), "20 ms a call");
}

#[test]
fn many_short_processes_are_started_too_often() {
    let wait = Wait { reason: Reason::Poll, call: Some("poll".into()), file: None, seconds: 1.4 };
    let mut all = profile(vec![function("main", "app", 0.5, Class::InstructionMix)]);
    all.run.threads = (0..200).map(|n| thread(n, 1 + n, if n == 0 { 0.5 } else { 0.001 })).collect();
    all.run.system = Some(System { waits: Some(vec![wait]), ..System::default() });
    let many = found(&all);
    assert_eq!(many.cause, Class::Waiting);
    assert!(many.advice.as_ref().is_some_and(|advice| advice.contains("199 processes of 1.0 ms")), "{many:?}");
    all.run.threads.truncate(5);
    assert!(found(&all).advice.is_some_and(|advice| advice.contains("several requests")));
}

#[test]
fn branches_that_wait_for_divisions_are_the_divisions() {
    let cycle = Cycle { steps: vec![ChainStep::IntegerDivide], distance: 1 };
    let chain = Chain { iterations: 1_000_000, entries: 1, cycles: vec![cycle], ..Chain::default() };
    let mut longest = function("longest", "app", 1.9, Class::Mispredict);
    longest.work = Some(Work { chains: vec![chain], ..Work::default() });
    longest.analysis.terms.chain = Some(1.3);
    longest.analysis.savings = vec![saving("mispredict", 0.3)];
    let found = found(&profile(vec![longest]));
    assert_eq!((found.cause, place(&found)), (Class::DivSqrt, "longest"));
    assert!(found.saves_s.is_some_and(|saves| saves.least < 0.8 && saves.most > 1.1), "{:?}", found.saves_s);
}

#[test]
fn an_interpreter_by_a_link_is_known_and_its_comparisons_are_the_scripts() {
    let mut all = profile(vec![
        function("PyUnicode_RichCompare", "python3.11", 0.8, Class::InstructionMix),
        function("__memcmp_avx2_movbe", "libc.so.6", 0.5, Class::Ilp),
        function("python3.11+0x568bf0", "python3.11", 0.6, Class::InstructionMix),
    ]);
    all.functions.iter_mut().for_each(|f| f.file = None);
    all.frames.clear();
    all.run.command = vec!["/usr/bin/python3".into(), "words.py".into()];
    let found = found(&all);
    assert_eq!(found.place.as_ref().and_then(|place| place.file.as_deref()), Some("words.py"));
    assert!(found.advice.as_ref().is_some_and(|advice| advice.contains("a set, a dict")), "{found:?}");
    assert!(found.saves_s.is_some_and(|saves| saves.most > 0.9 * WALL_S), "the loop around them is spared: {found:?}");
}

#[test]
fn streams_of_the_standard_library_are_below_the_users_function() {
    let source = |file: &str, name: &str, cpu_s: f64| Function {
        file: Some(file.into()),
        ..function(name, "app", cpu_s, Class::FrontEnd)
    };
    let write = SystemCall {
        name: Some("write".into()),
        count: Some(2_000_000),
        kernel_s: Some(1.0),
        divided: false,
        estimated: false,
    };
    let mut wrapper = function("write", "libc.so.6", 0.1, Class::SystemCalls);
    wrapper.kernel_s = Some(1.0);
    wrapper.system = Some(System { calls: vec![write], ..System::default() });
    let flush = "<std::io::stdio::StdoutLock as std::io::Write>::write_all";
    let of_rust = "/rustc/5980/library/std/src/io/stdio.rs";
    let mut all =
        profile(vec![wrapper, source(of_rust, flush, 0.6), source("/home/me/lines.rs", "lines::print_all", 0.1)]);
    let users = [("main", "app"), ("lines::print_all", "app")];
    let stack = |inner: &[(&'static str, &'static str)]| [&users[..], inner].concat();
    let (streams, calls) = (stack(&[(flush, "app")]), stack(&[(flush, "app"), ("write", "libc.so.6")]));
    sampled(&mut all, &[(&streams, 0.6), (&calls, 1.1)]);
    for frame in all.frames.iter_mut().filter(|frame| frame.name == flush) {
        frame.file = Some(of_rust.into());
    }
    let found = found(&all);
    assert_eq!((found.cause, place(&found)), (Class::SystemCalls, "lines::print_all"));
    assert!(found.saves_s.is_some_and(|saves| saves.most > 1.6), "with what makes the small parts: {found:?}");
}

#[test]
fn lines_that_move_take_the_time_that_nothing_explains() {
    let with = |roof_fraction: f64| {
        let traffic = Traffic { l1_misses: 1e7, coherence: 0.9e7, ..Traffic::default() };
        let mut count = function("count", "app", 3.9, Class::Ilp);
        (count.team, count.time_s) = (Some(2), Some(1.95));
        count.work = Some(Work { traffic: Some(traffic), ..Work::default() });
        count.analysis.roof_fraction = Some(roof_fraction);
        let mut all = profile(vec![count]);
        all.machine.core_to_core = Some(CoreToCore::of(vec![4e-8]));
        found(&all).cause
    };
    assert_eq!(with(0.2), Class::Sharing);
    assert_ne!(with(0.9), Class::Sharing, "a tenth of the time, and the rest is explained");
}

#[test]
fn who_waits_for_a_thread_to_end_is_not_the_place() {
    let waits = |call: &str, seconds: f64| {
        vec![Wait { reason: Reason::Lock, call: Some(call.into()), file: None::<FileKind>, seconds }]
    };
    let waiting = |name: &str, seconds: f64| {
        let mut f = function(name, "libc.so.6", 0.2, Class::Waiting);
        f.system = Some(System { waits: Some(waits("futex", seconds)), ..System::default() });
        f
    };
    let mut all = profile(vec![
        waiting("__pthread_clockjoin_ex", 1.9),
        waiting("pthread_mutex_lock", 1.5),
        function("deposit", "app", 0.3, Class::Ilp),
    ]);
    sampled(
        &mut all,
        &[
            (&[("main", "app"), ("__pthread_clockjoin_ex", "libc.so.6")], 0.2),
            (&[("teller", "app"), ("deposit", "app"), ("pthread_mutex_lock", "libc.so.6")], 0.2),
        ],
    );
    all.run.threads = vec![thread(0, 1, 0.4), thread(1, 1, 0.4)];
    all.functions.iter_mut().for_each(|f| f.allowed_cpus = Some(2));
    all.run.system = Some(System { waits: Some(waits("futex", 3.4)), ..System::default() });
    let found = found(&all);
    assert_eq!((found.cause, place(&found)), (Class::Waiting, "deposit"));
}

#[test]
fn both_ends_of_a_pipe_are_spared_by_larger_parts() {
    let made = |name: &str, count: u64| {
        let call = SystemCall {
            name: Some(name.into()),
            count: Some(count),
            kernel_s: Some(0.8),
            divided: false,
            estimated: false,
        };
        let mut wrapper = function(name, "libc.so.6", 0.1, Class::SystemCalls);
        wrapper.kernel_s = Some(0.8);
        wrapper.system = Some(System { calls: vec![call], ..System::default() });
        wrapper
    };
    let most = |reads: u64| {
        let found = found(&profile(vec![
            made("write", 1_000_000),
            made("read", reads),
            function("main", "app", 0.1, Class::Ilp),
        ]));
        assert_eq!(found.cause, Class::SystemCalls);
        found.saves_s.expect("an interval").most
    };
    assert!(most(1_000_100) > 1.7, "writer and reader");
    assert!(most(1_000) < 1.2, "the reader's calls are others");
}

#[test]
fn a_sum_that_lies_in_memory_is_neither_for_lanes_nor_for_partial_results() {
    let steps = vec![ChainStep::Forward, ChainStep::Integer];
    let chain =
        Chain { iterations: 1_000_000, entries: 1, cycles: vec![Cycle { steps, distance: 1 }], ..Chain::default() };
    let with = |forwarding: f64| {
        let parts = [(Cause::Chain, 1.0 - forwarding), (Cause::Forwarding, forwarding), (Cause::Base, 0.3)].into();
        let mut sum_into = function("sum_into", "app", 1.9, Class::Ilp);
        sum_into.account = Some(Account { model_s: 1.3, parts, ..Account::default() });
        sum_into.work = Some(Work { chains: vec![chain.clone()], ..Work::default() });
        sum_into.analysis.savings = vec![saving("simd", 1.4), saving("ilp", 0.9)];
        found(&profile(vec![sum_into]))
    };
    let in_memory = with(0.5);
    assert_eq!((in_memory.cause, place(&in_memory)), (Class::StoreForwarding, "sum_into"));
    assert!(in_memory.others.iter().all(|other| !matches!(other.class, Class::Simd | Class::Ilp)));
    assert_ne!(with(0.1).cause, Class::StoreForwarding, "forwarding takes next to nothing");
}

#[test]
fn calls_that_round_hold_the_loop_around_them() {
    let mut cells = function("cells", "app", 1.3, Class::FrontEnd);
    cells.analysis.savings = vec![saving("simd", 0.6)];
    let mut all = profile(vec![cells, function("__floor_sse41", "libm.so.6", 0.6, Class::FrontEnd)]);
    sampled(&mut all, &[(&[("main", "app"), ("cells", "app"), ("__floor_sse41", "libm.so.6")], 0.6)]);
    let found = found(&all);
    assert_eq!(place(&found), "cells");
    assert!(found.advice.as_ref().is_some_and(|advice| advice.contains("-msse4.1")), "{found:?}");
    assert!(found.saves_s.is_some_and(|saves| saves.most > 1.8), "{found:?}");
}
