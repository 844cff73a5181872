//! Whether a measuring thread had its CPU to itself, or lost time to a preemption or a hypervisor.

use std::time::Instant;

/// Share of a repetition that a thread may be without its CPU before the repetition is discarded.
const TOLERATED: f64 = 0.02;

/// A thread's state at one moment: wall clock, its own CPU time, its involuntary context switches.
#[derive(Debug, Clone, Copy)]
pub struct Presence {
    wall: Instant,
    cpu_s: f64,
    preemptions: i64,
}

impl Presence {
    /// The presence of the calling thread now. If the kernel reports nothing, the thread counts as undisturbed.
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both calls write one structure of their own type; its zeroed form is valid if they fail.
        let (usage, time) = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
            (usage.assume_init(), time)
        };
        let cpu_s = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
        Presence { wall: Instant::now(), cpu_s, preemptions: usage.ru_nivcsw }
    }

    /// Whether the thread was preempted since `self`, or went without its CPU for more than [`TOLERATED`] of the time.
    pub fn was_disturbed(&self) -> bool {
        let now = Presence::now();
        lost_too_much(
            now.wall.duration_since(self.wall).as_secs_f64(),
            now.cpu_s - self.cpu_s,
            now.preemptions - self.preemptions,
        )
    }
}

fn lost_too_much(wall_s: f64, cpu_s: f64, preemptions: i64) -> bool {
    preemptions > 0 || wall_s - cpu_s > TOLERATED * wall_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preemption_or_a_gap_is_a_disturbance() {
        assert!(!lost_too_much(1e-3, 0.99e-3, 0));
        assert!(lost_too_much(1e-3, 0.99e-3, 1));
        assert!(lost_too_much(1e-3, 0.9e-3, 0));
    }

    #[test]
    fn sleeping_is_a_gap() {
        let before = Presence::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(before.was_disturbed());
    }
}
