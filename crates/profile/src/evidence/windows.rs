//! Evidence of windows: short stretches of a native run in which the program was counted.

use super::blocks::{BlockCount, merged};

/// In a window at speed, threads wait for translations for less than this part of their time.
const MOST_WAITING: f64 = 0.1;

/// In a window at speed, less than this share of the executions is in first copies.
const MOST_FIRST_COPIES: f64 = 0.3;
/// Part of a window's time that cold caches take: it begins with those that the stop left, and rprof's counters are in them, too.
const COLD_CACHES: f64 = 0.05;
/// CPU seconds that a thread takes to come in: pages of rprof's tables are touched for the first time, and nothing is in the caches.
const ENTRY_S: f64 = 30e-6;
/// Stops take at most this part of a window's time.
const MOST_STOPPED: f64 = 0.95;
/// Native code takes at least this part of the time of translated code.
const LEAST_NATIVE: f64 = 0.4;

/// One window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    /// From when the first thread was stopped until the last one ran natively again, in nanoseconds of CLOCK_MONOTONIC; several
    /// spans if windows were thrown together.
    pub spans: Vec<(u64, u64)>,
    /// CPU seconds in which threads waited for answers of rprof, translations for the most part.
    pub waited_s: f64,
    /// Stops of its threads, each of which takes some of their CPU time.
    pub stops: u64,
    /// How often a thread came in.
    pub entries: u64,
    /// CPU seconds of its threads in code that was not counted.
    pub native_s: f64,
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
    /// Calls of MPI in it and their bytes, by site of the counted evidence.
    pub calls: Vec<SiteCalls>,
}

/// Calls of one site in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteCalls {
    /// Index into the sites of the counted evidence.
    pub site: u32,
    /// Calls.
    pub calls: u64,
    /// The bytes that they passed, as far as they are known.
    pub bytes: u64,
}

impl Window {
    /// Its length, with the stops at both ends.
    pub fn seconds(&self) -> f64 {
        self.spans.iter().map(|(begin, end)| end.saturating_sub(*begin) as f64 * 1e-9).sum()
    }

    /// CPU seconds that its threads spent at work of their own.
    pub fn work_s(&self) -> f64 {
        let cpu_s: f64 = self.threads.iter().map(|t| t.cpu_s).sum();
        (cpu_s - self.waited_s - self.native_s).max(0.0)
    }

    /// Takes the time of its stops, each of `stop_s` CPU seconds, for time in which its threads waited.
    pub fn price_stops(&mut self, stop_s: f64) {
        self.waited_s += (self.stops as f64 * stop_s).min(MOST_STOPPED * self.work_s());
    }
}

impl Window {
    /// The time that its work takes natively, at a clock of `clock_hz`.
    pub fn native_s(&self, clock_hz: f64) -> f64 {
        let work_s = self.work_s();
        ((work_s - self.extra_cycles / clock_hz) * (1.0 - COLD_CACHES)).max(LEAST_NATIVE * work_s)
    }

    /// Share of its time in waiting for translations and in coming in, and of its executions in first copies: so far its speed says little.
    pub fn haste(&self) -> f64 {
        let cpu_s = self.work_s() + self.waited_s;
        let entering_s = self.entries as f64 * ENTRY_S;
        let waiting = if cpu_s > 0.0 { (self.waited_s + entering_s) / cpu_s } else { 1.0 };
        waiting.min(1.0) + self.first_copies
    }

    /// Whether its work took about as long as it does natively: nothing but counting slowed it down.
    pub fn is_at_speed(&self) -> bool {
        !self.addresses
            && self.first_copies < MOST_FIRST_COPIES
            && self.waited_s < MOST_WAITING * (self.work_s() + self.waited_s)
    }
}

