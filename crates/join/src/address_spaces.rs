//! The program's executable mappings, replayed in time.

use std::collections::{BTreeMap, HashMap};

use rprof_profile::code::CodeRef;
use rprof_profile::evidence::timed::{MappingChange, MappingEvent};

#[derive(Debug, Clone, Copy)]
struct Mapping {
    end: u64,
    module: u32,
    bias: u64,
}

/// The mappings of all processes at one moment, which only moves forward.
#[derive(Debug)]
pub struct AddressSpaces<'e> {
    coming: std::iter::Peekable<std::vec::IntoIter<&'e MappingEvent>>,
    processes: HashMap<u32, BTreeMap<u64, Mapping>>,
}

impl<'e> AddressSpaces<'e> {
    /// Before the first event.
    pub fn new(events: &'e [MappingEvent]) -> Self {
        let mut coming: Vec<&MappingEvent> = events.iter().collect();
        coming.sort_by_key(|e| e.time_ns);
        AddressSpaces { coming: coming.into_iter().peekable(), processes: HashMap::new() }
    }

    /// Goes on to `time_ns` (CLOCK_MONOTONIC).
    pub fn advance(&mut self, time_ns: u64) {
        while let Some(event) = self.coming.next_if(|e| e.time_ns <= time_ns) {
            self.apply(event);
        }
    }

    /// The code at a run-time address of `pid` now.
    pub fn locate(&self, pid: u32, address: u64) -> Option<CodeRef> {
        let (_, mapping) = self.processes.get(&pid)?.range(..=address).next_back()?;
        let inside = address < mapping.end;
        inside.then(|| CodeRef { module: mapping.module, offset: address.wrapping_sub(mapping.bias) })
    }

    fn apply(&mut self, event: &MappingEvent) {
        match event.change {
            MappingChange::Executed => {
                self.processes.insert(event.pid, BTreeMap::new());
            }
            MappingChange::Forked { parent } => {
                let inherited = self.processes.get(&parent).cloned().unwrap_or_default();
                self.processes.insert(event.pid, inherited);
            }
            MappingChange::Mapped { start, end, module, bias } => {
                let mappings = self.processes.entry(event.pid).or_default();
                cover(mappings, start, end);
                mappings.insert(start, Mapping { end, module, bias });
            }
        }
    }
}

/// Removes `start..end` from the mappings.
fn cover(mappings: &mut BTreeMap<u64, Mapping>, start: u64, end: u64) {
    let overlapping: Vec<u64> =
        mappings.range(..end).rev().take_while(|(_, m)| m.end > start).map(|(at, _)| *at).collect();
    for at in overlapping {
        let Some(old) = mappings.remove(&at) else { continue };
        if at < start {
            mappings.insert(at, Mapping { end: start, ..old });
        }
        if old.end > end {
            mappings.insert(end, old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, pid: u32, change: MappingChange) -> MappingEvent {
        MappingEvent { time_ns, pid, change }
    }

    fn mapped(start: u64, end: u64, module: u32) -> MappingChange {
        MappingChange::Mapped { start, end, module, bias: start }
    }

    #[test]
    fn mappings_hold_from_their_time_on() {
        let events = [
            event(5, 1, mapped(0x1000, 0x4000, 0)),
            event(20, 1, mapped(0x2000, 0x3000, 1)),
            event(30, 2, MappingChange::Forked { parent: 1 }),
            event(40, 1, MappingChange::Executed),
        ];
        let mut spaces = AddressSpaces::new(&events);
        let module = |s: &AddressSpaces, pid, at| s.locate(pid, at).map(|c| c.module);
        assert_eq!(module(&spaces, 1, 0x2800), None);
        spaces.advance(10);
        assert_eq!(module(&spaces, 1, 0x2800), Some(0));
        spaces.advance(35);
        assert_eq!([0x1fff, 0x2800, 0x3000, 0x4000].map(|a| module(&spaces, 1, a)), [Some(0), Some(1), Some(0), None]);
        assert_eq!(module(&spaces, 2, 0x2800), Some(1));
        spaces.advance(50);
        assert_eq!((module(&spaces, 1, 0x2800), module(&spaces, 2, 0x2800)), (None, Some(1)));
        assert_eq!(spaces.locate(2, 0x2810).unwrap().offset, 0x810);
    }
}
