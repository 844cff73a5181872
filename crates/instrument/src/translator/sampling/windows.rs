//! Schedules the windows in which threads record addresses: the access sink decides their beginning and length, and pauses
//! between them keep the cost down. rprof moves a thread between versions of the program at a stop, when its state is the
//! program's own; versions that record nothing contain no check.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::translator::code_cache::version::Version;
use rprof_tracee::proc_status::read_cpu_seconds;
use rprof_tracee::wake_up::Ticks;

/// Average length of a pause, as a multiple of the window before it, in processor time. It varies between half and one and a half
/// times that, because windows at equal distances could meet a periodic program at the same place each time.
const PAUSE: f64 = 4.0;
const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;
/// The longest pause, if the sink has caught up by then, in seconds on each processor that the program has, and as a part of the
/// run so far: windows see every phase longer than a pause, and a long run has long phases. After a longer window it is
/// [`AFTER_LONG`] times as long as that, which bounds the cost, up to a larger part of the run.
const LONGEST_PAUSE_S: f64 = 0.12;
const LONGEST_PAUSE_SHARE: f64 = 0.02;
const AFTER_LONG: f64 = 1.5;
const LONGEST_AFTER_LONG_SHARE: f64 = 0.15;
/// A program that uses fewer processors than this in pauses counts as single-threaded.
const ALONE: f64 = 1.25;
/// Processor seconds after which rprof notifies the sink, repeatedly, that a phase was long enough. The sink ends phases earlier
/// if it collects much.
const LIMIT_S: f64 = 0.02;
/// Interval between checks whether to move threads.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// Processor seconds between two looks at the threads' places, in a pause that lasts at least as long as the window before,
/// or as one that was not extended.
const PEEK_S: f64 = 0.005;
/// The present window or pause. Times are processor seconds of the program's threads, so that a busy host does not shorten
/// windows.
#[derive(Debug)]
pub struct WindowSchedule {
    /// The version that threads should be in.
    pub(crate) wanted: Version,
    /// The time at the last look.
    pub(crate) now_s: f64,
    /// When `wanted` began.
    pub(crate) since_s: f64,
    /// When the present window or pause began, in elapsed time and in processor seconds.
    begun: (Instant, f64),
    /// Processors that the program had in the last pause.
    processors: f64,
    /// Length of the last window; with several threads, the time that they could have run meanwhile.
    length_s: f64,
    /// Pauses so far.
    pauses: u32,
    /// The present pause must end now.
    pub(crate) cut_short: bool,
    /// Time of the last look at the threads' places.
    peeked_s: f64,
    pub(crate) looked: Instant,
    /// Each thread's processor seconds at the last look.
    cpu_s: HashMap<Pid, f64>,
    /// Interrupts rprof's wait, so that phases end; without them phases end at the next stop or request. None without a sink.
    pub ticks: Option<Ticks>,
}

impl WindowSchedule {
    /// Nothing has run yet. `needed`: there is a sink of accesses or of bursts.
    pub fn new(needed: bool) -> Self {
        let mut ticks = needed.then(|| Ticks::new(LOOK));
        ticks.iter_mut().for_each(Ticks::go_on);
        WindowSchedule {
            wanted: Version::Opening,
            now_s: 0.0,
            since_s: 0.0,
            begun: (Instant::now(), 0.0),
            processors: 1.0,
            length_s: 0.0,
            pauses: 0,
            cut_short: false,
            peeked_s: 0.0,
            looked: Instant::now(),
            cpu_s: HashMap::new(),
            ticks,
        }
    }

    /// Processor seconds of the program at the last look.
    pub fn processor_seconds(&self) -> f64 {
        self.now_s
    }

    /// Threads with these processor seconds run on after a stretch that is not to be counted.
    pub fn go_on_with(&mut self, cpu_s: &HashMap<Pid, f64>) {
        self.cpu_s.clone_from(cpu_s);
        self.looked = Instant::now();
    }

    /// Whether a look is due; only with a sink.
    pub fn is_time_to_look(&self) -> bool {
        self.ticks.as_ref().is_some_and(Ticks::work) && self.looked.elapsed() >= LOOK
    }

    /// Brings `now_s` up to date.
    pub(crate) fn look(&mut self, threads: impl Iterator<Item = Pid>) {
        let cpu: HashMap<Pid, f64> = threads.filter_map(|tid| Some((tid, read_cpu_seconds(tid)?))).collect();
        self.now_s += cpu.iter().map(|(tid, now)| now - self.cpu_s.get(tid).unwrap_or(&0.0)).sum::<f64>();
        self.cpu_s = cpu;
        self.looked = Instant::now();
    }

