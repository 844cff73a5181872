//! The model against a second one written to be obviously right: lists of lines, searched from the front.

use std::collections::HashMap;

use crate::feed::Feed;
use proptest::prelude::*;
use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, LastLevelPolicy, Level, PageColoring};
use rprof::profile::evidence::memory::Access;

/// A line in a list-based cache: number, last writer, and whether it left L2 since.
type Entry = (u64, Option<u32>, bool);

/// A set-associative LRU cache as a list per set, most recently used first.
struct ListCache {
    sets: Vec<Vec<Entry>>,
    ways: usize,
}

impl ListCache {
    fn new(level: &Level) -> Self {
        ListCache { sets: vec![Vec::new(); level.sets() as usize], ways: level.ways as usize }
    }

    fn set(&mut self, line: u64) -> &mut Vec<Entry> {
        let count = self.sets.len() as u64;
        &mut self.sets[(line % count) as usize]
    }

    fn take(&mut self, line: u64) -> Option<Entry> {
        let set = self.set(line);
        set.iter().position(|e| e.0 == line).map(|at| set.remove(at))
    }

    fn put_first(&mut self, entry: Entry) -> Option<Entry> {
        let ways = self.ways;
        let set = self.set(entry.0);
        set.insert(0, entry);
        if set.len() > ways { set.pop() } else { None }
    }

    fn entry(&mut self, line: u64) -> Option<&mut Entry> {
        self.set(line).iter_mut().find(|e| e.0 == line)
    }
}

/// Lines by event and site.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Counts(HashMap<(&'static str, u32), u64>);

impl Counts {
    fn add(&mut self, event: &'static str, site: u32) {
        *self.0.entry((event, site)).or_default() += 1;
    }
}

/// One core, three levels; the last one non-inclusive or a victim cache.
struct Slow {
    l1: ListCache,
    l2: ListCache,
    l3: ListCache,
    victim: bool,
    l2_inclusive: bool,
    counts: Counts,
}

impl Slow {
    fn access(&mut self, line: u64, site: u32, store: bool) {
        let mut entry = match self.l1.take(line) {
            Some(entry) => entry,
            None => {
                self.counts.add("l1 fill", site);
                match self.l2.take(line) {
                    Some(entry) => {
                        self.l2.put_first(entry);
                    }
                    None => {
                        self.counts.add("l2 fill", site);
                        let entry = self.beyond(line, site, store);
                        if let Some(victim) = self.l2.put_first(entry) {
                            self.leaves_l2(victim);
                        }
                    }
                }
                (line, None, false)
            }
        };
        if store {
            (entry.1, entry.2) = (Some(site), false);
        }
        if let Some(victim) = self.l1.put_first(entry) {
            self.leaves_l1(victim);
        }
    }

    fn beyond(&mut self, line: u64, site: u32, store: bool) -> Entry {
        if let Some(entry) = self.l3.take(line) {
            if self.victim {
                return (line, entry.1, true);
            }
            self.l3.put_first(entry);
            return (line, None, false);
        }
        self.counts.add("dram fill", site);
        if store {
            self.counts.add("store fill", site);
        }
        if !self.victim
            && let Some(victim) = self.l3.put_first((line, None, false))
        {
            self.leaves_l3(victim);
        }
        (line, None, false)
    }

    fn leaves_l1(&mut self, (line, writer, _): Entry) {
        let Some(writer) = writer else { return };
        self.counts.add("l1 write-back", writer);
        match self.l2.entry(line) {
            Some(entry) => (entry.1, entry.2) = (Some(writer), false),
            None => {
                if let Some(victim) = self.l2.put_first((line, Some(writer), false)) {
                    self.leaves_l2(victim);
                }
            }
        }
    }

    fn leaves_l2(&mut self, (line, mut writer, mut passed): Entry) {
        if self.l2_inclusive
            && let Some((_, Some(inner), _)) = self.l1.take(line)
        {
            self.counts.add("l1 write-back", inner);
            (writer, passed) = (Some(inner), false);
        }
        if let Some(writer) = writer {
            if !passed {
                self.counts.add("l2 write-back", writer);
            }
        } else if !self.victim {
            return;
        }
        match self.l3.entry(line) {
            Some(entry) => entry.1 = writer.or(entry.1),
            None => {
                if let Some(victim) = self.l3.put_first((line, writer, false)) {
                    self.leaves_l3(victim);
                }
            }
        }
    }

    fn leaves_l3(&mut self, (_, writer, _): Entry) {
        if let Some(writer) = writer {
            self.counts.add("dram write", writer);
        }
    }

    fn flush(&mut self) {
        // Emptied level by level: lines drained from one level cannot be evicted from it any more.
        for entry in take_dirty(&mut self.l1) {
            self.leaves_l1(entry);
        }
        for entry in take_dirty(&mut self.l2) {
            self.leaves_l2(entry);
        }
        for entry in take_dirty(&mut self.l3) {
            self.leaves_l3(entry);
        }
    }
}

fn take_dirty(cache: &mut ListCache) -> Vec<Entry> {
    cache.sets.iter_mut().flat_map(|set| set.drain(..).filter(|e| e.1.is_some()).collect::<Vec<_>>()).collect()
}

fn geometry(victim: bool, l2_inclusive: bool) -> Geometry {
    Geometry {
        l1: Level { size: 8 * 64 * 2, ways: 2, shared_by: 1 },
        l2: Some(Level { size: 16 * 64 * 4, ways: 4, shared_by: 1 }),
        last: Level { size: 32 * 64 * 4, ways: 4, shared_by: 1 },
        policy: if victim { LastLevelPolicy::Victim } else { LastLevelPolicy::NonInclusive },
        l2_inclusive,
        cores: 1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_event_is_booked_alike(
        victim: bool,
        l2_inclusive: bool,
        accesses in prop::collection::vec((0u64..400, 0u32..4, any::<bool>()), 1..3000),
    ) {
        let geometry = geometry(victim, l2_inclusive);
        let mut slow = Slow {
            l1: ListCache::new(&geometry.l1),
            l2: ListCache::new(&geometry.l2.unwrap()),
            l3: ListCache::new(&geometry.last),
            victim,
            l2_inclusive,
            counts: Counts::default(),
        };
        let mut feed = Feed::new(CacheModel::exact(geometry, PageColoring::Identity, Vec::new()));
        for (line, site, store) in accesses {
            let line = line + 0x100;
            slow.access(line, site, store);
            let kind = if store { AccessKind::Store } else { AccessKind::Load };
            feed.access(Access { address: line * 64 + 8, bytes: 8, site, kind });
        }
        slow.flush();
        let mut found = Counts::default();
        for site in feed.finish().sites {
            let (t, at) = (site.traffic, site.at.offset as u32);
            for (event, bytes) in [
                ("l1 fill", t.l2_read),
                ("l1 write-back", t.l2_write),
                ("l2 fill", t.l3_read),
                ("l2 write-back", t.l3_write),
                ("dram fill", t.dram_read),
                ("store fill", t.dram_fill),
                ("dram write", t.dram_write),
            ] {
                if bytes > 0.0 {
                    found.0.insert((event, at), (bytes / 64.0) as u64);
                }
            }
            prop_assert_eq!(t.compulsory + t.capacity + t.conflict, t.l3_misses);
        }
        prop_assert_eq!(found, slow.counts);
    }
}
