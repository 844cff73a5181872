//! Reports large allocations and unmapped memory to the access sink.

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::tracer::program::Program;
use crate::translator::tracer::recorded::Recorded;
use crate::translator::translate::system_calls::LARGE;
use rprof_profile::evidence::data::Allocation;
use rprof_tracee::address::Address;
use rprof_tracee::thread::Registers;

impl Recorded {
    /// Reports that a thread, stopped at the system call of `site`, was given `from..to`.
    pub fn tell_allocated(
        &mut self,
        program: &Program,
        tid: Pid,
        registers: &Registers,
        site: CallSite,
        (from, to): (Address, Address),
    ) {
        if self.samples.drain.is_none() || to - from < LARGE {
            return;
        }
        let Ok((_, address_space)) = program.thread_and_space(tid) else { return };
        let at = address_space.state_at(site.native);
        let ip = at.map(|(block, offset, _)| address_space.image.cache.borrow().block(block).start + u64::from(offset));
        let frames = ip.map(|ip| self.askers.frames(address_space, ip, registers)).unwrap_or_default();
        let stack = registers.r10 & libc::MAP_STACK as u64 != 0;
        let allocation = Allocation { start: from.get(), bytes: to - from, frames, stack };
        if let Some(drain) = &mut self.samples.drain {
            drain.allocated(address_space.pid.as_raw() as u32, allocation);
        }
    }

    /// Reports that a thread's process unmapped `from..to`, after handing over the thread's earlier accesses.
    pub fn tell_unmapped(&mut self, program: &Program, tid: Pid, from: Address, to: Address) {
        self.drain_buffer(program, tid);
        let address_space = program.threads.get(&tid).map_or(tid, |t| t.address_space);
        if let Some(drain) = &mut self.samples.drain {
            drain.unmapped(address_space.as_raw() as u32, from.get(), to.get());
        }
    }
}
