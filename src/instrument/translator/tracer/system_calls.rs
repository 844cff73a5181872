//! System calls that rprof handles: those that change executable memory, return from a signal, set the GS base, make a task that
//! cannot be traced, filter system calls, lock all memory, or limit it.

use std::ops::Range;

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::block::CallSite;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::instrument::translator::translate::text_ranges::{Treatment, Untranslated};
use crate::tracee::address::Address;
use crate::tracee::maps::read_maps;
use crate::tracee::thread::{Mode, Registers, Stopped};
use crate::tracee::wait::Stop;

const EXEC: u64 = libc::PROT_EXEC as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;
const READ: u64 = libc::PROT_READ as u64;
const PAGE: u64 = 4096;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_GS: u64 = 0x1004;
const ARCH_SHSTK_ENABLE: u64 = 0x5001;

impl Run {
    /// A thread stopped before the system call whose site is in its mailbox.
    pub fn call(&mut self, stopped: Stopped, registers: Registers) -> Result<(), RunError> {
        let tid = stopped.tid();
        let site =
            self.site_of_call(tid)?.ok_or_else(|| RunError::Unsupported("a system call came from nowhere".into()))?;
        self.call_at(stopped, registers, site)
    }

    /// A thread stopped before the system call of `site`.
    pub fn call_at(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        match registers.rax as i64 {
            libc::SYS_rt_sigaction => self.sigaction(stopped, registers, site),
            libc::SYS_rt_sigreturn => self.sigreturn(stopped, registers, site),
            libc::SYS_mmap => self.mmap(stopped, registers, site),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => self.mprotect(stopped, registers, site),
            libc::SYS_munmap => {
                let (stopped, after) = self.execute(stopped, registers, site)?;
                if succeeded(&after) {
                    let (from, to) = pages(registers.rdi, registers.rsi);
                    let address_space = self.address_space(tid)?;
                    address_space.forget_text(from, to);
                    address_space.forget_rewriting(from, to);
                    self.tell_unmapped(tid, from, to);
                }
                self.go_on(stopped)
            }
            libc::SYS_mremap => self.mremap(stopped, registers, site),
            libc::SYS_shmat => self.shmat(stopped, registers, site),
            libc::SYS_ptrace => {
                self.tracers.extend(self.threads.get(&tid).map(|thread| thread.pid));
                Err(RunError::Unsupported("it uses ptrace itself, and a process can have only one tracer".into()))
            }
            libc::SYS_clone | libc::SYS_clone3 => self.make_untraced(stopped, registers),
            libc::SYS_arch_prctl => self.arch_prctl(stopped, registers, site),
            libc::SYS_open | libc::SYS_openat => self.open(stopped, registers, site),
            libc::SYS_prctl | libc::SYS_seccomp => self.call_rule(stopped, registers, site),
            libc::SYS_mlockall => self.mlockall(stopped, registers, site),
            libc::SYS_getrlimit | libc::SYS_setrlimit | libc::SYS_prlimit64 if !self.visits => {
                self.limit(stopped, registers, site)
            }
            _ => {
                let (stopped, _) = self.execute(stopped, registers, site)?;
                self.go_on(stopped)
            }
        }
    }

