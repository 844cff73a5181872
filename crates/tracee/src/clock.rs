//! The clock that the evidence of all passes shares.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Processor time of the calling thread.
pub fn own_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Processor time of the whole process.
pub fn process_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The processor's time stamp counter against CLOCK_MONOTONIC, from the moment at which it was made.
#[derive(Debug, Clone, Copy)]
pub struct TimeStamps {
    ticks: u64,
    at_ns: u64,
    begun: Instant,
}

impl TimeStamps {
    /// From now on.
    pub fn now() -> TimeStamps {
        TimeStamps { ticks: time_stamp(), at_ns: monotonic_ns(), begun: Instant::now() }
    }

    /// Ticks in a nanosecond since.
    pub fn ticks_per_ns(&self) -> f64 {
        let ns = self.begun.elapsed().as_nanos() as f64;
        (time_stamp().wrapping_sub(self.ticks)) as f64 / ns.max(1.0)
    }

    /// Nanoseconds of CLOCK_MONOTONIC at `ticks`, of which a nanosecond has `ticks_per_ns`.
    pub fn at_ns(&self, ticks: u64, ticks_per_ns: f64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks) as i64 as f64 / ticks_per_ns;
        (self.at_ns as f64 + since).max(0.0) as u64
    }
}

/// The processor's time stamp counter now.
#[cfg(target_arch = "x86_64")]
pub fn time_stamp() -> u64 {
    // SAFETY: reads a counter that every x86-64 has.
    unsafe { std::arch::x86_64::_rdtsc() }
}
