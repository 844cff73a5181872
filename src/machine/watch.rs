//! Where the CPUs are while a program runs: two short hand-overs of a cache line, twenty times a second.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::bench::priority::Priority;
use super::bench::{Team, core_to_core};
use super::limits::Limits;
use crate::profile::evidence::timed::PlacementSeen;

/// Time between two looks. One takes two CPUs some ten microseconds.
const PERIOD: Duration = Duration::from_millis(50);

/// Threads that do not meet within this are kept apart by the program: no reading.
const TOGETHER: Duration = Duration::from_micros(300);

/// A watch. It looks only while at least two threads of this host want to run: of a single one nothing depends on it.
pub struct PlacementWatch {
    stop: Sender<()>,
    thread: JoinHandle<Vec<PlacementSeen>>,
}

impl PlacementWatch {
    /// Starts watching the CPUs that this process may use; `None` where there is but one, or no thread can be started.
    pub fn start() -> Option<Self> {
        let cpus = Limits::read().cpus;
        if cpus.len() < 2 {
            return None;
        }
        let (stop, stopped) = channel();
        let body = move || {
            let _ahead = Priority::raise();
            let mut seen = Vec::new();
            let Ok(team) = Team::new(&cpus) else { return seen };
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                if !others_run() {
                    continue;
                }
                if let (Ok(Some(core_to_core)), Some(time_ns)) = (core_to_core::measure(&team, TOGETHER), now_ns()) {
                    seen.push(PlacementSeen { time_ns, core_to_core });
                }
            }
            seen
        };
        let thread = std::thread::Builder::new().name("rprof-placement".into()).spawn(body).ok()?;
        Some(PlacementWatch { stop, thread })
    }

    /// What was seen, in order of time.
    pub fn finish(self) -> Vec<PlacementSeen> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn now_ns() -> Option<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    Some(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Whether at least two threads besides the calling one run or could.
fn others_run() -> bool {
    std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| runnable(&text)).is_none_or(|n| n >= 3)
}

/// The threads that run or could: `0.20 0.18 0.12 1/80 11206`.
fn runnable(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_are_the_fourth_figure() {
        assert_eq!(runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable("0.20 0.18"), None);
    }

    #[test]
    fn a_watch_over_busy_threads_sees_where_they_are() {
        let Some(watch) = PlacementWatch::start() else { return println!("SKIPPED: one CPU") };
        let end = std::time::Instant::now() + Duration::from_millis(600);
        let spin = || while std::time::Instant::now() < end {};
        std::thread::scope(|scope| {
            scope.spawn(spin);
            scope.spawn(spin);
        });
        let seen = watch.finish();
        if seen.is_empty() {
            return println!("SKIPPED: other work kept the threads of the watch apart");
        }
        assert!(seen.is_sorted_by_key(|s| s.time_ns));
        assert!(seen.iter().all(|s| !s.core_to_core.pairs().is_empty()));
    }
}
