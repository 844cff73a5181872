//! `mlockall`: the program's memory is locked mapping by mapping, without rprof's, which are large and nearly empty.
//!
//! ```text
//!  mlockall(MCL_CURRENT | MCL_FUTURE) ─▶ mlockall(MCL_FUTURE); mlock2 of each of the program's mappings
//! ```

use nix::errno::Errno;

use crate::translator::code_cache::block::CallSite;
use crate::translator::kernel::memory_limit::{CAP_IPC_LOCK, lock_limit};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::proc_status::read_status;
use rprof_tracee::thread::{Registers, Stopped};

const CURRENT: u64 = libc::MCL_CURRENT as u64;
const FUTURE: u64 = libc::MCL_FUTURE as u64;
const ON_FAULT: u64 = libc::MCL_ONFAULT as u64;

impl Program {
    /// A thread is about to lock all memory.
    pub fn mlockall(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let flags = registers.rdi;
        let (thread, address_space) = self.thread_and_space(stopped.tid())?;
        let status = read_status(stopped.tid()).map_err(|_| RunError::Gone)?;
        let is_known = flags & !(CURRENT | FUTURE | ON_FAULT) == 0;
        // Without MCL_FUTURE the kernel would forget one that was asked for before, which a program hardly does.
        if !is_known || flags & CURRENT == 0 || status.filtered {
            return self.pass(stopped, registers, site);
        }
        let ours: Vec<(u64, u64)> = address_space.mappings().map(|(at, size)| (at.get(), at.get() + size)).collect();
        let maps = read_maps(thread.pid).map_err(|_| RunError::Gone)?;
        let is_ours = |m: &Mapping| ours.iter().any(|(from, to)| (*from..*to).contains(&m.start.get()));
        let own: Vec<(u64, u64)> =
            maps.iter().filter(|m| !is_ours(m)).map(|m| (m.start.get(), m.end - m.start)).collect();
        let size: u64 = own.iter().map(|(_, size)| size).sum();
        let may_lock_all = status.capabilities >> CAP_IPC_LOCK & 1 == 1;
        let limit = lock_limit(thread.pid).unwrap_or(u64::MAX);
        if !may_lock_all && (limit == 0 || size > limit) {
            let error = if limit == 0 { Errno::EPERM } else { Errno::ENOMEM };
            return self.answer(stopped, registers, site, -i64::from(error as i32));
        }
        let mut stopped = stopped;
        if flags & FUTURE != 0 {
            let after;
            (stopped, after) = self.execute(stopped, Registers { rdi: flags & !CURRENT, ..registers }, site)?;
            if (after.rax as i64) < 0 {
                return self.answer(stopped, registers, site, after.rax as i64);
            }
        }
        let on_fault = if flags & ON_FAULT != 0 { libc::MLOCK_ONFAULT as u64 } else { 0 };
        for (at, size) in own {
            let call = Registers { rax: libc::SYS_mlock2 as u64, rdi: at, rsi: size, rdx: on_fault, ..registers };
            // As the kernel does: memory that cannot be populated is left out.
            (stopped, _) = self.execute(stopped, call, site)?;
        }
        self.answer(stopped, registers, site, 0)
    }

    /// Lets a thread go on behind a call with this result.
    fn answer(&mut self, stopped: Stopped, registers: Registers, site: CallSite, result: i64) -> Result<(), RunError> {
        let after = Registers { rax: result as u64, rip: site.after.get(), r11: registers.eflags, ..registers };
        stopped.set_registers(&after)?;
        self.go_on(stopped)
    }
}
