//! The traced program: its threads and address spaces, and the settings of its processes.

use std::collections::{HashMap, VecDeque};

use nix::unistd::Pid;

use crate::modules::SharedModules;
use crate::translator::code_cache::block::CallSite;
use crate::translator::code_cache::layout;
use crate::translator::effects::Effects;
use crate::translator::kernel::prepare_image::Deferred;
use crate::translator::kernel::process_settings::ProcessSettings;
use crate::translator::kernel::program_state::is_fault;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::{Interrupted, Thread};
use crate::translator::tracer::run_error::RunError;
use rprof_tracee::remote::Remote;
use rprof_tracee::thread::{Mode, Registers, SignalInfo, Stopped};
use rprof_tracee::wait::{Event, Stop, wait_for_soon};

/// More steps than any of the translator's sequences has instructions.
pub(crate) const MAX_STEPS: usize = 200;

/// The traced program.
#[derive(Default)]
pub(crate) struct Program {
    pub threads: HashMap<Pid, Thread>,
    /// Address spaces, by the id of the process that had each first. Those that a worker has are missing.
    pub address_spaces: HashMap<Pid, AddressSpace>,
    /// Settings of processes, by process.
    pub settings: HashMap<Pid, ProcessSettings>,
    /// The modules that its code lies in.
    pub modules: SharedModules,
    /// New tasks that stopped before their parent's event announced them.
    pub orphans: HashMap<Pid, Stopped>,
    /// Events seen while waiting for another one.
    pub backlog: VecDeque<Event>,
    /// Threads still in a stop that could not be handled.
    pub stuck: HashMap<Pid, Stop>,
    /// The effects of this run, if it repeats another one and may have none twice.
    pub effects: Option<Effects>,
}

impl Program {
    /// A thread.
    pub fn thread(&self, tid: Pid) -> Result<&Thread, RunError> {
        self.threads.get(&tid).ok_or(RunError::Gone)
    }

    /// A thread, to be changed.
    pub fn thread_mut(&mut self, tid: Pid) -> Result<&mut Thread, RunError> {
        self.threads.get_mut(&tid).ok_or(RunError::Gone)
    }

    /// The address space of a thread.
    pub fn address_space(&mut self, tid: Pid) -> Result<&mut AddressSpace, RunError> {
        let id = self.thread(tid)?.address_space;
        self.address_spaces.get_mut(&id).ok_or(RunError::Gone)
    }

    /// A thread and its address space.
    pub fn thread_and_space(&self, tid: Pid) -> Result<(&Thread, &AddressSpace), RunError> {
        let thread = self.thread(tid)?;
        Ok((thread, self.address_spaces.get(&thread.address_space).ok_or(RunError::Gone)?))
    }

    /// The threads of address space `id`.
    pub fn threads_in(&self, id: Pid) -> Vec<Pid> {
        self.threads.iter().filter(|(_, t)| t.address_space == id).map(|(&tid, _)| tid).collect()
    }

