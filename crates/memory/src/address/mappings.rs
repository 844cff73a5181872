//! The mapping at an address of a process: from the kernel's map, and from the engine's reports of large allocations.
//!
//! The kernel's map names files, heap and stack, and joins neighbouring anonymous memory; allocations show which code requested which part
//! of it. The map is read when an unknown address is met, but at a limited rate.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use rprof_profile::code::{ModuleInfo, ModuleKind};
use rprof_profile::evidence::data::{Allocation, Backing, DataMapping};
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::modules::ModuleTable;

/// After a map was read, it is not read again for this many times the duration of that reading.
const REREAD: u32 = 50;
/// The least time between two readings.
const REREAD_EVERY: Duration = Duration::from_millis(1);
/// Unmapped ranges that are remembered, for accesses that are still in the backlog.
const MOST_FORMER: usize = 64;
/// Maximum allocations known of a process at a time: 0.5 KB each.
const MOST_ALLOCATIONS: usize = 1 << 10;
/// Maximum mappings known of a process at a time, the largest ones: 0.2 KB each.
const MOST_MAPPINGS: usize = 1 << 14;
/// Number of processes to keep the maps of.
const MOST_PROCESSES: usize = 16;
/// Mappings that are entered at most.
const MOST_ENTERED: usize = 1 << 14;

/// The mappings of all processes.
#[derive(Debug, Default)]
pub struct Mappings {
    modules: ModuleTable,
    of: HashMap<u32, Space>,
    entered: Vec<DataMapping>,
    /// How often a map was read.
    readings: u64,
}

/// The mapping at an address, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The mapping of this number.
    In(u32),
    /// Nothing is mapped there any more.
    Gone,
    /// The map of its process was not read since the mapping appeared, or could not be read.
    Unread,
}

/// Those of one process.
#[derive(Debug, Default)]
struct Space {
    allocated: Ranges,
    mapped: Ranges,
    /// There were more mappings than there is room for.
    incomplete: bool,
    former: VecDeque<(u64, Range)>,
    next_read: Option<Instant>,
}

/// By first address.
type Ranges = BTreeMap<u64, Range>;

#[derive(Debug, Clone)]
struct Range {
    end: u64,
    mapping: DataMapping,
    /// Its number, once a sample was found in it.
    entered: Option<u32>,
}

impl Mappings {
    /// The mapping of `process` that holds `address`.
    pub fn find(&mut self, process: u32, address: u64) -> Found {
        let Mappings { of, modules, entered, readings } = self;
        let Some(space) = space(of, process) else { return Found::Unread };
        let mut told = !space.incomplete;
        if space.current(address).is_none() {
            let read = space.read(process, modules);
            *readings += u64::from(read);
            told = read && !space.incomplete;
        }
        let former = space.former.iter_mut().rev().find(|(start, range)| (*start..range.end).contains(&address));
        let range = match holding(&mut space.allocated, address) {
            Some(range) => range,
            None => match holding(&mut space.mapped, address) {
                Some(range) => range,
                None => match former {
                    Some((_, range)) => range,
                    None => return if told { Found::Gone } else { Found::Unread },
                },
            },
        };
        if range.entered.is_none() && entered.len() < MOST_ENTERED {
            entered.push(range.mapping.clone());
            range.entered = Some(entered.len() as u32 - 1);
        }
        range.entered.map_or(Found::Unread, Found::In)
    }

    /// Allows the next look-up to read the map of any process again, however recently it was read.
    pub fn read_again(&mut self) {
        self.of.values_mut().for_each(|space| space.next_read = None);
    }

    /// How often a map was read.
    pub fn readings(&self) -> u64 {
        self.readings
    }

    /// `child` starts with the allocations of `parent`.
    pub fn forked(&mut self, parent: u32, child: u32) {
        let Some(allocated) = self.of.get(&parent).map(|space| space.allocated.clone()) else { return };
        if let Some(space) = space(&mut self.of, child) {
            *space = Space { allocated, ..Space::default() };
        }
    }

    /// A number for samples with an unknown mapping.
    pub fn unread(&mut self) -> u32 {
        self.entered.push(DataMapping { bytes: 0, backing: Backing::Unread });
        self.entered.len() as u32 - 1
    }

    /// `process` was given memory.
    pub fn allocated(&mut self, process: u32, allocation: Allocation) {
        let Allocation { start, bytes, frames, stack } = allocation;
        let end = start.saturating_add(bytes);
        self.unmapped(process, start, end);
        let Some(space) = space(&mut self.of, process) else { return };
        if space.allocated.len() < MOST_ALLOCATIONS {
            let mapping = DataMapping { bytes, backing: Backing::Allocated { frames, stack } };
            space.allocated.insert(start, Range { end, mapping, entered: None });
        }
    }

