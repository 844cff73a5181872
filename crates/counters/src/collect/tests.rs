//! The collection on a kernel that refuses, fails and shares as the test sets it.

use super::kernel::GroupReading;
use super::plan::Plan;
use super::record::{Counts, Record};
use super::{CollectOptions, Collector};
use crate::fake::{Fake, SHORT};
use crate::kernel::Reading;
use crate::pmu::Pmu;
use crate::table::{Event, EventTable, Role};
use crate::tables::{all, for_cpu};
use crate::trust::Verdict;
use rprof_profile::evidence::counters::CounterEvidence;

const CHILD: i32 = 100;
const MS: u64 = 1_000_000;

fn pmu(name: &str, cpus: &[u32]) -> Pmu {
    let format = [("event", "config:0-7"), ("umask", "config:8-15"), ("cmask", "config:24-31")];
    Pmu { name: name.into(), cpus: cpus.to_vec(), ..Pmu::of_all_cores(&format) }
}

/// An Ice Lake with its first `events` FLOP events alone: configs 0x1c7, 0x2c7, 0x4c7 …
fn table(events: usize) -> EventTable {
    let mut table = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0x6a).unwrap();
    table.events.retain(|e| e.headline);
    table.events.truncate(events);
    table
}

fn trusted(_: &Event, _: &Pmu) -> Verdict {
    Verdict::Trusted
}

fn collect(fake: Fake, events: usize, cpus: u32) -> CounterEvidence {
    let plan = Plan::new(&[table(events)], &[pmu("cpu", &[])], false, trusted);
    let options = CollectOptions { frequency_hz: 1000.0, cpus, sums_alone: false };
    Collector::arm(fake, plan, CHILD, options).finish()
}

fn reasons(evidence: &CounterEvidence) -> Vec<&str> {
    evidence.events.iter().map(|e| e.total.as_ref().err().map_or("", String::as_str)).collect()
}

/// The clock's and the two members' counts of a thread on a CPU.
fn counts(tid: u32, cpu: i32, ms: u64, values: [u64; 2]) -> Counts {
    let ids = [0, 0x1c7, 0x2c7].map(|config| Fake::id_of(config, cpu));
    Counts {
        ip: 0x1000,
        pid: CHILD as u32,
        tid,
        time_ns: ms * MS,
        enabled_ns: ms * MS,
        running_ns: ms * MS / 2,
        values: ids.into_iter().zip([ms, values[0], values[1]]).collect(),
    }
}

#[test]
fn every_refusal_of_an_open_is_a_reason() {
    let refusals = [
        (libc::EACCES, "the kernel does not allow it to this user"),
        (libc::ENOENT, "this CPU (or its hypervisor) does not offer the event"),
        (libc::EOPNOTSUPP, "the PMU cannot count it this way"),
        (libc::EMFILE, "the limit of open files is reached"),
        (libc::ENOSYS, "perf_event_open is not available here"),
        (libc::ENOSPC, "no counter is free"),
    ];
    for (errno, reason) in refusals {
        let evidence = collect(Fake { refuse: vec![(0x2c7, errno)], ..Fake::default() }, 3, 2);
        assert_eq!(reasons(&evidence), ["", reason, ""], "errno {errno}: the others are not touched by it");
        assert_eq!(evidence.groups, [vec![0, 2]]);
    }
}

#[test]
fn a_part_of_the_cpus_is_no_count() {
    let evidence = collect(Fake { refuse_on: vec![(0x1c7, 1, libc::EBUSY)], ..Fake::default() }, 2, 2);
    assert_eq!(reasons(&evidence), ["no counter is free", ""]);
}

#[test]
fn an_offline_cpu_is_left_out() {
    let evidence = collect(Fake { offline: vec![1], ..Fake::default() }, 2, 3);
    assert_eq!(evidence.events[0].total.as_ref().unwrap().raw, 2, "from two CPUs");
    let evidence = collect(Fake { offline: vec![0, 1], ..Fake::default() }, 2, 2);
    assert_eq!(reasons(&evidence), ["the CPU is offline"; 2]);
}

#[test]
fn what_fails_after_it_started_is_not_measured() {
    for (errno, reason) in
        [(libc::EIO, "the event stopped counting"), (SHORT, "the kernel returned less than a whole count")]
    {
        let evidence = collect(Fake { groups: vec![(1, Err(errno))], ..Fake::default() }, 2, 2);
        assert_eq!(reasons(&evidence), [reason; 2]);
        assert!(evidence.readings.is_empty(), "what one CPU lost is not made up for by the others");
    }
}

