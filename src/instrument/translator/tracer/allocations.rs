//! Reports large allocations and unmapped memory to the access sink.

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::block::CallSite;
use crate::instrument::translator::tracer::run::Run;
use crate::instrument::translator::translate::system_calls::LARGE;
use crate::profile::evidence::data::Allocation;
use crate::tracee::address::Address;
use crate::tracee::thread::Registers;

impl Run {
    /// Reports that a thread, stopped at the system call of `site`, was given `from..to`.
    pub fn tell_allocated(&mut self, tid: Pid, registers: &Registers, site: CallSite, (from, to): (Address, Address)) {
        if self.recording.drain.is_none() || to - from < LARGE {
            return;
        }
        let Some(process) = self.threads.get(&tid).and_then(|t| self.processes.get(&t.process)) else { return };
        let at = process.state_at(site.native);
        let ip = at.map(|(block, offset, _)| process.image.space.borrow().block(block).start + u64::from(offset));
        let frames = ip.map(|ip| self.askers.frames(process, ip, registers)).unwrap_or_default();
        let stack = registers.r10 & libc::MAP_STACK as u64 != 0;
        let allocation = Allocation { start: from.get(), bytes: to - from, frames, stack };
        if let Some(drain) = &mut self.recording.drain {
            drain.allocated(process.pid.as_raw() as u32, allocation);
        }
    }

    /// Reports that a thread's process unmapped `from..to`, after handing over the thread's earlier accesses.
    pub fn tell_unmapped(&mut self, tid: Pid, from: Address, to: Address) {
        self.drain_buffer(tid);
        let process = self.threads.get(&tid).map_or(tid, |t| t.process);
        if let Some(drain) = &mut self.recording.drain {
            drain.unmapped(process.as_raw() as u32, from.get(), to.get());
        }
    }
}