impl Window {
    /// Throws two windows together.
    pub fn absorb(&mut self, other: Window) {
        let (own_s, other_s) = (self.work_s(), other.work_s());
        if own_s + other_s > 0.0 {
            self.first_copies = (self.first_copies * own_s + other.first_copies * other_s) / (own_s + other_s);
        }
        self.spans.extend(other.spans);
        self.waited_s += other.waited_s;
        self.stops += other.stops;
        self.native_s += other.native_s;
        self.entries += other.entries;
        self.extra_cycles += other.extra_cycles;
        self.addresses |= other.addresses;
        for more in other.threads {
            match self.threads.iter_mut().find(|known| known.thread == more.thread) {
                Some(known) => known.cpu_s += more.cpu_s,
                None => self.threads.push(more),
            }
        }
        self.blocks = merged(self.blocks.iter().chain(&other.blocks));
        for more in other.calls {
            match self.calls.iter_mut().find(|known| known.site == more.site) {
                Some(known) => (known.calls, known.bytes) = (known.calls + more.calls, known.bytes + more.bytes),
                None => self.calls.push(more),
            }
        }
    }
}

/// Fewer than twice `most` windows, made of `windows` by throwing pairs of one kind together.
pub fn folded(windows: Vec<Window>, most: usize) -> Vec<Window> {
    if windows.len() < 2 * most {
        return windows;
    }
    let (with, without): (Vec<Window>, Vec<Window>) = windows.into_iter().partition(|w| w.addresses);
    let mut folded = Vec::new();
    for kind in [without, with] {
        let mut kind = kind.into_iter();
        while let Some(mut window) = kind.next() {
            kind.next().into_iter().for_each(|other| window.absorb(other));
            folded.push(window);
        }
    }
    folded
}

/// A thread in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WindowThread {
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// CPU seconds that it used there.
    pub cpu_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::CodeRef;

    fn window(n: u64, addresses: bool) -> Window {
        let at = CodeRef { module: 0, offset: n % 3 };
        let (dynamic, calls) = (Vec::new(), Vec::new());
        let block = BlockCount { at, code: vec![0x90], executions: vec![(0, n)], dynamic, calls };
        let threads = vec![WindowThread { thread: 0, cpu_s: 1.0 }];
        let calls = vec![SiteCalls { site: n as u32 % 2, calls: n, bytes: 8 * n }];
        let (spans, blocks) = (vec![(n, n + 1)], vec![block]);
        Window { spans, waited_s: 0.5, addresses, threads, blocks, calls, ..Window::default() }
    }

    #[test]
    fn time_in_stops_and_in_native_code_is_no_time_of_its_work() {
        let mut window = window(1, false);
        (window.waited_s, window.stops, window.native_s) = (0.0, 1000, 0.25);
        assert!((window.work_s() - 0.75).abs() < 1e-9 && window.haste() < 1e-9);
        window.price_stops(300e-6);
        assert!((window.work_s() - 0.45).abs() < 1e-9);
        assert!((window.haste() - 0.4).abs() < 1e-9, "so far its speed says little");
        window.price_stops(1.0);
        assert!(window.work_s() > 0.0);
        let brief = Window { entries: 2, ..self::window(1, false) };
        assert!((brief.haste() - 0.5 - 2.0 * ENTRY_S).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_keeps_few_windows_and_loses_nothing() {
        let mut windows = Vec::new();
        for n in 0..1000 {
            windows.push(window(n, n % 4 == 1));
            windows = folded(windows, 16);
        }
        assert!((16..=34).contains(&windows.len()), "{}", windows.len());
        let executions = windows.iter().flat_map(|w| &w.blocks).flat_map(|b| &b.executions).map(|e| e.1).sum::<u64>();
        assert_eq!(executions, (0..1000).sum::<u64>());
        assert_eq!(windows.iter().map(|w| w.spans.len()).sum::<usize>(), 1000);
        assert!((windows.iter().map(Window::work_s).sum::<f64>() - 500.0).abs() < 1e-6);
        let with = windows.iter().filter(|w| w.addresses).map(|w| w.spans.len()).sum::<usize>();
        assert_eq!(with, 250, "kinds stay apart");
        assert!(windows.iter().all(|w| w.blocks.len() <= 3 && w.calls.len() <= 2));
        let calls = || windows.iter().flat_map(|w| &w.calls);
        assert_eq!(calls().map(|c| c.calls).sum::<u64>(), (0..1000).sum::<u64>());
        assert!(calls().all(|c| c.bytes == 8 * c.calls));
    }
}
