//! Calls of marker functions: a thread's executions between two of them belong to the regions that it is in.
//!
//! ```text
//!  hot:   marker's first block: rdi, rsi, rdx, rcx ─▶ context; asks rprof, and goes on when it has answered
//!  rprof: counters now − counters at the thread's last call ─▶ totals of the path that it was on; then the path changes
//! ```
//!
//! The counters themselves stay unchanged, so that markers do not affect any other figure. A call costs the thread an answer and
//! rprof a read of each of the thread's counters.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use rprof_profile::evidence::blocks::BlockCount;
use rprof_profile::evidence::marks::CountedMarks;
use rprof_tracee::address::Address;
use rprof_tracee::markers::call::Call;
use rprof_tracee::markers::tracker::Tracker;

/// Longest total time for looking at counters; beyond it, regions have no counts.
const MOST: Duration = Duration::from_secs(120);

/// The marked regions that threads are in, and their counters when they entered them.
#[derive(Debug, Default)]
pub struct Marks {
    tracker: Tracker,
    /// By thread.
    before: HashMap<u32, Snapshot>,
    /// By thread and marker function: its calls that may be repeated.
    noted: HashMap<(u32, u64), Vec<Noted>>,
    spent: Duration,
    calls: u64,
    given_up: bool,
}

/// Most calls of one function that are remembered: the depth of signal handlers that interrupt one another.
const DEEPEST: usize = 16;

/// A recorded call that may not have been executed yet: a signal puts the thread back to the function's start, and it calls
/// again after the handler has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted {
    /// RSP at the call.
    stack: u64,
    /// The thread's executions of the function at that point, if this call was not executed.
    executed: u64,
}

/// Whether a call repeats one of those in `noted`. Adds it if not.
fn is_repeated(noted: &mut Vec<Noted>, call: Noted) -> bool {
    if noted.contains(&call) {
        return true;
    }
    // A handler's call is executed before the ones that it interrupted.
    noted.iter_mut().for_each(|before| before.executed += 1);
    noted.retain(|before| before.stack != call.stack);
    if noted.len() >= DEEPEST {
        noted.remove(0);
    }
    noted.push(call);
    false
}

/// Counters of a thread at its last marker call.
#[derive(Debug, Default)]
struct Snapshot {
    /// The number of its code cache.
    serial: u32,
    values: Vec<u64>,
}

impl Snapshot {
    /// Adds the counts of the thread with this `context` since then to the totals of `path`.
    fn advance(&mut self, cache: &mut CodeCache, contexts: &Contexts, context: u32, path: u32) {
        if self.serial != cache.serial {
            // Its counters there began at 0.
            self.values.clear();
            self.serial = cache.serial;
        }
        self.values.resize(cache.counters.slots as usize, 0);
        contexts.changed(context, &mut self.values, |slot, more| {
            if path != 0 {
                cache.counters.add_marked(slot, path, more);
            }
        });
    }
}

impl Marks {
    /// `thread` waits in a marker call.
    pub fn called(&mut self, address_space: &AddressSpace, thread: &Thread) {
        let contexts = thread.contexts.borrow();
        let get = |offset| contexts.get(thread.context, offset);
        let mut cache = address_space.image.cache.borrow_mut();
        let at = get(layout::MARKER);
        let Some(&marker) = cache.markers.get(&at) else { return };
        let executed = cache.executions(&contexts, thread, Address::new(at));
        let call = Noted { stack: get(layout::MARKER_STACK), executed };
        if is_repeated(self.noted.entry((thread.ordinal, at)).or_default(), call) {
            return;
        }
        self.calls += 1;
        let arguments = [0, 1, 2, 3].map(|i| get(layout::MARKER_ARGUMENTS + 8 * i));
        let mut read = |at, buffer: &mut [u8]| address_space.memory.read_some(Address::new(at), buffer).unwrap_or(0);
        let mark = Call { marker, arguments }.mark(&mut read);
        let path = self.tracker.path(thread.ordinal);
        self.tracker.note(thread.ordinal, mark);
        let now = self.tracker.path(thread.ordinal);
        if now != path {
            self.advance(&mut cache, &contexts, thread, path);
            thread.path.store(now, Ordering::Relaxed);
        }
    }

    fn advance(&mut self, cache: &mut CodeCache, contexts: &Contexts, thread: &Thread, path: u32) {
        if self.given_up {
            return;
        }
        let start = Instant::now();
        self.before.entry(thread.ordinal).or_default().advance(cache, contexts, thread.context, path);
        self.spent += start.elapsed();
        if self.spent > MOST {
            self.given_up = true;
            self.before.clear();
        }
    }

    /// `thread` will execute nothing more in its code cache.
    pub fn ended(&mut self, address_space: &AddressSpace, thread: &Thread) {
        let path = self.tracker.path(thread.ordinal);
        if path != 0 {
            self.advance(&mut address_space.image.cache.borrow_mut(), &thread.contexts.borrow(), thread, path);
        }
        self.forget(thread.ordinal);
        self.tracker.ended(thread.ordinal);
    }

    /// `thread` leaves `cache`, and continues in another code cache with counters of 0.
    pub fn moved(&mut self, cache: &mut CodeCache, thread: &Thread) {
        let path = self.tracker.path(thread.ordinal);
        if path != 0 {
            self.advance(cache, &thread.contexts.borrow(), thread, path);
        }
        self.forget(thread.ordinal);
    }

    /// The counters of `thread` begin at 0 again.
    fn forget(&mut self, thread: u32) {
        self.before.remove(&thread);
        self.noted.retain(|(of, _), _| *of != thread);
    }

    /// `child` is the first thread of a process that `parent` forked; returns its path.
    pub fn forked(&mut self, parent: u32, child: u32) -> u32 {
        self.tracker.forked(parent, child);
        self.tracker.path(child)
    }

    /// Ends the run; `blocks` are those that were executed in regions.
    pub fn finish(self, blocks: Vec<BlockCount>) -> Option<CountedMarks> {
        let withheld = self.given_up.then(|| {
            let (calls, seconds) = (self.calls, MOST.as_secs());
            format!("the program calls markers too often to count between them ({calls} calls, and {seconds} s for looking at counters)")
        });
        let blocks = if self.given_up { Vec::new() } else { blocks };
        Some(CountedMarks { marked: self.tracker.finish(), blocks, withheld })
    }
}

impl CodeCache {
    /// The number of times that `thread` has begun to execute the block at `at`, in all versions: its counters, and the partial
    /// executions cut short by signals.
    fn executions(&self, contexts: &Contexts, thread: &Thread, at: Address) -> u64 {
        let blocks = Version::ALL.iter().filter_map(|&version| self.find(version, at));
        let begun = blocks.map(|id| {
            let block = self.block(id);
            let counter = contexts.get(thread.context, layout::counter(block.slot)) as i64;
            (counter.wrapping_div(block.scale()) as u64).wrapping_add(self.counters.parts_of(id, thread.ordinal))
        });
        begun.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_a_signal_interrupts_is_noted_once_and_those_of_its_handler_are_their_own() {
        let mut noted = Vec::new();
        let mut call = |stack, executed| is_repeated(&mut noted, Noted { stack, executed });
        assert!(!call(0x1000, 0));
        // A handler begins and ends a region before the call is executed; another signal interrupts the end.
        assert!(!call(0x800, 0));
        assert!(!call(0x800, 1));
        assert!(!call(0x400, 1));
        assert!(call(0x800, 2), "the end, once more");
        assert!(call(0x1000, 3), "the outer call, once more");
        assert!(!call(0x1000, 4), "the next one from the same place");
    }
}
