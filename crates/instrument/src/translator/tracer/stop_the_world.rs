//! Stopping all threads of an address space at once, to move or to release them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::translator::code_cache::layout;
use crate::translator::code_cache::syscall_table::copy_classes;
use crate::translator::kernel::context_tables::map_tables;
use crate::translator::kernel::prepare_image;
use crate::translator::kernel::program_state::is_fault;
use crate::translator::kernel::signal_bits::SI_KERNEL;
use crate::translator::program::thread::Thread;
use crate::translator::sampling::access_buffer::enter;
use crate::translator::tracer::program::remote_in;
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::{RunError, unless_gone};
use crate::translator::tracer::uncounted::Release;
use crate::translator::translate::text_ranges::{Treatment, find_text};
use rprof_tracee::address::Address;
use rprof_tracee::proc_status::{has_fault_pending, read_blocking_call};
use rprof_tracee::restarts::{is_ended_by_stops, keep_call, restart_call};
use rprof_tracee::thread::{Mode, Registers, Running, SignalInfo, Stopped};
use rprof_tracee::wait::{Event, Stop, wait_for};

/// How long a thread may take to stop: one that waits for its child of `vfork` cannot.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between looks.
const LOOK: Duration = Duration::from_micros(50);

/// A thread that was stopped.
pub(crate) struct Held {
    /// The thread.
    pub stopped: Stopped,
    /// A signal that was about to be delivered to it.
    pub signal: Option<(i32, SignalInfo)>,
    /// Job control has stopped it.
    pub job: bool,
}

impl Held {
    /// The signal that goes with the thread when rprof stops following it; 0: none. The instruction of a fault is executed again there,
    /// and faults again, with an address that is the program's.
    pub fn signal_to_take_along(&self) -> i32 {
        self.signal.filter(|(signal, info)| !is_fault(*signal, info)).map_or(0, |(signal, _)| signal)
    }
}

impl Run {
    /// Stops every thread of `space`, including those made meanwhile, except `but`.
    pub fn hold(&mut self, space: Pid, but: Option<Pid>) -> Vec<Held> {
        self.hold_those(but, |_, thread| thread.address_space == space)
    }

    /// Stops the other threads of a thread's process: until [`let_on`](Run::let_on), none of them changes an action of a signal.
    ///
    /// One that waits in a call which a stop would end is left there.
    pub fn hold_siblings(&mut self, tid: Pid) -> Vec<Held> {
        let Ok(pid) = self.program.thread(tid).map(|t| t.pid) else { return Vec::new() };
        // Who waits for a child of `vfork` cannot stop.
        let waits_for_child = |call| matches!(call, libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3);
        let is_stoppable =
            |tid| !read_blocking_call(tid).is_some_and(|call| is_ended_by_stops(call) || waits_for_child(call));
        self.hold_those(Some(tid), |tid, thread| thread.pid == pid && is_stoppable(tid))
    }

    /// Lets stopped threads go on.
    pub fn let_on(&mut self, held: Vec<Held>) -> Result<(), RunError> {
        for Held { stopped, signal, job } in held {
            if let Some((signal, _)) = signal {
                self.program.backlog.push_back(Event::Stopped(stopped, Stop::Signal(signal)));
            } else if job {
                unless_gone(stopped.listen().map_err(RunError::from))?;
            } else {
                unless_gone(self.program.go_on(stopped))?;
            }
        }
        Ok(())
    }

    fn hold_those(&mut self, but: Option<Pid>, is_meant: impl Fn(Pid, &Thread) -> bool) -> Vec<Held> {
        let mut held = Vec::new();
        let mut seen: HashSet<Pid> = but.into_iter().collect();
        loop {
            let all = self.program.threads.iter().filter(|&(&tid, t)| !seen.contains(&tid) && is_meant(tid, t));
            let next: Vec<Pid> = all.map(|(&tid, _)| tid).collect();
            if next.is_empty() {
                return held;
            }
            seen.extend(&next);
            // All are asked before rprof waits for one.
            let mut asked = Vec::new();
            for tid in next {
                if let Some((stopped, signal)) = self.take_put_off(tid) {
                    held.extend(self.hold_at_signal(stopped, signal).ok());
                } else if let Some(stop) = self.program.stuck.remove(&tid) {
                    held.extend(self.hold_stuck(Stopped::still(tid), stop));
                } else if Running::resumed(tid).interrupt().is_ok() {
                    asked.push(tid);
                }
                // rprof does not wait for a thread that is gone.
            }
            for tid in asked {
                held.extend(self.hold_one(tid));
            }
        }
    }

    /// The stop of a thread at a signal, if rprof has not come to it yet.
    fn take_put_off(&mut self, tid: Pid) -> Option<(Stopped, i32)> {
        let is_meant = |event: &Event| matches!(event, Event::Stopped(s, Stop::Signal(_)) if s.tid() == tid);
        let waiting = [&mut self.program.backlog, &mut self.handoffs.put_off];
        let event = waiting.into_iter().find_map(|events| events.remove(events.iter().position(is_meant)?))?;
        match event {
            Event::Stopped(stopped, Stop::Signal(signal)) => Some((stopped, signal)),
            _ => None,
        }
    }

