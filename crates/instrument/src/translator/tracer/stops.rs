//! Handles the stops of threads.

use nix::unistd::Pid;

use crate::translator::code_cache::cache::OwnTrap;
use crate::translator::code_cache::contexts::Request;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::stubs::{DRAIN, MARK};
use crate::translator::kernel::prepare_image;
use crate::translator::kernel::program_state::State;
use crate::translator::kernel::signal_bits::SI_KERNEL;
use crate::translator::program::address_space::Destination;
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::RunError;
use crate::translator::translate::superblock::TranslateError;
use crate::translator::translate::text_ranges::Treatment;
use rprof_tracee::address::{Address, CacheAddress};
use rprof_tracee::jit_places;
use rprof_tracee::proc_status::has_fault_pending;
use rprof_tracee::restarts::keep_call;
use rprof_tracee::thread::{Mode, Registers, Stopped};
use rprof_tracee::wait::Stop;

/// The trap flag in the flags register.
const TRAP_FLAG: u64 = 1 << 8;
/// Results of an interrupted system call that the kernel will restart: −ERESTARTSYS … −ERESTART_RESTARTBLOCK.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl Run {
    /// A thread stopped.
    pub fn stopped(&mut self, stopped: Stopped, stop: Stop) -> Result<(), RunError> {
        let tid = stopped.tid();
        match stop {
            Stop::Exec => return self.on_exec(stopped),
            Stop::Group(libc::SIGTRAP) => keep_call(&stopped),
            _ => {}
        }
        let Ok(thread) = self.program.thread(tid) else { return self.stranger(stopped, stop) };
        match stop {
            Stop::Signal(libc::SIGTRAP) => self.trap(stopped),
            Stop::Signal(signal) => self.signal(stopped, signal),
            Stop::Group(signal) if signal != libc::SIGTRAP => {
                stopped.listen()?;
                Ok(())
            }
            // A trap of its own is reported next.
            Stop::Group(_) if thread.is_stalled() && !has_fault_pending(tid) => {
                let stopped = self.answer_stopped(stopped)?;
                self.program.go_on(stopped)
            }
            Stop::Group(_) if self.recorded.is_to_turn(thread) => {
                let stopped = self.turn(stopped)?;
                self.program.go_on(stopped)
            }
            Stop::Group(_) if self.recorded.is_peeked(thread) => {
                self.recorded.peek(&mut self.program, &stopped)?;
                self.program.go_on(stopped)
            }
            Stop::NewTask => self.new_task(stopped),
            Stop::Syscall if self.program.watches_calls(tid) => match self.program.native_call(stopped)? {
                Some((stopped, registers, site)) => self.call_at(stopped, registers, site),
                None => Ok(()),
            },
            Stop::Exit => {
                jit_places::look_a_last_time(thread.address_space.as_raw() as u32);
                self.evidence.roster.look(tid);
                self.evidence.look_for_denormals(&stopped);
                self.recorded.settle(&self.program, &stopped);
                self.recorded.drain_buffer(&self.program, tid);
                self.recorded.samples.drain.iter_mut().for_each(AccessBuffer::ending);
                stopped.resume(Mode::Continue, None)?;
                Ok(())
            }
            _ => self.program.go_on(stopped),
        }
    }

    /// A task that no event has announced yet, or the first process before it executes the program.
    fn stranger(&mut self, stopped: Stopped, stop: Stop) -> Result<(), RunError> {
        let tid = stopped.tid();
        match stop {
            Stop::Group(libc::SIGTRAP) if tid != self.first => {
                self.program.orphans.insert(tid, stopped);
            }
            Stop::Signal(signal) => {
                stopped.resume_raw(Mode::Continue, signal)?;
            }
            _ => {
                stopped.resume(Mode::Continue, None)?;
            }
        }
        Ok(())
    }

    /// SIGTRAP: an exit with a mailbox that rprof did not poll, a system call, or the program's own.
    fn trap(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let info = stopped.signal_info()?;
        let registers = stopped.registers()?;
        let at = CacheAddress::new(registers.rip.wrapping_sub(1));
        let address_space = self.program.address_space(tid)?;
        let cache = address_space.image.cache.borrow();
        let own = cache.own_trap(registers.rip, info.si_code == SI_KERNEL);
        let far = cache.block_at(at).is_some_and(|id| cache.far.contains(&id));
        drop(cache);
        if info.si_code == libc::TRAP_TRACE && registers.eflags & TRAP_FLAG != 0 {
            return Err(RunError::Unsupported(
                "it sets the trap flag to be stopped after each of its instructions, which are not those of the cache"
                    .into(),
            ));
        }
        let Some(own) = own else {
            if far && info.si_code == SI_KERNEL {
                return Err(RunError::Unsupported(
                    "it executes a far transfer, `int 0x80` or other 32-bit code, or a load of the GS selector, which the counting engine cannot follow".into(),
                ));
            }
            return self.signal(stopped, libc::SIGTRAP);
        };
        if info.si_code != SI_KERNEL {
            self.program.defer_merged(tid, libc::SIGTRAP, info);
        }
        if own == OwnTrap::Exit {
            self.polling.was_impatient(tid);
        }
        let (stopped, _) = self.program.restore_signal_state(stopped, libc::SIGTRAP, &mut self.evidence)?;
        match own {
            OwnTrap::Exit => {
                let stopped = self.answer_stopped(stopped)?;
                self.program.go_on(stopped)?;
                if self.recorded.samples.is_tracing() {
                    self.keep_pace();
                }
                Ok(())
            }
            OwnTrap::Call => self.call(stopped, registers),
            OwnTrap::Cpuid => {
                let answer = self.cpuid.as_ref().map(|fixed| fixed.answer(registers.rax as u32, registers.rcx as u32));
                let [rax, rbx, rcx, rdx] = answer.unwrap_or_default().map(u64::from);
                stopped.set_registers(&Registers { rax, rbx, rcx, rdx, ..registers })?;
                self.program.go_on(stopped)
            }
            // It entered an invalidated block, and continues in the present text.
            OwnTrap::Dropped => {
                let mut registers = Registers { rip: at.get(), ..registers };
                self.recorded.as_the_program_has_it(&self.program, tid, &mut registers)?;
                self.go_on_as_program(stopped, registers)
            }
        }
    }

    /// Answers the mailbox of a thread that stopped while it waited.
    pub fn answer_stopped(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let thread = self.program.thread_mut(tid)?;
        let (context, contexts, version) = (thread.context, thread.contexts.clone(), thread.version);
        let (waits, Request { site, target }, response) = {
            let contexts = contexts.borrow();
            let waits = contexts.request(context).is_some();
            (waits, contexts.last_request(context), contexts.get(context, layout::RESPONSE))
        };
        if thread.is_stalled() {
            thread.interrupted = None;
        }
        if version.traces() {
            self.recorded.samples.note_answer();
        }
        let mut stopped = stopped;
        let destination = if !waits && response != 0 {
            response
        } else if site == DRAIN {
            self.recorded.drain_buffer(&self.program, tid);
            target.get()
        } else if site == MARK {
            self.recorded.note_mark(&self.program, tid);
            target.get()
        } else {
            loop {
                let address_space = self.program.address_space(tid)?;
                let near = address_space.requested(site, target);
                match address_space.answer(version, site, target) {
                    Ok(destination) => {
                        self.note_native(tid, destination);
                        break destination.get();
                    }
                    Err(TranslateError::Full) if self.program.has_relatives(tid) => return self.part(stopped),
                    Err(TranslateError::Full) => stopped = self.grow(stopped, near)?,
                    Err(error) => return Err(RunError::Unsupported(error.to_string())),
                }
            }
        };
        let contexts = contexts.borrow();
        contexts.respond(context, 0);
        let mut registers = stopped.registers()?;
        registers.rcx = contexts.get(context, layout::SAVE_RCX);
        registers.rip = destination;
        stopped.set_registers(&registers)?;
        Ok(stopped)
    }

    /// Prepares a stopped thread, with the program's `registers`, for continuing there.
    pub fn redirect(&mut self, stopped: Stopped, mut registers: Registers) -> Result<Stopped, RunError> {
        let (tid, at) = (stopped.tid(), Address::new(registers.rip));
        let version = self.program.thread(tid)?.version;
        let mut stopped = stopped;
        let destination = loop {
            let address_space = self.program.address_space(tid)?;
            match address_space.destination(version, at) {
                Ok(destination) => break destination,
                Err(TranslateError::Full) if self.program.has_relatives(tid) => {
                    stopped.set_registers(&registers)?;
                    return self.part(stopped);
                }
                Err(TranslateError::Full) => stopped = self.grow(stopped, at)?,
                Err(error) => return Err(RunError::Unsupported(error.to_string())),
            }
        };
        self.note_native(tid, destination);
        registers.rip = destination.get();
        if let Destination::Native(at) = destination {
            registers.rip = self.cut_off(tid, at)?.unwrap_or(at).get();
        }
        stopped.set_registers(&registers)?;
        Ok(stopped)
    }

    /// Resumes a stopped thread with the program's `registers`.
    pub fn go_on_as_program(&mut self, stopped: Stopped, registers: Registers) -> Result<(), RunError> {
        let stopped = self.redirect(stopped, registers)?;
        self.program.go_on(stopped)
    }

    /// Address at which a thread must fault if it cannot fetch the whole instruction at `at`, which is text.
    fn cut_off(&mut self, tid: Pid, at: Address) -> Result<Option<Address>, RunError> {
        let address_space = self.program.address_space(tid)?;
        let Some(end) = address_space.end_within_instruction(at) else { return Ok(None) };
        if address_space.text.iter().any(|t| t.start <= end && end < t.end && t.treatment != Treatment::Translate) {
            let what = format!("the instruction at {:#x} reaches from its text into code made at run time", at.get());
            return Err(RunError::Unsupported(what));
        }
        self.program.thread_mut(tid)?.cut_off = Some((at, end));
        Ok(Some(end))
    }

    /// Starts the clock of a thread that goes to code that is not translated.
    pub fn note_native(&mut self, tid: Pid, destination: Destination) {
        if let Destination::Native(at) = destination {
            self.recorded.end_burst(&self.program, tid);
            self.program.enter_native(tid, at, &mut self.evidence.uncounted);
        }
    }

    /// Maps another arena. Only the process of `stopped` has it, so no other process may share its translations.
    fn grow(&mut self, stopped: Stopped, near: Address) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let pid = self.program.thread(tid)?.pid;
        self.program.ensure_room_allowed(pid)?;
        let limit = self.program.open_address_space(pid);
        let address_space = self.program.address_space(tid)?;
        let gadget = address_space.gadget().ok_or_else(|| RunError::Unsupported("it has no text".into()))?;
        let (arena, stopped, signals) =
            prepare_image::add_arena(address_space.pid, stopped, &address_space.memory, gadget, near)?;
        address_space.image.cache.borrow_mut().add_arena(arena, near);
        self.program.close_address_space(pid, limit);
        self.program.defer_all(tid, signals);
        Ok(stopped)
    }

    /// Moves a stopped thread to the version that it should be in; it stays in its place for now if it is in a system
    /// call, or if a trap of its own is still to be reported.
    pub fn turn(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let is_too_early = |registers: &Registers| is_to_restart(registers) || has_fault_pending(tid);
        let (stopped, registers, state, _) = self.find_state(stopped, false, is_too_early)?;
        let is_program = match state {
            State::Program => true,
            State::Outside => false,
            State::Between | State::Continued => return Ok(stopped),
        };
        self.recorded.enter_version(&mut self.program, tid, is_program, self.evidence.roster.now_s());
        if is_program { self.redirect(stopped, registers) } else { Ok(stopped) }
    }
}

fn is_to_restart(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0 && RESTARTS.contains(&(registers.rax as i64))
}
