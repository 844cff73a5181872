//! Threads and processes that begin, execute another program, end, or are let go.

use std::cell::RefCell;
use std::rc::Rc;

use nix::unistd::Pid;

use super::inject;
use super::layout;
use super::process::{ImageRef, Process};
use super::run::{Run, RunError};
use super::text::Treatment;
use super::thread::Thread;
use crate::target::address::Address;
use crate::target::memory::Memory;
use crate::target::remote::Remote;
use crate::target::tracee::{Mode, Stopped};
use crate::target::wait::{Event, Stop, wait_for};

/// `cs` of 64-bit code.
const CS_64: u64 = 0x33;

impl Run {
    /// A thread made a thread or a process.
    pub fn new_task(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let parent = stopped.tid();
        let child = Pid::from_raw(stopped.event_message()? as i32);
        let first_stop = match self.orphans.remove(&child) {
            Some(stop) => Some(stop),
            None => match wait_for(child, true) {
                Some(Event::Stopped(stop, _)) => Some(stop),
                _ => None,
            },
        };
        if let Some(first_stop) = first_stop {
            match self.adopt(parent, first_stop) {
                Ok(()) | Err(RunError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        self.go_on(stopped)
    }

    fn adopt(&mut self, parent: Pid, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let pid = Self::process_of(tid);
        let (process, _) = self.process(parent)?;
        let image = process.image.clone();
        if pid != process.pid {
            let memory = Memory::open(pid).map_err(|_| RunError::Gone)?;
            let text = process.text.clone();
            let child = Process { pid, memory, text, pages: RefCell::default(), image: image.clone() };
            self.processes.insert(pid, child);
        }
        let region = image.regions.borrow_mut().take();
        let region = region.ok_or_else(|| RunError::Unsupported("it has too many threads at once".into()))?;
        if let Some(old) = self.threads.get(&parent) {
            let regions = image.regions.borrow();
            regions.set(region, layout::PROGRAM_GS, regions.get(old.region, layout::PROGRAM_GS));
        }
        let ordinal = self.roster.enter(pid, tid);
        if let Some(drain) = &mut self.drain {
            drain.start(&image.regions.borrow(), region, ordinal);
        }
        self.threads.insert(tid, Thread::new(pid, ordinal, region, image.regions.clone()));
        self.note_mask(&stopped)?;
        let mut registers = stopped.registers()?;
        registers.gs_base = image.regions.borrow().base(region).get();
        stopped.set_registers(&registers)?;
        stopped.resume(Mode::Continue, None)?;
        Ok(())
    }

    /// A process executes a program; its other threads are gone.
    pub fn executed(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let former = Pid::from_raw(stopped.event_message()? as i32);
        let ordinal = self.threads.get(&former).map(|t| t.ordinal);
        let gone: Vec<Pid> = self.threads.iter().filter(|(_, t)| t.process == tid).map(|(&t, _)| t).collect();
        for thread in gone {
            self.harvest(thread);
            if thread != former {
                self.roster.leave(thread);
            }
        }
        self.drop_process(tid);
        let ordinal = match ordinal {
            Some(ordinal) => {
                self.roster.rename(former, tid);
                ordinal
            }
            None => self.roster.enter(tid, tid),
        };
        let (stopped, _) = self.until(stopped, Mode::Syscall, 0, |s| *s == Stop::Syscall)?;
        if stopped.registers()?.cs != CS_64 {
            return Err(RunError::Unsupported("it is a 32-bit program".into()));
        }
        let (mut image, stopped) = inject::prepare(tid, stopped)?;
        image.space.probes_accesses = self.drain.is_some();
        image.space.set_polling(self.is_polling());
        let shared =
            ImageRef { space: Rc::new(RefCell::new(image.space)), regions: Rc::new(RefCell::new(image.regions)) };
        let region = shared.regions.borrow_mut().take();
        let region = region.ok_or_else(|| RunError::Unsupported("there is no room for its counters".into()))?;
        if let Some(drain) = &mut self.drain {
            drain.start(&shared.regions.borrow(), region, ordinal);
        }
        self.threads.insert(tid, Thread::new(tid, ordinal, region, shared.regions.clone()));
        let base = shared.regions.borrow().base(region);
        let process =
            Process { pid: tid, memory: image.memory, text: image.text, pages: RefCell::default(), image: shared };
        self.processes.insert(tid, process);
        self.note_mask(&stopped)?;
        let mut registers = stopped.registers()?;
        registers.gs_base = base.get();
        let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
        self.go_on(stopped)
    }

    /// A thread ended.
    pub fn ended(&mut self, tid: Pid) {
        self.roster.leave(tid);
        self.orphans.remove(&tid);
        let Some(process) = self.threads.get(&tid).map(|t| t.process) else { return };
        self.harvest(tid);
        if !self.threads.values().any(|t| t.process == process) {
            self.drop_process(process);
        }
    }

    /// Takes a thread's counters over.
    fn harvest(&mut self, tid: Pid) {
        self.drain_buffer(tid);
        self.leave_native(tid);
        let Some(thread) = self.threads.remove(&tid) else { return };
        if let Some(process) = self.processes.get(&thread.process) {
            process.image.space.borrow_mut().take_counters(&thread.regions.borrow(), thread.region, thread.ordinal);
        }
        thread.regions.borrow_mut().give_back(thread.region);
    }

    fn drop_process(&mut self, pid: Pid) {
        let Some(process) = self.processes.remove(&pid) else { return };
        if Rc::strong_count(&process.image.space) == 1 {
            process.image.space.borrow_mut().finish(&mut self.tally, &mut self.drain);
        }
    }

    /// Lets the process of `tid` run on natively.
    pub fn release(&mut self, tid: Pid) {
        let Some(pid) = self.threads.get(&tid).map(|t| t.process) else { return };
        let members: Vec<Pid> = self.threads.iter().filter(|(_, t)| t.process == pid).map(|(&t, _)| t).collect();
        let mut held = Vec::new();
        for &member in &members {
            // Those that are gone are not waited for.
            if self.threads.get(&member).is_some_and(|t| t.running(member).interrupt().is_ok())
                && let Some(Event::Stopped(stopped, stop)) = wait_for(member, true)
            {
                held.push((stopped, stop));
            }
        }
        let mut unprotected = false;
        for (stopped, stop) in held {
            let signal = match stop {
                Stop::Signal(signal) if signal != libc::SIGTRAP => signal,
                _ => 0,
            };
            let Ok(stopped) = self.leave_cache(stopped) else { continue };
            let stopped = if unprotected { Ok(stopped) } else { self.unprotect(pid, stopped) };
            unprotected = true;
            if let Ok(stopped) = stopped {
                // Nothing is left to do where it is gone.
                let _ = stopped.detach(signal);
            }
        }
        for member in members {
            self.roster.look(member);
            self.ended(member);
        }
    }

    /// Gives its text the right to be executed back.
    fn unprotect(&mut self, pid: Pid, stopped: Stopped) -> Result<Stopped, RunError> {
        let process = self.processes.get(&pid).ok_or(RunError::Gone)?;
        let gadget = process.image.space.borrow().arenas.first().map(|a| a.stubs.gadget);
        let gadget = gadget.ok_or(RunError::Gone)?;
        let mut remote = Remote::new(stopped, &process.memory, Address::new(gadget.get()))?;
        for text in process.text.iter().filter(|t| t.treatment == Treatment::Translate) {
            let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
            let arguments = [text.start.get(), text.end - text.start, protection, 0, 0, 0];
            // A sealed mapping was never changed.
            let _ = remote.call("mprotect", libc::SYS_mprotect, arguments);
        }
        Ok(remote.finish()?.0)
    }
}
