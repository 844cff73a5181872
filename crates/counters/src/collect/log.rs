//! The readings of all threads, in bounded memory: from counts by CPU to sums of a thread.
//!
//! An event that is opened on every CPU counts a thread on each of them apart, and is *enabled* on all of them while the
//! thread runs on any. So a thread's count and time on the PMU are sums over CPUs, its time enabled is the greatest.

use std::collections::HashMap;

use super::record::{Counts, Record};
use rprof_profile::evidence::counters::ThreadReading;

/// Readings kept at most; beyond it the log drops every second one of each thread, and so on. Readings are sums since the
/// thread's start, so that the log loses resolution, not counts.
const LIMIT: usize = 1 << 20;

/// The place of an event id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSlot {
    /// Group.
    pub group: u32,
    /// CPU that it was opened on.
    pub cpu: u32,
    /// Place among the group's members; `None` for the clock that leads it.
    pub member: Option<u32>,
}

/// A record as it came: one thread, one CPU, one group.
#[derive(Debug, Clone)]
struct Entry {
    slot: EventSlot,
    end: bool,
    counts: Counts,
}

/// Collects records.
#[derive(Debug)]
pub struct Log {
    slots: HashMap<u64, EventSlot>,
    entries: Vec<Entry>,
    limit: usize,
    /// One of this many samples of a thread on a CPU is kept.
    stride: u32,
    skipped: HashMap<(u32, u32, u32), u32>,
    /// Records that the kernel had no room for.
    pub lost: u64,
}

/// A thread's sums so far in one group.
#[derive(Debug, Default)]
struct Running {
    by_cpu: HashMap<u32, Counts>,
}

impl Log {
    /// An empty log that knows only the slot of each event id.
    pub fn new(slots: HashMap<u64, EventSlot>) -> Log {
        Log { slots, entries: Vec::new(), limit: LIMIT, stride: 1, skipped: HashMap::new(), lost: 0 }
    }

    /// Takes a record in.
    pub fn add(&mut self, record: Record) {
        let (end, counts) = match record {
            Record::Lost(n) => {
                self.lost += n;
                return;
            }
            Record::Sample(counts) => (false, counts),
            Record::End(counts) => (true, counts),
        };
        let Some(slot) = counts.values.first().and_then(|(id, _)| self.slots.get(id)).copied() else { return };
        if !end && !self.due(counts.tid, slot) {
            return;
        }
        self.entries.push(Entry { slot, end, counts });
        if self.entries.len() >= self.limit {
            self.thin();
        }
    }

    fn due(&mut self, tid: u32, slot: EventSlot) -> bool {
        let skipped = self.skipped.entry((tid, slot.cpu, slot.group)).or_insert(0);
        *skipped = (*skipped + 1) % self.stride;
        *skipped == 0
    }

    fn thin(&mut self) {
        let mut odd: HashMap<(u32, u32, u32), bool> = HashMap::new();
        self.entries.retain(|entry| {
            let odd = odd.entry((entry.counts.tid, entry.slot.cpu, entry.slot.group)).or_insert(false);
            *odd = !*odd;
            entry.end || *odd
        });
        self.stride *= 2;
        // The log never drops ends: if they alone fill it, it grows.
        self.limit = self.limit.max(2 * self.entries.len());
    }

    /// All readings by time. `members[g]` is the number of events in group `g` besides the clock that leads it.
    pub fn into_readings(mut self, members: &[usize]) -> Vec<ThreadReading> {
        // At equal times a thread's end comes after its last sample.
        self.entries.sort_by_key(|e| (e.counts.time_ns, e.end));
        let mut last_end: HashMap<(u32, u32), usize> = HashMap::new();
        for (i, entry) in self.entries.iter().enumerate().filter(|(_, e)| e.end) {
            last_end.insert((entry.counts.tid, entry.slot.group), i);
        }
        let mut running: HashMap<(u32, u32), Running> = HashMap::new();
        let mut readings: Vec<ThreadReading> = Vec::new();
        for (i, entry) in self.entries.iter().enumerate() {
            let key = (entry.counts.tid, entry.slot.group);
            let of_thread = running.entry(key).or_default();
            of_thread.add(entry, &self.slots);
            if entry.end && !is_last_of_its_end(&self.entries, i, key, last_end[&key]) {
                continue;
            }
            readings.push(of_thread.reading(entry, members[entry.slot.group as usize], &self.slots));
            if entry.end {
                // The next thread of this number begins anew.
                running.remove(&key);
            }
        }
        readings
    }
}

/// The kernel reports a thread's end once for each CPU and event, all within a moment. It reuses thread ids, but the next
/// thread with the same id samples or ends only after that moment.
const END_NS: u64 = 5_000_000;

