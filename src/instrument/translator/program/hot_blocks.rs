//! Looks for hot blocks from time to time, for relayout.

use std::collections::HashMap;
use std::time::Instant;

use nix::unistd::Pid;

use crate::instrument::translator::program::heap;
use crate::instrument::translator::program::process::Process;
use crate::instrument::translator::program::thread::Thread;
use crate::instrument::translator::relayout::hot_code::HotnessPoll;

/// Number of threads whose counts are read.
const THREADS: usize = 4;

/// Plans the relayout of all code caches for which it is due.
pub fn look_for_hot_blocks(
    looks: &mut HotnessPoll,
    processes: &mut HashMap<Pid, Process>,
    threads: &HashMap<Pid, Thread>,
) {
    let now = Instant::now();
    if !looks.is_time(now) {
        return;
    }
    // A suitable moment: this code runs now and then, and no thread waits for it.
    heap::advise();
    for (&id, process) in processes {
        let (is_time, slots) = {
            let space = process.image.space.borrow();
            (process.image.placing.borrow_mut().is_time(now, space.blocks.len()), space.counters.slots)
        };
        if !is_time {
            continue;
        }
        let mut counts = vec![0; slots as usize];
        let mut regions = Vec::new();
        for thread in threads.values().filter(|t| t.process == id).take(THREADS) {
            let add = |slot: u32, n: u64| counts[slot as usize] = n.wrapping_add(counts[slot as usize]);
            // Our own memfd can always be read.
            let _ = thread.regions.borrow().counters(thread.region, slots, add);
            regions.push(thread.region);
        }
        process.plan_relayout((counts, regions), now);
    }
}
