//! Limits on address space that the program sets or reads itself (`setrlimit`, `getrlimit`, `prlimit64`): rprof's mappings in it
//! are large and must not count.

use libc::{RLIM_INFINITY, RLIMIT_AS, rlimit};
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::instrument::translator::code_cache::arena::ARENA;
use crate::instrument::translator::code_cache::block::CallSite;
use crate::instrument::translator::tracer::event_loop::{Run, RunError};
use crate::tracee::address::Address;
use crate::tracee::memory::Memory;
use crate::tracee::proc_status::read_status;
use crate::tracee::thread::{Registers, Stopped};

/// Bytes for further code, because rprof cannot raise a hard limit later.
const MORE_CODE: u64 = 16 * ARENA;
const CAP_SYS_RESOURCE: u32 = 24;

/// The amount by which the kernel's limits exceed those that a process sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    soft: u64,
    hard: u64,
}

impl Allowance {
    /// The allowance for `ours` bytes of mappings.
    fn of(ours: u64) -> Self {
        Allowance { soft: ours, hard: ours + MORE_CODE }
    }

    /// The allowance if the kernel's limit is `above` and the program's is `limit`.
    fn between(limit: rlimit, above: rlimit) -> Self {
        let more = |above: u64, limit: u64| if limit == RLIM_INFINITY { 0 } else { above.saturating_sub(limit) };
        Allowance { soft: more(above.rlim_cur, limit.rlim_cur), hard: more(above.rlim_max, limit.rlim_max) }
    }

    /// The kernel's limit for the program's `limit`.
    fn above(self, limit: rlimit) -> rlimit {
        let add = |limit: u64, more: u64| if limit == RLIM_INFINITY { limit } else { limit.saturating_add(more) };
        rlimit { rlim_cur: add(limit.rlim_cur, self.soft), rlim_max: add(limit.rlim_max, self.hard) }
    }

    /// The program's limit for the kernel's `limit`.
    fn below(self, limit: rlimit) -> rlimit {
        let subtract = |limit: u64, more: u64| if limit == RLIM_INFINITY { limit } else { limit.saturating_sub(more) };
        rlimit { rlim_cur: subtract(limit.rlim_cur, self.soft), rlim_max: subtract(limit.rlim_max, self.hard) }
    }
}

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

impl Run {
    /// A thread is about to read or set limits.
    pub fn limit(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let asked = Asked::by(&registers);
        let caller = self.threads.get(&stopped.tid()).ok_or(RunError::Gone)?.group;
        let whose = match asked.pid {
            _ if asked.resource != u64::from(RLIMIT_AS) => None,
            0 => Some(caller),
            pid => self.threads.get(&Pid::from_raw(pid)).map(|t| t.group),
        };
        let status = whose.map(|_| read_status(caller)).transpose().map_err(|_| RunError::Gone)?;
        // Only the kernel can apply a filter to the call.
        let (Some(whose), Some(status)) = (whose, status.filter(|status| !status.filtered)) else {
            let (stopped, _) = self.execute(stopped, registers, site)?;
            return self.go_on(stopped);
        };
        let may_raise = status.capabilities >> CAP_SYS_RESOURCE & 1 == 1;
        let result = self.limit_address_space(stopped.tid(), whose, &asked, may_raise);
        let result = result.map_or_else(|error| -i64::from(error as i32), |()| 0);
        let after = Registers { rax: result as u64, rip: site.after.get(), r11: registers.eflags, ..registers };
        stopped.set_registers(&after)?;
        self.go_on(stopped)
    }