    /// A thread that is still in a stop that could not be handled.
    fn hold_stuck(&mut self, stopped: Stopped, stop: Stop) -> Option<Held> {
        match stop {
            Stop::Signal(signal) => self.hold_at_signal(stopped, signal).ok(),
            _ => Some(Held { stopped, signal: None, job: false }),
        }
    }

    /// Waits for the stop of a thread that was asked to.
    fn hold_one(&mut self, tid: Pid) -> Option<Held> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match wait_for(tid, false) {
                None => std::thread::sleep(LOOK),
                Some(Event::Stopped(stopped, Stop::Group(libc::SIGTRAP))) if has_fault_pending(tid) => {
                    // Its trap is reported next, or its end if it is gone.
                    let _ = stopped.resume(Mode::Continue, None);
                }
                Some(Event::Stopped(stopped, Stop::Group(signal))) => {
                    keep_call(&stopped);
                    return Some(Held { stopped, signal: None, job: signal != libc::SIGTRAP });
                }
                Some(Event::Stopped(stopped, Stop::Signal(signal))) => {
                    return self.hold_at_signal(stopped, signal).ok();
                }
                Some(Event::Stopped(stopped, stop @ (Stop::NewTask | Stop::Exit))) => {
                    // A thread that is gone need not be stopped. Any stop takes the request for another one back.
                    let _ = self.stopped(stopped, stop);
                    let _ = Running::resumed(tid).interrupt();
                }
                Some(event @ (Event::Stopped(_, Stop::Exec) | Event::Ended(..))) => {
                    self.program.backlog.push_back(event);
                    return None;
                }
                Some(Event::Stopped(stopped, _)) => {
                    // If it is gone, its end comes next.
                    let _ = stopped.resume(Mode::Continue, None).and_then(|running| running.interrupt());
                }
            }
        }
        None
    }

    /// Undoes traps of rprof's: the thread is before the trap again, and no signal is left.
    fn hold_at_signal(&mut self, stopped: Stopped, signal: i32) -> Result<Held, RunError> {
        let info = stopped.signal_info()?;
        let mut registers = stopped.registers()?;
        let address_space = self.program.address_space(stopped.tid())?;
        let own = address_space.image.cache.borrow().own_trap(registers.rip, info.si_code == SI_KERNEL);
        let escape = signal == libc::SIGSEGV && find_text(&address_space.text, Address::new(registers.rip)).is_some();
        if signal == libc::SIGTRAP && own.is_some() {
            registers.rip -= 1;
            stopped.set_registers(&registers)?;
        } else if !escape {
            if self.program.fate(stopped.tid(), signal)?.drops(signal) {
                keep_call(&stopped);
            }
            return Ok(Held { stopped, signal: Some((signal, info)), job: false });
        }
        let is_own = info.si_code == SI_KERNEL || escape && info.si_code > 0;
        if !is_own {
            self.program.defer_merged(stopped.tid(), signal, info);
        }
        let (stopped, _) = self.program.restore_signal_state(stopped, signal, &mut self.evidence)?;
        Ok(Held { stopped, signal: None, job: false })
    }

    /// Gives the address space of `stopped` a code cache of its own. All its other threads continue in it; `stopped` is ready to
    /// continue.
    pub fn part(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let (space, pid) = self.program.thread(tid).map(|t| (t.address_space, t.pid))?;
        self.program.ensure_room_allowed(pid)?;
        let ready = self.held_outside(space, Some(tid))?;
        let first = self.leave_cache(stopped)?;
        let first = self.renew(space, first)?;
        for held in ready {
            unless_gone(self.move_on(held))?;
        }
        self.move_over(first)
    }

    /// The same for an address space without stopped threads. They all continue.
    pub fn part_other(&mut self, space: Pid) -> Result<(), RunError> {
        let mut ready = self.held_outside(space, None)?;
        if let Some(first) = ready.pop() {
            self.program.ensure_room_allowed(self.program.thread(first.stopped.tid())?.pid)?;
            let stopped = self.renew(space, first.stopped)?;
            ready.push(Held { stopped, ..first });
        }
        ready.into_iter().try_for_each(|held| unless_gone(self.move_on(held)).map(drop))
    }

    /// Holds the threads of an address space but one, with the registers that the program has.
    fn held_outside(&mut self, space: Pid, but: Option<Pid>) -> Result<Vec<Held>, RunError> {
        let mut ready = Vec::new();
        for held in self.hold(space, but) {
            ready.extend(unless_gone(self.leave_cache(held.stopped))?.map(|stopped| Held { stopped, ..held }));
        }
        Ok(ready)
    }

    /// New tables, contexts and arenas; the old ones are unmapped there.
    fn renew(&mut self, space: Pid, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let members = self.program.threads_in(space);
        for &id in &members {
            self.recorded.end_burst(&self.program, id);
            self.recorded.drain_buffer(&self.program, id);
        }
        let address_space = self.program.address_spaces.get(&space).ok_or(RunError::Gone)?;
        let ((cache, contexts), stopped, signals) = prepare_image::renew(address_space, stopped)?;
        let new = self.image(cache, contexts);
        let address_space = self.program.address_spaces.get_mut(&space).ok_or(RunError::Gone)?;
        let old = std::mem::replace(&mut address_space.image, new.clone());
        copy_classes(&old.cache.borrow().tables, &new.cache.borrow().tables);
        address_space.pages.borrow_mut().forget();
        address_space.with_tables.clear();
        let (mut stopped, mut signals) = (stopped, signals);
        for id in members {
            let Some(thread) = self.program.threads.get_mut(&id) else { continue };
            let Some(address_space) = self.program.address_spaces.get_mut(&space) else { continue };
            self.recorded.marks.moved(&mut old.cache.borrow_mut(), thread);
            let context = new.contexts.borrow_mut().take()?;
            let more;
            (stopped, more) = map_tables(address_space, [context], stopped)?;
            signals.extend(more);
            {
                let (from, to) = (old.contexts.borrow(), new.contexts.borrow());
                for offset in [layout::PROGRAM_GS, layout::SIGNAL_MASK] {
                    to.set(context, offset, from.get(thread.context, offset));
                }
                old.cache.borrow_mut().take_counters(&from, thread.context, thread.ordinal);
            }
            old.contexts.borrow_mut().give_back(thread.context);
            (thread.context, thread.contexts) = (context, new.contexts.clone());
            enter(&mut self.recorded.samples.drain, &new.contexts.borrow(), context, thread.ordinal, thread.version);
        }
        self.program.defer_all(tid, signals);
        Ok(stopped)
    }

    fn move_on(&mut self, held: Held) -> Result<(), RunError> {
        let stopped = self.move_over(held.stopped)?;
        self.program.defer_all(stopped.tid(), held.signal.into_iter().collect());
        if held.job {
            stopped.listen()?;
            return Ok(());
        }
        self.program.go_on(stopped)
    }

    /// Moves a thread, with the program's registers, to the new code cache.
    fn move_over(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let thread = self.program.thread(stopped.tid())?;
        let base = thread.contexts.borrow().base(thread.context);
        let mut registers = stopped.registers()?;
        restart_call(&mut registers);
        registers.gs_base = base.get();
        self.redirect(stopped, registers)
    }

    /// Lets the address space of `stopped` run on natively.
    pub fn let_go(&mut self, stopped: Stopped, why: Release) {
        let tid = stopped.tid();
        let Ok(space) = self.program.thread(tid).map(|t| t.address_space) else { return };
        let mut held = self.hold(space, Some(tid));
        held.push(Held { stopped, signal: None, job: false });
        self.evidence.uncounted.released.push((why, self.evidence.roster.now_s()));
        self.detach(space, held);
    }

    /// Lets the process of `tid` run on natively.
    pub fn release(&mut self, tid: Pid) {
        let Ok(space) = self.program.thread(tid).map(|t| t.address_space) else { return };
        let held = self.hold(space, None);
        self.detach(space, held);
    }

    /// Lets the stopped threads of `space` run on natively.
    pub fn detach(&mut self, space: Pid, held: Vec<Held>) {
        let members = self.program.threads_in(space);
        let mut unprotected = false;
        for held in held {
            let signal = held.signal_to_take_along();
            let Ok(stopped) = self.leave_cache(held.stopped) else { continue };
            let stopped = if unprotected { Ok(stopped) } else { self.unprotect(space, stopped) };
            unprotected = true;
            if let Ok(stopped) = stopped {
                // If it is gone, nothing is left to do.
                let _ = stopped.detach(signal);
            }
        }
        for member in members {
            self.evidence.roster.look(member);
            self.ended(member);
        }
    }

    /// Gives its text back the execute permission.
    fn unprotect(&mut self, pid: Pid, stopped: Stopped) -> Result<Stopped, RunError> {
        let address_space = self.program.address_spaces.get(&pid).ok_or(RunError::Gone)?;
        let mut remote = remote_in(address_space, stopped)?;
        for text in address_space.text.iter().filter(|t| t.treatment == Treatment::Translate) {
            let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
            let arguments = [text.start.get(), text.end - text.start, protection, 0, 0, 0];
            // A sealed mapping was never changed.
            let _ = remote.call("mprotect", libc::SYS_mprotect, arguments);
        }
        Ok(remote.finish()?.0)
    }

    /// Releases the process of a thread that is about to make a call which translated code must not make.
    pub fn release_before(&mut self, stopped: Stopped, registers: Registers, why: Release) -> Result<(), RunError> {
        let tid = stopped.tid();
        self.program.ensure_seen(why.reason())?;
        let (pid, space) = self.program.thread(tid).map(|t| (t.pid, t.address_space))?;
        if self.program.threads.values().any(|t| t.address_space == space && t.pid != pid) {
            let what = format!("{}, in memory that it shares with its parent", why.reason());
            return Err(RunError::Unsupported(what));
        }
        self.program.ensure_release_allowed(pid)?;
        // Before the trap: there its state is known.
        stopped.set_registers(&Registers { rip: registers.rip - 1, ..registers })?;
        self.let_go(stopped, why);
        Ok(())
    }
}