    /// The memory of `process` at `from..to` is gone.
    pub fn unmapped(&mut self, process: u32, from: u64, to: u64) {
        let Some(space) = self.of.get_mut(&process) else { return };
        for ranges in [&mut space.allocated, &mut space.mapped] {
            space.former.extend(cut(ranges, from, to));
        }
        let surplus = space.former.len().saturating_sub(MOST_FORMER);
        space.former.drain(..surplus);
    }

    /// The mappings that samples were found in, and the modules that they refer to.
    pub fn into_evidence(self) -> (Vec<ModuleInfo>, Vec<DataMapping>) {
        (self.modules.into_modules(), self.entered)
    }
}

/// The mappings of `process`; `None` if there are too many processes.
fn space(of: &mut HashMap<u32, Space>, process: u32) -> Option<&mut Space> {
    if of.len() >= MOST_PROCESSES && !of.contains_key(&process) {
        of.retain(|process, _| Path::new(&format!("/proc/{process}")).exists());
    }
    let is_full = of.len() >= MOST_PROCESSES && !of.contains_key(&process);
    (!is_full).then(|| of.entry(process).or_default())
}

impl Space {
    fn current(&mut self, address: u64) -> Option<&mut Range> {
        holding(&mut self.allocated, address).or_else(|| holding(&mut self.mapped, address))
    }

    /// Reads the map unless it was read a moment ago; returns whether it did.
    fn read(&mut self, process: u32, modules: &mut ModuleTable) -> bool {
        let now = Instant::now();
        if self.next_read.is_some_and(|next| now < next) {
            return false;
        }
        let pid = Pid::from_raw(process as i32);
        // A process that has ended keeps its known mappings.
        let maps = read_maps(pid).unwrap_or_default();
        if !maps.is_empty() {
            let before = std::mem::take(&mut self.mapped);
            let mut last: Option<(u64, u32, u64)> = None;
            for map in &maps {
                let (start, end) = (map.start.get(), map.end.get());
                let backing = backing(pid, map, last, modules);
                last = match backing {
                    Backing::Module { module, bias, .. } => Some((end, module, bias)),
                    _ => None,
                };
                let same = before.get(&start).filter(|range| range.mapping.backing == backing && range.end == end);
                let mapping = DataMapping { bytes: end - start, backing };
                let entered = same.and_then(|range| range.entered);
                self.mapped.insert(start, Range { end, mapping, entered });
            }
            self.incomplete = drop_smallest(&mut self.mapped);
        }
        self.next_read = Some(Instant::now() + REREAD_EVERY.max(now.elapsed() * REREAD));
        !maps.is_empty()
    }
}

/// The backing of `map`; `before` is the end, module and bias of the mapping before it, if that is a module's.
fn backing(pid: Pid, map: &Mapping, before: Option<(u64, u32, u64)>, modules: &mut ModuleTable) -> Backing {
    if map.is_file() {
        let located = modules.locate(pid, map);
        let is_module = modules.modules().get(located.module as usize).is_some_and(|m| m.kind == ModuleKind::File);
        return match is_module {
            true => Backing::Module { module: located.module, bias: located.bias, behind: false },
            false => Backing::File(map.path.clone()),
        };
    }
    match (map.path.as_str(), before) {
        ("[heap]", _) => Backing::Heap,
        ("[stack]", _) => Backing::Stack,
        ("", Some((end, module, bias))) if end == map.start.get() => Backing::Module { module, bias, behind: true },
        (path, _) if path.starts_with('/') => Backing::File(path.to_owned()),
        _ => Backing::Anonymous,
    }
}

fn holding(ranges: &mut Ranges, address: u64) -> Option<&mut Range> {
    ranges.range_mut(..=address).next_back().map(|(_, range)| range).filter(|range| address < range.end)
}

/// Keeps as many of `ranges` as there is room for; returns whether any had to go.
fn drop_smallest(ranges: &mut Ranges) -> bool {
    let too_many = ranges.len() > MOST_MAPPINGS;
    if too_many {
        let mut sizes: Vec<u64> = ranges.values().map(|range| range.mapping.bytes).collect();
        let surplus = sizes.len() - MOST_MAPPINGS;
        let (_, least, _) = sizes.select_nth_unstable(surplus);
        let least = *least;
        ranges.retain(|_, range| range.mapping.bytes >= least);
        while ranges.len() > MOST_MAPPINGS {
            ranges.pop_last();
        }
    }
    too_many
}

