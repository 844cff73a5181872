//! How often and for how long the program executes code that is not translated.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::translator::translate::text_ranges::Untranslated;
use rprof_tracee::proc_status::read_cpu_seconds;

/// Time over which rprof watches transitions before a decision.
const WINDOW: Duration = Duration::from_millis(300);
/// Number of consecutive windows that must be too costly.
const WINDOWS: u32 = 2;
/// Only windows with more transitions than this are judged.
const MANY: u32 = 500;
/// Slowdown by transitions beyond which rprof releases a program.
const UNBEARABLE: f64 = 3.0;
/// The time at which a thread went to native code.
#[derive(Debug, Clone, Copy)]
pub struct Excursion {
    /// Why the code there is not translated.
    pub why: Untranslated,
    since: Instant,
    /// Its CPU seconds then.
    cpu_s: Option<f64>,
    /// The thread is in a system call there that rprof watches.
    pub in_call: bool,
}

impl Excursion {
    /// Thread `tid` is about to go to code that is not translated for this reason.
    pub fn begin(tid: Pid, why: Untranslated) -> Self {
        Excursion { why, since: Instant::now(), cpu_s: read_cpu_seconds(tid), in_call: false }
    }

    /// CPU seconds spent; `cpu_s` are the thread's now. For a thread that has ended, only the elapsed time is known. The kernel
    /// updates a running thread's CPU time only now and then, so the elapsed time is also an upper bound.
    pub(crate) fn spent(&self, cpu_s: Option<f64>) -> f64 {
        let elapsed = self.since.elapsed().as_secs_f64();
        cpu_s.zip(self.cpu_s).map_or(elapsed, |(now, then)| (now - then).min(elapsed))
    }
}

/// Counts how often an address space goes to native code and back.
#[derive(Debug)]
pub struct Transitions {
    window: Instant,
    count: u32,
    cpu_s: f64,
    costly_windows: u32,
}

impl Transitions {
    /// None yet.
    pub fn new() -> Self {
        Transitions { window: Instant::now(), count: 0, cpu_s: 0.0, costly_windows: 0 }
    }

    /// Adds a transition; its thread used `cpu_s` since its previous one. At the end of a window with many: CPU seconds per
    /// transition.
    pub(crate) fn add(&mut self, cpu_s: f64, now: Instant) -> Option<f64> {
        self.count += 1;
        self.cpu_s += cpu_s;
        if now.saturating_duration_since(self.window) < WINDOW {
            return None;
        }
        let (count, sum) = (std::mem::take(&mut self.count), std::mem::take(&mut self.cpu_s));
        self.window = now;
        if count > MANY {
            return Some(sum / f64::from(count));
        }
        self.costly_windows = 0;
        None
    }

    /// Judges a window; returns whether to release the program.
    pub(crate) fn judge(&mut self, cpu_s: f64, stop: StopCost) -> bool {
        let work = (cpu_s - 2.0 * stop.cpu_s).max(0.0);
        let costly = work + 2.0 * stop.wall_s > UNBEARABLE * work;
        self.costly_windows = if costly { self.costly_windows + 1 } else { 0 };
        self.costly_windows >= WINDOWS
    }
}

/// The cost of stopping and resuming a thread, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopCost {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_transitions_are_looked_at_by_the_window() {
        let mut transitions = Transitions::new();
        let start = transitions.window;
        let mut window = |from: u64, count: u64| {
            let at = |i: u64| start + Duration::from_micros(1000 * from + (i + 1) * 300_000 / count);
            (0..count).filter_map(|i| transitions.add(5e-6, at(i))).map(|each| (each * 1e9).round()).collect::<Vec<_>>()
        };
        assert_eq!(window(0, 1000), [5000.0]);
        assert!(window(300, 100).is_empty());
        assert_eq!(window(600, 2000), [5000.0]);
    }

    #[test]
    fn two_costly_windows_in_a_row_are_too_much() {
        let mut transitions = Transitions::new();
        let stop = StopCost { wall_s: 20e-6, cpu_s: 5e-6 };
        // 40 µs of stops beside 2 µs of work, beside 100 µs of work.
        assert!(!transitions.judge(12e-6, stop));
        assert!(!transitions.judge(110e-6, stop));
        assert!(!transitions.judge(12e-6, stop));
        assert!(transitions.judge(12e-6, stop));
    }
}
