//! Opens the chosen events on a program and reads them: every event ends as a count or as a reason.

use super::count::{Count, MUX_WINDOW_NS};
use super::encode::encode;
use super::group::{Free, plan};
use super::kernel::{Flags, PerfKernel, Scope};
use super::pmu::Pmu;
use super::refusal::Refusal;
use super::table::Event;

/// An event of a table as this run measured it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Index into the events asked for.
    pub event: usize,
    /// PMU that it was opened on.
    pub pmu: String,
    /// Its count, or why there is none.
    pub count: Result<Count, Refusal>,
}

/// Open events.
#[derive(Debug)]
pub struct Opened<H> {
    events: Vec<OpenEvent<H>>,
}

#[derive(Debug)]
struct OpenEvent<H> {
    event: usize,
    pmu: String,
    leader: bool,
    handle: Result<H, Refusal>,
}

/// Flags for counting this thread's own work in user mode: opened disabled, kernel left out.
pub fn own_thread() -> Flags {
    Flags { disabled: true, exclude_kernel: true, ..Flags::default() }
}

/// Opens `events` on `scope`, once on every PMU of `pmus` (hybrid CPUs have two). Tries groups first. If the kernel refuses a
/// member of a group that it would take alone (guests have fewer counters than they claim), opens the member alone,
/// multiplexed.
///
/// Inherited events cannot be read as a group, so each is read by itself; a group still makes them run together.
pub fn open<K: PerfKernel>(
    kernel: &K,
    pmus: &[&Pmu],
    events: &[Event],
    free: Free,
    scope: Scope,
    flags: Flags,
) -> Opened<K::Handle> {
    let (groups, impossible) = plan(events, free);
    let mut opened = Vec::new();
    for pmu in pmus {
        for group in &groups {
            open_group(kernel, pmu, events, group, scope, flags, &mut opened);
        }
        opened.extend(impossible.iter().map(|i| refused(*i, pmu, Refusal::CountersTaken)));
    }
    Opened { events: opened }
}

fn open_group<K: PerfKernel>(
    kernel: &K,
    pmu: &Pmu,
    events: &[Event],
    group: &[usize],
    scope: Scope,
    flags: Flags,
    opened: &mut Vec<OpenEvent<K::Handle>>,
) {
    let start = opened.len();
    for index in group {
        let encoding = match encode(&events[*index], pmu) {
            Ok(encoding) => encoding,
            Err(e) => {
                opened.push(refused(*index, pmu, Refusal::NoEncoding { field: e.field.into() }));
                continue;
            }
        };
        let leader = opened[start..].iter().find(|e| e.leader).and_then(|e| e.handle.as_ref().ok());
        let has_leader = leader.is_some();
        // members follow their leader's enabling
        let member = Flags {
            enable_on_exec: flags.enable_on_exec && !has_leader,
            disabled: flags.disabled && !has_leader,
            pinned: flags.pinned && !has_leader,
            ..flags
        };
        let grouped = kernel.open(encoding, scope, leader, member);
        let (result, leads) = match grouped {
            Err(_) if has_leader => (kernel.open(encoding, scope, None, flags), false),
            other => (other, !has_leader),
        };
        let handle = result.map_err(|e| Refusal::of_open(&e));
        let leader = leads && handle.is_ok();
        opened.push(OpenEvent { event: *index, pmu: pmu.name.clone(), leader, handle });
    }
}

fn refused<H>(event: usize, pmu: &Pmu, why: Refusal) -> OpenEvent<H> {
    OpenEvent { event, pmu: pmu.name.clone(), leader: false, handle: Err(why) }
}

impl<H> Opened<H> {
    /// Starts all of them.
    pub fn enable<K: PerfKernel<Handle = H>>(&mut self, kernel: &K) {
        self.each(|handle| kernel.enable(handle));
    }

    /// Stops all of them.
    pub fn disable<K: PerfKernel<Handle = H>>(&mut self, kernel: &K) {
        self.each(|handle| kernel.disable(handle));
    }

    fn each(&mut self, call: impl Fn(&H) -> std::io::Result<()>) {
        for event in &mut self.events {
            if let Ok(handle) = &event.handle
                && let Err(e) = call(handle)
            {
                event.handle = Err(Refusal::of_read(&e));
            }
        }
    }

