//! Signals: the program's handler must see the program's own state, and control must come back to the cache.
//!
//! A signal that arrives where the program's state is not known waits for at most a few single-stepped instructions. rprof
//! restores the state, and the kernel itself builds the handler's frame; at the stop at the handler's entry (PTRACE_SINGLESTEP)
//! rprof redirects control into the cache.

use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::kernel::crash::note_crash;
use crate::instrument::translator::kernel::dispositions::SignalEffect;
use crate::instrument::translator::kernel::program_state::{State, complete, is_fault, restore, settle_sum, uncount};
use crate::instrument::translator::kernel::signal_bits::SI_KERNEL;
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::instrument::translator::tracer::uncounted::Release;
use crate::instrument::translator::tracer::watched_calls::note_call;
use crate::instrument::translator::translate::arrival::{Arrival, Transfer};
use crate::instrument::translator::translate::text_ranges::find_text;
use crate::tracee::address::{Address, CacheAddress};
use crate::tracee::restarts::ended_without_bytes;
use crate::tracee::thread::{Mode, Registers, SignalInfo, Stopped};
use crate::tracee::wait::{Event, Stop};

/// More steps than any of the translator's sequences has instructions.
const MAX_STEPS: usize = 200;

impl Run {
    /// A signal is about to be delivered.
    pub fn signal(&mut self, stopped: Stopped, signal: i32) -> Result<(), RunError> {
        let tid = stopped.tid();
        let mut info = stopped.signal_info()?;
        if let Some((at, end)) = self.threads.get_mut(&tid).and_then(|thread| thread.cut_off.take()) {
            let registers = stopped.registers()?;
            if registers.rip == end.get() {
                // As the CPU reports it; the address of the fault is correct.
                stopped.set_registers(&Registers { rip: at.get(), ..registers })?;
                return self.deliver(stopped, signal, info);
            }
        }
        // A thread that leaves the cache faults on an instruction fetch, whose `si_code` is never SI_KERNEL.
        if signal == libc::SIGSEGV && info.si_code != SI_KERNEL {
            let registers = stopped.registers()?;
            let address_space = self.address_space(tid)?;
            // Only a thread that is about to leave native code is there.
            if find_text(&address_space.text, Address::new(registers.rip)).is_some() {
                if info.si_code <= 0 {
                    self.defer_merged(tid, signal, info);
                }
                let (stopped, _) = self.restore_signal_state(stopped, libc::SIGSEGV)?;
                let mut stopped = stopped;
                if let Some(cpu_s) = self.leave_native(tid) {
                    let unbearable;
                    (stopped, unbearable) = self.is_unbearable(stopped, cpu_s)?;
                    if unbearable {
                        self.let_go(stopped, Release::Unbearable);
                        return Ok(());
                    }
                }
                let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
                return self.go_on(stopped);
            }
        }
        if matches!(signal, libc::SIGSEGV | libc::SIGBUS) && info.si_code > 0 {
            if let Some(native) = self.call_peeked_at(&stopped)? {
                // The kernel cannot read it either, and reports the error.
                let (stopped, _) = self.restore_signal_state(stopped, signal)?;
                let registers = stopped.registers()?;
                stopped.set_registers(&Registers { rip: native.get(), orig_rax: u64::MAX, ..registers })?;
                return self.go_on(stopped);
            }
            if let Some(transfer) = self.failed_transfer(&stopped, &info)? {
                return self.transfer_anew(stopped, signal, transfer);
            }
        }
        if let Some(thread) = self.threads.get_mut(&tid)
            && let Some(original) = thread.take_resent(signal, &info)
        {
            info = original;
            stopped.set_signal_info(&info)?;
        }
        match self.pass_to_first_thread(stopped, signal, &info)? {
            Some(stopped) => self.deliver(stopped, signal, info),
            None => Ok(()),
        }
    }

