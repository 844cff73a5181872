//! The program's sums at its end, and the remainder for its first thread.

use std::collections::HashMap;

use super::kernel::{GroupKernel, GroupReading};
use super::open::GroupOnAllCpus;
use crate::count::{Count, MUX_WINDOW_NS};
use crate::kernel::Reading;
use crate::refusal::Refusal;
use rprof_profile::evidence::counters::{CounterTotal, ThreadReading};

/// Two events are put on a CPU one after the other; above this share they were there at the same time.
const SWITCHING: f64 = 0.98;

/// A group's sums over all threads and CPUs. The time enabled is the longest of the CPUs: each of them counts the same time.
///
/// # Errors
/// A read failed or was short: the rest would be a part.
pub fn read<K: GroupKernel>(kernel: &K, group: &GroupOnAllCpus<K>) -> Result<GroupReading, Refusal> {
    let mut sum = GroupReading { values: vec![0; group.members.len()], ..GroupReading::default() };
    for open in &group.on_cpus {
        let reading = kernel.read_group(&open.leader, 1 + open.members.len()).map_err(|e| Refusal::of_read(&e))?;
        sum.running_ns += reading.running_ns;
        sum.enabled_ns = sum.enabled_ns.max(reading.enabled_ns);
        for ((index, _), value) in open.members.iter().zip(reading.values.iter().skip(1)) {
            if let Some(at) = group.members.iter().position(|m| m == index) {
                sum.values[at] = sum.values[at].wrapping_add(*value);
            }
        }
    }
    Ok(sum)
}

/// Adds the first thread's end to the readings of group `group`. The kernel does not record it; it is the sum less all other
/// threads.
pub fn end_of_first(readings: &mut Vec<ThreadReading>, group: u32, total: &GroupReading, first: u32) {
    let mut rest = total.clone();
    let mut last: HashMap<u32, &ThreadReading> = HashMap::new();
    let subtract = |rest: &mut GroupReading, r: &ThreadReading| {
        rest.running_ns = rest.running_ns.saturating_sub(r.running_ns);
        rest.values.iter_mut().zip(&r.values).for_each(|(sum, part)| *sum = sum.saturating_sub(*part));
    };
    let mut of_first: Option<&ThreadReading> = None;
    for reading in readings.iter().filter(|r| r.group == group) {
        if reading.tid == first {
            of_first = Some(reading);
            continue;
        }
        match reading.ip {
            None => {
                last.remove(&reading.tid);
                subtract(&mut rest, reading);
            }
            Some(_) => {
                last.insert(reading.tid, reading);
            }
        }
    }
    last.values().for_each(|r| subtract(&mut rest, r));
    let enabled_ns = of_first.map_or(rest.running_ns, |r| r.enabled_ns.max(rest.running_ns));
    let time_ns = readings.iter().map(|r| r.time_ns).max().unwrap_or(0);
    let GroupReading { running_ns, values, .. } = rest;
    let end = ThreadReading { pid: first, tid: first, time_ns, ip: None, group, enabled_ns, running_ns, values };
    readings.push(end);
}

/// Nanoseconds that the program was on the CPUs of a group that is on some of them only; `None` for other groups.
///
/// # Errors
/// rprof could not read a clock.
pub fn reference_time<K: GroupKernel>(kernel: &K, group: &GroupOnAllCpus<K>) -> Result<Option<u64>, Refusal> {
    if group.reference_clocks.is_empty() {
        return Ok(None);
    }
    let read = |w: &K::Handle| kernel.read(w).map(|r| r.running_ns).map_err(|e| Refusal::of_read(&e));
    group.reference_clocks.iter().map(read).sum::<Result<u64, Refusal>>().map(Some)
}

