//! Executions from one window to the next. A number of accesses limits a window, a time limits a pause: the stretch that a window
//! represents is known only from the counts in between.

use std::collections::HashMap;
use std::time::Instant;

use atomic_refcell::AtomicRef;
use nix::unistd::Pid;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::execution_deltas::add;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::sampling::recording::{LastReport, Recording};

impl CodeCache {
    /// Notes the executions since the last call for the access sink; `live` are the contexts of the cache's threads.
    pub fn report_deltas<'r>(
        &mut self,
        live: impl Iterator<Item = (AtomicRef<'r, Contexts>, u32)>,
        drain: &mut AccessBuffer,
    ) {
        let slots = self.counters.slots;
        let mut now = self.counters.deltas.ended(slots);
        for (contexts, context) in live {
            // Our own memfd can always be read.
            let _ = contexts.counters(context, slots, |slot, value| add(&mut now, slot, value));
        }
        let mut since = self.counters.deltas.since(now);
        let of = |since: &[u64], slot: u32| since.get(slot as usize).copied().unwrap_or(0);
        for block in self.blocks.iter() {
            let Some(flow) = block.flow else { continue };
            let entered = of(&since, self.block(flow.from).slot);
            let left = flow.left.map_or(0, |slot| of(&since, slot));
            add(&mut since, block.slot, entered.wrapping_sub(left));
        }
        for probe in &self.counters.probe_sites {
            let executions = (of(&since, probe.slot) as i64).wrapping_div(probe.scale);
            let sum = probe.sum.map_or(0, |slot| of(&since, slot));
            // In the middle of a loop, a counter may be off by an amount that the loop's exit corrects.
            if executions > 0 || sum > 0 {
                drain.note_delta(probe, executions.max(0) as u64, sum);
            }
        }
    }
}

/// Reports the executions since the previous window to the access sink, unless that takes too long.
pub fn report_deltas(
    recording: &mut Recording,
    address_spaces: &HashMap<Pid, AddressSpace>,
    threads: &HashMap<Pid, Thread>,
) {
    let Some(drain) = &mut recording.drain else { return };
    // The deferred work belongs to earlier windows, and rprof has to do it anyway.
    drain.catch_up();
    let begin = Instant::now();
    if recording.last_report.is_too_soon(begin) {
        return;
    }
    let mut seen = Vec::new();
    for address_space in address_spaces.values() {
        let cache = &address_space.image.cache;
        if seen.contains(&cache.as_ptr()) {
            continue;
        }
        seen.push(cache.as_ptr());
        let shares_cache = |id| address_spaces.get(id).is_some_and(|p| p.image.cache.as_ptr() == cache.as_ptr());
        let live = threads.values().filter(|thread| shares_cache(&thread.address_space));
        let live = live.map(|thread| (thread.contexts.borrow(), thread.context));
        // Otherwise the cache is in use: the next report includes it.
        if let Ok(mut cache) = cache.try_borrow_mut() {
            cache.report_deltas(live, drain);
        }
    }
    drain.report_deltas();
    recording.last_report = LastReport::since(begin);
}