    /// Makes `wanted` the version that threads should be in.
    pub(crate) fn turn_to(&mut self, wanted: Version, threads: usize) {
        if wanted == self.wanted {
            return;
        }
        let elapsed_s = self.begun.0.elapsed().as_secs_f64();
        let so_far_s = (self.now_s - self.begun.1).max(1e-3);
        match (self.wanted, wanted) {
            // The first window is long, but happens only once: the next window follows soon.
            (Version::Opening, Version::Plain) => self.length_s = so_far_s.min(LIMIT_S),
            // In windows, several threads wait for each other, and for rprof to process their records.
            (_, Version::Plain) if self.processors > ALONE => {
                self.length_s = so_far_s.max(elapsed_s * self.processors);
            }
            (_, Version::Plain) => self.length_s = so_far_s,
            (Version::Plain, _) => {
                self.processors = (so_far_s / elapsed_s.max(1e-3)).clamp(1.0, threads.max(1) as f64);
            }
            _ => {}
        }
        if self.wanted == Version::Plain || wanted == Version::Plain {
            self.begun = (Instant::now(), self.now_s);
        }
        self.pauses += u32::from(wanted == Version::Plain);
        (self.wanted, self.since_s, self.cut_short) = (wanted, self.now_s, false);
    }

    /// Shortest length of the present pause, in seconds; it does not end while the sink is behind.
    fn pause_s(&self) -> f64 {
        // Multiples of the golden ratio without their integers: any few of them in a row are spread evenly.
        let varied = 0.5 + (f64::from(self.pauses) * GOLDEN_RATIO).fract();
        let after_long_s = (AFTER_LONG * self.length_s).min(LONGEST_AFTER_LONG_SHARE * self.now_s);
        let longest_s = (LONGEST_PAUSE_S * self.processors).max(LONGEST_PAUSE_SHARE * self.now_s).max(after_long_s);
        (PAUSE * self.length_s).min(longest_s) * varied
    }

    /// Whether the present phase was long enough.
    pub(crate) fn is_over(&self) -> bool {
        if self.cut_short {
            return true;
        }
        let limit = if self.wanted == Version::Plain { self.pause_s() } else { LIMIT_S };
        self.now_s - self.since_s >= limit
    }

    /// Whether a look at the threads' places is due; restarts the interval if so.
    pub(crate) fn is_time_to_peek(&mut self) -> bool {
        let so_far_s = self.now_s - self.since_s;
        let peek = self.wanted == Version::Plain
            && so_far_s >= self.length_s.min(LIMIT_S)
            && self.now_s - self.peeked_s >= PEEK_S;
        if peek {
            self.peeked_s = self.now_s;
        }
        peek
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of the pause after a window of this many processor seconds, a second after the start.
    fn paused(processors: f64, window_s: f64) -> f64 {
        let mut windows = WindowSchedule::new(false);
        (windows.wanted, windows.now_s, windows.begun.1) = (Version::Measuring, 1.0, 1.0 - window_s);
        windows.processors = processors;
        windows.turn_to(Version::Plain, 2);
        windows.pause_s()
    }

    #[test]
    fn pauses_are_as_long_on_each_processor() {
        let (alone, both) = (paused(1.0, 0.04), paused(2.0, 0.04));
        let varied = 0.5 + GOLDEN_RATIO.fract();
        assert!((alone - LONGEST_PAUSE_S * varied).abs() < 1e-9, "{alone}");
        assert!((both - 0.16f64.min(2.0 * LONGEST_PAUSE_S) * varied).abs() < 1e-9, "{both}");
    }

    #[test]
    fn the_processors_of_a_program_are_those_of_its_last_pause() {
        let mut windows = WindowSchedule::new(false);
        windows.turn_to(Version::Plain, 4);
        std::thread::sleep(Duration::from_millis(20));
        let elapsed_s = windows.begun.0.elapsed().as_secs_f64();
        windows.now_s += 3.0 * elapsed_s;
        windows.turn_to(Version::Warming, 4);
        assert!((2.0..=3.0).contains(&windows.processors), "{}", windows.processors);
        windows.turn_to(Version::Plain, 4);
        windows.now_s += 1e3;
        windows.turn_to(Version::Warming, 2);
        assert_eq!(windows.processors, 2.0, "no more than it has threads");
        windows.turn_to(Version::Plain, 2);
        windows.turn_to(Version::Warming, 0);
        assert_eq!(windows.processors, 1.0, "its last thread has just ended");
    }
}
