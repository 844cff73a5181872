//! What was executed from one window to the next. Windows are as long as so many accesses take, pauses as so much time: what a
//! window stands for is known only from what is counted in between.

use std::time::{Duration, Instant};

use atomic_refcell::AtomicRef;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::sampling::access_buffer::AccessBuffer;
use crate::instrument::translator::tracer::event_loop::Run;
use crate::instrument::translator::tracer::regions::Regions;

/// At most one part in so many of the tracer's time is spent on this: where there are many counters, not every window is told.
const MOST_SHARE: u32 = 20;

/// What the access sink has been told of one code space's counters.
#[derive(Debug, Default)]
pub struct ExecutionDeltas {
    /// By counter, of threads that have ended.
    ended: Vec<u64>,
    /// By counter, of all threads, when it was told last.
    told: Vec<u64>,
}

impl ExecutionDeltas {
    /// A thread has ended, whose counter of this number had this value.
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
    /// Notes for the access sink what was executed since this was called last, where `live` are the regions of its threads.
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
            // In the middle of a loop a counter may say what is made up for at its end.
            if executions > 0 || sum > 0 {
                drain.note_course(probe, executions.max(0) as u64, sum);
            }
        }
    }
}

/// When the course was told last, and what that took.
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
    /// Tells the access sink what was executed since the window before, unless that takes too long.
    pub fn tell_course(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        // What was put off belongs to the windows before, and is to be done anyway.
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
            // Else it is in use: it is told next time.
            if let Ok(mut space) = space.try_borrow_mut() {
                space.tell_course(live, drain);
            }
        }
        drain.tell_course();
        self.told = Told { at: Instant::now(), took: begin.elapsed() };
    }
}
