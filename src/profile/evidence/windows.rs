//! Evidence of windows: short stretches of a native run in which the program was counted.

use super::blocks::BlockCount;

/// In a window at speed, threads wait for translations for less than this part of their time.
const MOST_WAITING: f64 = 0.1;

/// In a window at speed, less than this share of the executions is in first copies.
const MOST_FIRST_COPIES: f64 = 0.3;
/// Native code takes at least this part of the time of translated code.
const LEAST_NATIVE: f64 = 0.4;

/// One window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    /// When the first thread was stopped, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// When the last thread ran natively again.
    pub end_ns: u64,
    /// Seconds for which threads waited for translations.
    pub waited_s: f64,
    /// Cycles that counting added to the program's own work.
    pub extra_cycles: f64,
    /// Share of its executions in code that was translated in haste, and is slower.
    pub first_copies: f64,
    /// Its threads recorded addresses, which slows them down.
    pub addresses: bool,
    /// Its threads.
    pub threads: Vec<WindowThread>,
    /// The blocks executed in it; modules and threads are those of the counted evidence.
    pub blocks: Vec<BlockCount>,
}

impl Window {
    /// Its length, with the stops at both ends.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 * 1e-9
    }

    /// CPU seconds that its threads spent at work of their own.
    pub fn work_s(&self) -> f64 {
        let cpu_s: f64 = self.threads.iter().map(|t| t.cpu_s).sum();
        (cpu_s - self.waited_s).max(0.0)
    }
}

impl Window {
    /// The time that its work takes natively, at a clock of `clock_hz`.
    pub fn native_s(&self, clock_hz: f64) -> f64 {
        let work_s = self.work_s();
        (work_s - self.extra_cycles / clock_hz).max(LEAST_NATIVE * work_s)
    }

    /// Share of its time in waiting for translations, and of its executions in first copies: so far its speed says little.
    pub fn haste(&self) -> f64 {
        let cpu_s = self.work_s() + self.waited_s;
        let waiting = if cpu_s > 0.0 { self.waited_s / cpu_s } else { 1.0 };
        waiting + self.first_copies
    }

    /// Whether its work took about as long as it does natively: nothing but counting slowed it down.
    pub fn is_at_speed(&self) -> bool {
        !self.addresses
            && self.first_copies < MOST_FIRST_COPIES
            && self.waited_s < MOST_WAITING * (self.work_s() + self.waited_s)
    }
}

/// A thread in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WindowThread {
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// CPU seconds that it used there.
    pub cpu_s: f64,
    /// It was outside the code cache at the end: part of its work was not counted.
    pub escaped: bool,
}
