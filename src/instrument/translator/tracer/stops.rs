//! Handles the stops of threads.

use std::time::Instant;

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::cache::OwnTrap;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::regions::Request;
use crate::instrument::translator::code_cache::stubs::{DRAIN, MARK};
use crate::instrument::translator::kernel::correct_counters::correct_counters;
use crate::instrument::translator::kernel::program_state::State;
use crate::instrument::translator::kernel::signal_bits::SI_KERNEL;
use crate::instrument::translator::program::address_space::Destination;
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::instrument::translator::tracer::watched_calls::note_call;
use crate::instrument::translator::translate::superblock::TranslateError;
use crate::instrument::translator::translate::text_ranges::Treatment;
use crate::tracee::address::{Address, CacheAddress};
use crate::tracee::jit_places;
use crate::tracee::proc_status::has_fault_pending;
use crate::tracee::thread::{Mode, Registers, SignalInfo, Stopped};
use crate::tracee::wait::Stop;

/// The trap flag in the flags register.
const TRAP_FLAG: u64 = 1 << 8;

impl Run {
    /// A thread stopped.
    pub fn stopped(&mut self, stopped: Stopped, stop: Stop) -> Result<(), RunError> {
        let tid = stopped.tid();
        if stop == Stop::Exec {
            return self.on_exec(stopped);
        }
        if !self.threads.contains_key(&tid) {
            return self.stranger(stopped, stop);
        }
        match stop {
            Stop::Signal(libc::SIGTRAP) => self.trap(stopped),
            Stop::Signal(signal) => self.signal(stopped, signal),
            Stop::Group(signal) if signal != libc::SIGTRAP => {
                stopped.listen()?;
                Ok(())
            }
            // A trap of its own is reported next.
            Stop::Group(_) if self.threads.get(&tid).is_some_and(|t| t.stalled) && !has_fault_pending(tid) => {
                let stopped = self.answer_stopped(stopped)?;
                self.go_on(stopped)
            }
            Stop::Group(_) if self.is_to_turn(tid) => {
                let stopped = self.turn(stopped)?;
                self.go_on(stopped)
            }
            Stop::Group(_) if self.is_peeked(tid) => {
                self.peek(&stopped)?;
                self.go_on(stopped)
            }
            Stop::NewTask => self.new_task(stopped),
            Stop::Syscall if self.watches_calls(tid) => self.native_call(stopped),
            Stop::Exit => {
                self.roster.look(tid);
                self.threads
                    .get(&tid)
                    .iter()
                    .for_each(|t| jit_places::look_a_last_time(t.address_space.as_raw() as u32));
                self.settle(&stopped);
                self.drain_buffer(tid);
                self.recording
                    .drain
                    .iter_mut()
                    .for_each(crate::instrument::translator::sampling::access_buffer::AccessBuffer::ending);
                stopped.resume(Mode::Continue, None)?;
                Ok(())
            }
            _ => self.go_on(stopped),
        }
    }