    /// The call or return that a thread was about to execute when one of the translator's instructions faulted and the program's
    /// would not.
    fn failed_transfer(&mut self, stopped: &Stopped, info: &SignalInfo) -> Result<Option<Transfer>, RunError> {
        let registers = stopped.registers()?;
        let address_space = self.address_space(stopped.tid())?;
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

    /// Completes the program's call or return for a thread that faulted in such an instruction.
    fn transfer_anew(&mut self, stopped: Stopped, signal: i32, transfer: Transfer) -> Result<(), RunError> {
        let mut registers = stopped.registers()?;
        let thread = self.threads.get(&stopped.tid()).ok_or(RunError::Gone)?;
        let address_space = self.address_spaces.get(&thread.address_space).ok_or(RunError::Gone)?;
        complete(thread, address_space, transfer, &mut registers);
        let (stopped, _) = self.restore_signal_state(stopped, signal)?;
        let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
        self.go_on(stopped)
    }

    /// The system call of a thread that reads the call's arguments
    /// ([`Stubs::peek`](crate::instrument::translator::code_cache::stubs::Stubs)).
    fn call_peeked_at(&mut self, stopped: &Stopped) -> Result<Option<CacheAddress>, RunError> {
        let at = CacheAddress::new(stopped.registers()?.rip);
        let site = self.site_of_call(stopped.tid())?;
        let address_space = self.address_space(stopped.tid())?;
        let cache = address_space.image.cache.borrow();
        let peeks = cache.arena_of(at).is_some_and(|a| cache.arenas[a].stubs.peeks.contains(&at));
        Ok(site.filter(|_| peeks).map(|site| site.native))
    }

    /// Executes one instruction.
    fn step(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let (stopped, _) = self.until(stopped, Mode::Step, 0, |s| *s == Stop::Signal(libc::SIGTRAP))?;
        let info = stopped.signal_info()?;
        if info.si_code <= 0 {
            self.defer_merged(tid, libc::SIGTRAP, info);
        }
        Ok(stopped)
    }

    fn deliver(&mut self, stopped: Stopped, signal: i32, mut info: SignalInfo) -> Result<(), RunError> {
        let tid = stopped.tid();
        let fate = self.fate(tid, signal)?;
        let mut registers = stopped.registers()?;
        // A core dump and the crash report need the program's state, too.
        let dumps = fate == SignalEffect::Default && dumps_core(signal);
        if fate != SignalEffect::Caught && !dumps {
            stopped.resume_raw(self.mode_of(tid), signal)?;
            self.send_deferred(tid);
            return Ok(());
        }
        let mut stopped = stopped;
        let mut stepped = false;
        let mut state = State::Between;
        let before = registers.rip;
        for _ in 0..MAX_STEPS {
            state = self.as_the_program_has_it(tid, &mut registers)?;
            match state {
                // A single step would fault again.
                State::Between if dumps && is_fault(signal, &info) => stopped.set_registers(&registers)?,
                State::Continued => {
                    stopped.set_registers(&registers)?;
                    continue;
                }
                State::Between => {
                    stopped = self.step(stopped)?;
                    registers = stopped.registers()?;
                    stepped = true;
                    continue;
                }
                State::Program => {
                    fix_address(&mut info, signal, before, registers.rip);
                    stopped.set_registers(&registers)?;
                }
                State::Outside => {}
            }
            break;
        }
        if stepped {
            let called;
            (stopped, called) = self.restore_signal_state(stopped, libc::SIGTRAP)?;
            if called {
                let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.defer(signal, info);
                }
                return self.go_on(stopped);
            }
        }
        stopped.set_signal_info(&info)?;
        if dumps {
            note_crash(&mut self.warnings, tid, (signal, &info), &state, Address::new(registers.rip));
            stopped.resume_raw(self.mode_of(tid), signal)?;
            self.send_deferred(tid);
            return Ok(());
        }
        let (stopped, stop) = self.until(stopped, Mode::Step, signal, |_| true)?;
        if stop != Stop::Signal(libc::SIGTRAP) {
            self.backlog.push_back(Event::Stopped(stopped, stop));
            return Ok(());
        }
        self.note_mask(&stopped)?;
        self.note_delivery(tid, signal);
        let registers = stopped.registers()?;
        let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
        self.go_on(stopped)
    }

