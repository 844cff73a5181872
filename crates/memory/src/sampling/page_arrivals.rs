//! Counts the pages that arrived in processes during a window, which limits the number of first touches.
//!
//! A sampled run meets lines in one of its windows that a pause saw before. The kernel's work separates them from new ones: a page that
//! was never touched costs a fault, or makes the process larger. So the pages that arrived in a window limit the compulsory share of the
//! lines first met in it:
//!
//! ```text
//! share = min(1, pages arrived × lines of a page in the sample / lines first met)
//! ```
//!
//! Pages that arrive for other reasons (for the code cache) make the bound weaker, not wrong; pages that arrive before their first touch
//! (`MAP_POPULATE`, huge pages, the kernel's read-ahead of files) make it too low. The number of all pages that ever arrived likewise
//! limits the compulsory misses extrapolated from windows to pauses: first touches come once.

use std::collections::HashMap;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

use rprof_tracee::proc_status::{PageCounts, read_page_counts};

/// Accesses between two looks at a process that may end unseen.
const LOOK_EVERY: u64 = 1 << 18;
/// With more processes than this, arrivals are unknown.
const MOST_PROCESSES: usize = 64;
/// Lines of a page.
const PAGE_LINES: u64 = 64;

/// The pages that arrived in the present window, or in the last one.
#[derive(Debug, Default)]
pub struct Arrivals {
    begin: HashMap<u32, PageCounts>,
    /// Lines that had been met when the window began.
    met_before: u64,
    /// At the last look: pages that had arrived, lines that had been met first.
    latest: Option<(u64, u64)>,
    /// The window is over, or none was yet.
    over: bool,
    since_look: u64,
    /// Page faults of reaped descendants when the run began.
    faults_before: u64,
    /// The largest number of pages seen in each process.
    most: HashMap<u32, u64>,
    /// Upper limit of the pages that processes had and gave back.
    given_back: u64,
    /// The same including pages that the caches never saw.
    unmapped: u64,
}

impl Arrivals {
    /// No window yet.
    pub fn new() -> Self {
        Arrivals { over: true, faults_before: faults_of_descendants(), ..Arrivals::default() }
    }

    /// A window begins; `met` lines were met so far.
    pub fn begin(&mut self, processes: impl Iterator<Item = u32>, met: u64) {
        let read = |process: u32| Some((process, read_page_counts(Pid::from_raw(process as i32)).ok()?));
        let begin = processes.take(MOST_PROCESSES + 1).filter_map(read).collect();
        let Arrivals { faults_before, given_back, unmapped, .. } = *self;
        let most = std::mem::take(&mut self.most);
        *self = Arrivals { begin, met_before: met, faults_before, most, given_back, unmapped, ..Arrivals::default() };
    }

    /// Notes how many pages processes have at any time of the run.
    pub fn glance(&mut self, processes: impl Iterator<Item = u32>) {
        for process in processes.take(MOST_PROCESSES) {
            if let Ok(now) = read_page_counts(Pid::from_raw(process as i32)) {
                let most = self.most.entry(process).or_default();
                *most = now.resident.max(*most);
            }
        }
    }

    /// Notes `accesses` of the window; at intervals returns the pages that arrived in it so far. As with [`look`](Self::look), the caller
    /// then passes the lines met to [`met`](Self::met).
    pub fn note(&mut self, processes: impl Iterator<Item = u32>, accesses: u64) -> Option<u64> {
        self.since_look += accesses;
        if self.since_look >= LOOK_EVERY { self.look(processes) } else { None }
    }

    /// Ends the window and returns the pages that arrived in it.
    pub fn end(&mut self, processes: impl Iterator<Item = u32>) -> Option<u64> {
        let arrived = self.look(processes);
        self.over = true;
        arrived
    }

    /// Looks now, as the program may end in this window after few accesses, and returns the pages that arrived in it so far.
    pub fn look(&mut self, processes: impl Iterator<Item = u32>) -> Option<u64> {
        self.since_look = 0;
        if self.over {
            return None;
        }
        let (mut any, mut arrived) = (false, 0);
        for (number, process) in processes.enumerate() {
            if number == MOST_PROCESSES {
                self.latest = None;
                return None;
            }
            let Ok(now) = read_page_counts(Pid::from_raw(process as i32)) else { continue };
            any = true;
            let begin = self.begin.get(&process).copied().unwrap_or_default();
            let faults = now.faults.saturating_sub(begin.faults);
            // Many pages of a huge page arrive at once.
            arrived += faults.max(now.resident.saturating_sub(begin.resident));
        }
        any.then_some(arrived)
    }

    /// Notes that `met` lines had been met in all when `arrived` pages had arrived in the window.
    pub fn met(&mut self, arrived: u64, met: u64) {
        self.latest = Some((arrived, met - self.met_before));
    }

