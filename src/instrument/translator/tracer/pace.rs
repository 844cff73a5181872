//! Moves threads between the versions of the program, as windows and pauses begin and end.

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::version::Version;
use crate::instrument::translator::counts::execution_deltas::report_deltas;
use crate::instrument::translator::kernel::program_state::State;
use crate::instrument::translator::sampling::access_buffer::{AccessBuffer, empty};
use crate::instrument::translator::sampling::windows::LOOK;
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::tracee::address::{Address, CacheAddress};
use crate::tracee::proc_status::{has_fault_pending, is_runnable};
use crate::tracee::thread::{Mode, Registers, Stopped};
use crate::tracee::wait::Stop;

/// More steps than any of the translator's sequences has instructions.
const MAX_STEPS: usize = 200;
/// Results of an interrupted system call that the kernel will restart: −ERESTARTSYS … −ERESTART_RESTARTBLOCK.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl Run {
    /// Interrupts every running thread that is not in the version that it should be in.
    pub fn keep_pace(&mut self) {
        if self.recording.drain.is_none() && self.recording.bursts.is_none() {
            return;
        }
        let of_sink = |drain: &Option<AccessBuffer>| drain.as_ref().map_or(Version::Plain, AccessBuffer::wanted);
        let mut wanted = of_sink(&self.recording.drain);
        if wanted != self.recording.windows.wanted || self.recording.windows.looked.elapsed() >= LOOK {
            self.recording.windows.look(self.threads.keys().copied());
        }
        // A pause lasts until the sink has caught up, and so does a burst in it.
        let is_behind = self.recording.drain.as_ref().is_some_and(AccessBuffer::is_behind);
        // In visits it lasts until the next one that records addresses.
        let goes_on = wanted == Version::Plain && (is_behind || self.recording.is_tracing() || self.visits);
        if let Some(drain) = &mut self.recording.drain
            && wanted == self.recording.windows.wanted
            && self.recording.windows.is_over()
            && !goes_on
        {
            drain.end_phase();
            wanted = drain.wanted();
            // If the phase continues, rprof asks again after the same time.
            self.recording.windows.since_s = self.recording.windows.now_s;
        }
        let begins_to_measure = wanted == Version::Measuring && wanted != self.recording.windows.wanted;
        self.recording.windows.turn_to(wanted, self.threads.len());
        if begins_to_measure {
            // Threads have left the pause, and so counted all of it.
            report_deltas(&mut self.recording, &self.address_spaces, &self.threads);
            wanted = of_sink(&self.recording.drain);
        }
        self.recording.keep_pace_of_bursts(wanted == Version::Plain, &self.threads, self.roster.now_s());
        let peek =
            self.recording.drain.is_some() && !self.recording.is_tracing() && self.recording.windows.is_time_to_peek();
        let wanted = self.recording.wanted();
        for (&tid, thread) in &mut self.threads {
            if thread.version == wanted
                && let Some(drain) = &mut self.recording.drain
            {
                drain.join_burst(thread);
            }
            // A thread that waits for something would have its system call interrupted.
            if (thread.version != wanted || peek) && !thread.stalled && is_runnable(tid) {
                thread.peeked |= peek;
                // If it is gone, its end will be seen.
                let _ = thread.running(tid).interrupt();
            }
        }
    }

    /// Whether rprof stopped a thread to see where it is.
    pub fn is_peeked(&self, tid: Pid) -> bool {
        self.recording.windows.wanted == Version::Plain && self.threads.get(&tid).is_some_and(|t| t.peeked)
    }

    /// Looks where a stopped thread is: a pause ends when code runs that no window has seen. The thread stays stopped while the
    /// sink catches up, because that code may not run for long.
    pub fn peek(&mut self, stopped: &Stopped) -> Result<(), RunError> {
        let (Some(thread), Some(drain)) = (self.threads.get_mut(&stopped.tid()), &mut self.recording.drain) else {
            return Ok(());
        };
        thread.peeked = false;
        let at = CacheAddress::new(stopped.registers()?.rip);
        let code = self.address_spaces.get(&thread.address_space).and_then(|p| p.code_at(at));
        if code.is_some_and(|code| drain.unseen.found(code)) {
            drain.catch_up();
            self.recording.windows.cut_short = true;
        }
        Ok(())
    }

    /// Lets the access sink do some of its deferred work, which may end the phase; false if nothing is left.
    pub fn work_of_sink(&mut self) -> bool {
        let Some(drain) = &mut self.recording.drain else { return false };
        let worked = drain.work();
        if worked && drain.wanted() != self.recording.windows.wanted {
            self.keep_pace();
        }
        worked
    }

    /// Whether a thread is in another version than it should be.
    pub fn is_to_turn(&self, tid: Pid) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.version != self.recording.wanted())
    }

    /// Moves a stopped thread to the version that it should be in; it stays where it is, for now, if it is in a system
    /// call, or if a trap of its own is still to be reported.
    pub fn turn(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let mut stopped = stopped;
        for _ in 0..MAX_STEPS {
            let mut registers = stopped.registers()?;
            if is_to_restart(&registers) || has_fault_pending(tid) {
                return Ok(stopped);
            }
            match self.as_the_program_has_it(tid, &mut registers)? {
                State::Continued => stopped.set_registers(&registers)?,
                State::Between => {
                    (stopped, _) = self.until(stopped, Mode::Step, 0, |s| *s == Stop::Signal(libc::SIGTRAP))?;
                }
                State::Outside => {
                    self.enter_version(tid, false);
                    return Ok(stopped);
                }
                State::Program => {
                    self.enter_version(tid, true);
                    return self.redirect(stopped, registers, Address::new(registers.rip));
                }
            }
        }
        Ok(stopped)
    }

    fn enter_version(&mut self, tid: Pid, in_cache: bool) {
        self.end_burst(tid);
        self.drain_buffer(tid);
        let wanted = self.recording.wanted();
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = std::mem::replace(&mut thread.version, wanted);
        // For the access sink a burst is a part of the pause.
        let same_phase = before.phase() == wanted.phase();
        let mut drain = self.recording.drain.as_mut().filter(|_| !same_phase);
        match &mut drain {
            Some(drain) => drain.enter(&thread.regions.borrow(), thread.region, thread.ordinal, wanted),
            None => empty(&thread.regions.borrow(), thread.region, wanted),
        }
        self.recording.note_turn((tid, before, in_cache), &self.threads, self.roster.now_s());
    }
}

fn is_to_restart(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0 && RESTARTS.contains(&(registers.rax as i64))
}