#[test]
fn without_readings_of_inherited_events_the_sums_are_left() {
    let readings = vec![(0x2c7, Ok(Reading { value: 700, enabled_ns: 100 * MS, running_ns: 50 * MS }))];
    let evidence = collect(Fake { refuse_readings: Some(libc::EINVAL), readings, ..Fake::default() }, 2, 2);
    assert!(evidence.groups.is_empty() && evidence.readings.is_empty());
    let total = evidence.events[1].total.as_ref().unwrap();
    assert_eq!((total.raw, total.value, total.running_share), (700, 1400.0, 0.5));
    assert!(total.error > 0.0);
}

#[test]
fn a_sandbox_ends_in_its_reason() {
    let refuse = [0, 0x1c7, 0x2c7].map(|config| (config, libc::EPERM)).to_vec();
    let evidence = collect(Fake { refuse, ..Fake::default() }, 2, 2);
    assert_eq!(reasons(&evidence), ["the kernel does not allow it to this user"; 2]);
}

#[test]
fn what_was_never_on_the_pmu_is_no_zero() {
    let never = GroupReading { enabled_ns: 50 * MS, running_ns: 0, values: vec![0; 3] };
    let evidence = collect(Fake { groups: vec![(0, Ok(never))], ..Fake::default() }, 2, 1);
    assert_eq!(reasons(&evidence), ["it was never on the PMU"; 2]);
}

#[test]
fn shared_counters_are_scaled_and_threads_add_up() {
    let records = vec![
        (0, Record::Sample(counts(101, 0, 40, [10, 100]))),
        (1, Record::Sample(counts(100, 1, 60, [20, 200]))),
        (0, Record::End(counts(101, 0, 80, [30, 300]))),
        (1, Record::Lost(3)),
    ];
    let cpu = |values: [u64; 2], ms: u64| GroupReading {
        enabled_ns: 100 * MS,
        running_ns: ms * MS / 2,
        values: vec![ms, values[0], values[1]],
    };
    let groups = vec![(0, Ok(cpu([30, 300], 80))), (1, Ok(cpu([50, 500], 100)))];
    let evidence = collect(Fake { records, groups, ..Fake::default() }, 2, 2);
    let ends: Vec<(u32, &[u64])> =
        evidence.readings.iter().filter(|r| r.ip.is_none()).map(|r| (r.tid, &r.values[..])).collect();
    assert_eq!(ends, [(101, &[30, 300][..]), (100, &[50, 500][..])], "the first thread has the rest");
    let total = evidence.events[1].total.as_ref().unwrap();
    assert_eq!(total.raw, 800);
    assert!(total.running_share < 1.0 && total.value > 800.0 && total.error > 0.0, "{total:?}");
    assert_eq!(evidence.warnings[0].code, "counter-records-lost");
}

#[test]
fn hybrid_cores_have_their_own_events_on_their_own_cpus() {
    let tables = all().unwrap();
    let id = |model| crate::cpu::CpuId {
        vendor: "GenuineIntel".into(),
        family: 6,
        model,
        name: String::new(),
        guest: false,
    };
    let hybrid = super::plan::tables_of(&tables, &id(0x97));
    let pmus = [pmu("cpu_core", &[0, 1]), pmu("cpu_atom", &[2, 3])];
    let plan = Plan::new(&hybrid, &pmus, true, trusted);
    assert!(plan.groups.iter().all(|g| g.cpus == [0, 1] || g.cpus == [2, 3]), "{:?}", plan.groups);
    let options = CollectOptions { frequency_hz: 1000.0, cpus: 4, sums_alone: false };
    let evidence = Collector::arm(Fake::default(), plan, CHILD, options).finish();
    let atom = evidence.events.iter().find(|e| e.pmu == "cpu_atom" && e.role == "flops").unwrap();
    assert!(atom.total.as_ref().is_err_and(|why| why.contains("no FLOP")), "{atom:?}");
    assert!(evidence.events.iter().any(|e| e.pmu == "cpu_core" && e.role == "flops" && e.total.is_ok()));
}

#[test]
fn cores_without_a_pmu_that_the_program_may_use_leave_no_sum() {
    let evidence = |cpus: &[u32], allowed: &[u32]| {
        let plan = Plan::new(&[table(2)], &[pmu("cpu", cpus)], false, trusted).for_a_program_on(allowed);
        let options = CollectOptions { frequency_hz: 1000.0, cpus: 4, sums_alone: false };
        Collector::arm(Fake::default(), plan, CHILD, options).finish()
    };
    let why = "no core PMU of the kernel's list is on CPUs 2-3, where the program may run";
    let part = evidence(&[0, 1], &[0, 1, 2, 3]);
    assert_eq!(reasons(&part), [why; 3], "the events, and what the sum lacks");
    assert!(part.groups.is_empty() && !part.events[2].certified, "{part:?}");
    for (cpus, allowed) in [(&[0, 1][..], &[1][..]), (&[], &[0, 3]), (&[0, 1], &[])] {
        assert_eq!(reasons(&evidence(cpus, allowed)), ["", ""], "a PMU on {cpus:?}, a program on {allowed:?}");
    }
}

