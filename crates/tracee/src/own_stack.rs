//! A stack of our own: the user's `ulimit -s` is meant for the program, but bounds the stack of our first thread.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use nix::sys::signal::SigSet;

/// As much as a thread commonly has.
const BYTES: usize = 8 << 20;

/// The heap that threads get their memory from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heap {
    /// All from the first one's heap. Heaps of other threads grow page by page, and are never in huge pages: the translator would wait for 60,000
    /// page faults more when a large program starts (measured: `cc1`, guest on Intel with AVX-512).
    Shared,
    /// Each from its own: threads that take memory all the time would wait for one another.
    OfEachThread,
}

/// Runs `work` on another thread, with a stack that no limit bounds; on the calling one if there can be no further
/// thread.
///
/// Signals to the process go to that thread, as if it were the first one: the caller takes none from then on.
pub fn run<T: Send>(work: fn() -> T, heap: Heap) -> T {
    if heap == Heap::Shared {
        share_heap();
    }
    scope(|scope| match Builder::new().name("rprof".into()).stack_size(BYTES).spawn_scoped(scope, work) {
        Ok(thread) => {
            // The new thread has our mask of before. If the kernel refuses this, no signal interrupts calls of it.
            let _ = SigSet::all().thread_block();
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        }
        Err(_) => work(),
    })
}

#[cfg(target_env = "gnu")]
fn share_heap() {
    // SAFETY: sets a parameter of the allocator; it refuses unknown ones.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Other allocators are left to themselves.
#[cfg(not(target_env = "gnu"))]
fn share_heap() {}
