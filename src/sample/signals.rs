//! Signals to rprof while the user's program runs in the foreground.
//!
//! The terminal sends SIGINT and SIGQUIT to the whole foreground group: the program gets its own, rprof ignores its copy
//! and reports. SIGTERM and SIGHUP sent to rprof alone are meant for the program and passed on.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;

/// The last signal that is to be passed on; 0 if there is none.
static PENDING: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember(signal: i32) {
    PENDING.store(signal, Ordering::Relaxed);
}

/// While it lives, rprof outlives the terminal's signals. Make it after the program's process was forked, which must not
/// inherit the dispositions.
#[derive(Debug)]
pub struct Foreground {
    program: Pid,
    before: Vec<(Signal, SigAction)>,
}

impl Foreground {
    /// Sets the dispositions; `program` is who gets what is passed on.
    pub fn hold(program: Pid) -> io::Result<Foreground> {
        PENDING.store(0, Ordering::Relaxed);
        let mut held = Foreground { program, before: Vec::new() };
        let handlers = [
            (Signal::SIGINT, SigHandler::SigIgn),
            (Signal::SIGQUIT, SigHandler::SigIgn),
            (Signal::SIGTERM, SigHandler::Handler(remember)),
            (Signal::SIGHUP, SigHandler::Handler(remember)),
        ];
        for (signal, handler) in handlers {
            let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
            // SAFETY: the handler only stores to an atomic.
            let before = unsafe { sigaction(signal, &action) }?;
            if signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
                // SAFETY: restores what was there: under `nohup` the program is not to get it either.
                unsafe { sigaction(signal, &before) }?;
            } else {
                held.before.push((signal, before));
            }
        }
        Ok(held)
    }

    /// Passes on a signal that has come since the last call.
    pub fn pass_on(&self) {
        if let Ok(signal) = Signal::try_from(PENDING.swap(0, Ordering::Relaxed)) {
            // A program that is gone needs no signal.
            let _ = kill(self.program, signal);
        }
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        for (signal, action) in &self.before {
            // SAFETY: puts back a disposition that was in force before.
            let _ = unsafe { sigaction(*signal, action) };
        }
    }
}