    fn limit_address_space(&mut self, tid: Pid, whose: Pid, asked: &Asked, may_raise: bool) -> Result<(), Errno> {
        if let Some(space) = self.threads.get(&whose).map(|t| t.process) {
            self.bring_home(space);
        }
        let (process, _) = self.process(tid).map_err(|_| Errno::ESRCH)?;
        let memory = &process.memory;
        let new = asked.new.map(|at| read(memory, at)).transpose()?;
        let allowance = self.allowances.get(&whose).copied().unwrap_or_default();
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
            self.allowances.insert(whose, Allowance::between(new, set));
        }
        let (process, _) = self.process(tid).map_err(|_| Errno::ESRCH)?;
        asked.old.map_or(Ok(()), |at| write(&process.memory, at, old))
    }

    /// Bytes of rprof's mappings in the address space of `group`.
    fn mapped_by_us(&self, group: Pid) -> u64 {
        let space = self.threads.values().find(|t| t.group == group).map(|t| t.process);
        let Some(process) = space.and_then(|space| self.processes.get(&space)) else { return 0 };
        let code: u64 = process.image.space.borrow().mappings().map(|(_, size)| size).sum();
        code + process.image.regions.borrow().mapping().1
    }

    /// Raises the limit before rprof maps memory into the address space of `group`. Returns the program's limit, if it has set
    /// one.
    pub fn open_address_space(&self, group: Pid) -> Option<rlimit> {
        let allowance = self.allowances.get(&group)?;
        let limit = limit_of(group).ok()?;
        // If the kernel refuses, the current limit has to suffice.
        let _ = set_limit(group, rlimit { rlim_cur: limit.rlim_max, ..limit });
        Some(allowance.below(limit))
    }

    /// Restores the limit afterwards, so that the program, whose limit is `limit`, can map as much as before.
    pub fn close_address_space(&mut self, group: Pid, limit: Option<rlimit>) {
        let (Some(&old), Some(limit)) = (self.allowances.get(&group), limit) else { return };
        let above = Allowance { soft: self.mapped_by_us(group), ..old }.above(limit);
        if let Ok(set) = set_at_most(group, above) {
            self.allowances.insert(group, Allowance::between(limit, set));
        }
    }
}

/// The kernel's limit on the address space of `pid`.
pub fn limit_of(pid: Pid) -> Result<rlimit, Errno> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills a live variable.
    Errno::result(unsafe { libc::prlimit(pid.as_raw(), RLIMIT_AS, std::ptr::null(), &raw mut limit) }).map(|_| limit)
}

fn set_limit(pid: Pid, limit: rlimit) -> Result<(), Errno> {
    // SAFETY: the kernel reads a live variable.
    Errno::result(unsafe { libc::prlimit(pid.as_raw(), RLIMIT_AS, &raw const limit, std::ptr::null_mut()) }).map(drop)
}

/// Sets `limit`, or the current hard limit if rprof may not raise it that far; returns the limit that was set.
fn set_at_most(pid: Pid, limit: rlimit) -> Result<rlimit, Errno> {
    match set_limit(pid, limit) {
        Err(Errno::EPERM) => {
            let most = limit_of(pid)?.rlim_max;
            let limit = rlimit { rlim_cur: limit.rlim_cur.min(most), rlim_max: limit.rlim_max.min(most) };
            set_limit(pid, limit).map(|()| limit)
        }
        result => result.map(|()| limit),
    }
}

fn read(memory: &Memory, at: Address) -> Result<rlimit, Errno> {
    let word = |at| memory.read_u64(at).map_err(|_| Errno::EFAULT);
    Ok(rlimit { rlim_cur: word(at)?, rlim_max: word(at + 8)? })
}

fn write(memory: &Memory, at: Address, limit: rlimit) -> Result<(), Errno> {
    let bytes: Vec<u8> = [limit.rlim_cur, limit.rlim_max].iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(at, &bytes).map_err(|_| Errno::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_not_seen() {
        let allowance = Allowance::of(128 << 30);
        let pair = |l: rlimit| (l.rlim_cur, l.rlim_max);
        for (soft, hard) in [(1 << 30, 2 << 30), (0, 0), (1 << 30, RLIM_INFINITY), (RLIM_INFINITY, RLIM_INFINITY)] {
            let meant = rlimit { rlim_cur: soft, rlim_max: hard };
            let above = allowance.above(meant);
            assert!(above.rlim_cur <= above.rlim_max, "the kernel would refuse it");
            assert_eq!(pair(allowance.below(above)), (soft, hard));
        }
        assert_eq!(pair(Allowance::default().below(rlimit { rlim_cur: 5, rlim_max: 7 })), (5, 7));
    }
}
