//! Hand-made accounts: the class, savings and confidence of a function that follow from them.

use super::kernel::Kernel;
use crate::class::AT_ITS_BOUND;
use rprof_isa::facts::AccessKind::Load;
use rprof_isa::facts::InstructionClass::{Alu, Branch};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Function;
use rprof_profile::account::{Account, Cause, HotBranch, WhatIf};
use rprof_profile::confidence::{Doubt, Level};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::Work;
use rprof_profile::prefetch::Prefetch;
use rprof_profile::system::{FileKind, Reason, System, Wait};
use rprof_profile::vocabulary::Class;

/// A function that runs at a fifth of its bound, with an account of `parts` of its CPU time.
fn with(parts: &[(Cause, f64)]) -> Kernel {
    let mut k = Kernel::new("branchy")
        .filler(Alu, 4)
        .filler(Branch, 1)
        .fp(1, FpOp::Add, Precision::Dp, Width::Scalar)
        .took(6.0);
    let cpu_s = k.function.cpu_s.expect("timed");
    let parts: Vec<(Cause, f64)> = parts.iter().map(|(cause, share)| (*cause, share * cpu_s)).collect();
    let model_s = parts.iter().map(|(_, s)| s).sum();
    k.function.account = Some(Account {
        model_s,
        parts: parts.into_iter().collect(),
        bursts: 30,
        instructions: 1_000_000,
        ..Account::default()
    });
    k
}

fn class(f: &Function) -> Class {
    f.analysis.class.expect("a class")
}

#[test]
fn below_its_bound_a_function_has_the_class_of_its_largest_cause() {
    let base = (Cause::Base, 0.3);
    let found = |cause| with(&[base, (cause, 0.65)]).analysed();
    for (cause, expected) in [
        (Cause::Mispredict, Class::Mispredict),
        (Cause::FrontEnd, Class::FrontEnd),
        (Cause::Forwarding, Class::StoreForwarding),
        (Cause::Tlb, Class::Tlb),
        (Cause::L1, Class::L1Bandwidth),
        (Cause::L2, Class::CacheLatency),
        (Cause::L3, Class::CacheLatency),
        (Cause::DramLatency, Class::DramLatency),
        (Cause::DramBandwidth, Class::DramBandwidth),
        (Cause::Chain, Class::Ilp),
        (Cause::Base, Class::InstructionMix),
    ] {
        let f = found(cause);
        assert_eq!(class(&f), expected, "{cause:?}");
        let confidence = f.analysis.confidence.expect("a class");
        assert_eq!((confidence.level, confidence.reasons), (Level::High, vec![]), "{cause:?}");
        assert!(f.analysis.roof_fraction.is_some_and(|fraction| fraction < AT_ITS_BOUND));
    }
}

#[test]
fn ports_have_the_class_of_what_would_free_them() {
    let of = |op, width| {
        let mut k = Kernel::new("ports").fp(8, op, Precision::Dp, width).took(100.0);
        let model_s = k.function.cpu_s.expect("timed");
        let parts = [(Cause::Ports, model_s)].into_iter().collect();
        k.function.account = Some(Account { model_s, parts, ..Account::default() });
        class(&k.analysed()).to_owned()
    };
    let widths = [Width::Scalar, Width::W512];
    assert_eq!(widths.map(|width| of(FpOp::Fma, width)), [Class::Simd, Class::Peak]);
    assert_eq!(of(FpOp::Add, Width::W512), Class::FmaBalance);
}

#[test]
fn seconds_of_one_class_are_added() {
    let f = with(&[(Cause::Mispredict, 0.4), (Cause::L2, 0.25), (Cause::L3, 0.3)]).analysed();
    assert_eq!(class(&f), Class::CacheLatency);
}

#[test]
fn what_l2_serves_for_conflicts_of_l1_is_a_conflict() {
    let conflicts = |part: f64| {
        let mut k = with(&[(Cause::L2, 0.9)]).access(1, Load, 8, false).traffic(|t| {
            (t.l1_misses, t.l1_conflict) = (0.1, 0.1 * part);
        });
        k.function.concurrency = vec![1.0];
        k.analysed()
    };
    assert_eq!([0.9, 0.2].map(|part| class(&conflicts(part))), [Class::PrivateCacheConflict, Class::CacheLatency]);
}