fn is_last_of_its_end(entries: &[Entry], at: usize, key: (u32, u32), last_of_all: usize) -> bool {
    if at == last_of_all {
        return true;
    }
    let limit = entries[at].counts.time_ns + END_NS;
    let later = entries[at + 1..].iter().take_while(|e| e.counts.time_ns <= limit);
    let same = |e: &&Entry| (e.counts.tid, e.slot.group) == key;
    later.into_iter().find(same).is_none_or(|next| !next.end)
}

impl Running {
    fn add(&mut self, entry: &Entry, slots: &HashMap<u64, EventSlot>) {
        let counts = self.by_cpu.entry(entry.slot.cpu).or_default();
        counts.enabled_ns = counts.enabled_ns.max(entry.counts.enabled_ns);
        counts.running_ns = counts.running_ns.max(entry.counts.running_ns);
        for (id, value) in &entry.counts.values {
            if slots.get(id).is_none_or(|s| s.cpu != entry.slot.cpu || s.group != entry.slot.group) {
                continue;
            }
            match counts.values.iter_mut().find(|(known, _)| known == id) {
                Some((_, known)) => *known = (*known).max(*value),
                None => counts.values.push((*id, *value)),
            }
        }
    }

    fn reading(&self, entry: &Entry, members: usize, slots: &HashMap<u64, EventSlot>) -> ThreadReading {
        let mut values = vec![0u64; members];
        let counted = self.by_cpu.values().flat_map(|c| &c.values);
        for (id, value) in counted {
            if let Some(sum) = slots.get(id).and_then(|s| s.member).and_then(|m| values.get_mut(m as usize)) {
                *sum = sum.wrapping_add(*value);
            }
        }
        ThreadReading {
            pid: entry.counts.pid,
            tid: entry.counts.tid,
            time_ns: entry.counts.time_ns,
            ip: (!entry.end).then_some(entry.counts.ip),
            group: entry.slot.group,
            enabled_ns: self.by_cpu.values().map(|c| c.enabled_ns).max().unwrap_or(0),
            running_ns: self.by_cpu.values().map(|c| c.running_ns).sum(),
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Group 0: the clock is event 10 + 2·cpu, its member 11 + 2·cpu.
    fn log() -> Log {
        let slots = (0..2).flat_map(|cpu| {
            let slot = |member| EventSlot { group: 0, cpu, member };
            [(10 + 2 * u64::from(cpu), slot(None)), (11 + 2 * u64::from(cpu), slot(Some(0)))]
        });
        Log::new(slots.collect())
    }

    fn counts(tid: u32, cpu: u64, time_ms: u64, value: u64) -> Counts {
        let (enabled_ns, running_ns) = (time_ms * MS, value);
        let values = vec![(10 + 2 * cpu, time_ms), (11 + 2 * cpu, value)];
        Counts { ip: 0x1000, pid: 1, tid, time_ns: time_ms * MS, enabled_ns, running_ns, values }
    }

    #[test]
    fn a_thread_that_moves_is_the_sum_over_cpus() {
        let mut log = log();
        log.add(Record::Sample(counts(5, 0, 1, 100)));
        log.add(Record::Sample(counts(5, 1, 3, 40)));
        log.add(Record::End(counts(5, 0, 4, 130)));
        log.add(Record::End(counts(5, 1, 4, 50)));
        let readings = log.into_readings(&[1]);
        let sums: Vec<u64> = readings.iter().map(|r| r.values[0]).collect();
        assert_eq!(sums, [100, 140, 180]);
        assert_eq!((readings[2].ip, readings[2].running_ns, readings[2].enabled_ns), (None, 180, 4 * MS));
    }

    #[test]
    fn a_number_that_is_used_again_begins_anew() {
        let mut log = log();
        log.add(Record::End(counts(5, 0, 1, 100)));
        log.add(Record::End(counts(5, 0, 20, 70)));
        let sums: Vec<u64> = log.into_readings(&[1]).iter().map(|r| r.values[0]).collect();
        assert_eq!(sums, [100, 70]);
    }

    #[test]
    fn thinning_loses_resolution_and_no_counts() {
        let mut log = Log { limit: 100, ..log() };
        (1..=10_000).for_each(|ms| log.add(Record::Sample(counts(5, 0, ms, ms * 10))));
        log.add(Record::End(counts(5, 0, 10_001, 100_010)));
        let readings = log.into_readings(&[1]);
        assert!(readings.len() <= 101 && readings.len() > 40, "{}", readings.len());
        assert_eq!(readings.last().unwrap().values, [100_010]);
        assert!(readings.windows(2).all(|w| w[0].values[0] < w[1].values[0]));
    }
}
