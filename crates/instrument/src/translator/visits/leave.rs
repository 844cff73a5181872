//! Sends all threads out of the code cache, to run natively as if rprof had not been there.

use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};

use super::Visitor;
use super::catch::release;
use crate::translator::kernel::fold::fold;
use crate::translator::tracer::run::EndedThread;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::stop_the_world::Held;
use rprof_profile::evidence::windows::WindowThread;
use rprof_tracee::address::CacheAddress;
use rprof_tracee::proc_status::read_status;
use rprof_tracee::restarts::{is_interrupted, repeat_ended_call, restart_call};
use rprof_tracee::thread::Stopped;
use rprof_tracee::wait::{Event, Stop};

/// How long rprof tries to stop threads that cannot stop at once: one waits for its child of `vfork`.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between two attempts.
const AGAIN: Duration = Duration::from_millis(1);

impl Visitor {
    /// Sends all threads out; returns those that were in the window, with those that ended there.
    pub(super) fn leave(&mut self) -> Vec<WindowThread> {
        let mut were_there = Vec::new();
        let since = Instant::now();
        loop {
            self.run.take_all_back();
            self.take_backlog();
            let mut spaces: Vec<Pid> = self.run.program.threads.values().map(|t| t.address_space).collect();
            spaces.sort_unstable();
            spaces.dedup();
            for space in spaces {
                // All are out of the cache before one runs natively: the steps to get there are traps, too.
                let held = self.run.hold(space, None);
                let held: Vec<Held> = held.into_iter().filter_map(|held| self.lead_out(held).ok()).collect();
                for held in self.fold(space, held) {
                    let tid = held.stopped.tid();
                    let ordinal = self.run.program.threads.get(&tid).map(|t| t.ordinal);
                    self.run.program.leave_native(tid, &mut self.run.evidence.uncounted);
                    // While it is stopped: a thread that runs natively again uses time that is none of the window's.
                    let cpu_s = self.used_s(tid);
                    if let (Ok(true), Some(thread)) = (self.send_out(held), ordinal) {
                        were_there.push(WindowThread { thread, cpu_s });
                        self.run.harvest(tid, false);
                        self.run.evidence.roster.look(tid);
                        self.run.evidence.roster.leave(tid);
                    }
                }
            }
            self.take_backlog();
            std::mem::take(&mut self.run.program.orphans).into_values().for_each(release);
            self.forget_lost();
            if self.run.program.threads.is_empty() || since.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(AGAIN);
        }
        self.run.program.stuck.clear();
        self.run.set_polling(false);
        let ended = std::mem::take(&mut self.run.ended_threads).into_iter();
        were_there.extend(ended.map(|EndedThread { tid, ordinal, cpu_s }| WindowThread {
            thread: ordinal,
            cpu_s: self.since_entry_s(tid, cpu_s),
        }));
        were_there
    }

    /// Drops threads that will not be reported any more: one that executes a program ends all others of its process, and takes over
    /// the first one's id, with another tracer or none.
    fn forget_lost(&mut self) {
        let own = gettid().as_raw();
        let is_lost = |tid: &Pid| read_status(*tid).map_or(0, |status| status.tracer) != own;
        let lost: Vec<Pid> = self.run.program.threads.keys().copied().filter(is_lost).collect();
        lost.into_iter().for_each(|tid| self.run.ended(tid));
    }

    /// Ends and programs executed, which holding the threads brought up.
    fn take_backlog(&mut self) {
        while let Some(event) = self.run.program.backlog.pop_front() {
            match event {
                Event::Ended(tid, status, cpu_s) => self.ended(tid, status, cpu_s),
                // An error is the end of that thread.
                Event::Stopped(stopped, Stop::Exec) => drop(self.run.on_exec(stopped)),
                Event::Stopped(stopped, stop) => drop(self.run.stopped(stopped, stop)),
            }
        }
    }

    /// Gives a held thread the program's registers, if they are known.
    fn lead_out(&mut self, held: Held) -> Result<Held, RunError> {
        Ok(Held { stopped: self.run.leave_cache(held.stopped)?, ..held })
    }

    /// Leaves little of rprof's mapped in `space`, if all its threads are out of the code cache and one of them can make system calls.
    fn fold(&mut self, space: Pid, mut held: Vec<Held>) -> Vec<Held> {
        let is_out = |held: &Held| {
            let Ok(registers) = held.stopped.registers() else { return false };
            let Some(address_space) = self.run.program.address_spaces.get(&space) else { return false };
            address_space.image.cache.borrow().arena_of(CacheAddress::new(registers.rip)).is_none()
        };
        if held.len() < self.run.program.threads_in(space).len() || !held.iter().all(is_out) {
            return held;
        }
        let is_free = |held: &Held| held.signal.is_none() && !held.job && can_call(&held.stopped);
        let Some(at) = held.iter().position(is_free) else { return held };
        let Some(address_space) = self.run.program.address_spaces.get_mut(&space) else { return held };
        let Held { stopped, signal, job } = held.swap_remove(at);
        let tid = stopped.tid();
        // An error is the end of that thread.
        if let Ok((stopped, signals)) = fold(address_space, stopped) {
            self.run.program.defer_all(tid, signals);
            if let Ok(stopped) = self.measure_stops(stopped) {
                held.push(Held { stopped, signal, job });
            }
        }
        held
    }

    /// Measures the CPU time that a stop takes, if it is not known yet.
    fn measure_stops(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        if self.stop_s.is_some() {
            return Ok(stopped);
        }
        let (stopped, stop) = self.run.program.try_stops(stopped)?;
        self.stop_s = Some(stop.cpu_s);
        Ok(stopped)
    }

    /// Lets a thread that was led out run natively; `false`: it could not leave yet, and runs on.
    fn send_out(&mut self, held: Held) -> Result<bool, RunError> {
        let tid = held.stopped.tid();
        let signal = held.signal_to_take_along();
        let stopped = held.stopped;
        let mut registers = stopped.registers()?;
        let (_, address_space) = self.run.program.thread_and_space(tid)?;
        let in_cache = address_space.image.cache.borrow().arena_of(CacheAddress::new(registers.rip)).is_some();
        if in_cache {
            self.run.program.defer_all(tid, held.signal.into_iter().collect());
            self.run.program.go_on(stopped)?;
            return Ok(false);
        }
        if held.signal.is_none() && !read_status(tid).is_ok_and(|s| s.is_about_to_be_signalled()) {
            repeat_ended_call(&mut registers);
            stopped.set_registers(&registers)?;
        }
        let thread = self.run.program.thread_mut(tid)?;
        thread.deferred.drain(..).for_each(|signal| signal.send(thread.pid, tid));
        self.run.evidence.look_for_denormals(&stopped);
        stopped.detach(signal)?;
        Ok(true)
    }
}

/// Whether a thread that was led out can make system calls for rprof; one that was stopped in a call begins it again behind them.
fn can_call(stopped: &Stopped) -> bool {
    let Ok(mut registers) = stopped.registers() else { return false };
    if !is_interrupted(&registers) {
        return true;
    }
    if read_status(stopped.tid()).map_or(true, |status| status.is_about_to_be_signalled()) {
        return false;
    }
    restart_call(&mut registers);
    repeat_ended_call(&mut registers);
    stopped.set_registers(&registers).is_ok()
}