    /// Sends deferred signals again; `take_resent` restores their siginfo.
    pub fn send_deferred(&mut self, tid: nix::unistd::Pid) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let pid = thread.pid;
        for (signal, sent) in thread.unsent() {
            // SAFETY: no memory is passed. If the thread is gone, so is the signal.
            let result = unsafe { libc::syscall(libc::SYS_tgkill, pid.as_raw(), tid.as_raw(), signal) };
            *sent = result == 0;
        }
    }

    /// Maps the registers of a thread in the cache to the program's, and corrects its counts accordingly. The thread is about to
    /// continue elsewhere.
    pub(crate) fn as_the_program_has_it(
        &mut self,
        tid: nix::unistd::Pid,
        registers: &mut Registers,
    ) -> Result<State, RunError> {
        let state = self.program_state(tid, registers)?;
        if let State::Program | State::Outside = state {
            self.end_burst(tid);
        }
        Ok(state)
    }

    fn program_state(&mut self, tid: nix::unistd::Pid, registers: &mut Registers) -> Result<State, RunError> {
        let thread = self.threads.get(&tid).ok_or(RunError::Gone)?;
        let address_space = self.address_spaces.get(&thread.address_space).ok_or(RunError::Gone)?;
        let at = CacheAddress::new(registers.rip);
        let cache = address_space.image.cache.borrow();
        let Some(arena) = cache.arena_of(at) else { return Ok(State::Outside) };
        let stubs = cache.arenas[arena].stubs;
        let get = |offset| thread.regions.borrow().get(thread.region, offset);
        let answered = || thread.regions.borrow().respond(thread.region, 0);
        if at > stubs.direct && at < stubs.wait.1 {
            let site = get(layout::SITE) as usize;
            if site == crate::instrument::translator::code_cache::stubs::DRAIN as usize {
                self.recording.take_records(&cache, thread);
                registers.rcx = get(layout::SAVE_RCX);
                registers.rip = get(layout::TARGET);
                answered();
                return Ok(State::Continued);
            }
            if site == crate::instrument::translator::code_cache::stubs::MARK as usize {
                drop(cache);
                note_call(&mut self.marks, &mut self.calls, address_space, thread);
                registers.rcx = get(layout::SAVE_RCX);
                registers.rip = get(layout::TARGET);
                answered();
                return Ok(State::Continued);
            }
            let lookup = Arrival::of(site as u32).is_some();
            let target = if lookup { get(layout::TARGET) } else { cache.sites[site].target.get() };
            registers.rcx = get(layout::SAVE_RCX);
            registers.rip = target;
            answered();
            return Ok(State::Program);
        }
        // Before a system call that has a slow path, or right after it.
        let place = if (stubs.socket..=stubs.socket_call).contains(&at) {
            Some(CacheAddress::new(get(layout::SOCKET_NATIVE)))
        } else if at == stubs.socket_call + 2 && ended_without_bytes(registers) {
            Some(CacheAddress::new(get(layout::CONTINUE_AT)))
        } else if at == stubs.call_trap || stubs.peeks.contains(&at) {
            cache.call_sites.get(get(layout::SITE) as usize).map(|s| s.native)
        } else if at == stubs.mask_call {
            Some(CacheAddress::new(get(layout::CONTINUE_AT)) - 2)
        } else if at == stubs.mask_syscalls[0] + 2 {
            Some(CacheAddress::new(get(layout::CONTINUE_AT)))
        } else {
            Some(at)
        };
        drop(cache);
        let place = place.unwrap_or(at);
        let Some((block, offset, moved)) = address_space.state_at(place) else {
            let transfer = address_space.image.cache.borrow().transfer_at(at);
            return Ok(transfer.map_or(State::Between, |transfer| complete(thread, address_space, transfer, registers)));
        };
        restore(thread, address_space, block, moved, registers);
        uncount(thread, address_space, block, offset, place);
        settle_sum(thread, address_space, block, offset, place, registers.rcx);
        let start = address_space.image.cache.borrow().block(block).start;
        registers.rip = (start + u64::from(offset)).get();
        Ok(State::Program)
    }

    /// As `as_the_program_has_it`, for a thread about to be released; steps until its state is known.
    pub fn leave_cache(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let mut stopped = stopped;
        let mut stepped = false;
        for _ in 0..MAX_STEPS {
            let mut registers = stopped.registers()?;
            let state = self.as_the_program_has_it(tid, &mut registers)?;
            match state {
                State::Continued => {
                    stopped.set_registers(&registers)?;
                    continue;
                }
                State::Between => {
                    stopped = self.step(stopped)?;
                    stepped = true;
                    continue;
                }
                State::Program | State::Outside => {}
            }
            if stepped {
                (stopped, _) = self.restore_signal_state(stopped, libc::SIGTRAP)?;
            }
            let thread = self.threads.get(&tid).ok_or(RunError::Gone)?;
            registers.gs_base = thread.regions.borrow().get(thread.region, layout::PROGRAM_GS);
            stopped.set_registers(&registers)?;
            break;
        }
        Ok(stopped)
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