    /// A task that no event has announced yet, or the first process before it executes the program.
    fn stranger(&mut self, stopped: Stopped, stop: Stop) -> Result<(), RunError> {
        let tid = stopped.tid();
        match stop {
            Stop::Group(libc::SIGTRAP) if tid != self.first => {
                self.orphans.insert(tid, stopped);
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

    /// Resumes a thread, and sends deferred signals again.
    pub fn go_on(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        stopped.resume(self.mode_of(tid), None)?;
        self.send_deferred(tid);
        Ok(())
    }

    /// SIGTRAP: an exit whose mailbox rprof did not poll, a system call, or the program's own.
    fn trap(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let info = stopped.signal_info()?;
        let registers = stopped.registers()?;
        let at = CacheAddress::new(registers.rip.wrapping_sub(1));
        let address_space = self.address_space(tid)?;
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
        if info.si_code != SI_KERNEL {
            if own.is_none() {
                return self.signal(stopped, libc::SIGTRAP);
            }
            self.defer_merged(tid, libc::SIGTRAP, info);
        }
        match own {
            Some(OwnTrap::Exit) => {
                self.was_impatient(tid);
                let (stopped, _) = self.restore_signal_state(stopped, libc::SIGTRAP)?;
                let stopped = self.answer_stopped(stopped)?;
                self.go_on(stopped)?;
                if self.recording.is_tracing() {
                    self.keep_pace();
                }
                Ok(())
            }
            Some(OwnTrap::Call) => {
                let (stopped, _) = self.restore_signal_state(stopped, libc::SIGTRAP)?;
                self.call(stopped, registers)
            }
            Some(OwnTrap::Dropped) => self.leave_dropped(stopped, Registers { rip: at.get(), ..registers }),
            None if far => Err(RunError::Unsupported(
                "it executes a far transfer, 32-bit code or a load of the GS selector, which the counting engine cannot follow".into(),
            )),
            None => self.signal(stopped, libc::SIGTRAP),
        }
    }

    /// A thread entered an invalidated block: it continues in the present text.
    fn leave_dropped(&mut self, stopped: Stopped, mut registers: Registers) -> Result<(), RunError> {
        let (stopped, _) = self.restore_signal_state(stopped, libc::SIGTRAP)?;
        self.as_the_program_has_it(stopped.tid(), &mut registers)?;
        let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
        self.go_on(stopped)
    }

    /// Defers a signal of the program's that was pending when a trap of rprof's raised it, too: the kernel keeps only the first
    /// of them.
    pub fn defer_merged(&mut self, tid: Pid, signal: i32, info: SignalInfo) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let info = thread.take_resent(signal, &info).unwrap_or(info);
            thread.defer(signal, info);
        }
    }

    /// Answers the mailbox of a thread that stopped while it waited.
    pub fn answer_stopped(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let thread = self.threads.get(&tid).ok_or(RunError::Gone)?;
        let (region, regions, version) = (thread.region, thread.regions.clone(), thread.version);
        let (waits, Request { site, target }, response) = {
            let regions = regions.borrow();
            let waits = regions.request(region).is_some();
            (waits, regions.last_request(region), regions.get(region, layout::RESPONSE))
        };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.stalled = false;
        }
        if version.traces() {
            self.recording.note_answer();
        }
        let mut stopped = stopped;
        let destination = if !waits && response != 0 {
            response
        } else if site == DRAIN {
            self.drain_buffer(tid);
            target.get()
        } else if site == MARK {
            self.note_mark(tid);
            target.get()
        } else {
            let begin = Instant::now();
            let destination = loop {
                let address_space = self.address_space(tid)?;
                match address_space.answer(version, site, target) {
                    Ok(destination) => {
                        self.note_native(tid, destination);
                        break destination.get();
                    }
                    Err(TranslateError::Full) if self.has_relatives(tid) => return self.part(stopped),
                    Err(TranslateError::Full) => stopped = self.grow(stopped, target)?,
                    Err(error) => return Err(RunError::Unsupported(error.to_string())),
                }
            };
            self.waited += begin.elapsed();
            destination
        };
        let regions = regions.borrow();
        regions.respond(region, 0);
        let mut registers = stopped.registers()?;
        registers.rcx = regions.get(region, layout::SAVE_RCX);
        registers.rip = destination;
        stopped.set_registers(&registers)?;
        Ok(stopped)
    }

    /// A stopped thread waits in a marker call.
    pub fn note_mark(&mut self, tid: Pid) {
        let Some(thread) = self.threads.get(&tid) else { return };
        if let Some(address_space) = self.address_spaces.get(&thread.address_space) {
            note_call(&mut self.marks, &mut self.calls, address_space, thread);
        }
    }

