//! The recording of addresses and bursts: the sinks, their schedules, and the version that threads should be in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::version::Version;
use crate::translator::program::thread::Thread;
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::sampling::burst_pace::{Pace, Stage, Traced};
use crate::translator::sampling::bursts::Bursts;
use crate::translator::sampling::windows::WindowSchedule;
use rprof_tracee::proc_status::is_runnable;

/// This work takes at most one part in this many of the tracer's time: with many counters, rprof does not report every window.
const MOST_SHARE: u32 = 20;

/// Time and duration of the last report.
#[derive(Debug)]
pub struct LastReport {
    at: Instant,
    took: Duration,
}

impl LastReport {
    /// Whether another report at `now` would take too much of the tracer's time.
    pub fn is_too_soon(&self, now: Instant) -> bool {
        now - self.at < self.took * MOST_SHARE
    }

    /// A report that began at `begin` has just ended.
    pub fn since(begin: Instant) -> Self {
        LastReport { at: Instant::now(), took: begin.elapsed() }
    }
}

impl Default for LastReport {
    fn default() -> Self {
        LastReport { at: Instant::now(), took: Duration::ZERO }
    }
}

/// The sinks of a run, and their schedules.
pub struct Recording {
    /// The receiver of addresses, if there is an access sink.
    pub drain: Option<AccessBuffer>,
    /// The receiver of bursts, if there is a burst sink.
    pub bursts: Option<Bursts>,
    /// The schedule of bursts.
    pub pace: Pace,
    /// The windows in which addresses are recorded.
    pub windows: WindowSchedule,
    /// Time of the last report of executions to the access sink.
    pub last_report: LastReport,
    /// The program is only visited.
    pub in_visits: bool,
    /// The burst sink takes everything: there are no windows, and no thread leaves the version that traces.
    is_continuous: bool,
}

impl Recording {
    /// With these sinks. `in_visits`: windows are needed without them, too.
    pub fn new((drain, bursts): (Option<AccessBuffer>, Option<Bursts>), in_visits: bool) -> Self {
        let is_continuous = drain.is_none() && bursts.as_ref().is_some_and(Bursts::is_continuous);
        let windows = WindowSchedule::new(!is_continuous && (drain.is_some() || bursts.is_some() || in_visits));
        let last_report = LastReport::default();
        Recording { drain, bursts, pace: Pace::new(), windows, last_report, in_visits, is_continuous }
    }

    /// Whether threads move between versions.
    pub fn has_phases(&self) -> bool {
        !self.is_continuous && (self.drain.is_some() || self.bursts.is_some())
    }

    /// The version that a program begins in: no burst begins in the kernel or the loader, unless all is one.
    pub fn first_version(&self) -> Version {
        match &self.drain {
            Some(drain) => drain.wanted(),
            None if self.is_continuous => Version::Tracing,
            None => Version::default(),
        }
    }

    /// The version that threads should be in.
    pub fn wanted(&self) -> Version {
        match self.drain.as_ref().map_or(Version::Plain, AccessBuffer::wanted) {
            Version::Plain if self.is_continuous || self.is_tracing() => Version::Tracing,
            wanted => wanted,
        }
    }

    /// Whether threads should be in the version that traces, if the access sink wants none that records addresses.
    pub fn is_tracing(&self) -> bool {
        self.bursts.as_ref().is_some_and(|bursts| matches!(bursts.stage, Stage::Tracing(_)))
    }

    /// Begins and ends bursts; `pauses`: the access sink wants no addresses.
    pub fn keep_pace_of_bursts(&mut self, pauses: bool, threads: &HashMap<Pid, Thread>, since_start_s: f64) {
        let now_s = self.windows.processor_seconds();
        let Some(bursts) = &mut self.bursts else { return };
        let rests = bursts.stage == Stage::Resting;
        self.pace.look(now_s, pauses && rests);
        let run_s = self.pace.run_s(since_start_s);
        match bursts.stage {
            Stage::Resting => {
                if pauses && self.pace.is_due(run_s) && !bursts.is_full() {
                    bursts.stage = Stage::Tracing(Traced::now());
                }
            }
            Stage::Tracing(mut traced) => {
                let now = Instant::now();
                if bursts.have_moved() {
                    traced.moved = now;
                }
                let runs = |(&tid, t): (&Pid, &Thread)| bursts.goes_on(t.ordinal) && is_runnable(tid);
                let mut waits = false;
                if traced.is_idle(now) {
                    waits = traced.begun && !threads.iter().any(runs);
                    // On a busy host a thread may have to wait for a processor.
                    if !waits && traced.is_quiet(now) {
                        traced.moved = now;
                    }
                }
                let over = waits || traced.is_over(bursts.go_on(), threads.len(), now);
                bursts.stage = match over || !pauses {
                    true if bursts.go_on() => Stage::Ending(traced, now - traced.moved),
                    true => Stage::Ending(traced, Duration::ZERO),
                    false => Stage::Tracing(traced),
                };
            }
            Stage::Ending(..) => self.close_bursts(threads, since_start_s),
        }
    }

    /// Completes a burst once all traced threads are back, except for those that wait for something.
    fn close_bursts(&mut self, threads: &HashMap<Pid, Thread>, since_start_s: f64) {
        let Some(bursts) = &mut self.bursts else { return };
        let Stage::Ending(traced, waited) = bursts.stage else { return };
        if threads.iter().any(|(&tid, t)| t.version.traces() && is_runnable(tid)) {
            return;
        }
        bursts.stage = Stage::Resting;
        let cost_s = traced.cost_s(bursts.used_s(), waited);
        let run_s = self.pace.run_s(since_start_s);
        self.pace.ended(cost_s, run_s);
    }

    /// Ends the burst of a thread with an emptied buffer.
    pub fn close_burst(&mut self, thread: &Thread) {
        if let Some(bursts) = &mut self.bursts {
            bursts.end(thread.ordinal);
        }
    }

    /// Hands the records of a stopped or waiting thread of `cache` to their sink, and empties its buffer.
    pub fn take_records(&mut self, cache: &CodeCache, thread: &Thread) {
        if thread.version.traces() {
            if let Some(bursts) = &mut self.bursts {
                bursts.drain(cache, thread);
            }
        } else if let Some(drain) = &mut self.drain {
            drain.drain(cache, thread);
        }
    }

    /// A traced thread got an answer.
    pub fn note_answer(&mut self) {
        self.bursts.iter_mut().for_each(Bursts::note_answer);
    }

    /// A stopped thread with an empty buffer is in `version` now, and was in `before`.
    pub fn note_turn(
        &mut self,
        (tid, before, in_cache): (Pid, Version, bool),
        threads: &HashMap<Pid, Thread>,
        since_start_s: f64,
    ) {
        let Some(thread) = threads.get(&tid) else { return };
        let Some(bursts) = &mut self.bursts else { return };
        if before.traces() {
            bursts.left(tid);
        }
        match bursts.stage {
            Stage::Tracing(traced) if thread.version.traces() => {
                bursts.came(tid);
                let begun = traced.begun || in_cache;
                bursts.stage = Stage::Tracing(Traced { moved: Instant::now(), begun, ..traced });
                if in_cache {
                    bursts.begin(thread.ordinal);
                }
            }
            Stage::Ending(..) if before.traces() => self.close_bursts(threads, since_start_s),
            _ => {}
        }
    }
}
