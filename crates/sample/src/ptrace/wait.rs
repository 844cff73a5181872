//! Waiting for traced threads with a time limit.

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::reap::Reaped;
use rprof_tracee::wait::{self, Event};

/// The result of a wait.
#[derive(Debug)]
pub(super) enum Waited {
    /// Something happened to a thread; if it ended, the CPU time of its process and those that it waited for.
    Event(Event, Reaped),
    /// A signal, such as the timer's, or nothing to report.
    Nothing,
    /// rprof traces no thread any more.
    Nobody,
}

/// Waits for a tracee of the calling thread until a signal interrupts (`block`), or looks whether there is one to report.
pub(super) fn wait(block: bool) -> Waited {
    let options = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    let mut status = 0;
    // SAFETY: an rusage of zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the types that the kernel writes.
    match unsafe { libc::wait4(-1, &raw mut status, options, &raw mut usage) } {
        0 => Waited::Nothing,
        -1 if Errno::last() == Errno::EINTR => Waited::Nothing,
        -1 => Waited::Nobody,
        tid => Waited::Event(wait::event(Pid::from_raw(tid), status), Reaped::new(status, &usage)),
    }
}
