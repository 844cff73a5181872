//! One counted run: the loop that waits for threads and answers their mailboxes.
//!
//! ```text
//!        ┌──────────── polling ────────────┐  quiet for a while  ┌──── waiting ────┐
//!        │ mailboxes, then waitpid(NOHANG) │ ──────────────────▶ │ waitpid, blocks │
//!        └─────────────────────────────────┘ ◀────────────────── └─────────────────┘
//!                                               a thread stopped
//! ```

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::CountError;
use crate::translator::code_cache::contexts::Request;
use crate::translator::code_cache::stubs::{DRAIN, MARK};
use crate::translator::program::address_space::{AddressSpace, Destination};
use crate::translator::program::excursions::Excursion;
use crate::translator::program::hot_blocks::look_for_hot_blocks;
use crate::translator::tracer::handoffs::is_to_be_handed_off;
use crate::translator::tracer::run::{Run, kill_process_of};
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::watched_calls::note_call;
use crate::translator::translate::superblock::TranslateError;
use rprof_tracee::thread::Mode;
use rprof_tracee::wait::{Event, Waited, wait_any, wait_any_or_signal};

/// How long descendants are still counted after the program's end before they are released.
const GRACE: Duration = Duration::from_secs(1);

/// Interval between two looks while there are no requests.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);
/// The longest time that polling continues without a request in visits: the program needs the CPU more.
const PATIENCE_OF_VISITS: Duration = Duration::from_micros(200);

/// How a sleep ended.
enum Slept {
    /// It did not begin: a thread had asked.
    Asked,
    /// With an event.
    Event(Event),
    /// No thread is left.
    Nobody,
    /// By a timer, or with an event that has to wait; rprof polls again.
    Woken,
}

impl Run {
    /// Runs until the first process has ended, and its descendants have ended or were released.
    pub fn follow(&mut self) -> Result<i32, CountError> {
        let mut status = None;
        let mut deadline: Option<Instant> = None;
        while let Some(event) = self.next_event(deadline)? {
            match event {
                Event::Ended(tid, ended, cpu_s) => {
                    self.ended(tid);
                    if tid == self.first {
                        self.evidence.family_cpu_s = cpu_s;
                        status = Some(ended);
                        deadline = Some(Instant::now() + GRACE);
                    }
                }
                Event::Stopped(stopped, stop) if self.evidence.ended_before.is_some() => {
                    self.end_stopped(stopped, stop)
                }
                Event::Stopped(stopped, stop) => {
                    let tid = stopped.tid();
                    match self.stopped(stopped, stop) {
                        Ok(()) | Err(RunError::Gone) => {}
                        Err(RunError::Unrepeatable(reason)) => self.end_before(reason),
                        Err(error) => {
                            kill_process_of(tid);
                            return Err(error.into());
                        }
                    }
                }
            }
        }
        self.evidence.wall_s = self.evidence.roster.now_s();
        self.take_all_back();
        if self.program.effects.is_some() {
            self.end_rest();
        } else {
            self.release_all();
        }
        while self.evidence.finish_one(&mut self.recorded.samples.drain) {}
        status.ok_or_else(|| CountError::Unsupported("its end was not seen".into()))
    }