#[test]
fn the_trust_check_decides_what_is_opened_and_how_it_is_weighed() {
    let verdict = |event: &Event, _: &Pmu| match event.umask {
        1 => Verdict::Refuted { found: "counted / known is 0.000 to 0.000 over 4 kernels".into() },
        2 => Verdict::Corrected { ratio: 2.0 },
        _ => Verdict::Trusted,
    };
    let plan = Plan::new(&[table(3)], &[pmu("cpu", &[])], false, verdict);
    assert_eq!(plan.groups[0].members, [1, 2], "a counter of a guest that lies is not opened");
    let options = CollectOptions { frequency_hz: 1000.0, cpus: 1, sums_alone: false };
    let evidence = Collector::arm(Fake::default(), plan, CHILD, options).finish();
    assert!(reasons(&evidence)[0].contains("not believed"), "{:?}", evidence.events[0]);
    assert_eq!(evidence.events[1].weight, 0.5, "a constant factor is divided out");
}

#[test]
fn the_watchdogs_counter_is_left_to_it() {
    let groups = |nmi_watchdog| Plan::new(&[table(9)], &[pmu("cpu", &[])], nmi_watchdog, trusted).groups;
    let sizes = |nmi_watchdog| groups(nmi_watchdog).iter().map(|g| g.members.len()).collect::<Vec<_>>();
    assert_eq!((sizes(false), sizes(true)), (vec![8, 1], vec![7, 2]));
}

#[test]
fn as_many_descriptors_are_reserved_as_are_opened() {
    let opened = |plan: &Plan, cpus: u32| {
        let fake = Fake::default();
        assert!(super::open::open(&fake, plan, CHILD, cpus, 1000.0).is_ok());
        fake.opened.into_inner().len() as u64
    };
    for cpus in [&[][..], &[0, 1]] {
        let plan = Plan::new(&[table(9)], &[pmu("cpu", cpus)], false, trusted);
        assert_eq!(plan.descriptors(3), opened(&plan, 3), "the PMU is on {cpus:?}");
    }
}

#[test]
fn the_clock_of_each_cpu_has_the_samplers_period() {
    let plan = Plan::new(&[table(3)], &[pmu("cpu", &[])], false, trusted);
    let fake = Fake::default();
    assert!(super::open::open(&fake, &plan, CHILD, 3, 1000.0).is_ok());
    let of_sampler = |cpu: i32| (cpu, rprof_tracee::sampling_clock::period_ns(1000.0, cpu as u32));
    assert_eq!(*fake.periods.borrow(), [0, 1, 2].map(of_sampler));
    assert_ne!(of_sampler(0).1, of_sampler(1).1);
}

#[test]
fn the_group_of_the_flops_is_pinned_where_it_leaves_room_for_the_others() {
    let mut zen4 = for_cpu(&all().unwrap(), "AuthenticAMD", 0x19, 0x11).unwrap();
    zen4.events.retain(|e| e.headline);
    let plan = Plan::new(&[zen4], &[pmu("cpu", &[])], true, trusted);
    let flops = |g: &super::plan::Group| g.members.iter().all(|m| plan.wanted[*m].event.role == Role::Flops);
    assert!(plan.groups[0].constant && flops(&plan.groups[0]), "{:?}", plan.groups);
    assert!(plan.groups.len() > 1 && plan.groups[1..].iter().all(|g| !g.constant), "{:?}", plan.groups);
    let fake = Fake::default();
    assert!(super::open::open(&fake, &plan, CHILD, 2, 1000.0).is_ok());
    // The leader is a clock, on each of two CPUs.
    assert_eq!(*fake.pinned.borrow(), [0, 0]);
    let fake = Fake::default();
    super::sums::Sums::arm(&fake, &plan, CHILD);
    assert_eq!(fake.pinned.borrow().len(), 1, "the event of FLOPs itself, where there are sums alone");
    let ice_lake = Plan::new(&[table(9)], &[pmu("cpu", &[])], false, trusted);
    assert!(ice_lake.groups.iter().all(|g| !g.constant), "eight events of FLOPs on eight counters take turns");
}
