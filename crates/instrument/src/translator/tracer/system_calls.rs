//! System calls that rprof handles: those that change executable memory, return from a signal, set the GS base, make a task that
//! cannot be traced, filter system calls, lock all memory, or limit it.

use std::ops::Range;

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::syscall_table::{CallClass, class};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::uncounted::Release;
use crate::translator::translate::text_ranges::{Treatment, Untranslated};
use rprof_tracee::address::Address;
use rprof_tracee::maps::read_maps;
use rprof_tracee::thread::{Registers, Stopped};

const EXEC: u64 = libc::PROT_EXEC as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;
const READ: u64 = libc::PROT_READ as u64;
const PAGE: u64 = 4096;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_GS: u64 = 0x1004;
const ARCH_SHSTK_ENABLE: u64 = 0x5001;

impl Run {
    /// A thread stopped before the system call of the site in its mailbox.
    pub fn call(&mut self, stopped: Stopped, registers: Registers) -> Result<(), RunError> {
        let tid = stopped.tid();
        match self.program.site_of_call(tid)? {
            Some(site) => self.call_at(stopped, registers, site),
            None => Err(RunError::Unsupported("a system call came from nowhere".into())),
        }
    }

    /// A thread stopped before the system call of `site`.
    pub fn call_at(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        self.program.judge(tid, registers.rax as i64, &registers)?;
        match registers.rax as i64 {
            libc::SYS_rt_sigaction => self.sigaction(stopped, registers, site),
            libc::SYS_rt_sigreturn => self.sigreturn(stopped, registers, site),
            libc::SYS_mmap => self.mmap(stopped, registers, site),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => self.mprotect(stopped, registers, site),
            libc::SYS_munmap => {
                let (stopped, after) = self.program.execute(stopped, registers, site)?;
                if succeeded(&after) {
                    let (from, to) = pages(registers.rdi, registers.rsi);
                    self.forget(tid, from, to)?;
                    self.program.address_space(tid)?.forget_rewriting(from, to);
                }
                self.program.go_on(stopped)
            }
            libc::SYS_mremap => self.mremap(stopped, registers, site),
            libc::SYS_shmat => self.shmat(stopped, registers, site),
            libc::SYS_ptrace => {
                self.tracers.insert(self.program.thread(tid)?.pid);
                Err(RunError::Unsupported("it uses ptrace itself, and a process can have only one tracer".into()))
            }
            // The task would run in the cache without answers.
            libc::SYS_clone | libc::SYS_clone3 => self.release_before(stopped, registers, Release::Untraced),
            libc::SYS_arch_prctl => self.program.arch_prctl(stopped, registers, site),
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 => self.program.open(stopped, registers, site),
            libc::SYS_prctl | libc::SYS_seccomp => match self.program.call_rule(stopped, registers, site)? {
                Some((stopped, why)) => self.release_before(stopped, registers, why),
                None => Ok(()),
            },
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                self.write_to_descriptor(stopped, registers, site)
            }
            libc::SYS_process_vm_writev => self.process_vm_writev(stopped, registers, site),
            libc::SYS_process_madvise => self.process_madvise(stopped, registers, site),
            libc::SYS_madvise => self.madvise(stopped, registers, site),
            libc::SYS_mlockall => self.program.mlockall(stopped, registers, site),
            libc::SYS_getrlimit | libc::SYS_setrlimit | libc::SYS_prlimit64 if !self.visits => {
                // For `prlimit64` this may be another process; a worker may have its code cache.
                if let Ok(other) = self.program.thread(Pid::from_raw(registers.rdi as i32)) {
                    self.bring_home(other.address_space);
                }
                self.program.limit(stopped, registers, site)
            }
            // It may wait for another thread.
            number if class(number) == CallClass::Native => self.program.rest_in_cache(stopped, registers, site.native),
            _ => self.program.pass(stopped, registers, site),
        }
    }

    fn sigreturn(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let (stopped, after) = self.program.execute(stopped, registers, site)?;
        self.program.note_mask(&stopped)?;
        self.recorded.end_burst(&self.program, stopped.tid());
        self.go_on_as_program(stopped, after)
    }

    fn mmap(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (protection, flags) = (registers.rdx, registers.r10);
        let address_space = self.program.address_space(tid)?;
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
        let (mut stopped, mut after) = self.program.execute(stopped, asked, site)?;
        after.rdx = registers.rdx;
        stopped.set_registers(&after)?;
        if succeeded(&after) {
            let (from, to) = pages(after.rax, registers.rsi);
            self.forget(tid, from, to)?;
            // Stacks become accessible later; the code that makes other reservations divides them later.
            let is_used = protection & WRITE != 0 || flags & libc::MAP_STACK as u64 != 0;
            if anonymous && is_used {
                self.recorded.tell_allocated(&self.program, tid, &registers, site, (from, to));
            }
            if executable {
                stopped = self.learn(stopped, from, to, treatment)?;
            }
        }
        self.program.go_on(stopped)
    }

    fn mprotect(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let executable = registers.rdx & EXEC != 0;
        let (from, to) = pages(registers.rdi, registers.rsi);
        let address_space = self.program.address_space(tid)?;
        let treatment = executable.then(|| address_space.treatment_of(from, to, registers.rdx & WRITE != 0));
        let asked = stripped(registers, treatment == Some(Treatment::Translate) && !self.visits);
        let (mut stopped, mut after) = self.program.execute(stopped, asked, site)?;
        let changed_to = match after.rax as i64 {
            _ if succeeded(&after) => to,
            error if error == i64::from(-libc::ENOMEM) => self.program.mapped_until(tid, from, to),
            _ => from,
        };
        after.rdx = registers.rdx;
        stopped.set_registers(&after)?;
        if from < changed_to {
            if treatment != Some(Treatment::Translate) {
                let address_space = self.program.address_space(tid)?;
                address_space.note_rewriting(from, changed_to);
                address_space.forget_text(from, changed_to);
            }
            if let Some(treatment) = treatment {
                stopped = self.learn(stopped, from, changed_to, treatment)?;
            }
        }
        self.program.go_on(stopped)
    }

    fn mremap(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (from, to) = pages(registers.rdi, registers.rsi);
        let (mut stopped, after) = self.program.execute(stopped, registers, site)?;
        if succeeded(&after) {
            let address_space = self.program.address_space(tid)?;
            let was = address_space.text.iter().find(|t| t.start <= from && from < t.end).map(|t| t.treatment);
            let new = pages(after.rax, registers.rdx);
            address_space.forget_text(new.0, new.1);
            self.forget(tid, from, to)?;
            let asked = Registers { r10: 0, ..registers };
            self.recorded.tell_allocated(&self.program, tid, &asked, site, new);
            if let Some(treatment) = was {
                stopped = self.learn(stopped, new.0, new.1, treatment)?;
            }
        }
        self.program.go_on(stopped)
    }

    /// Attached memory may be written at another address.
    fn shmat(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (mut stopped, after) = self.program.execute(stopped, registers, site)?;
        let address_space = self.program.address_space(tid)?;
        let attached = address_space.mapping(Address::new(after.rax)).filter(|_| succeeded(&after));
        if let Some(Range { start: from, end: to }) = attached.map(|m| m.range()) {
            self.forget(tid, from, to)?;
            if registers.rdx & libc::SHM_EXEC as u64 != 0 {
                stopped = self.learn(stopped, from, to, Treatment::Native(Untranslated::Shared))?;
            }
        }
        self.program.go_on(stopped)
    }

    /// A thread's process has unmapped `from..to`.
    fn forget(&mut self, tid: Pid, from: Address, to: Address) -> Result<(), RunError> {
        self.program.address_space(tid)?.forget_text(from, to);
        self.recorded.tell_unmapped(&self.program, tid, from, to);
        Ok(())
    }

    /// The stopped thread's process has made `from..to` executable.
    fn learn(
        &mut self,
        stopped: Stopped,
        from: Address,
        to: Address,
        treatment: Treatment,
    ) -> Result<Stopped, RunError> {
        let space = self.program.thread(stopped.tid())?.address_space;
        let differs = self.program.differs_from_relatives(space, from, to, treatment);
        let address_space = self.program.address_space(stopped.tid())?;
        address_space.learn_text(from, to, treatment, differs);
        if differs { self.part(stopped) } else { Ok(stopped) }
    }
}