    /// Keeps signals of a thread for later, but for faults: the instruction is executed again, and faults again.
    pub fn defer_all(&mut self, tid: Pid, signals: Deferred) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let kept = signals.into_iter().filter(|(signal, info)| !is_fault(*signal, info));
            kept.for_each(|(signal, info)| thread.defer(signal, info));
        }
    }

    /// Resumes a thread in `mode` until a stop for which `wanted` holds; keeps signals on the way for later.
    pub fn until(
        &mut self,
        stopped: Stopped,
        mode: Mode,
        signal: i32,
        wanted: impl Fn(&Stop) -> bool,
    ) -> Result<(Stopped, Stop), RunError> {
        let tid = stopped.tid();
        stopped.resume_raw(mode, signal)?;
        loop {
            match wait_for_soon(tid) {
                Some(Event::Stopped(stopped, stop)) if wanted(&stop) => return Ok((stopped, stop)),
                Some(Event::Stopped(stopped, Stop::Signal(signal))) => {
                    let info = stopped.signal_info()?;
                    self.defer_all(tid, vec![(signal, info)]);
                    stopped.resume(mode, None)?;
                }
                Some(event @ (Event::Stopped(_, Stop::Exit) | Event::Ended(..))) => {
                    self.backlog.push_back(event);
                    return Err(RunError::Gone);
                }
                Some(Event::Stopped(stopped, _)) => {
                    stopped.resume(mode, None)?;
                }
                None => return Err(RunError::Gone),
            }
        }
    }

    /// The code cache is full: the thread must stop so that another arena can be mapped.
    pub fn stall(&mut self, tid: Pid) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.interrupted = Some(Interrupted::ForArena);
            // If it is gone, its end will be seen.
            let _ = thread.running(tid).interrupt();
        }
    }

    /// Resumes a thread, with deferred signals sent again: a handler sees the place they came at.
    pub fn go_on(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        self.send_deferred(tid);
        stopped.resume(self.mode_of(tid), None)?;
        Ok(())
    }

    /// Defers a signal of the program's that was pending when a trap of rprof's raised it, too: the kernel keeps only the first
    /// of them.
    pub fn defer_merged(&mut self, tid: Pid, signal: i32, info: SignalInfo) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let info = thread.take_resent(signal, &info).unwrap_or(info);
            thread.defer(signal, info);
        }
    }

    /// Sends deferred signals again; `take_resent` restores their siginfo.
    pub fn send_deferred(&mut self, tid: Pid) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let pid = thread.pid;
        for (signal, sent) in thread.unsent() {
            // SAFETY: no memory is passed. If the thread is gone, so is the signal.
            let result = unsafe { libc::syscall(libc::SYS_tgkill, pid.as_raw(), tid.as_raw(), signal) };
            *sent = result == 0;
        }
    }

    /// Executes one instruction.
    pub fn step(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let (stopped, _) = self.until(stopped, Mode::Step, 0, |s| *s == Stop::Signal(libc::SIGTRAP))?;
        let info = stopped.signal_info()?;
        if info.si_code <= 0 {
            self.defer_merged(tid, libc::SIGTRAP, info);
        }
        Ok(stopped)
    }

    /// Executes the call with these registers; returns those after it.
    pub fn execute(
        &mut self,
        stopped: Stopped,
        registers: Registers,
        site: CallSite,
    ) -> Result<(Stopped, Registers), RunError> {
        let registers = Registers { rip: site.native.get(), orig_rax: u64::MAX, ..registers };
        stopped.set_registers(&registers)?;
        let (stopped, _) = self.until(stopped, Mode::Syscall, 0, |s| *s == Stop::Syscall)?;
        let (stopped, _) = self.until(stopped, Mode::Syscall, 0, |s| *s == Stop::Syscall)?;
        let after = stopped.registers()?;
        Ok((stopped, after))
    }

    /// Executes the call with these registers, and resumes the thread behind it.
    pub fn pass(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let (stopped, _) = self.execute(stopped, registers, site)?;
        self.go_on(stopped)
    }

    /// The last system call in a thread's mailbox.
    pub fn site_of_call(&self, tid: Pid) -> Result<Option<CallSite>, RunError> {
        let (thread, address_space) = self.thread_and_space(tid)?;
        let id = thread.contexts.borrow().get(thread.context, layout::SITE);
        Ok(address_space.image.cache.borrow().call_sites.get(id as usize).copied())
    }

    /// The signal mask may have changed in the kernel.
    pub fn note_mask(&self, stopped: &Stopped) -> Result<(), RunError> {
        let mask = stopped.signal_mask()?;
        let thread = self.thread(stopped.tid())?;
        thread.contexts.borrow().set(thread.context, layout::SIGNAL_MASK, mask);
        Ok(())
    }
}

/// For system calls in the program's name by a stopped thread of `address_space`.
pub(crate) fn remote_in(address_space: &AddressSpace, stopped: Stopped) -> Result<Remote<'_>, RunError> {
    let gadget = address_space.gadget().ok_or(RunError::Gone)?;
    Ok(Remote::new(stopped, &address_space.memory, gadget)?)
}
