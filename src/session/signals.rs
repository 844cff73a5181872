//! Signals while a program runs: Ctrl-C ends the program and still reports; what is sent to us alone is passed on.
//!
//! The terminal sends SIGINT and SIGQUIT to the whole foreground group, the program included; what another process sends
//! reaches only us. `siginfo` tells the two apart.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

static PROGRAM: AtomicI32 = AtomicI32::new(0);
static SEEN: AtomicU32 = AtomicU32::new(0);

const FORWARDED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// Installs the handlers; a signal that we were started with as ignored (`nohup`) stays ignored, here and in the program.
pub fn install() {
    for signal in FORWARDED {
        let action = SigAction::new(SigHandler::SigAction(handle), SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler touches atomics and calls kill(2) only, both async-signal-safe.
        unsafe {
            if let Ok(old) = sigaction(signal, &action)
                && matches!(old.handler(), SigHandler::SigIgn)
            {
                let _ = sigaction(signal, &old);
            }
        }
    }
}

/// The program that signals are passed on to, from now until the guard is dropped.
#[derive(Debug)]
pub struct Forwarding(());

/// Starts passing signals on to `program`.
pub fn forward_to(program: Pid) -> Forwarding {
    PROGRAM.store(program.as_raw(), Ordering::SeqCst);
    Forwarding(())
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        PROGRAM.store(0, Ordering::SeqCst);
    }
}

/// How many signals asked for an end so far.
pub fn interruptions() -> u32 {
    SEEN.load(Ordering::SeqCst)
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if signal != libc::SIGUSR1 && signal != libc::SIGUSR2 {
        SEEN.fetch_add(1, Ordering::SeqCst);
    }
    let program = PROGRAM.load(Ordering::SeqCst);
    // SAFETY: the kernel passes a valid siginfo; kill is async-signal-safe; errno is restored.
    unsafe {
        let from_a_process = !info.is_null() && (*info).si_code <= 0;
        if from_a_process && program > 0 {
            let errno = *libc::__errno_location();
            libc::kill(program, signal);
            *libc::__errno_location() = errno;
        }
    }
}
