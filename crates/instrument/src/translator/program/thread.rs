//! A thread of the program.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use atomic_refcell::AtomicRefCell;
use nix::unistd::Pid;

use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::version::Version;
use crate::translator::program::excursions::Excursion;
use rprof_tracee::address::Address;
use rprof_tracee::proc_status::is_runnable;
use rprof_tracee::thread::{Running, SignalInfo};

/// A signal that could not be delivered on arrival.
pub struct Deferred {
    signal: i32,
    info: SignalInfo,
    sent: bool,
}

/// Why rprof interrupts a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// It waits for an arena; rprof must not answer its mailbox yet.
    ForArena,
    /// To see its place.
    ToLook,
}

/// A thread of the program and its state.
pub struct Thread {
    /// Its process.
    pub pid: Pid,
    /// The address space that it runs in: the id of the process that had it first.
    pub address_space: Pid,
    /// Its number in the evidence.
    pub ordinal: u32,
    /// Its path through marked regions.
    pub path: AtomicU32,
    /// Its context.
    pub context: u32,
    /// The mapping that holds the context.
    pub contexts: Arc<AtomicRefCell<Contexts>>,
    /// Signals that could not be delivered on arrival.
    pub deferred: VecDeque<Deferred>,
    /// Since when it has been in code that is not translated.
    pub native: Option<Excursion>,
    /// Its CPU seconds at the last transition.
    pub cpu_at_transition: f64,
    /// The version of the program that it executes.
    pub version: Version,
    /// Why rprof interrupts it, if it does.
    pub interrupted: Option<Interrupted>,
    /// It must fault at a place from which the rest of an instruction cannot be fetched: (the instruction, that place).
    pub cut_off: Option<(Address, Address)>,
    /// When it was last seen waiting for something other than a processor.
    waited_at: Option<Instant>,
}

impl Deferred {
    /// Sends it to a thread that rprof is about to let go, unless it was sent; with its own siginfo if the kernel allows that.
    pub fn send(&self, pid: Pid, tid: Pid) {
        if self.sent {
            return;
        }
        let (pid, tid) = (pid.as_raw(), tid.as_raw());
        if self.info.si_code < 0 && self.info.si_code != libc::SI_TKILL {
            // SAFETY: the kernel reads a live siginfo.
            unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, self.signal, &raw const self.info) };
        } else {
            // SAFETY: no memory is passed. If the thread is gone, so is the signal.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, self.signal) };
        }
    }
}

/// The number of the timer that sent a signal with `SI_TIMER`.
fn timer_of(info: &SignalInfo) -> i32 {
    const TIMER_ID: usize = 16;
    // SAFETY: the word lies within the siginfo; the kernel puts si_timerid there (struct siginfo, asm-generic).
    unsafe { (info as *const SignalInfo).cast::<u8>().add(TIMER_ID).cast::<i32>().read() }
}

impl Thread {
    /// A new thread with a fresh context, in `version`.
    pub fn new(
        pid: Pid,
        address_space: Pid,
        ordinal: u32,
        context: u32,
        contexts: Arc<AtomicRefCell<Contexts>>,
        version: Version,
    ) -> Self {
        Thread {
            pid,
            address_space,
            ordinal,
            path: AtomicU32::new(0),
            context,
            contexts,
            deferred: VecDeque::new(),
            native: None,
            cpu_at_transition: 0.0,
            version,
            interrupted: None,
            cut_off: None,
            waited_at: None,
        }
    }

    /// Whether it waits for an arena.
    pub fn is_stalled(&self) -> bool {
        self.interrupted == Some(Interrupted::ForArena)
    }

    /// Whether it runs or waits for a processor. The kernel is not asked again within `again` about a thread that waited for
    /// something else.
    pub fn is_runnable(&mut self, tid: Pid, again: Duration) -> bool {
        if self.waited_at.is_some_and(|at| at.elapsed() < again) {
            return false;
        }
        let runs = is_runnable(tid);
        self.waited_at = (!runs).then(Instant::now);
        runs
    }

    /// For interrupting it.
    pub fn running(&self, tid: Pid) -> Running {
        Running::resumed(tid)
    }

    /// Keeps a signal for later. Like the kernel, keeps one of each timer: without that a timer that is faster than rprof's stops, on a busy
    /// host, would make more and more of them.
    pub fn defer(&mut self, signal: i32, info: SignalInfo) {
        let of_timer = |info: &SignalInfo| (info.si_code == libc::SI_TIMER).then(|| timer_of(info));
        let timer = of_timer(&info);
        if timer.is_some() && self.deferred.iter().any(|d| d.signal == signal && of_timer(&d.info) == timer) {
            return;
        }
        self.deferred.push_back(Deferred { signal, info, sent: false });
    }

    /// As [`defer`](Thread::defer), for a signal that another thread got: like the kernel, keeps one of a kind. One that was sent
    /// is sent again, because the kernel drops it if the program has sent the same.
    pub fn defer_once(&mut self, signal: i32, info: SignalInfo) {
        match self.deferred.iter_mut().find(|d| d.signal == signal) {
            Some(same) => same.sent = false,
            None => self.defer(signal, info),
        }
    }

    /// Deferred signals not sent again yet: (signal, flag to set once it was sent).
    pub fn unsent(&mut self) -> impl Iterator<Item = (i32, &mut bool)> {
        self.deferred.iter_mut().filter(|d| !d.sent).map(|d| (d.signal, &mut d.sent))
    }

    /// The original siginfo of a signal that rprof sent again, if `info` shows rprof as the sender.
    pub fn take_resent(&mut self, signal: i32, info: &SignalInfo) -> Option<SignalInfo> {
        // SAFETY: SI_TKILL siginfo holds the sender.
        let ours = info.si_code == libc::SI_TKILL && unsafe { info.si_pid() } == std::process::id() as i32;
        let at = self.deferred.iter().position(|d| ours && d.sent && d.signal == signal)?;
        self.deferred.remove(at).map(|d| d.info)
    }
}