#[test]
fn at_its_bound_the_ceiling_names_the_class() {
    let mut k = with(&[(Cause::Mispredict, 1.0)]);
    k = Kernel { function: Function { time_s: k.function.time_s.map(|t| t / 6.0), ..k.function } };
    k.function.cpu_s = k.function.time_s;
    let f = k.analysed();
    assert_ne!(class(&f), Class::Mispredict, "{:?}", f.analysis.roof_fraction);
}

#[test]
fn an_account_that_is_off_names_a_class_and_an_interval_of_the_saving() {
    let change = |mut k: Kernel| {
        let account = k.function.account.as_mut().expect("an account");
        account.what_if_s.insert(WhatIf::PerfectPrediction.into(), 0.5 * account.model_s);
        k.analysed()
    };
    let near = change(with(&[(Cause::Base, 0.4), (Cause::Mispredict, 0.8)]));
    assert_eq!(near.analysis.savings[0].remove, ["mispredict"]);
    let time = near.time_s.expect("timed");
    assert!((near.analysis.savings[0].seconds / time - 0.5).abs() < 1e-9, "in parts of the time, not of the model");
    let off = change(with(&[(Cause::Base, 0.5), (Cause::Mispredict, 0.8)]));
    assert_eq!(class(&off), Class::Mispredict);
    let saving = off.analysis.savings.iter().find(|s| s.remove == ["mispredict"]).expect("a saving");
    let time = off.time_s.expect("timed");
    let shares = (saving.seconds / time, saving.seconds_max / time);
    assert!((shares.0 - 0.5 / 1.3).abs() < 1e-9 && (shares.1 - 0.5).abs() < 1e-9, "{shares:?}");
    let far = change(with(&[(Cause::Base, 0.1), (Cause::Mispredict, 2.0)]));
    assert!(far.analysis.savings.iter().all(|s| s.remove != ["mispredict"]), "{:?}", far.analysis.savings);
    let confidence = off.analysis.confidence.expect("a class");
    assert_eq!(confidence.level, Level::Low);
    assert!(matches!(confidence.reasons[..], [Doubt::ModelError { error }] if (error - 0.3).abs() < 1e-9));
}

#[test]
fn the_worst_branch_is_the_evidence() {
    let mut k = with(&[(Cause::Base, 0.3), (Cause::Mispredict, 0.7)]);
    let account = k.function.account.as_mut().expect("an account");
    account.what_if_s.insert(WhatIf::PerfectPrediction.into(), 0.35 * account.model_s);
    account.what_if_s.insert(WhatIf::HitsInL1.into(), 0.97 * account.model_s);
    let seconds = 0.31 * account.model_s;
    account.branches = vec![HotBranch { offset: 0x40, file: None, line: Some(412), mispredicted: 0.29, seconds }];
    let f = k.analysed();
    let [saving] = &f.analysis.savings[..] else { panic!("3 % is no saving: {:?}", f.analysis.savings) };
    let told = "31 % of its time: the branch at line 412 is predicted wrongly 29 % of the time";
    assert!(
        saving.advice.starts_with(told) && saving.advice.ends_with("At most 65 % of its time."),
        "{}",
        saving.advice
    );
    assert_eq!(saving.seconds, saving.seconds_max);
}

#[test]
fn an_account_replaces_the_differences_of_bounds() {
    let k = || Kernel::new("chain").fp(1, FpOp::Add, Precision::Dp, Width::Scalar).chain(1, &[add()]);
    let mut with_account = k().took(2.6);
    let model_s = with_account.function.cpu_s.expect("timed");
    let parts = [(Cause::Base, 0.2 * model_s), (Cause::Chain, 0.8 * model_s)].into_iter().collect();
    let what_if_s = [(WhatIf::IndependentIterations.into(), 0.6 * model_s)].into_iter().collect();
    with_account.function.account = Some(Account { model_s, parts, what_if_s, ..Account::default() });
    let ilp = |k: Kernel| k.analysed().analysis.savings.into_iter().filter(|s| s.remove == ["ilp"]).collect::<Vec<_>>();
    let (without, with) = (ilp(k().took(2.6)), ilp(with_account));
    assert!((with[0].seconds / model_s - 0.4).abs() < 1e-9 && with.len() == 1, "{with:?}");
    assert!(without[0].seconds > 0.5 * model_s && without.len() == 1, "{without:?}");
}

