//! The disposition of SIGPIPE that our parent process set. Rust's runtime ignores the signal before `main`, and an ignored
//! signal stays ignored across `execve`: the program is to get the disposition that it would have had without us.

use std::sync::atomic::{AtomicBool, Ordering};

static IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before the runtime does.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    // SAFETY: a sigaction of zeroes is valid; the kernel writes the present one into it and changes nothing.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    };
    IGNORED.store(ignored, Ordering::Relaxed);
}

/// Gives SIGPIPE back the disposition that we were started with; for a child that is about to `execve`.
/// Async-signal-safe.
pub fn restore() {
    if !IGNORED.load(Ordering::Relaxed) {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
