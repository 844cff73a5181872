//! The CPUs' clocks from samples of the cycle counter: the cycles between two samples of a thread ÷ the time between them.
//!
//! ```text
//!  thread on CPU 3:  sample ── 3.1e6 cycles, 1 ms ── sample ── 3.0e6 cycles, 1 ms ── switch: neither end of an interval
//! ```
//!
//! The counter stops while the kernel takes a sample. A clock is therefore low by the share of time that samples take, which
//! is below 1 % at the rate that rprof chooses by itself.

use std::collections::HashMap;

use rprof_profile::evidence::timed::ClockSeen;

/// Time on a CPU that one reading of its clock is the mean of.
const READING_NS: u64 = 50_000_000;

/// The clocks seen so far.
#[derive(Debug, Default)]
pub(super) struct CycleClock {
    /// By thread: when, and on which CPU, it was last sampled without a switch since.
    last: HashMap<u32, (u64, u32)>,
    /// By CPU: cycles and nanoseconds since its last reading.
    since: HashMap<u32, (u64, u64)>,
    readings: Vec<ClockSeen>,
}

impl CycleClock {
    /// Thread `tid` was sampled on `cpu`, `cycles` after the sample before.
    pub fn sampled(&mut self, time_ns: u64, tid: u32, cpu: Option<u32>, cycles: u64) {
        let Some(cpu) = cpu else { return };
        let Some((before_ns, _)) = self.last.insert(tid, (time_ns, cpu)).filter(|(_, on)| *on == cpu) else { return };
        let sums = self.since.entry(cpu).or_default();
        *sums = (sums.0 + cycles, sums.1 + time_ns.saturating_sub(before_ns));
        let (cycles, ns) = *sums;
        if ns >= READING_NS {
            self.readings.push(ClockSeen { time_ns, cpu, hz: cycles as f64 / ns as f64 * 1e9 });
            self.since.remove(&cpu);
        }
    }

    /// Thread `tid` left its CPU or came to one: until its next sample it may have been off the CPU.
    pub fn switched(&mut self, tid: u32) {
        self.last.remove(&tid);
    }

    /// Samples or switches are missing, so that no interval is known to be whole.
    pub fn interrupted(&mut self) {
        self.last.clear();
    }

    /// The readings, in order of time.
    pub fn finish(self) -> Vec<ClockSeen> {
        self.readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Samples of `tid` on `cpu` each millisecond of `from..=to`, at a clock of `ghz`.
    fn run(clock: &mut CycleClock, tid: u32, cpu: u32, (from, to): (u64, u64), ghz: f64) {
        for ms in from..=to {
            clock.sampled(ms * MS, tid, Some(cpu), (ghz * MS as f64) as u64);
        }
    }

    fn readings(clock: CycleClock) -> Vec<(u64, u32, f64)> {
        clock.finish().iter().map(|seen| (seen.time_ns / MS, seen.cpu, (seen.hz * 1e-7).round() / 100.0)).collect()
    }

    #[test]
    fn a_clock_is_cycles_over_time_on_each_cpu() {
        let mut clock = CycleClock::default();
        run(&mut clock, 1, 0, (0, 50), 3.1);
        run(&mut clock, 2, 1, (20, 70), 2.0);
        run(&mut clock, 2, 1, (71, 100), 2.5);
        run(&mut clock, 3, 0, (100, 149), 3.0);
        assert_eq!(readings(clock), [(50, 0, 3.1), (70, 1, 2.0)], "the rest is less than a reading");
    }

    #[test]
    fn time_off_the_cpu_is_no_part_of_an_interval() {
        let mut clock = CycleClock::default();
        run(&mut clock, 1, 0, (0, 25), 3.0);
        clock.switched(1);
        // Blocked for 5 s, in which the counter stopped.
        run(&mut clock, 1, 0, (5000, 5025), 3.0);
        assert_eq!(readings(clock), [(5025, 0, 3.0)]);
    }

    #[test]
    fn neither_another_cpu_nor_lost_records_make_an_interval() {
        let mut clock = CycleClock::default();
        run(&mut clock, 1, 0, (0, 40), 3.0);
        run(&mut clock, 1, 1, (1000, 1040), 3.0);
        clock.interrupted();
        run(&mut clock, 1, 1, (9000, 9010), 3.0);
        assert_eq!(readings(clock), [(9010, 1, 3.0)]);
        let mut clock = CycleClock::default();
        (0..100).for_each(|ms| clock.sampled(ms * MS, 1, None, MS));
        assert_eq!(readings(clock), []);
    }
}