    /// The last system call in a thread's mailbox.
    pub fn site_of_call(&mut self, tid: Pid) -> Result<Option<CallSite>, RunError> {
        let thread = self.threads.get(&tid).ok_or(RunError::Gone)?;
        let id = thread.regions.borrow().get(thread.region, layout::SITE);
        let address_space = self.address_space(tid)?;
        Ok(address_space.image.cache.borrow().call_sites.get(id as usize).copied())
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

    fn sigreturn(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let (stopped, after) = self.execute(stopped, registers, site)?;
        self.note_mask(&stopped)?;
        self.end_burst(stopped.tid());
        let stopped = self.redirect(stopped, after, Address::new(after.rip))?;
        self.go_on(stopped)
    }

    /// The signal mask may have changed in the kernel.
    pub fn note_mask(&mut self, stopped: &Stopped) -> Result<(), RunError> {
        let mask = stopped.signal_mask()?;
        let thread = self.threads.get(&stopped.tid()).ok_or(RunError::Gone)?;
        thread.regions.borrow().set(thread.region, layout::SIGNAL_MASK, mask);
        Ok(())
    }

    fn mmap(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (protection, flags) = (registers.rdx, registers.r10);
        let address_space = self.address_space(tid)?;
        let executable = protection & EXEC != 0;
        let anonymous = flags & libc::MAP_ANONYMOUS as u64 != 0;
        let treatment = match () {
            // Shared memory may be written at another address.
            () if flags & libc::MAP_SHARED as u64 != 0 => Treatment::Native(Untranslated::Shared),
            () if anonymous => Treatment::Native(Untranslated::Writable),
            () if protection & WRITE != 0 => Treatment::Native(Untranslated::WritableFile),
            () if executable && address_space.may_change(registers.r8) => Treatment::Native(Untranslated::Shared),
            () => Treatment::Translate,
        };
        let asked = stripped(registers, executable && treatment == Treatment::Translate && !self.visits);
        let (stopped, mut after) = self.execute(stopped, asked, site)?;
        if succeeded(&after) {
            let (from, to) = pages(after.rax, registers.rsi);
            after.rdx = registers.rdx;
            stopped.set_registers(&after)?;
            self.address_space(tid)?.forget_text(from, to);
            self.tell_unmapped(tid, from, to);
            // Stacks become accessible later; the code that makes other reservations divides them later.
            let is_used = protection & WRITE != 0 || flags & libc::MAP_STACK as u64 != 0;
            if anonymous && is_used {
                self.tell_allocated(tid, &registers, site, (from, to));
            }
            let stopped = if executable { self.learn(stopped, from, to, treatment)? } else { stopped };
            return self.go_on(stopped);
        }
        after.rdx = registers.rdx;
        stopped.set_registers(&after)?;
        self.go_on(stopped)
    }

    fn mprotect(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let executable = registers.rdx & EXEC != 0;
        let (from, to) = pages(registers.rdi, registers.rsi);
        let address_space = self.address_space(tid)?;
        let treatment = executable.then(|| address_space.treatment_of(from, to, registers.rdx & WRITE != 0));
        let asked = stripped(registers, treatment == Some(Treatment::Translate) && !self.visits);
        let (stopped, mut after) = self.execute(stopped, asked, site)?;
        let changed_to = match after.rax as i64 {
            _ if succeeded(&after) => to,
            error if error == i64::from(-libc::ENOMEM) => self.mapped_until(tid, from, to),
            _ => from,
        };
        after.rdx = registers.rdx;
        stopped.set_registers(&after)?;
        let mut stopped = stopped;
        if from < changed_to {
            if treatment != Some(Treatment::Translate) {
                let address_space = self.address_space(tid)?;
                address_space.note_rewriting(from, changed_to);
                address_space.forget_text(from, changed_to);
            }
            if let Some(treatment) = treatment {
                stopped = self.learn(stopped, from, changed_to, treatment)?;
            }
        }
        self.go_on(stopped)
    }

    /// The first hole in `from..to`: a call that fails there has changed the memory before it.
    fn mapped_until(&mut self, tid: Pid, from: Address, to: Address) -> Address {
        let Ok(address_space) = self.address_space(tid) else { return from };
        let maps = read_maps(address_space.pid).unwrap_or_default();
        maps.iter().fold(from, |end, map| if map.start <= end && end < map.end { map.end.min(to) } else { end })
    }

    fn mremap(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (from, to) = pages(registers.rdi, registers.rsi);
        let (stopped, after) = self.execute(stopped, registers, site)?;
        if succeeded(&after) {
            let address_space = self.address_space(tid)?;
            let was = address_space.text.iter().find(|t| t.start <= from && from < t.end).map(|t| t.treatment);
            address_space.forget_text(from, to);
            let (new_from, new_to) = pages(after.rax, registers.rdx);
            address_space.forget_text(new_from, new_to);
            self.tell_unmapped(tid, from, to);
            self.tell_allocated(tid, &Registers { r10: 0, ..registers }, site, (new_from, new_to));
            if let Some(treatment) = was {
                let stopped = self.learn(stopped, new_from, new_to, treatment)?;
                return self.go_on(stopped);
            }
        }
        self.go_on(stopped)
    }

    /// Attached memory may be written at another address.
    fn shmat(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (mut stopped, after) = self.execute(stopped, registers, site)?;
        let address_space = self.address_space(tid)?;
        let attached = address_space.mapping(Address::new(after.rax)).filter(|_| succeeded(&after));
        if let Some(Range { start: from, end: to }) = attached.map(|m| m.range()) {
            address_space.forget_text(from, to);
            self.tell_unmapped(tid, from, to);
            if registers.rdx & libc::SHM_EXEC as u64 != 0 {
                stopped = self.learn(stopped, from, to, Treatment::Native(Untranslated::Shared))?;
            }
        }
        self.go_on(stopped)
    }

    /// The stopped thread's process has made `from..to` executable.
    fn learn(
        &mut self,
        stopped: Stopped,
        from: Address,
        to: Address,
        treatment: Treatment,
    ) -> Result<Stopped, RunError> {
        let space = self.threads.get(&stopped.tid()).ok_or(RunError::Gone)?.address_space;
        let differs = self.differs_from_relatives(space, from, to, treatment);
        let address_space = self.address_space(stopped.tid())?;
        address_space.learn_text(from, to, treatment, differs);
        if differs { self.part(stopped) } else { Ok(stopped) }
    }

    /// Locks memory page by page, as it is used, because rprof's mappings are large and nearly empty.
    fn mlockall(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let asked = Registers { rdi: registers.rdi | libc::MCL_ONFAULT as u64, ..registers };
        let (stopped, after) = self.execute(stopped, asked, site)?;
        stopped.set_registers(&Registers { rdi: registers.rdi, ..after })?;
        self.go_on(stopped)
    }

    /// Emulates the GS base: rprof uses the register, and the program's base is in the thread's region. A shadow stack would not
    /// survive translation.
    fn arch_prctl(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let thread = self.threads.get(&tid).ok_or(RunError::Gone)?;
        let (region, regions) = (thread.region, thread.regions.clone());
        let result = match registers.rdi {
            ARCH_SET_GS => {
                regions.borrow().set(region, layout::PROGRAM_GS, registers.rsi);
                0
            }
            ARCH_GET_GS => {
                let base = regions.borrow().get(region, layout::PROGRAM_GS);
                let address_space = self.address_space(tid)?;
                let written = address_space.memory.write(Address::new(registers.rsi), &base.to_le_bytes());
                if written.is_ok() { 0 } else { -libc::EFAULT }
            }
            ARCH_SHSTK_ENABLE => -libc::EOPNOTSUPP,
            _ => {
                let (stopped, _) = self.execute(stopped, registers, site)?;
                return self.go_on(stopped);
            }
        };
        let after =
            Registers { rax: i64::from(result) as u64, rip: site.after.get(), r11: registers.eflags, ..registers };
        stopped.set_registers(&after)?;
        self.go_on(stopped)
    }
}

/// Requests read instead of execute permission.
fn stripped(registers: Registers, strip: bool) -> Registers {
    if strip { Registers { rdx: registers.rdx & !EXEC | READ, ..registers } } else { registers }
}

pub(crate) fn succeeded(after: &Registers) -> bool {
    !(-4095..=-1).contains(&(after.rax as i64))
}

fn pages(start: u64, size: u64) -> (Address, Address) {
    let start = Address::new(start);
    (start.align_down(PAGE), (start + size).align_up(PAGE))
}