    /// Waits for the next event and serves the program meanwhile. `None`: no thread is left, or the deadline has passed.
    ///
    /// Each round, in this order: lots that workers return, deferred events, mailboxes (or work ahead if none asks), what is due by
    /// the clock, the next stop. After some time without a request, rprof sleeps until a thread stops.
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, CountError> {
        self.set_polling(true);
        let mut active = Instant::now();
        loop {
            self.look_after_loans()?;
            if let Some(event) = self.no_longer_put_off().or_else(|| self.program.backlog.pop_front()) {
                return Ok(Some(event));
            }
            if self.serve()? {
                active = Instant::now();
            }
            self.look_at_the_clock();
            if let Some(event) =
                self.program.backlog.pop_front().or_else(|| self.polling.turns.look(self.program.threads.keys()))
            {
                match self.unless_lent(event) {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            if self.handoffs.are_awaited() {
                continue;
            }
            if self.is_over(deadline) {
                return Ok(None);
            }
            // A plan is carried out to its end: code without it is slower than this rprof in the way of the program.
            if self.program.address_spaces.values().any(AddressSpace::is_relaid_out) {
                continue;
            }
            let patience = self.polling.patience();
            if active.elapsed() >= if self.visits { patience.min(PATIENCE_OF_VISITS) } else { patience } {
                // In visits, the wake-up of the windows ends the wait in time.
                if deadline.is_some() && !self.visits {
                    std::thread::sleep(BETWEEN_LOOKS);
                    continue;
                }
                match self.sleep()? {
                    Slept::Asked => {
                        active = Instant::now();
                        continue;
                    }
                    Slept::Event(event) => return Ok(Some(event)),
                    Slept::Nobody => return Ok(None),
                    Slept::Woken => {}
                }
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    /// Answers mailboxes; if there is no request, works ahead. Returns whether there was anything to do.
    fn serve(&mut self) -> Result<bool, CountError> {
        if self.answer_all()? {
            self.polling.patience.paid();
            return Ok(true);
        }
        Ok(self.program.address_spaces.values_mut().any(AddressSpace::translate_ahead)
            || !self.recorded.samples.is_tracing()
                && self.recorded.work_of_sink(&mut self.program, self.evidence.roster.now_s()))
    }

    /// Does the tasks that are due by the clock: looks for hot blocks, and moves threads as windows begin and end.
    fn look_at_the_clock(&mut self) {
        look_for_hot_blocks(&mut self.looks, &mut self.program.address_spaces, &self.program.threads);
        if self.recorded.samples.windows.is_time_to_look() {
            self.keep_pace();
        }
    }

    /// Moves threads to the version that they should be in.
    pub fn keep_pace(&mut self) {
        self.recorded.keep_pace(&mut self.program, self.evidence.roster.now_s());
    }

    /// Whether there is nothing more to wait for.
    fn is_over(&self, deadline: Option<Instant>) -> bool {
        deadline
            .is_some_and(|d| self.program.threads.is_empty() && self.program.orphans.is_empty() || Instant::now() >= d)
    }

    /// Stops polling, and sleeps until a thread stops or a timer wakes rprof.
    fn sleep(&mut self) -> Result<Slept, CountError> {
        self.polling.pin.anywhere();
        self.polling.patience.ended(Instant::now());
        self.set_polling(false);
        // Answers threads that asked before they could see that polling ended; later ones trap.
        fence(Ordering::SeqCst);
        if self.answer_all()? {
            self.set_polling(true);
            return Ok(Slept::Asked);
        }
        match wait_any_or_signal() {
            Waited::Event(event) => match self.unless_lent(event) {
                Some(event) => return Ok(Slept::Event(event)),
                None => self.set_polling(true),
            },
            Waited::Nobody => return Ok(Slept::Nobody),
            Waited::Interrupted => self.set_polling(true),
        }
        Ok(Slept::Woken)
    }

    /// Answers every waiting mailbox; returns whether there was one.
    fn answer_all(&mut self) -> Result<bool, CountError> {
        let mut any = false;
        let mut full = Vec::new();
        let (mut drained, mut to_lend) = (false, Vec::new());
        for (&tid, thread) in &mut self.program.threads {
            let shared = thread.contexts.clone();
            let contexts = shared.borrow();
            let request = if thread.is_stalled() { None } else { contexts.request(thread.context) };
            let Some(Request { site, target }) = request else { continue };
            let Some(address_space) = self.program.address_spaces.get(&thread.address_space) else { continue };
            any = true;
            if site == MARK {
                note_call(&mut self.recorded.marks, &mut self.recorded.calls, address_space, thread);
                if thread.version.traces() {
                    self.recorded.samples.note_answer();
                }
                contexts.respond(thread.context, target.get());
                continue;
            }
            let now = Instant::now();
            if !thread.version.collects()
                && is_to_be_handed_off(self.program.address_spaces.values(), address_space, now)
                && self.handoffs.has_room(to_lend.len())
            {
                to_lend.push(thread.address_space);
                continue;
            }
            let Some(address_space) = self.program.address_spaces.get_mut(&thread.address_space) else { continue };
            address_space.asked = Some(now);
            if site == DRAIN {
                drop(contexts);
                self.recorded.samples.take_records(&address_space.image.cache.borrow(), thread);
                drained = true;
                thread.contexts.borrow().respond(thread.context, target.get());
                continue;
            }
            if thread.version.traces() {
                self.recorded.samples.note_answer();
            }
            match address_space.answer(thread.version, site, target) {
                Ok(destination) => {
                    if let Destination::Native(at) = destination {
                        if let Some(why) = address_space.untranslated(at) {
                            thread.native = Some(Excursion::begin(tid, why));
                            self.evidence.uncounted.note(why);
                        }
                        if thread.version.traces() {
                            self.recorded.samples.take_records(&address_space.image.cache.borrow(), thread);
                            self.recorded.samples.close_burst(thread);
                        }
                    }
                    contexts.respond(thread.context, destination.get());
                }
                Err(TranslateError::Full) => full.push(tid),
                Err(error) => return Err(CountError::Unsupported(error.to_string())),
            }
        }
        to_lend.into_iter().for_each(|address_space| self.hand_off(address_space));
        for tid in full {
            self.program.stall(tid);
        }
        if drained {
            self.keep_pace();
        }
        Ok(any)
    }

    /// Lets all remaining threads run on natively.
    fn release_all(&mut self) {
        for tid in self.program.threads.keys().copied().collect::<Vec<Pid>>() {
            self.release(tid);
        }
    }

    /// Kills all remaining processes and waits for their ends.
    pub fn end_all(&mut self) {
        let groups = self.program.threads.values().map(|t| t.pid);
        groups.chain([self.first]).for_each(kill_process_of);
        std::mem::take(&mut self.program.orphans).into_keys().for_each(kill_process_of);
        let seen =
            std::mem::take(&mut self.handoffs.put_off).into_iter().chain(std::mem::take(&mut self.program.backlog));
        for event in seen.chain(std::iter::from_fn(|| wait_any(true))) {
            if let Event::Stopped(stopped, _) = event {
                // Tasks that began meanwhile, or that rprof lost sight of, must end as well.
                kill_process_of(stopped.tid());
                let _ = stopped.resume(Mode::Continue, None);
            }
        }
    }
}