fn add() -> rprof_profile::function::ChainStep {
    rprof_profile::function::ChainStep::arithmetic(FpOp::Add, Precision::Dp, Width::Scalar)
}

#[test]
fn a_function_for_which_the_kernel_works_longer_is_the_kernels() {
    let mut k = with(&[(Cause::Mispredict, 1.0)]);
    let cpu_s = k.function.cpu_s.expect("timed");
    k.function.kernel_s = Some(0.5 * cpu_s);
    assert_eq!(class(&k.clone().analysed()), Class::Mispredict);
    k.function.kernel_s = Some(3.0 * cpu_s);
    let f = k.clone().analysed();
    assert_eq!(class(&f), Class::SystemCalls);
    assert!(f.analysis.remarks.iter().any(|r| r.contains("system calls")), "{:?}", f.analysis.remarks);
    k.function.fault_s = Some(2.0 * cpu_s);
    let f = k.clone().analysed();
    assert_eq!(class(&f), Class::PageFaults);
    let saving = f.analysis.savings.iter().find(|s| s.remove == ["page-faults"]).expect("measured");
    let time_s = f.time_s.expect("timed");
    assert!((saving.seconds - 2.0 * time_s).abs() < 1e-9 && saving.advice.contains("first"), "{saving:?}");
}

#[test]
fn a_function_that_waits_longer_than_it_runs_is_classed_by_that_and_told_for_whom() {
    let mut k = with(&[(Cause::Mispredict, 1.0)]);
    let cpu_s = k.function.cpu_s.expect("timed");
    let wait = |reason, seconds| {
        let (call, file) = (Some("read".to_owned()), Some(FileKind::Pipe));
        Wait { reason, call, file, seconds }
    };
    let mut waits = |waits| {
        k.function.system = Some(System { waits: Some(waits), ..System::default() });
        k.clone().analysed()
    };
    assert_eq!(class(&waits(vec![wait(Reason::RunQueue, 9.0 * cpu_s)])), Class::Mispredict, "that is the CPU's");
    let f = waits(vec![wait(Reason::Read, 3.0 * cpu_s)]);
    assert_eq!(class(&f), Class::Waiting);
    let told = "75 % of its time it is off the CPU: read() of a pipe: it waits for the process that writes.";
    assert!(f.analysis.remarks.iter().any(|r| r == told), "{:?}", f.analysis.remarks);
}

#[test]
fn what_an_index_tells_ahead_can_be_prefetched_and_a_chase_cannot() {
    let analysed = |computable, chased, latency| {
        let mut k = with(&[(Cause::Base, 1.0 - latency), (Cause::DramLatency, latency)]);
        let account = k.function.account.as_mut().expect("an account");
        account.what_if_s.insert(WhatIf::Prefetched.into(), (1.0 - latency) * account.model_s);
        k.function.prefetch = Some(Prefetch { lines: 1000.0, foreseen: 200.0, computable, chased });
        k.analysed()
    };
    let saving = |f: &Function| f.analysis.savings.iter().find(|s| s.remove == ["no-prefetch"]).map(|s| s.seconds);
    let indexed = analysed(600.0, 0.0, 0.8);
    let time_s = indexed.time_s.expect("timed");
    assert!((saving(&indexed).expect("a saving") - 0.8 * 0.75 * time_s).abs() < 1e-9);
    let chasing = analysed(0.0, 700.0, 0.8);
    assert_eq!(saving(&chasing), None);
    assert!(chasing.analysis.remarks.iter().any(|r| r.contains("no prefetch")), "{:?}", chasing.analysis.remarks);
    assert_eq!(saving(&analysed(600.0, 0.0, 0.05)), None, "hardly any latency");
}

#[test]
fn latency_of_lines_that_follow_one_another_is_bandwidth() {
    let with = |unit_lines: f64, random_lines: f64| {
        let traffic = Traffic { unit_lines, random_lines, ..Traffic::default() };
        let account = Account { model_s: 1.0, parts: [(Cause::DramLatency, 1.0)].into(), ..Account::default() };
        let work = Some(Work { traffic: Some(traffic), ..Work::default() });
        let f = Function { account: Some(account), work, ..Default::default() };
        crate::account::largest(&f)
    };
    assert_eq!(with(1e6, 1e4), Some(crate::account::Named::Class(Class::DramBandwidth)));
    assert_eq!(with(1e4, 1e6), Some(crate::account::Named::Class(Class::DramLatency)));
}
