//! Executions from one window to the next. A number of accesses limits a window, a time limits a pause: the stretch that a window
//! represents is known only from the counts in between.

use std::time::{Duration, Instant};

use atomic_refcell::AtomicRef;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::sampling::access_buffer::AccessBuffer;
use crate::instrument::translator::tracer::event_loop::Run;
use crate::instrument::translator::tracer::regions::Regions;

/// This work takes at most one part in this many of the tracer's time: with many counters, rprof does not report every window.
const MOST_SHARE: u32 = 20;

/// The counter values of one code cache that the access sink has received.
#[derive(Debug, Default)]
pub struct ExecutionDeltas {
    /// By counter, of threads that have ended.
    ended: Vec<u64>,
    /// By counter, of all threads, at the last report.
    told: Vec<u64>,
}

impl ExecutionDeltas {
    /// Adds the final `value` of a counter of a thread that has ended.
    pub fn end(&mut self, slot: u32, value: u64) {
        add(&mut self.ended, slot, value);
    }
}

fn add(to: &mut Vec<u64>, slot: u32, value: u64) {
    let at = slot as usize;
    if to.len() <= at {
        to.resize(at + 1, 0);
    }
    to[at] = to[at].wrapping_add(value);
}

impl CodeCache {
    /// Notes the executions since the last call for the access sink; `live` are the regions of the cache's threads.
    pub fn tell_course<'r>(
        &mut self,
        live: impl Iterator<Item = (AtomicRef<'r, Regions>, u32)>,
        drain: &mut AccessBuffer,
    ) {
        let mut now = self.course.ended.clone();
        now.resize(self.slots as usize, 0);
        for (regions, region) in live {
            // Our own memfd can always be read.
            let _ = regions.counters(region, self.slots, |slot, value| add(&mut now, slot, value));
        }
        let before = std::mem::replace(&mut self.course.told, now.clone());
        let mut since = now;
        since.iter_mut().zip(before).for_each(|(value, before)| *value = value.wrapping_sub(before));
        let of = |since: &[u64], slot: u32| since.get(slot as usize).copied().unwrap_or(0);
        for block in self.blocks.iter() {
            let Some(flow) = block.flow else { continue };
            let entered = of(&since, self.block(flow.from).slot);
            let left = flow.left.map_or(0, |slot| of(&since, slot));
            add(&mut since, block.slot, entered.wrapping_sub(left));
        }
        for probe in &self.probe_sites {
            let executions = (of(&since, probe.slot) as i64).wrapping_div(probe.scale);
            let sum = probe.sum.map_or(0, |slot| of(&since, slot));
            // In the middle of a loop, a counter may be off by an amount that the loop's exit corrects.
            if executions > 0 || sum > 0 {
                drain.note_course(probe, executions.max(0) as u64, sum);
            }
        }
    }
}

/// Time and duration of the last report.
#[derive(Debug)]
pub struct Told {
    at: Instant,
    took: Duration,
}

impl Default for Told {
    fn default() -> Self {
        Told { at: Instant::now(), took: Duration::ZERO }
    }
}

impl Run {
    /// Reports the executions since the previous window to the access sink, unless that takes too long.
    pub fn tell_course(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        // The deferred work belongs to earlier windows, and rprof has to do it anyway.
        drain.catch_up();
        let begin = Instant::now();
        if begin - self.told.at < self.told.took * MOST_SHARE {
            return;
        }
        let mut seen = Vec::new();
        for process in self.processes.values() {
            let space = &process.image.space;
            if seen.contains(&space.as_ptr()) {
                continue;
            }
            seen.push(space.as_ptr());
            let of_space = |id| self.processes.get(id).is_some_and(|p| p.image.space.as_ptr() == space.as_ptr());
            let live = self.threads.values().filter(|thread| of_space(&thread.process));
            let live = live.map(|thread| (thread.regions.borrow(), thread.region));
            // Otherwise the cache is in use: the next report includes it.
            if let Ok(mut space) = space.try_borrow_mut() {
                space.tell_course(live, drain);
            }
        }
        drain.tell_course();
        self.told = Told { at: Instant::now(), took: begin.elapsed() };
    }
}
