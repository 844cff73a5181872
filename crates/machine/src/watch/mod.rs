//! Watches the host's CPUs while a program runs: their placement twenty times a second, and their clocks one after the other.
//!
//! Both take CPU time from the program, so rprof watches only what it cannot know otherwise ([`Watched`]).

mod clock;
mod placement;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::harness::Team;
use super::harness::priority::Priority;
use super::host::limits::Limits;
use clock::ClockProbe;
use rprof_profile::evidence::timed::{ClockSeen, PlacementSeen};
use rprof_tracee::clock::monotonic_ns;

/// Time between two measurements of the placement, and of one CPU's clock. The latter takes some seventy microseconds of that CPU.
const PERIOD: Duration = Duration::from_millis(50);
/// Least time between the measurements of two CPUs' clocks.
const APART: Duration = Duration::from_millis(5);

/// The observations, in order of time.
#[derive(Debug, Default)]
pub struct Seen {
    /// Placements of the CPUs, whenever at least two threads of this host wanted to run; for a single thread the placement does not matter.
    pub placements: Vec<PlacementSeen>,
    /// Clocks of the CPUs.
    pub clocks: Vec<ClockSeen>,
}

/// The things that a watch measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// The CPUs' clocks.
    pub clock: bool,
    /// The places that a hypervisor has put the CPUs at.
    pub placement: bool,
}

impl Watched {
    /// The things to measure beside a sampler: clocks unless they follow from its samples, placements if a hypervisor may move CPUs.
    pub fn beside(sampler_tells_clocks: bool, is_guest: bool) -> Watched {
        Watched { clock: !sampler_tells_clocks, placement: is_guest }
    }
}

/// A watch over the CPUs that this process may use.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Starts watching; `None` if there is nothing to watch, or no thread can be started.
    pub fn start(watched: Watched) -> Option<Self> {
        let Watched { clock, placement } = watched;
        if !clock && !placement {
            return None;
        }
        let cpus = Limits::read().cpus;
        let (stop, stopped) = channel();
        let body = move || {
            let _ahead = Priority::raise();
            let mut seen = Seen::default();
            let Ok(team) = Team::new(&cpus) else { return seen };
            let clock = clock.then(|| ClockProbe::new(&cpus)).flatten();
            let apart = if clock.is_some() { (PERIOD / cpus.len().max(1) as u32).max(APART) } else { PERIOD };
            let (mut rank, mut placed) = (0, Instant::now());
            while stopped.recv_timeout(apart) == Err(RecvTimeoutError::Timeout) {
                let time_ns = monotonic_ns();
                seen.clocks.extend(clock.as_ref().and_then(|probe| probe.look(&team, rank, time_ns)));
                rank = (rank + 1) % team.size().max(1);
                if placement && placed.elapsed() >= PERIOD {
                    placed = Instant::now();
                    seen.placements.extend(placement::look(&team, time_ns));
                }
            }
            seen
        };
        let thread = std::thread::Builder::new().name("rprof-watch".into()).spawn(body).ok()?;
        Some(Watch { stop, thread })
    }

    /// Ends it.
    pub fn finish(self) -> Seen {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_watched_that_is_known_otherwise() {
        let beside = |tells, guest| {
            let Watched { clock, placement } = Watched::beside(tells, guest);
            (clock, placement)
        };
        assert_eq!(beside(false, true), (true, true), "a guest without a PMU");
        assert_eq!(beside(true, true), (false, true), "a guest whose PMU samples");
        assert_eq!(beside(false, false), (true, false), "perf_event_open is refused");
        assert_eq!(beside(true, false), (false, false));
        assert!(Watch::start(Watched::beside(true, false)).is_none(), "no thread takes time from the program");
    }

    #[test]
    fn a_watch_over_busy_threads_sees_where_they_are_and_how_fast() {
        let Some(watch) = Watch::start(Watched { clock: true, placement: true }) else {
            return println!("SKIPPED: cpus: no thread can be started");
        };
        let cpus = Limits::read().cpus;
        let end = std::time::Instant::now() + Duration::from_millis(600);
        let spin = || while std::time::Instant::now() < end {};
        std::thread::scope(|scope| {
            scope.spawn(spin);
            scope.spawn(spin);
        });
        let seen = watch.finish();
        assert!(seen.placements.is_sorted_by_key(|s| s.time_ns));
        assert!(seen.placements.iter().all(|s| !s.core_to_core.pairs().is_empty()));
        if seen.placements.is_empty() {
            println!("SKIPPED: cpus: one CPU, or other work kept the threads of the watch apart");
        }
        assert!(seen.clocks.is_sorted_by_key(|s| s.time_ns));
        if cfg!(target_arch = "x86_64") {
            assert!(!seen.clocks.is_empty(), "twelve looks at each");
            assert!(seen.clocks.iter().all(|s| (1e8..2e10).contains(&s.hz)), "{:?}", seen.clocks);
            assert!(seen.clocks.iter().all(|s| cpus.contains(&(s.cpu as usize))), "{:?}", seen.clocks);
        }
    }
}
