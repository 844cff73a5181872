//! Streams of known traffic: reads of a buffer that one level holds and the level below does not; to and from memory reads,
//! non-temporal stores and both, so that each direction has two mixes and a constant factor shows.
//!
//! ```text
//!  buffer larger than L1     → a fill of L1 for each line
//!  larger than L2            → of L2, too
//!  larger than all caches    → a miss of the last one, and a line read from memory; stores: a line written to it;
//!                              a copy: half of its lines are read, the other half written
//! ```

use crate::counters::table::{Event, Medium, Role, UncoreEvent};
use crate::counters::trust::KnownWork;
use crate::isa::operation::Width;
use crate::machine::harness::arena::{Buffer, Pages};
use crate::machine::host::features::Features;
use crate::machine::kernels::x86_64::stream::{Stream, Variant, stream};
use crate::machine::kernels::{Arguments, Kernel};
use crate::profile::machine::Cache;

const LINE: u64 = 64;
/// Bytes that a check of a cache moves at least: some milliseconds of work.
const CACHE_TRAFFIC: u64 = 64 << 20;
/// A buffer beyond the caches is as many times larger than the last of them.
const BEYOND: u64 = 16;
/// Or this many times, if it would be larger than [`LARGE`].
const LEAST_BEYOND: u64 = 10;
/// More than this takes long to touch.
const LARGE: u64 = 1 << 30;
/// A check may take one part in this many of the available memory.
const OF_MEMORY: u64 = 4;
/// A buffer must be this many times larger than a cache for its lines not to stay.
const LEAST: u64 = 4;
/// Lines beyond the known ones: page walks, prefetches past the end.
const BESIDE: f64 = 0.03;

/// A stream over one buffer.
struct StreamWork {
    name: String,
    kernel: Kernel,
    kind: Stream,
    /// The last cache that does not hold the buffer: 1, 2, 3; 4: memory.
    level: u32,
    bytes: u64,
    passes: u64,
    tolerance: f64,
    /// Made when it is needed first.
    buffer: Option<Buffer>,
}

impl StreamWork {
    fn moved(&self) -> u64 {
        self.bytes * self.passes
    }

    /// (read, written) bytes at the memory controllers: stores are non-temporal and read nothing.
    fn directions(&self) -> (u64, u64) {
        let (loads, stores) = self.kind.accesses();
        let of = |n: u64| self.moved() / (loads + stores) * n;
        (of(loads), of(stores))
    }

    /// Expected fills that the event counts at `level` (1, 2 or 3), in lines.
    fn lines(&self, level: u32) -> f64 {
        if level <= self.level { (self.moved() / LINE) as f64 } else { 0.0 }
    }
}

impl KnownWork for StreamWork {
    fn name(&self) -> &str {
        &self.name
    }

    fn expected(&self, event: &Event) -> Option<f64> {
        match event.role {
            // The effect of non-temporal stores on a level is not known, nor the part of all fills that the other events count.
            _ if self.kind != Stream::Read || !event.headline => None,
            Role::L1Fill => Some(self.lines(1)),
            Role::L2Fill => Some(self.lines(2)),
            Role::LlcMiss => Some(self.lines(3)),
            _ => None,
        }
    }

    fn expected_bytes(&self, event: &UncoreEvent) -> Option<f64> {
        // The buffer's memory is known of DRAM alone.
        if self.level < 3 || event.medium != Medium::Dram {
            return None;
        }
        let (read, written) = self.directions();
        match event.role {
            Role::DramReadLines | Role::DramWriteLines if event.both_directions => Some((read + written) as f64),
            Role::DramReadLines => Some(read as f64),
            Role::DramWriteLines => Some(written as f64),
            _ => None,
        }
    }

    fn tolerance(&self) -> f64 {
        self.tolerance
    }

    fn operations(&self) -> f64 {
        if self.level < 3 { (self.moved() / LINE) as f64 } else { self.moved() as f64 }
    }

    fn prepare(&mut self) {
        if self.buffer.is_some() {
            return;
        }
        let Ok(buffer) = Buffer::new(self.bytes, Pages::Huge) else { return };
        for offset in (0..self.bytes as usize).step_by(4096) {
            // SAFETY: inside the buffer, to which no other code has a pointer. Pages that were never written are one page of
            // zeros.
            unsafe { (buffer.address() as *mut u8).add(offset).write_volatile(1) };
        }
        self.buffer = Some(buffer);
    }

    fn run(&mut self) {
        let Some(buffer) = &self.buffer else { return };
        let mut arguments = Arguments::new();
        let array = self.bytes / self.kind.arrays();
        arguments.pointers = std::array::from_fn(|n| buffer.address() + array * (n as u64 % self.kind.arrays()));
        arguments.inner = array / Variant::plain(Width::W128).body_bytes();
        // SAFETY: the buffer has `bytes` bytes, and the kernel was emitted for the features that this CPU has.
        unsafe { self.kernel.call(self.passes, &mut arguments) };
    }
}