    /// Corrects the counters of a thread that ends. If it is already gone, its registers are not available.
    pub fn settle(&mut self, ending: &Stopped) {
        let Ok(mut registers) = ending.registers() else { return };
        if let Ok(address_space) = self.address_space(ending.tid())
            && let Some(at) = address_space.image.cache.borrow().expelled_at(registers.rip, false)
        {
            // The thread has executed no instruction of the program there.
            registers.rip = at.get();
        }
        let at = CacheAddress::new(registers.rip);
        let Ok(State::Between) = self.as_the_program_has_it(ending.tid(), &mut registers) else { return };
        let Some(thread) = self.threads.get(&ending.tid()) else { return };
        let Some(address_space) = self.address_spaces.get(&thread.address_space) else { return };
        correct_counters(thread, address_space, at, &mut registers);
    }

    /// Hands a thread's records to their sink.
    pub fn drain_buffer(&mut self, tid: Pid) {
        let Some(thread) = self.threads.get(&tid) else { return };
        if let Some(address_space) = self.address_spaces.get(&thread.address_space) {
            self.recording.take_records(&address_space.image.cache.borrow(), thread);
        }
    }

    /// Ends the burst of a thread, because its next instruction does not follow its last one.
    pub fn end_burst(&mut self, tid: Pid) {
        let Some(thread) = self.threads.get(&tid).filter(|t| t.version.traces()) else { return };
        if let Some(address_space) = self.address_spaces.get(&thread.address_space) {
            self.recording.take_records(&address_space.image.cache.borrow(), thread);
        }
        self.recording.close_burst(thread);
    }

    /// Makes a stopped thread continue at the program's address `at`.
    pub fn redirect(&mut self, stopped: Stopped, mut registers: Registers, at: Address) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let version = self.threads.get(&tid).ok_or(RunError::Gone)?.version;
        let mut stopped = stopped;
        let destination = loop {
            let address_space = self.address_space(tid)?;
            match address_space.destination(version, at) {
                Ok(destination) => break destination,
                Err(TranslateError::Full) if self.has_relatives(tid) => {
                    registers.rip = at.get();
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

    /// Address at which a thread must fault if it cannot fetch the whole instruction at `at`, which is text.
    fn cut_off(&mut self, tid: Pid, at: Address) -> Result<Option<Address>, RunError> {
        let address_space = self.address_space(tid)?;
        let Some(end) = address_space.end_within_instruction(at) else { return Ok(None) };
        if address_space.text.iter().any(|t| t.start <= end && end < t.end && t.treatment != Treatment::Translate) {
            let what = format!("the instruction at {:#x} reaches from its text into code made at run time", at.get());
            return Err(RunError::Unsupported(what));
        }
        self.threads.get_mut(&tid).ok_or(RunError::Gone)?.cut_off = Some((at, end));
        Ok(Some(end))
    }

    /// Starts the clock of a thread that goes to code that is not translated.
    fn note_native(&mut self, tid: Pid, destination: Destination) {
        if let Destination::Native(at) = destination {
            self.enter_native(tid, at);
        }
    }

    /// Maps another arena. Only the process of `stopped` has it, so no other process may share its translations.
    fn grow(&mut self, stopped: Stopped, near: Address) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let pid = self.threads.get(&tid).ok_or(RunError::Gone)?.pid;
        self.ensure_room_allowed(pid)?;
        let limit = self.open_address_space(pid);
        let address_space = self.address_space(tid)?;
        let (gadget, tables) = {
            let cache = address_space.image.cache.borrow();
            let gadget = cache.arenas.first().map(|a| a.stubs.gadget);
            (gadget.ok_or_else(|| RunError::Unsupported("it has no text".into()))?, cache.tables_at())
        };
        let (arena, stopped, signals) = crate::instrument::translator::kernel::prepare_image::add_arena(
            address_space.pid,
            stopped,
            &address_space.memory,
            gadget,
            near,
            tables,
        )?;
        address_space.image.cache.borrow_mut().add_arena(arena, near);
        self.close_address_space(pid, limit);
        if let Some(thread) = self.threads.get_mut(&tid) {
            signals.into_iter().for_each(|(signal, info)| thread.defer(signal, info));
        }
        Ok(stopped)
    }
}
