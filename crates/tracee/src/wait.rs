//! Waiting for traced threads: `waitpid` statuses as a type.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::proc_status::read_state;
use super::thread::{Mode, Stopped};

/// An event of a thread.
#[derive(Debug)]
pub enum Event {
    /// It stopped and waits for us.
    Stopped(Stopped, Stop),
    /// It ended: the status as `waitpid` gives it, and the CPU seconds of it and of those that it waited for (a whole
    /// process's; `None` if the caller did not ask for them).
    Ended(Pid, i32, Option<f64>),
}

/// Why a thread stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A signal is about to be delivered.
    Signal(i32),
    /// Job control stopped its process with that signal (SIGTRAP: it was interrupted, or a new thread's first stop).
    Group(i32),
    /// It made a thread or process; the event's message is the new id.
    NewTask,
    /// It executes a program; the event's message is the id it had before.
    Exec,
    /// Entry to or exit from a system call.
    Syscall,
    /// It is about to end; its memory and times can still be read.
    Exit,
    /// Another event, of no interest.
    Other,
}

/// The result of a wait that a signal may interrupt.
#[derive(Debug)]
pub enum Waited {
    /// Something happened to a thread.
    Event(Event),
    /// A signal arrived first.
    Interrupted,
    /// rprof traces no thread any more.
    Nobody,
}

/// As [`wait_any`], blocking, until a signal with a handler interrupts it.
pub fn wait_any_or_signal() -> Waited {
    match wait_once(Pid::from_raw(-1), libc::__WALL | libc::__WNOTHREAD) {
        Ok(Some(event)) => Waited::Event(event),
        Ok(None) | Err(Errno::EINTR) => Waited::Interrupted,
        Err(_) => Waited::Nobody,
    }
}

/// Waits for any child or tracee of the calling thread, or only looks whether there is one to report (`block` false).
/// `None`: nothing to report, or (blocking) no child left.
///
/// Children of other threads of this process are left alone (`__WNOTHREAD`).
pub fn wait_any(block: bool) -> Option<Event> {
    wait_for(Pid::from_raw(-1), block)
}

/// As [`wait_any`], for one thread.
pub fn wait_for(tid: Pid, block: bool) -> Option<Event> {
    let options = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    loop {
        match wait_once(tid, options) {
            Err(Errno::EINTR) if block => {}
            result => return result.ok().flatten(),
        }
    }
}

/// Waits for the end of a child that is about to exit or was killed, traced or not: stops on its way are passed.
pub fn wait_for_end(pid: Pid) {
    while let Some(Event::Stopped(stopped, _)) = wait_for(pid, true) {
        // One that cannot be resumed was killed meanwhile: its end is next.
        let _ = stopped.resume(Mode::Continue, None);
    }
}

/// Waits for the end of a child; its status as `waitpid` gives it, `None` if it is no child of ours.
pub fn wait_for_status(pid: Pid) -> Option<i32> {
    loop {
        match wait_for(pid, true)? {
            Event::Ended(_, status, _) => return Some(status),
            Event::Stopped(stopped, _) => drop(stopped.resume(Mode::Continue, None)),
        }
    }
}

/// As [`wait_for`], blocking, for events expected within microseconds: waking up would take longer than polling.
///
/// `None` also if the thread is the first of a process that is ending: the kernel reports its end when all others are gone, and they may be
/// at stops that wait for us.
pub fn wait_for_soon(tid: Pid) -> Option<Event> {
    const SOON: Duration = Duration::from_micros(60);
    /// Interval between looks later on.
    const LATER: Duration = Duration::from_micros(50);
    /// Looks between two at whether it has ended.
    const LOOKS: u32 = 100;
    let since = Instant::now();
    for look in 1u32.. {
        let late = since.elapsed() >= SOON;
        match wait_once(tid, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG) {
            Ok(Some(event)) => return Some(event),
            Ok(None) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
        match late {
            true if look % LOOKS == 0 && read_state(tid).is_none_or(|state| state == 'Z') => {
                return wait_for(tid, false);
            }
            true => std::thread::sleep(LATER * (1 + look / LOOKS).min(10)),
            false => std::hint::spin_loop(),
        }
    }
    None
}

/// One `wait4`; `None`: nothing to report.
fn wait_once(tid: Pid, options: i32) -> Result<Option<Event>, Errno> {
    let mut status = 0;
    // SAFETY: an rusage of zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the types that the kernel writes.
    match unsafe { libc::wait4(tid.as_raw(), &raw mut status, options, &raw mut usage) } {
        0 => Ok(None),
        -1 => Err(Errno::last()),
        tid => Ok(Some(match event(Pid::from_raw(tid), status) {
            Event::Ended(tid, status, _) => Event::Ended(tid, status, Some(cpu_seconds(&usage))),
            stopped => stopped,
        })),
    }
}

fn cpu_seconds(usage: &libc::rusage) -> f64 {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Reads a traced thread's status from `waitpid`. Only for a status just received: it makes the thread's stop ours.
pub fn event(tid: Pid, status: i32) -> Event {
    if !libc::WIFSTOPPED(status) {
        return Event::Ended(tid, status, None);
    }
    let signal = libc::WSTOPSIG(status);
    let stop = match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_STOP => Stop::Group(signal),
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => Stop::NewTask,
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_EXIT => Stop::Exit,
        _ => Stop::Other,
    };
    Event::Stopped(Stopped::seen(tid), stop)
}
