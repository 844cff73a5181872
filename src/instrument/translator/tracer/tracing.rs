//! Moves threads into the version that traces, for bursts, and back.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::version::Version;
use crate::instrument::translator::program::thread::Thread;
use crate::instrument::translator::sampling::access_buffer::AccessBuffer;
use crate::instrument::translator::sampling::burst_pace::{Stage, Traced};
use crate::instrument::translator::tracer::run::Run;
use crate::tracee::proc_status::is_runnable;

impl Run {
    /// The version that threads should be in.
    pub fn wanted(&self) -> Version {
        match self.drain.as_ref().map_or(Version::Plain, AccessBuffer::wanted) {
            Version::Plain if self.is_tracing() => Version::Tracing,
            wanted => wanted,
        }
    }

    /// Whether threads should be in the version that traces, if the access sink wants none that records addresses.
    pub fn is_tracing(&self) -> bool {
        self.bursts.as_ref().is_some_and(|bursts| matches!(bursts.stage, Stage::Tracing(_)))
    }

    /// Begins and ends bursts; `pauses`: the access sink wants no addresses.
    pub(crate) fn keep_pace_of_bursts(&mut self, pauses: bool) {
        let now_s = self.windows.processor_seconds();
        let Some(bursts) = &mut self.bursts else { return };
        let rests = bursts.stage == Stage::Resting;
        self.burst_pace.look(now_s, pauses && rests);
        let run_s = self.burst_pace.run_s(self.roster.now_s());
        match bursts.stage {
            Stage::Resting => {
                if pauses && self.burst_pace.is_due(run_s) && !bursts.is_full() {
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
                    waits = traced.begun && !self.threads.iter().any(runs);
                    // On a busy host a thread may have to wait for a processor.
                    if !waits && traced.is_quiet(now) {
                        traced.moved = now;
                    }
                }
                let over = waits || traced.is_over(bursts.go_on(), self.threads.len(), now);
                bursts.stage = match over || !pauses {
                    true if bursts.go_on() => Stage::Ending(traced, now - traced.moved),
                    true => Stage::Ending(traced, Duration::ZERO),
                    false => Stage::Tracing(traced),
                };
            }
            Stage::Ending(..) => self.close_bursts(),
        }
    }

    /// Completes a burst once all traced threads are back, except for those that wait for something.
    fn close_bursts(&mut self) {
        let Some(bursts) = &mut self.bursts else { return };
        let Stage::Ending(traced, waited) = bursts.stage else { return };
        if self.threads.iter().any(|(&tid, t)| t.version.traces() && is_runnable(tid)) {
            return;
        }
        bursts.stage = Stage::Resting;
        let cost_s = traced.cost_s(bursts.used_s(), waited);
        let run_s = self.burst_pace.run_s(self.roster.now_s());
        self.burst_pace.ended(cost_s, run_s);
    }

    /// Ends the burst of a thread, because its next instruction does not follow its last one.
    pub fn end_burst(&mut self, tid: Pid) {
        if self.threads.get(&tid).is_some_and(|t| t.version.traces()) {
            self.drain_buffer(tid);
            self.close_burst(tid);
        }
    }

    /// The same where its buffer has been emptied.
    pub(crate) fn close_burst(&mut self, tid: Pid) {
        if let (Some(thread), Some(bursts)) = (self.threads.get(&tid), &mut self.bursts) {
            bursts.end(thread.ordinal);
        }
    }

    /// A stopped thread, whose buffer is empty, is in `version` now, and was in `before`.
    pub(crate) fn note_turn(&mut self, tid: Pid, before: Version, in_cache: bool) {
        let Some(thread) = self.threads.get(&tid) else { return };
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
            Stage::Ending(..) if before.traces() => self.close_bursts(),
            _ => {}
        }
    }
}
