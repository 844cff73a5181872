//! Whether a measuring thread had its CPU to itself: what a preemption or a hypervisor took from it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Share of a repetition that a thread may be without its CPU before the repetition is discarded.
const TOLERATED: f64 = 0.02;

/// A thread's standing at one moment: wall clock, its own CPU time, its involuntary context switches.
#[derive(Debug, Clone, Copy)]
pub struct Presence {
    wall: Instant,
    cpu_s: f64,
    preemptions: i64,
}

impl Presence {
    /// Of the calling thread, now. What the kernel does not tell counts as undisturbed.
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both calls write one structure of their own type, whose zeroed form is valid where they fail.
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

/// The time that the hypervisor gave to others while a CPU of this host wanted to run, from `/proc/stat`.
#[derive(Debug)]
pub struct Steal {
    stat: Option<File>,
    tick_s: f64,
}

impl Steal {
    /// Opens the counter; where there is none, no time is ever stolen.
    pub fn open() -> Self {
        // SAFETY: asks for a constant of the system.
        let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Steal { stat: File::open("/proc/stat").ok(), tick_s: 1.0 / if hz > 0 { hz as f64 } else { 100.0 } }
    }

    /// Seconds stolen from all CPUs since the host started, in steps of one tick (10 ms); 0 where it is not told.
    pub fn seconds(&self) -> f64 {
        let mut start = [0; 256];
        let read = self.stat.as_ref().and_then(|f| f.read_at(&mut start, 0).ok()).unwrap_or(0);
        stolen_ticks(&String::from_utf8_lossy(&start[..read])).map_or(0.0, |ticks| ticks as f64 * self.tick_s)
    }
}

/// The eighth figure of the first line, `cpu user nice system idle iowait irq softirq steal …`.
fn stolen_ticks(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
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

    #[test]
    fn steal_is_the_eighth_figure() {
        assert_eq!(stolen_ticks("cpu  1385082 18199 333051 571103 4192 0 791 867 0 0\ncpu0 1"), Some(867));
        assert_eq!(stolen_ticks("cpu  1 2 3 4 5 6 7\n"), None);
        assert_eq!(stolen_ticks("intr 5"), None);
        assert!(Steal::open().seconds() >= 0.0);
    }
}
