//! Where and how urgently the tracing thread runs.
//!
//! On its own CPU the thread displaces one of the program's. A scheduler that preempts lazily lets that one go on to its next
//! system call first; then the moment of sampling depends on what is sampled. A real-time thread displaces it at once. Where
//! that is not allowed, the displaced thread's sample is dropped if the tick came late, and the next tick comes from
//! another CPU.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A tick this late, in nanoseconds, has been waited for.
const LATE_NS: u64 = 150_000;

/// Asks the scheduler to run the calling thread as soon as it has something to do. The program stands still while this
/// thread, told of a stop, waits for a CPU.
pub(super) fn be_quick() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: both take integers and a live structure; 0 is the calling thread. Failing means that we may not.
    unsafe {
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -10);
        }
    }
}

/// The CPUs that the tracing thread may use.
#[derive(Debug)]
pub(super) struct Seat {
    allowed: CpuSet,
    pub cpus: usize,
    moved: bool,
}

impl Seat {
    /// As the thread is now.
    pub fn new() -> Seat {
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).count();
        Seat { allowed, cpus: cpus.max(1), moved: false }
    }

    /// A thread that waited for us during a tick that came `late_ns` after it was due cannot be sampled fairly.
    pub fn displaced(&self, late_ns: u64, waited_ns: u64) -> bool {
        self.cpus > 1 && late_ns > LATE_NS && waited_ns > 0
    }

    /// Goes to another CPU than this one if a thread was displaced, else wherever the scheduler likes.
    pub fn change(&mut self, displaced: bool) {
        if !displaced && !self.moved {
            return;
        }
        let mut cpus = self.allowed;
        // SAFETY: takes nothing.
        let here = unsafe { libc::sched_getcpu() };
        if displaced && here >= 0 {
            let _ = cpus.unset(here as usize);
        }
        self.moved = displaced && sched_setaffinity(Pid::from_raw(0), &cpus).is_ok();
        if !displaced {
            let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_a_cpu_and_returning_keeps_what_is_allowed() {
        let mut seat = Seat::new();
        if seat.cpus < 2 {
            println!("SKIPPED: one CPU");
            return;
        }
        seat.change(true);
        assert_eq!(Seat::new().cpus, seat.cpus - 1);
        seat.change(false);
        assert_eq!(Seat::new().cpus, seat.cpus);
        assert!(seat.displaced(LATE_NS + 1, 1) && !seat.displaced(LATE_NS, 1) && !seat.displaced(LATE_NS + 1, 0));
    }
}
