//! A stack of our own: the user's `ulimit -s` is meant for the program, but bounds the stack of our first thread.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use nix::sys::signal::SigSet;

/// As much as a thread commonly has.
const BYTES: usize = 8 << 20;

/// Runs `work` on another thread, whose stack no limit bounds; on the calling one if there can be no further thread.
///
/// Signals to the process go to that thread, as if it were the first one: the caller takes none from then on.
pub fn run<T: Send>(work: fn() -> T) -> T {
    scope(|scope| match Builder::new().name("rprof".into()).stack_size(BYTES).spawn_scoped(scope, work) {
        Ok(thread) => {
            // The new thread has our mask of before. If the kernel refuses this, no signal interrupts calls of it.
            let _ = SigSet::all().thread_block();
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        }
        Err(_) => work(),
    })
}
