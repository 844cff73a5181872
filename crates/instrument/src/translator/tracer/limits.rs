//! System calls that read or set limits on address space ([`rlimit_as`](crate::translator::kernel::rlimit_as)).

use libc::{RLIMIT_AS, rlimit};
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::kernel::rlimit_as::{Allowance, limit_of, read, set_at_most, set_limit, write};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use rprof_tracee::address::Address;
use rprof_tracee::proc_status::read_status;
use rprof_tracee::thread::{Registers, Stopped};

const CAP_SYS_RESOURCE: u32 = 24;

/// The arguments of one of the three calls, which reads or sets a limit.
struct Asked {
    /// 0: of the caller.
    pid: i32,
    resource: u64,
    new: Option<Address>,
    old: Option<Address>,
}

impl Asked {
    fn by(registers: &Registers) -> Asked {
        let place = |at: u64| (at != 0).then(|| Address::new(at));
        let Registers { rdi, rsi, rdx, r10, .. } = *registers;
        match registers.rax as i64 {
            libc::SYS_setrlimit => Asked { pid: 0, resource: rdi, new: Some(Address::new(rsi)), old: None },
            libc::SYS_getrlimit => Asked { pid: 0, resource: rdi, new: None, old: Some(Address::new(rsi)) },
            _ => Asked { pid: rdi as i32, resource: rsi, new: place(rdx), old: place(r10) },
        }
    }
}

impl Program {
    /// A thread is about to read or set limits.
    pub fn limit(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let asked = Asked::by(&registers);
        let caller = self.thread(stopped.tid())?.pid;
        let whose = match asked.pid {
            _ if asked.resource != u64::from(RLIMIT_AS) => None,
            0 => Some(caller),
            pid => self.threads.get(&Pid::from_raw(pid)).map(|t| t.pid),
        };
        let status = whose.map(|_| read_status(caller)).transpose().map_err(|_| RunError::Gone)?;
        // Only the kernel can apply a filter to the call.
        let (Some(whose), Some(status)) = (whose, status.filter(|status| !status.filtered)) else {
            return self.pass(stopped, registers, site);
        };
        let may_raise = status.capabilities >> CAP_SYS_RESOURCE & 1 == 1;
        let result = self.limit_address_space(stopped.tid(), whose, &asked, may_raise);
        let result = result.map_or_else(|error| -i64::from(error as i32), |()| 0);
        let after = Registers { rax: result as u64, rip: site.after.get(), r11: registers.eflags, ..registers };
        stopped.set_registers(&after)?;
        self.go_on(stopped)
    }

    fn limit_address_space(&mut self, tid: Pid, whose: Pid, asked: &Asked, may_raise: bool) -> Result<(), Errno> {
        let address_space = self.address_space(tid).map_err(|_| Errno::ESRCH)?;
        let memory = &address_space.memory;
        let new = asked.new.map(|at| read(memory, at)).transpose()?;
        let allowance = self.settings.get(&whose).and_then(|g| g.allowance).unwrap_or_default();
        let old = allowance.below(limit_of(whose)?);
        if let Some(new) = new {
            if new.rlim_cur > new.rlim_max {
                return Err(Errno::EINVAL);
            }
            if new.rlim_max > old.rlim_max && !may_raise {
                return Err(Errno::EPERM);
            }
            let above = Allowance::of(self.mapped_by_us(whose)).above(new);
            let set = set_at_most(whose, above)?;
            self.settings.entry(whose).or_default().allowance = Some(Allowance::between(new, set));
        }
        let address_space = self.address_space(tid).map_err(|_| Errno::ESRCH)?;
        asked.old.map_or(Ok(()), |at| write(&address_space.memory, at, old))
    }

    /// Bytes of rprof's mappings in the address space of `pid`.
    fn mapped_by_us(&self, pid: Pid) -> u64 {
        let space = self.threads.values().find(|t| t.pid == pid).map(|t| t.address_space);
        let Some(address_space) = space.and_then(|space| self.address_spaces.get(&space)) else { return 0 };
        address_space.mappings().map(|(_, size)| size).sum()
    }

    /// Raises the limit before rprof maps memory into the address space of `pid`. Returns the program's limit, if it has set
    /// one.
    pub fn open_address_space(&self, pid: Pid) -> Option<rlimit> {
        let allowance = self.settings.get(&pid)?.allowance?;
        let limit = limit_of(pid).ok()?;
        // If the kernel refuses, the current limit has to suffice.
        let _ = set_limit(pid, rlimit { rlim_cur: limit.rlim_max, ..limit });
        Some(allowance.below(limit))
    }

    /// Restores the limit afterwards, so that the program can map as much as before: up to `limit`.
    pub fn close_address_space(&mut self, pid: Pid, limit: Option<rlimit>) {
        let (Some(old), Some(limit)) = (self.settings.get(&pid).and_then(|g| g.allowance), limit) else {
            return;
        };
        let above = Allowance { soft: self.mapped_by_us(pid), ..old }.above(limit);
        if let Ok(set) = set_at_most(pid, above) {
            self.settings.entry(pid).or_default().allowance = Some(Allowance::between(limit, set));
        }
    }
}