    /// Reads all of them.
    pub fn read<K: PerfKernel<Handle = H>>(&self, kernel: &K) -> Vec<Measured> {
        let read = |event: &OpenEvent<H>| {
            let handle = event.handle.as_ref().map_err(Clone::clone)?;
            let reading = kernel.read(handle).map_err(|e| Refusal::of_read(&e))?;
            Count::from_reading(reading, MUX_WINDOW_NS)
        };
        self.events.iter().map(|e| Measured { event: e.event, pmu: e.pmu.clone(), count: read(e) }).collect()
    }

    /// Whether any event is open.
    pub fn any(&self) -> bool {
        self.events.iter().any(|e| e.handle.is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, SHORT};
    use crate::kernel::Reading;
    use crate::tables::{all, for_cpu};
    use std::cell::Cell;

    fn intel() -> Pmu {
        Pmu::of_all_cores(&[("event", "config:0-7"), ("umask", "config:8-15"), ("cmask", "config:24-31")])
    }

    fn flops(n: usize) -> Vec<Event> {
        let table = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0x6a).unwrap();
        table.events.into_iter().filter(|e| e.headline).take(n).collect()
    }

    const ANY: Scope = Scope { pid: 0, cpu: -1 };

    fn run(fake: &Fake, n: usize, general: u32) -> Vec<Measured> {
        let (pmu, events) = (intel(), flops(n));
        let mut opened = open(fake, &[&pmu], &events, Free { general }, ANY, Flags::default());
        opened.enable(fake);
        opened.disable(fake);
        opened.read(fake)
    }

    fn reasons(measured: &[Measured]) -> Vec<Option<Refusal>> {
        measured.iter().map(|m| m.count.clone().err()).collect()
    }

    #[test]
    fn members_follow_their_leader() {
        let fake = Fake::default();
        let measured = run(&fake, 3, 2);
        assert!(measured.iter().all(|m| m.count.is_ok()));
        let leaders: Vec<bool> = fake.opened.borrow().iter().map(|o| o.2).collect();
        assert_eq!(leaders, [false, true, false], "two fit, the third leads its own group");
    }

    #[test]
    fn every_refusal_keeps_its_own_reason() {
        let config = |umask: u64| 0xc7 | umask << 8;
        let fake = Fake {
            refuse: vec![(config(1), libc::EACCES), (config(2), libc::ENOENT), (config(4), libc::EOPNOTSUPP)],
            readings: vec![(config(8), Err(libc::EIO)), (config(0x10), Err(SHORT))],
            ..Fake::default()
        };
        let found = reasons(&run(&fake, 6, 8));
        let expected = [
            Refusal::Forbidden,
            Refusal::NoSuchEvent,
            Refusal::NotSupported,
            Refusal::StoppedCounting,
            Refusal::ShortRead,
        ];
        assert_eq!(found[..5], expected.map(Some));
        assert_eq!(found[5], None, "the others are not touched by it");
    }

    #[test]
    fn descriptors_run_out() {
        let fake = Fake { descriptors: Some(Cell::new(2)), ..Fake::default() };
        let found = reasons(&run(&fake, 4, 8));
        assert_eq!(found, [None, None, Some(Refusal::OutOfDescriptors), Some(Refusal::OutOfDescriptors)]);
    }

    #[test]
    fn a_group_too_large_for_a_guest_is_taken_apart() {
        let fake = Fake { refuse_in_group: vec![(0xc7 | 2 << 8, libc::EINVAL)], ..Fake::default() };
        let measured = run(&fake, 2, 8);
        assert!(measured.iter().all(|m| m.count.is_ok()));
    }

    #[test]
    fn what_never_ran_is_not_zero() {
        let reading = Reading { value: 0, enabled_ns: 5_000, running_ns: 0 };
        let fake = Fake { readings: vec![(0xc7 | 1 << 8, Ok(reading))], ..Fake::default() };
        assert_eq!(reasons(&run(&fake, 1, 8)), [Some(Refusal::NeverRan)]);
    }

    #[test]
    fn a_pmu_without_the_field_is_named() {
        let mut pmu = intel();
        pmu.format.remove("umask");
        let opened = open(&Fake::default(), &[&pmu], &flops(1), Free { general: 4 }, ANY, Flags::default());
        let measured = opened.read(&Fake::default());
        assert_eq!(measured[0].count, Err(Refusal::NoEncoding { field: "umask".into() }));
        assert!(!opened.any());
    }
}