/// The kernels that caches of these sizes and this much memory allow.
pub fn kernels(caches: &[Cache], memory: u64, features: Features) -> Vec<Box<dyn KnownWork>> {
    let size = |level: u32| caches.iter().filter(|c| c.level == level).map(|c| c.size).max();
    let (l1, l2) = (size(1), size(2));
    let last = caches.iter().map(|c| c.size).max();
    let mut works: Vec<Option<StreamWork>> = Vec::new();
    if let (Some(l1), Some(l2)) = (l1, l2) {
        works.push(work("stream in L2", Stream::Read, 1, l2 / 2, l1, features));
    }
    if let (Some(l2), Some(l3)) = (l2, size(3)) {
        works.push(work("stream in L3", Stream::Read, 2, (BEYOND * l2).min(l3 / 2), l2, features));
    }
    if let Some(last) = last {
        let bytes = (BEYOND * last).min(LARGE.max(LEAST_BEYOND * last)).min(memory / OF_MEMORY);
        works.push(work("stream from memory", Stream::Read, 3, bytes, last, features));
        works.push(work("stream to memory", Stream::Write, 3, bytes, last, features));
        works.push(work("copy in memory", Stream::Copy, 3, bytes, last, features));
    }
    works.into_iter().flatten().map(|w| Box::new(w) as Box<dyn KnownWork>).collect()
}

/// A stream over `bytes`, which the cache of `cache` bytes does not hold; `None` if it might.
fn work(name: &str, kind: Stream, level: u32, bytes: u64, cache: u64, features: Features) -> Option<StreamWork> {
    let variant = Variant { non_temporal: kind.accesses().1 > 0, ..Variant::plain(Width::W128) };
    let whole = variant.body_bytes() * kind.arrays();
    let bytes = bytes / whole * whole;
    if bytes < LEAST * cache {
        return None;
    }
    let passes = CACHE_TRAFFIC.div_ceil(bytes).max(1);
    let kernel = stream(kind, variant, features).ok()?;
    // The part that the cache may keep from pass to pass.
    let tolerance = cache as f64 / bytes as f64 + BESIDE;
    Some(StreamWork { name: name.into(), kernel, kind, level, bytes, passes, tolerance, buffer: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::tables;

    fn caches() -> Vec<Cache> {
        let cache = |level, size| Cache { level, size, ways: 8, line: 64, shared_by: 1 };
        vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)]
    }

    fn works() -> Vec<Box<dyn KnownWork>> {
        kernels(&caches(), 16 << 30, Features::detect())
    }

    #[test]
    fn each_stream_predicts_the_levels_that_do_not_hold_it() {
        let intel = tables::for_cpu(&tables::all().unwrap(), "GenuineIntel", 6, 0x6a).unwrap();
        let event = |name: &str| intel.events.iter().find(|e| e.name == name).unwrap();
        let works = works();
        let names: Vec<&str> = works.iter().map(|w| w.name()).collect();
        let last = ["stream from memory", "stream to memory", "copy in memory"];
        assert_eq!((&names[..2], &names[2..]), (&["stream in L2", "stream in L3"][..], &last[..]));
        let lines = (512 << 20) as f64 / 64.0;
        let of = |name: &str| works.iter().map(|w| w.expected(event(name))).collect::<Vec<_>>();
        let million = Some((1u64 << 20) as f64);
        assert_eq!(of("l1d.replacement"), [million, million, Some(lines), None, None]);
        assert_eq!(of("l2_lines_in.all"), [Some(0.0), million, Some(lines), None, None]);
        assert_eq!(of("longest_lat_cache.miss"), [Some(0.0), Some(0.0), Some(lines), None, None]);
        let uncore = |name: &str| intel.uncore.iter().find(|u| u.name == name).unwrap();
        let bytes = |name: &str| works.iter().map(|w| w.expected_bytes(uncore(name))).collect::<Vec<_>>();
        let (all, half) = (Some(64.0 * lines), Some(32.0 * lines));
        assert_eq!(bytes("imc.cas_read"), [None, None, all, Some(0.0), half]);
        assert_eq!(bytes("imc.cas_write"), [None, None, Some(0.0), all, half]);
        assert_eq!(bytes("imc.pmm_read"), [None; 5], "whether the buffer lies in persistent memory is not known");
    }

    #[test]
    fn each_direction_has_two_mixes() {
        let works = works();
        for table in tables::all().unwrap() {
            for event in table.uncore.iter().filter(|u| u.medium == Medium::Dram) {
                let positive = works.iter().filter_map(|w| w.expected_bytes(event)).filter(|b| *b > 0.0).count();
                let traffic = matches!(event.role, Role::DramReadLines | Role::DramWriteLines);
                assert!(!traffic || positive >= 2, "{} of {}", event.name, table.cpu.name);
            }
        }
    }

    #[test]
    fn without_memory_for_it_nothing_is_claimed() {
        let works = kernels(&caches(), 256 << 20, Features::detect());
        assert!(works.iter().all(|w| !w.name().contains("memory")));
        assert!(kernels(&[], 16 << 30, Features::detect()).is_empty());
    }

    #[test]
    fn a_stream_runs() {
        let mut works = kernels(&caches(), 16 << 30, Features::detect());
        for work in works.iter_mut().filter(|w| ["stream in L2", "copy in memory"].contains(&w.name())) {
            work.run();
            work.prepare();
            work.run();
        }
    }
}
