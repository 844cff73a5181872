//! Signals: the program's handler must see the program's own state, and control must come back to the cache.
//!
//! A signal that arrives at a place with an unknown program state waits for at most a few single-stepped instructions. rprof
//! restores the state, and the kernel itself builds the handler's frame; at the stop at the handler's entry (PTRACE_SINGLESTEP)
//! rprof redirects control into the cache.

use crate::translator::code_cache::layout;
use crate::translator::kernel::crash::note_crash;
use crate::translator::kernel::dispositions::{RAISED_BY_US, SignalEffect};
use crate::translator::kernel::program_state::{State, complete, is_fault};
use crate::translator::kernel::signal_bits::SI_KERNEL;
use crate::translator::tracer::program::{MAX_STEPS, Program};
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::uncounted::Release;
use crate::translator::translate::arrival::Transfer;
use crate::translator::translate::text_ranges::find_text;
use rprof_tracee::address::{Address, CacheAddress};
use rprof_tracee::restarts::keep_call;
use rprof_tracee::thread::{Mode, Registers, SignalInfo, Stopped};
use rprof_tracee::wait::{Event, Stop};

impl Run {
    /// A signal is about to be delivered.
    pub fn signal(&mut self, stopped: Stopped, signal: i32) -> Result<(), RunError> {
        let tid = stopped.tid();
        let mut info = stopped.signal_info()?;
        if let Some((at, end)) = self.program.threads.get_mut(&tid).and_then(|thread| thread.cut_off.take()) {
            let registers = stopped.registers()?;
            if registers.rip == end.get() {
                // As the CPU reports it; the address of the fault is correct.
                stopped.set_registers(&Registers { rip: at.get(), ..registers })?;
                return self.deliver(stopped, signal, info);
            }
        }
        // A thread that leaves the cache faults on an instruction fetch, with an `si_code` that is never SI_KERNEL.
        if signal == libc::SIGSEGV && info.si_code != SI_KERNEL {
            let registers = stopped.registers()?;
            let address_space = self.program.address_space(tid)?;
            // Only a thread that is about to leave native code is there.
            if find_text(&address_space.text, Address::new(registers.rip)).is_some() {
                if info.si_code <= 0 {
                    self.program.defer_merged(tid, signal, info);
                }
                let (stopped, _) = self.program.restore_signal_state(stopped, libc::SIGSEGV, &mut self.evidence)?;
                let mut stopped = stopped;
                if let Some(cpu_s) = self.program.leave_native(tid, &mut self.evidence.uncounted) {
                    let unbearable;
                    (stopped, unbearable) = self.program.is_unbearable(stopped, cpu_s)?;
                    if unbearable {
                        self.program.ensure_seen(Release::Unbearable.reason())?;
                        self.let_go(stopped, Release::Unbearable);
                        return Ok(());
                    }
                }
                return self.go_on_as_program(stopped, registers);
            }
        }
        if matches!(signal, libc::SIGSEGV | libc::SIGBUS) && info.si_code > 0 {
            if let Some(native) = self.program.call_peeked_at(&stopped)? {
                // The kernel cannot read it either, and reports the error.
                let (stopped, _) = self.program.restore_signal_state(stopped, signal, &mut self.evidence)?;
                let registers = stopped.registers()?;
                return self.program.rest_in_cache(stopped, registers, native);
            }
            if let Some(transfer) = self.program.failed_transfer(&stopped, &info)? {
                return self.transfer_anew(stopped, signal, transfer);
            }
        }
        if let Some(thread) = self.program.threads.get_mut(&tid)
            && let Some(original) = thread.take_resent(signal, &info)
        {
            info = original;
            stopped.set_signal_info(&info)?;
        }
        match self.program.pass_to_first_thread(stopped, signal, &info)? {
            Some(stopped) => self.deliver(stopped, signal, info),
            None => Ok(()),
        }
    }

    /// Completes the program's call or return for a thread that faulted in such an instruction.
    fn transfer_anew(&mut self, stopped: Stopped, signal: i32, transfer: Transfer) -> Result<(), RunError> {
        let mut registers = stopped.registers()?;
        let (thread, address_space) = self.program.thread_and_space(stopped.tid())?;
        complete(thread, address_space, transfer, &mut registers);
        let (stopped, _) = self.program.restore_signal_state(stopped, signal, &mut self.evidence)?;
        self.go_on_as_program(stopped, registers)
    }

    fn deliver(&mut self, stopped: Stopped, signal: i32, mut info: SignalInfo) -> Result<(), RunError> {
        let tid = stopped.tid();
        let fate = self.program.fate(tid, signal)?;
        if fate.drops(signal) {
            keep_call(&stopped);
        }
        if fate == SignalEffect::Ignored && RAISED_BY_US.contains(&signal) && info.si_code <= 0 {
            // The kernel's action may be the default one, until that is restored.
            return self.program.go_on(stopped);
        }
        let before = stopped.registers()?.rip;
        // A core dump and the crash report need the program's state, too.
        let dumps = fate == SignalEffect::Default && dumps_core(signal);
        if fate != SignalEffect::Caught && !dumps {
            stopped.resume_raw(self.program.mode_of(tid), signal)?;
            self.program.send_deferred(tid);
            return Ok(());
        }
        // A single step would fault again.
        let stays = dumps && is_fault(signal, &info);
        let (stopped, registers, state, called) = self.find_state(stopped, stays, |_| false)?;
        if let State::Program = state {
            fix_address(&mut info, signal, before, registers.rip);
        }
        if !matches!(state, State::Outside) {
            stopped.set_registers(&registers)?;
        }
        if called {
            let stopped = self.redirect(stopped, registers)?;
            self.program.defer_all(tid, vec![(signal, info)]);
            return self.program.go_on(stopped);
        }
        stopped.set_signal_info(&info)?;
        if dumps {
            note_crash(&mut self.evidence.warnings, tid, (signal, &info), &state, Address::new(registers.rip));
            stopped.resume_raw(self.program.mode_of(tid), signal)?;
            self.program.send_deferred(tid);
            return Ok(());
        }
        let held = if self.program.may_lose_action(tid, signal) { self.hold_siblings(tid) } else { Vec::new() };
        let called = self.program.until(stopped, Mode::Step, signal, |_| true);
        self.let_on(held)?;
        let (stopped, stop) = called?;
        if stop != Stop::Signal(libc::SIGTRAP) {
            self.program.backlog.push_back(Event::Stopped(stopped, stop));
            return Ok(());
        }
        self.program.note_mask(&stopped)?;
        self.program.note_delivery(tid, signal, &mut self.recorded.calls);
        let registers = stopped.registers()?;
        self.go_on_as_program(stopped, registers)
    }

