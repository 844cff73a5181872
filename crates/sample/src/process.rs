//! One process's executable mappings: from run-time addresses to modules, and its unwind tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use framehop::{Module, Unwinder as _};
use nix::unistd::Pid;

use rprof_profile::code::CodeRef;
use rprof_tracee::clock::own_cpu_time;
use rprof_tracee::copied_text;
use rprof_tracee::image::Image;
use rprof_tracee::maps::{Mapping as Map, read_maps};

use super::modules::{Found, MappedFile, Modules};
use super::unwind::Tables;

/// rprof reads a process's map anew for at most one part in this many of the time after a reading that found nothing new, …
const FRUITLESS_SHARE: u32 = 200;

/// … and after one that did: a program that starts maps its libraries one after the other.
const FRUITFUL_SHARE: u32 = 20;

/// The least time between two readings.
const REREAD_EVERY: Duration = Duration::from_millis(2);

/// A process's address space as far as it is executable.
#[derive(Clone)]
pub(super) struct Process {
    pid: u32,
    mappings: BTreeMap<u64, Mapping>,
    /// Addresses that hold or held code of files.
    file_code: Vec<Range<u64>>,
    /// For the unwinder.
    pub tables: Tables,
    next_read: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Mapping {
    end: u64,
    module: u32,
    bias: u64,
    /// Its unwind tables' source.
    image: Option<Arc<Image>>,
}

impl Process {
    /// A process with nothing mapped.
    pub fn new(pid: u32) -> Process {
        Process { pid, mappings: BTreeMap::new(), file_code: Vec::new(), tables: Tables::new(), next_read: None }
    }

    /// A copy for a forked child.
    pub fn forked(&self, pid: u32) -> Process {
        Process { pid, next_read: None, ..self.clone() }
    }

    /// Adds an executable mapping of `length` bytes, which replaces the mappings that it covers. Returns its module and bias.
    pub fn map(&mut self, modules: &mut Modules, mapped: MappedFile, length: u64) -> (u32, u64) {
        let range = mapped.start..mapped.start.saturating_add(length);
        let is_file = mapped.is_file();
        // Code made at run time is mapped too often for a look at all maps each time.
        let replaces_file = |code: &Range<u64>| code.start < range.end && range.start < code.end;
        if !is_file && self.file_code.iter().any(replaces_file) {
            let maps = read_maps(Pid::from_raw(self.pid as i32)).unwrap_or_default();
            if let Some(original) = original(self.pid, &range, &maps) {
                return self.enter(modules, of_map(self.pid, &original), original.end - original.start);
            }
        }
        if is_file && !self.file_code.contains(&range) {
            self.file_code.push(range.clone());
        }
        self.enter(modules, mapped, length)
    }

    fn enter(&mut self, modules: &mut Modules, mapped: MappedFile, length: u64) -> (u32, u64) {
        let (start, end) = (mapped.start, mapped.start.saturating_add(length));
        self.unmap(start, end);
        let Found { module, bias, image } = modules.find(mapped);
        self.insert(start, Mapping { end, module, bias, image });
        (module, bias)
    }

    fn insert(&mut self, start: u64, mapping: Mapping) {
        if let Some(image) = &mapping.image {
            let range = start..mapping.end;
            self.tables.add_module(Module::new(String::new(), range, mapping.bias, image.unwind_sections()));
        }
        self.mappings.insert(start, mapping);
    }

    /// The place of a run-time address; `None` outside of known executable memory.
    pub fn locate(&self, address: u64) -> Option<CodeRef> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        let inside = address < mapping.end;
        inside.then(|| CodeRef { module: mapping.module, offset: address.wrapping_sub(mapping.bias) })
    }

    /// Reads the process's map anew, for mappings that no record reported. False, and nothing done, if that was done a moment
    /// ago or the process is gone.
    pub fn reread(&mut self, modules: &mut Modules) -> bool {
        if self.next_read.is_some_and(|t| Instant::now() < t) {
            return false;
        }
        let started = own_cpu_time();
        let mut share = FRUITLESS_SHARE;
        let pid = Pid::from_raw(self.pid as i32);
        let Ok(maps) = read_maps(pid) else { return false };
        for map in maps.iter().filter(|m| m.executable) {
            let (start, end) = (map.start.get(), map.end.get());
            if self.mappings.get(&start).is_some_and(|m| m.end == end) {
                continue;
            }
            if map.path == "[vsyscall]" {
                continue;
            }
            let original = copied_text::original(pid, map, &maps);
            let map = original.as_ref().unwrap_or(map);
            self.enter(modules, of_map(self.pid, map), map.end - map.start);
            share = FRUITFUL_SHARE;
        }
        let taken = own_cpu_time().saturating_sub(started);
        self.next_read = Some(Instant::now() + REREAD_EVERY.max(taken * share));
        true
    }

    /// Takes `start..end` out; the rest of mappings around it stays, with its unwind tables: libraries that patch others (UCX, in MPI)
    /// change the rights of single pages.
    fn unmap(&mut self, start: u64, end: u64) {
        let overlapping: Vec<u64> =
            self.mappings.range(..end).rev().take_while(|(_, m)| m.end > start).map(|(s, _)| *s).collect();
        for old_start in overlapping {
            let Some(old) = self.mappings.remove(&old_start) else { continue };
            self.tables.remove_module(old_start);
            if old_start < start {
                self.insert(old_start, Mapping { end: start, ..old.clone() });
            }
            if old.end > end {
                self.insert(end, old);
            }
        }
    }
}

/// The mapping of the file with the code that was copied to `range`, which the kernel says is anonymous.
fn original(pid: u32, range: &Range<u64>, maps: &[Map]) -> Option<Map> {
    let map = maps.iter().find(|m| m.start.get() <= range.start && range.start < m.end.get())?;
    copied_text::original(Pid::from_raw(pid as i32), map, maps)
}

fn of_map(pid: u32, map: &Map) -> MappedFile<'_> {
    let (path, inode) = match map.path.as_str() {
        "[vdso]" => ("[vdso]", None),
        path if map.is_file() => (path, Some(map.inode)),
        _ => ("//anon", None),
    };
    MappedFile { pid, start: map.start.get(), file_offset: map.offset.get(), path, inode, build_id: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anon(start: u64) -> MappedFile<'static> {
        MappedFile { pid: 7, start, file_offset: 0, path: "//anon", inode: None, build_id: None }
    }

    #[test]
    fn a_new_mapping_replaces_what_it_covers() {
        let mut modules = Modules::default();
        let mut process = Process::new(7);
        process.map(&mut modules, anon(0x1000), 0x4000);
        process.map(&mut modules, anon(0x2000), 0x1000);
        assert_eq!(process.mappings.len(), 3);
        for address in [0x1000, 0x2000, 0x3000, 0x4fff] {
            assert_eq!(process.locate(address).unwrap().offset, address);
        }
        assert!(process.locate(0x5000).is_none() && process.locate(0xfff).is_none());
    }

    #[test]
    fn our_own_map_can_be_read() {
        let mut modules = Modules::default();
        let mut process = Process::new(std::process::id());
        assert!(process.reread(&mut modules));
        assert!(!process.reread(&mut modules), "not again at once");
        let here = our_own_map_can_be_read as fn() as usize as u64;
        let at = process.locate(here).expect("our own code is mapped");
        let info = &modules.into_infos()[at.module as usize];
        assert_eq!(info.path, std::env::current_exe().unwrap().to_str().unwrap());
        assert!(at.offset < here, "the offset is the address in the file");
    }
}