/// Takes `from..to` out of `ranges`; returns the part taken out.
fn cut(ranges: &mut Ranges, from: u64, to: u64) -> Vec<(u64, Range)> {
    let before = ranges.range(..from).next_back().filter(|(_, range)| range.end > from).map(|(start, _)| *start);
    let starts: Vec<u64> =
        before.into_iter().chain(ranges.range(from..to.max(from)).map(|(start, _)| *start)).collect();
    let mut gone = Vec::new();
    for start in starts {
        let Some(range) = ranges.remove(&start) else { continue };
        if start < from {
            ranges.insert(start, Range { end: from, ..range.clone() });
        }
        if range.end > to {
            ranges.insert(to, range.clone());
        }
        gone.push((start.max(from), Range { end: range.end.min(to), ..range }));
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(start: u64, bytes: u64) -> Allocation {
        Allocation { start, bytes, frames: Vec::new(), stack: false }
    }

    #[test]
    fn our_own_memory_is_told_by_what_it_is() {
        static DATA: [u8; 1 << 16] = [7; 1 << 16];
        let local = 0u8;
        let us = std::process::id();
        let mut mappings = Mappings::default();
        let Found::In(data) = mappings.find(us, DATA.as_ptr() as u64) else { panic!("it is mapped") };
        let heap = vec![1u8; 64 << 20];
        let inside = heap.as_ptr() as u64 + (32 << 20);
        // It may have been read a moment ago.
        assert_ne!(mappings.find(us, inside), Found::Gone);
        mappings.read_again();
        let Found::In(large) = mappings.find(us, inside) else { panic!("it is mapped") };
        assert_ne!(mappings.find(us, &raw const local as u64), Found::In(data));
        let (modules, entered) = mappings.into_evidence();
        let Backing::Module { module, bias, .. } = entered[data as usize].backing else { panic!("{entered:?}") };
        assert!(modules[module as usize].path.contains("rprof") && bias > 0);
        assert_eq!(entered[large as usize].backing, Backing::Anonymous);
    }

    #[test]
    fn an_allocation_is_known_until_it_is_gone() {
        let nobody = u32::MAX >> 1;
        let mut mappings = Mappings::default();
        mappings.allocated(nobody, asked(0x10_0000, 0x10_0000));
        mappings.allocated(nobody, asked(0x20_0000, 0x10_0000));
        let (first, second) = (mappings.find(nobody, 0x10_0000), mappings.find(nobody, 0x2f_ffff));
        assert_eq!((first, second), (Found::In(0), Found::In(1)));
        assert_eq!(mappings.find(nobody, 0x30_0000), Found::Unread, "nobody's map cannot be read");
        // Another mapping gets a part of it; accesses in the backlog to the rest still find the old one.
        mappings.unmapped(nobody, 0x10_0000, 0x18_0000);
        mappings.allocated(nobody, asked(0x10_0000, 0x4_0000));
        let third = mappings.find(nobody, 0x10_0000);
        assert_eq!(third, Found::In(2));
        assert_eq!((mappings.find(nobody, 0x16_0000), mappings.find(nobody, 0x1f_0000)), (first, first));
        assert_eq!(mappings.entered.len(), 3);
    }

    #[test]
    fn a_child_begins_with_what_its_parent_has() {
        let (parent, child) = (1 << 30, 1 << 30 | 1);
        let mut mappings = Mappings::default();
        mappings.allocated(parent, asked(0x10_0000, 0x10_0000));
        mappings.forked(parent, child);
        mappings.unmapped(parent, 0, u64::MAX);
        assert_eq!(mappings.find(child, 0x18_0000), Found::In(0));
    }

    #[test]
    fn what_is_gone_is_forgotten_in_the_end() {
        let mut mappings = Mappings::default();
        for i in 0..10_000u64 {
            mappings.allocated(1 << 30, asked(i << 21, 1 << 20));
            mappings.unmapped(1 << 30, i << 21, (i << 21) + (1 << 20));
        }
        let space = &mappings.of[&(1 << 30)];
        assert_eq!((space.allocated.len(), space.former.len()), (0, MOST_FORMER));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut mappings = Mappings::default();
        (0..5000u64).for_each(|i| mappings.allocated(u32::MAX >> 1, asked(i << 21, 1 << 20)));
        (0..100).for_each(|process| mappings.allocated(1 << 30 | process, asked(1 << 30, 1 << 20)));
        (100..200).for_each(|process| mappings.forked(u32::MAX >> 1, 1 << 30 | process));
        assert!(mappings.of.len() <= MOST_PROCESSES);
        assert!(mappings.of.values().all(|space| space.allocated.len() <= MOST_ALLOCATIONS));
        let range = |bytes| Range { end: 0, mapping: DataMapping { bytes, backing: Backing::Heap }, entered: None };
        let mut ranges: Ranges = (0..40_000).map(|i| (i, range(i % 7))).collect();
        assert!(drop_smallest(&mut ranges) && !drop_smallest(&mut ranges));
        assert_eq!(ranges.len(), MOST_MAPPINGS);
        assert!(ranges.values().all(|range| range.mapping.bytes >= 4));
    }
}