    /// As `as_the_program_has_it`, for a thread about to be released; steps until its state is known.
    pub fn leave_cache(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let (stopped, mut registers, state, _) = self.find_state(stopped, false, |_| false)?;
        if let State::Between = state {
            return Ok(stopped);
        }
        let stopped = self.program.ignore_again(stopped)?;
        let thread = self.program.thread(stopped.tid())?;
        registers.gs_base = thread.contexts.borrow().get(thread.context, layout::PROGRAM_GS);
        stopped.set_registers(&registers)?;
        Ok(stopped)
    }

    /// Steps a stopped thread until the program's state is known, unless it `stays` in its place. Returns that state with the
    /// program's registers, and whether the thread made a system call, so that it is no longer at the stop of a signal. The state
    /// stays unknown if it `is_too_early` for it.
    pub(super) fn find_state(
        &mut self,
        stopped: Stopped,
        stays: bool,
        is_too_early: impl Fn(&Registers) -> bool,
    ) -> Result<(Stopped, Registers, State, bool), RunError> {
        let (mut stopped, mut stepped) = (stopped, false);
        let mut registers = stopped.registers()?;
        let state = 'found: {
            for _ in 0..MAX_STEPS {
                if is_too_early(&registers) {
                    break;
                }
                match self.recorded.as_the_program_has_it(&self.program, stopped.tid(), &mut registers)? {
                    State::Continued => stopped.set_registers(&registers)?,
                    State::Between if !stays => {
                        stopped = self.program.step(stopped)?;
                        registers = stopped.registers()?;
                        stepped = true;
                    }
                    state => break 'found state,
                }
            }
            State::Between
        };
        if !stepped {
            return Ok((stopped, registers, state, false));
        }
        let (stopped, called) = self.program.restore_signal_state(stopped, libc::SIGTRAP, &mut self.evidence)?;
        Ok((stopped, registers, state, called))
    }
}

impl Program {
    /// The call or return that a thread was about to execute when one of the translator's instructions faulted and the program's
    /// would not.
    pub fn failed_transfer(&self, stopped: &Stopped, info: &SignalInfo) -> Result<Option<Transfer>, RunError> {
        let registers = stopped.registers()?;
        let (_, address_space) = self.thread_and_space(stopped.tid())?;
        let (at, cache) = (CacheAddress::new(registers.rip), address_space.image.cache.borrow());
        if cache.point_at(at).is_none() {
            return Ok(cache.transfer_at(at));
        }
        // The instruction that reads the program's word and writes the one below has a point. A fault on the word itself is the
        // program's.
        // SAFETY: the siginfo of a fault holds an address.
        let fault = unsafe { info.si_addr() } as u64;
        let writes = (registers.rsp.wrapping_sub(8)..registers.rsp).contains(&fault);
        Ok(cache.return_at(at).filter(|_| writes))
    }

    /// The system call of a thread that reads the call's arguments
    /// ([`Stubs::peek`](crate::translator::code_cache::stubs::Stubs)).
    pub fn call_peeked_at(&self, stopped: &Stopped) -> Result<Option<CacheAddress>, RunError> {
        let at = CacheAddress::new(stopped.registers()?.rip);
        let site = self.site_of_call(stopped.tid())?;
        let (_, address_space) = self.thread_and_space(stopped.tid())?;
        let cache = address_space.image.cache.borrow();
        let peeks = cache.arena_of(at).is_some_and(|a| cache.arenas[a].stubs.peeks.contains(&at));
        Ok(site.filter(|_| peeks).map(|site| site.native))
    }
}

/// Replaces the cache address in a siginfo by the program's: SIGILL, SIGFPE and SIGTRAP report the instruction's address, SIGSYS
/// the address behind the system call.
fn fix_address(info: &mut SignalInfo, signal: i32, cache: u64, program: u64) {
    const ADDRESS: usize = 16;
    let tells = matches!(signal, libc::SIGILL | libc::SIGFPE | libc::SIGTRAP | libc::SIGSYS) && info.si_code > 0;
    // SAFETY: these signals' siginfo holds an address, at byte 16 of the structure.
    if tells && unsafe { info.si_addr() } as u64 == cache {
        // SAFETY: as above; the structure is 128 bytes long.
        unsafe { (&raw mut *info).cast::<u8>().add(ADDRESS).cast::<u64>().write_unaligned(program) };
    }
}

fn dumps_core(signal: i32) -> bool {
    use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ};
    [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ].contains(&signal)
}
