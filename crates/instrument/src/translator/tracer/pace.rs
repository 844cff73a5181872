//! Moves threads between the versions of the program, as windows and pauses begin and end.

use nix::unistd::Pid;

use crate::translator::code_cache::version::Version;
use crate::translator::counts::execution_deltas::report_deltas;
use crate::translator::program::thread::{Interrupted, Thread};
use crate::translator::sampling::access_buffer::{AccessBuffer, empty};
use crate::translator::sampling::windows::LOOK;
use crate::translator::tracer::program::Program;
use crate::translator::tracer::recorded::Recorded;
use crate::translator::tracer::run_error::RunError;
use rprof_tracee::address::CacheAddress;
use rprof_tracee::thread::Stopped;

impl Recorded {
    /// Interrupts every running thread that is not in the version that it should be in.
    pub fn keep_pace(&mut self, program: &mut Program, since_start_s: f64) {
        if !self.samples.has_phases() {
            return;
        }
        let of_sink = |drain: &Option<AccessBuffer>| drain.as_ref().map_or(Version::Plain, AccessBuffer::wanted);
        let mut wanted = of_sink(&self.samples.drain);
        if wanted != self.samples.windows.wanted || self.samples.windows.looked.elapsed() >= LOOK {
            self.samples.windows.look(program.threads.keys().copied());
        }
        // A pause lasts until the sink has caught up, and so does a burst in it.
        let is_behind = self.samples.drain.as_ref().is_some_and(AccessBuffer::is_behind);
        // In visits it lasts until the next one that records addresses.
        let goes_on = wanted == Version::Plain && (is_behind || self.samples.is_tracing() || self.samples.in_visits);
        if let Some(drain) = &mut self.samples.drain
            && wanted == self.samples.windows.wanted
            && self.samples.windows.is_over()
            && !goes_on
        {
            drain.end_phase();
            wanted = drain.wanted();
            // If the phase continues, rprof asks again after the same time.
            self.samples.windows.since_s = self.samples.windows.now_s;
        }
        let begins_to_measure = wanted == Version::Measuring && wanted != self.samples.windows.wanted;
        self.samples.windows.turn_to(wanted, program.threads.len());
        if begins_to_measure {
            // Threads have left the pause, and so counted all of it.
            report_deltas(&mut self.samples, &program.address_spaces, &program.threads);
            wanted = of_sink(&self.samples.drain);
        }
        self.samples.keep_pace_of_bursts(wanted == Version::Plain, &program.threads, since_start_s);
        let peek = self.samples.drain.is_some() && !self.samples.is_tracing() && self.samples.windows.is_time_to_peek();
        let wanted = self.samples.wanted();
        for (&tid, thread) in &mut program.threads {
            if thread.version == wanted
                && let Some(drain) = &mut self.samples.drain
            {
                drain.record_all(thread);
            }
            // A thread that waits for something would have its system call interrupted.
            if (thread.version != wanted || peek) && !thread.is_stalled() && thread.is_runnable(tid, LOOK) {
                if peek {
                    thread.interrupted = Some(Interrupted::ToLook);
                }
                // If it is gone, its end will be seen.
                let _ = thread.running(tid).interrupt();
            }
        }
    }

    /// Whether rprof stopped a thread to see its place.
    pub fn is_peeked(&self, thread: &Thread) -> bool {
        self.samples.windows.wanted == Version::Plain && thread.interrupted == Some(Interrupted::ToLook)
    }

    /// Looks at a stopped thread's place: a pause ends when code runs that no window has seen. The thread stays stopped while
    /// the sink catches up, because that code may not run for long.
    pub fn peek(&mut self, program: &mut Program, stopped: &Stopped) -> Result<(), RunError> {
        let (Some(thread), Some(drain)) = (program.threads.get_mut(&stopped.tid()), &mut self.samples.drain) else {
            return Ok(());
        };
        thread.interrupted = None;
        let at = CacheAddress::new(stopped.registers()?.rip);
        let code = program.address_spaces.get(&thread.address_space).and_then(|p| p.code_at(at));
        if code.is_some_and(|code| drain.unseen.found(code)) {
            drain.catch_up();
            self.samples.windows.cut_short = true;
        }
        Ok(())
    }

    /// Lets the access sink do some of its deferred work, which may end the phase; false if nothing is left.
    pub fn work_of_sink(&mut self, program: &mut Program, since_start_s: f64) -> bool {
        let Some(drain) = &mut self.samples.drain else { return false };
        let worked = drain.work();
        if worked && drain.wanted() != self.samples.windows.wanted {
            self.keep_pace(program, since_start_s);
        }
        worked
    }

    /// Whether a thread is in another version than it should be.
    pub fn is_to_turn(&self, thread: &Thread) -> bool {
        thread.version != self.samples.wanted()
    }

    /// A stopped thread goes over to the version that it should be in; `in_cache`: within the code cache.
    pub fn enter_version(&mut self, program: &mut Program, tid: Pid, in_cache: bool, since_start_s: f64) {
        self.end_burst(program, tid);
        self.drain_buffer(program, tid);
        let wanted = self.samples.wanted();
        let Some(thread) = program.threads.get_mut(&tid) else { return };
        let before = std::mem::replace(&mut thread.version, wanted);
        self.calls.turned(thread);
        // For the access sink a burst is a part of the pause.
        let same_phase = before.phase() == wanted.phase();
        let mut drain = self.samples.drain.as_mut().filter(|_| !same_phase);
        match &mut drain {
            Some(drain) => drain.enter(&thread.contexts.borrow(), thread.context, thread.ordinal, wanted),
            None => empty(&thread.contexts.borrow(), thread.context, wanted),
        }
        self.samples.note_turn((tid, before, in_cache), &program.threads, since_start_s);
    }
}
