//! Looks for hot blocks from time to time, for relayout.

use std::collections::HashMap;
use std::time::Instant;

use nix::unistd::Pid;

use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::heap;
use crate::translator::program::thread::Thread;
use crate::translator::relayout::hot_code::HotnessPoll;

/// Number of threads to read counts of.
const THREADS: usize = 4;

/// Plans the relayout of all code caches for which it is due.
pub fn look_for_hot_blocks(
    looks: &mut HotnessPoll,
    address_spaces: &mut HashMap<Pid, AddressSpace>,
    threads: &HashMap<Pid, Thread>,
) {
    let now = Instant::now();
    if !looks.is_time(now) {
        return;
    }
    // A suitable moment: this code runs now and then, and no thread waits for it.
    heap::advise();
    for (&id, address_space) in address_spaces {
        // Only code without records is relaid out: while threads execute other versions, the targets of its jumps are
        // not seen.
        let of_space = || threads.values().filter(|t| t.address_space == id && !t.version.collects());
        if of_space().next().is_none() {
            continue;
        }
        let (is_time, slots) = {
            let cache = address_space.image.cache.borrow();
            (address_space.image.placing.borrow_mut().is_time(now, cache.blocks.len()), cache.counters.slots)
        };
        if !is_time {
            continue;
        }
        let mut counts = vec![0; slots as usize];
        let mut contexts = Vec::new();
        for thread in of_space().take(THREADS) {
            let add = |slot: u32, n: u64| counts[slot as usize] = n.wrapping_add(counts[slot as usize]);
            // Our own memfd can always be read.
            let _ = thread.contexts.borrow().counters(thread.context, slots, add);
            contexts.push(thread.context);
        }
        address_space.plan_relayout((counts, contexts), now);
    }
}