/// The sums of each member of a group, scaled by the share of the threads' time that the group was on the PMU. `reference_ns`
/// is that time if the group's own reading does not give it.
pub fn totals(
    readings: &[ThreadReading],
    group: u32,
    total: &GroupReading,
    reference_ns: Option<u64>,
) -> Vec<Result<CounterTotal, Refusal>> {
    let ends = readings.iter().filter(|r| r.group == group && r.ip.is_none());
    let enabled_ns = match reference_ns {
        None => ends.map(|r| r.enabled_ns.max(r.running_ns)).sum::<u64>().max(total.running_ns),
        Some(0) => {
            // The program was never there: that is a count of nothing, not a missing one.
            let nothing = CounterTotal { running_share: 1.0, ..CounterTotal::default() };
            return total.values.iter().map(|_| Ok(nothing)).collect();
        }
        Some(ns) if total.running_ns as f64 > SWITCHING * ns as f64 => total.running_ns,
        Some(ns) => ns,
    };
    let count = |value: &u64| {
        let reading = Reading { value: *value, enabled_ns, running_ns: total.running_ns };
        of_reading(reading)
    };
    total.values.iter().map(count).collect()
}

/// A count as evidence.
///
/// # Errors
/// It was never on the PMU, or hardly.
pub fn of_reading(reading: Reading) -> Result<CounterTotal, Refusal> {
    Count::from_reading(reading, MUX_WINDOW_NS).map(total_of)
}

/// A count as a total.
pub fn total_of(count: Count) -> CounterTotal {
    let Count { value, raw, running_share, error } = count;
    CounterTotal { value, raw, running_share, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reading(tid: u32, ip: Option<u64>, running_ms: u64, value: u64) -> ThreadReading {
        let (enabled_ns, running_ns) = (2 * running_ms * MS, running_ms * MS);
        ThreadReading { pid: 1, tid, time_ns: running_ms, ip, group: 0, enabled_ns, running_ns, values: vec![value] }
    }

    #[test]
    fn the_first_thread_has_what_the_others_have_not() {
        let mut readings = vec![reading(1, Some(9), 10, 70), reading(2, Some(9), 5, 20), reading(2, None, 6, 30)];
        let total = GroupReading { enabled_ns: 0, running_ns: 18 * MS, values: vec![110] };
        end_of_first(&mut readings, 0, &total, 1);
        let end = readings.last().unwrap();
        assert_eq!((end.tid, end.ip, end.values[0], end.running_ns), (1, None, 80, 12 * MS));
        assert_eq!(end.enabled_ns, 20 * MS, "as last seen");
    }

    #[test]
    fn a_group_that_shared_the_pmu_is_scaled_with_its_error() {
        let readings = [reading(1, None, 40, 100), reading(2, None, 60, 200)];
        let total = GroupReading { enabled_ns: 0, running_ns: 100 * MS, values: vec![300] };
        let totals = totals(&readings, 0, &total, None);
        let found = totals[0].as_ref().unwrap();
        assert_eq!((found.value, found.raw, found.running_share), (600.0, 300, 0.5));
        assert!((found.error - 0.5 / 5.0).abs() < 1e-9, "25 windows of 4 ms: {}", found.error);
    }

    #[test]
    fn what_never_ran_is_no_zero() {
        let total = GroupReading { enabled_ns: 9, running_ns: 0, values: vec![0] };
        assert_eq!(totals(&[], 0, &total, None), [Err(Refusal::NeverRan)]);
        assert_eq!(
            totals(&[], 0, &total, Some(5 * MS)),
            [Err(Refusal::NeverRan)],
            "the program was there, the group not"
        );
        assert_eq!(totals(&[], 0, &total, Some(0))[0].as_ref().unwrap().raw, 0, "the program never was on these cores");
    }

    #[test]
    fn cores_of_one_kind_scale_by_the_time_spent_on_them() {
        let readings = [reading(1, None, 40, 100)];
        let total = GroupReading { enabled_ns: 0, running_ns: 40 * MS, values: vec![100] };
        let value = |reference_time| totals(&readings, 0, &total, Some(reference_time))[0].as_ref().unwrap().value;
        assert_eq!((value(40_100_000), value(80 * MS)), (100.0, 200.0));
    }
}
