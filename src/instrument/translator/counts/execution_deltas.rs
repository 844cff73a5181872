//! Executions from one window to the next. A number of accesses limits a window, a time limits a pause: the stretch that a window
//! represents is known only from the counts in between.

use std::time::{Duration, Instant};

use atomic_refcell::AtomicRef;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::course::add;
use crate::instrument::translator::code_cache::regions::Regions;
use crate::instrument::translator::sampling::access_buffer::AccessBuffer;

/// This work takes at most one part in this many of the tracer's time: with many counters, rprof does not report every window.
const MOST_SHARE: u32 = 20;

impl CodeCache {
    /// Notes the executions since the last call for the access sink; `live` are the regions of the cache's threads.
    pub fn tell_course<'r>(
        &mut self,
        live: impl Iterator<Item = (AtomicRef<'r, Regions>, u32)>,
        drain: &mut AccessBuffer,
    ) {
        let slots = self.slots;
        let mut since = self.course.since(slots, |add| {
            for (regions, region) in live {
                // Our own memfd can always be read.
                let _ = regions.counters(region, slots, &mut *add);
            }
        });
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

impl Told {
    /// Whether another report at `now` would take too much of the tracer's time.
    pub fn is_too_soon(&self, now: Instant) -> bool {
        now - self.at < self.took * MOST_SHARE
    }

    /// A report that began at `begin` has just ended.
    pub fn since(begin: Instant) -> Self {
        Told { at: Instant::now(), took: begin.elapsed() }
    }
}

impl Default for Told {
    fn default() -> Self {
        Told { at: Instant::now(), took: Duration::ZERO }
    }
}
