//! The tracing thread's CPU and priority.
//!
//! On its own CPU the thread displaces one of the program's. A scheduler that preempts lazily lets that one go on to its next
//! system call first; then the moment of sampling depends on the sampled code. A real-time thread displaces it at once. If the
//! host does not allow that, the sampler drops the displaced thread's sample if the tick came late, and makes the next tick
//! from another CPU.

use rprof_tracee::affinity::{self, current_cpu};

/// A tick this late, in nanoseconds, has been waited for.
const LATE_NS: u64 = 150_000;

/// Asks the scheduler to run the calling thread as soon as it has something to do. The program is stopped while this thread,
/// woken by a stop, waits for a CPU.
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
pub(super) struct TracerCpus {
    pin: affinity::CpuPin,
    pub cpus: usize,
}

impl TracerCpus {
    /// As the thread is now.
    pub fn new() -> TracerCpus {
        let pin = affinity::CpuPin::new();
        TracerCpus { cpus: pin.cpus(), pin }
    }

    /// Whether a thread waited for us during a tick that came `late_ns` after it was due: it cannot be sampled fairly.
    pub fn displaced(&self, late_ns: u64, waited_ns: u64) -> bool {
        self.cpus > 1 && late_ns > LATE_NS && waited_ns > 0
    }

    /// Goes to another CPU than this one if a thread was displaced, else wherever the scheduler likes.
    pub fn change(&mut self, displaced: bool) {
        match current_cpu().filter(|_| displaced) {
            Some(here) => self.pin.leave(here),
            None => self.pin.anywhere(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_late_tick_that_somebody_waited_for_displaces() {
        let tracer_cpus = TracerCpus::new();
        let more = tracer_cpus.cpus > 1;
        assert_eq!(tracer_cpus.displaced(LATE_NS + 1, 1), more);
        assert!(!tracer_cpus.displaced(LATE_NS, 1) && !tracer_cpus.displaced(LATE_NS + 1, 0));
    }
}