impl Program {
    /// The first hole in `from..to`: a call that fails there has changed the memory before it.
    fn mapped_until(&self, tid: Pid, from: Address, to: Address) -> Address {
        let Ok((_, address_space)) = self.thread_and_space(tid) else { return from };
        let maps = read_maps(address_space.pid).unwrap_or_default();
        maps.iter().fold(from, |end, map| if map.start <= end && end < map.end { map.end.min(to) } else { end })
    }

    /// Emulates the GS base: rprof uses the register, and the program's base is in the thread's context. A shadow stack would not
    /// survive translation.
    fn arch_prctl(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let thread = self.thread(tid)?;
        let (context, contexts) = (thread.context, thread.contexts.clone());
        let result = match registers.rdi {
            ARCH_SET_GS => {
                contexts.borrow().set(context, layout::PROGRAM_GS, registers.rsi);
                0
            }
            ARCH_GET_GS => {
                let base = contexts.borrow().get(context, layout::PROGRAM_GS);
                let address_space = self.address_space(tid)?;
                let written = address_space.memory.write(Address::new(registers.rsi), &base.to_le_bytes());
                if written.is_ok() { 0 } else { -libc::EFAULT }
            }
            ARCH_SHSTK_ENABLE => -libc::EOPNOTSUPP,
            _ => return self.pass(stopped, registers, site),
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
