//! Signals to rprof while a program runs: Ctrl-C ends the program and still reports; rprof passes on the signals sent to it
//! alone.
//!
//! The terminal sends SIGINT and SIGQUIT to the whole foreground group, the program included; a signal from another process
//! reaches only us. `siginfo` distinguishes the two. A signal that was ignored when we started (`nohup`) stays ignored, here
//! and in the program.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

static PROGRAM: AtomicI32 = AtomicI32::new(0);
static INTERRUPTIONS: AtomicU32 = AtomicU32::new(0);
static TOGGLES: AtomicU32 = AtomicU32::new(0);
/// rprof can leave the program alone at any time: see [`Foreground::hold_beside`].
static BESIDE: AtomicBool = AtomicBool::new(false);
static LEAVES: AtomicI32 = AtomicI32::new(0);

const HELD: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// While it lives, rprof outlives these signals and passes on to the program those that were sent to rprof alone.
#[derive(Debug)]
pub struct Foreground {
    before: Vec<(Signal, SigAction)>,
}

impl Foreground {
    /// Sets the dispositions; `program` gets the signals that rprof passes on.
    ///
    /// # Errors
    /// The error of `sigaction`.
    pub fn hold(program: Pid) -> io::Result<Foreground> {
        PROGRAM.store(program.as_raw(), Ordering::SeqCst);
        let mut held = Foreground { before: Vec::new() };
        for signal in HELD {
            let action = SigAction::new(SigHandler::SigAction(handle), SaFlags::SA_RESTART, SigSet::empty());
            // SAFETY: the handler touches atomics and calls kill(2) only, both async-signal-safe.
            let before = unsafe { sigaction(signal, &action) }?;
            if matches!(before.handler(), SigHandler::SigIgn) {
                // SAFETY: restores the earlier disposition.
                unsafe { sigaction(signal, &before) }?;
            } else {
                held.before.push((signal, before));
            }
        }
        Ok(held)
    }
}

impl Foreground {
    /// From now on SIGTERM and SIGHUP to rprof alone ask it to [leave](leaves) the program, which goes on, and SIGUSR2
    /// [toggles](toggles) collection; none of them is passed on.
    pub fn hold_beside() {
        BESIDE.store(true, Ordering::SeqCst);
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        PROGRAM.store(0, Ordering::SeqCst);
        for (signal, before) in &self.before {
            // SAFETY: restores the earlier disposition.
            let _ = unsafe { sigaction(*signal, before) };
        }
    }
}

/// How many signals asked for an end while a program was in the foreground.
pub fn interruptions() -> u32 {
    INTERRUPTIONS.load(Ordering::SeqCst)
}

/// The signal that asked rprof to leave the program alone.
pub fn leaves() -> Option<i32> {
    match LEAVES.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}

/// How often collection was toggled.
pub fn toggles() -> u32 {
    TOGGLES.load(Ordering::SeqCst)
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if signal != libc::SIGUSR1 && signal != libc::SIGUSR2 {
        INTERRUPTIONS.fetch_add(1, Ordering::SeqCst);
    }
    if BESIDE.load(Ordering::SeqCst) {
        // SAFETY: the kernel passes a valid siginfo.
        let is_for_us = signal != libc::SIGINT && !info.is_null() && unsafe { (*info).si_code } <= 0;
        match signal {
            libc::SIGUSR2 => {
                TOGGLES.fetch_add(1, Ordering::SeqCst);
                return;
            }
            libc::SIGTERM | libc::SIGHUP if is_for_us => {
                LEAVES.store(signal, Ordering::SeqCst);
                return;
            }
            _ => {}
        }
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