    /// Lower limit of the pages that arrived in the run, valid once its processes have ended and were reaped; `None` if
    /// no process was looked at.
    pub fn pages(&self) -> Option<u64> {
        // A page that is read before it is written costs two faults.
        (!self.most.is_empty()).then(|| self.resident().max(self.faults() / 2))
    }

    /// Lines of all pages that may have arrived in the run, if at least `touched` pages are known to have been touched.
    pub fn lines(&self, touched: u64) -> Option<u64> {
        // One fault brings many pages of a huge page. None of the other figures includes pages that return after they were given back.
        let arrived = self.faults().max(self.resident() + self.given_back);
        let pages = arrived.min(self.resident().max(touched).saturating_add(self.unmapped));
        (!self.most.is_empty()).then_some(pages * PAGE_LINES)
    }

    /// `process` gave back its part of these `pages`; if `seen`, the caches held some of it.
    pub fn give_back(&mut self, process: u32, pages: u64, seen: bool) {
        let pages = pages.min(self.most.get(&process).copied().unwrap_or(0));
        self.unmapped += pages;
        self.given_back += if seen { pages } else { 0 };
    }

    fn faults(&self) -> u64 {
        faults_of_descendants().saturating_sub(self.faults_before)
    }

    fn resident(&self) -> u64 {
        self.most.values().sum()
    }

    /// The part of the pages for which a last level of `lines` has no room, if all are used alike: 0, if it holds them all; 1, if
    /// nothing is known of them.
    pub fn beyond(&self, lines: u64) -> f64 {
        match self.resident() {
            0 => 1.0,
            pages => (1.0 - lines as f64 / (pages * PAGE_LINES) as f64).max(0.0),
        }
    }

    /// The largest share of the lines first met in the window that can be new, with one line in `one_in` in the sample; `None` if the
    /// pages were not examined.
    pub fn share(&self, one_in: u64) -> Option<f64> {
        let (arrived, met) = self.latest.filter(|(_, met)| *met > 0)?;
        Some((arrived as f64 * (PAGE_LINES / one_in) as f64 / met as f64).min(1.0))
    }
}

fn faults_of_descendants() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.minor_page_faults() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_last_level_has_room_for_a_part_of_the_pages() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.beyond(640), 1.0, "nobody looked");
        arrivals.most = HashMap::from([(7, 30), (8, 10)]);
        assert_eq!([640, 2560, 9999].map(|lines| arrivals.beyond(lines)), [0.75, 0.0, 0.0]);
    }

    #[test]
    fn pages_that_arrive_allow_new_lines() {
        const BYTES: usize = 32 << 20;
        // `tail` keeps its input until the end arrives.
        let mut child = Command::new("tail");
        let child = child.arg("-c").arg(BYTES.to_string());
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let it = child.id();
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.share(1), None);
        arrivals.begin(std::iter::once(it), 1000);
        child.stdin.as_mut().unwrap().write_all(&vec![1; BYTES]).unwrap();
        // Except for the bytes still in the pipe.
        let lines = (BYTES - (1 << 20)) as u64 / 64;
        let deadline = Instant::now() + Duration::from_secs(60);
        while arrivals.share(1) < Some(1.0) {
            assert!(Instant::now() < deadline, "{arrivals:?}");
            arrivals.look(std::iter::once(it)).into_iter().for_each(|pages| arrivals.met(pages, 1000 + lines));
        }
        arrivals.begin(std::iter::once(it), 0);
        let arrived = arrivals.end(std::iter::once(it)).unwrap();
        arrivals.met(arrived, 1 << 40);
        assert!(arrivals.share(1) < Some(0.01), "{arrivals:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn all_pages_of_a_run_are_those_that_faulted() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.lines(0), None);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while arrivals.most.values().all(|pages| *pages < 50) {
            assert!(Instant::now() < deadline, "{arrivals:?}");
            arrivals.glance(std::iter::once(child.id()));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        let pages = |touched| arrivals.lines(touched).unwrap() / PAGE_LINES;
        // Other tests have children, too.
        assert!(pages(0) >= 50 && pages(u64::MAX) >= pages(0), "{arrivals:?}");
        // A new page in place of an old one had a page of its own.
        let (kept, process) = (pages(u64::MAX), *arrivals.most.keys().next().unwrap());
        arrivals.give_back(process, 10, true);
        arrivals.give_back(u32::MAX, 10, true);
        assert_eq!(arrivals.lines(0).unwrap() / PAGE_LINES, arrivals.resident() + 10);
        assert!(arrivals.lines(u64::MAX).unwrap() / PAGE_LINES >= kept);
    }

    #[test]
    fn who_cannot_be_looked_at_bounds_nothing() {
        let mut arrivals = Arrivals::new();
        arrivals.begin(std::iter::once(u32::MAX), 0);
        assert_eq!((arrivals.note(std::iter::once(u32::MAX), LOOK_EVERY), arrivals.share(32)), (None, None));
    }
}
