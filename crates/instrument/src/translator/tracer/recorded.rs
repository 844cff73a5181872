//! The records of a run: addresses and bursts, marked regions, recorded calls; and the state of the program that they fit.

use nix::unistd::Pid;

use crate::translator::code_cache::layout;
use crate::translator::code_cache::stubs::{DRAIN, MARK};
use crate::translator::kernel::allocations::AllocationCallers;
use crate::translator::kernel::correct_counters::correct_counters;
use crate::translator::kernel::marks::Marks;
use crate::translator::kernel::program_state::{State, complete, restore, settle_sum, uncount};
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::sampling::bursts::Bursts;
use crate::translator::sampling::recording::Recording;
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::watched_calls::{CallRecorder, note_call};
use crate::translator::translate::arrival::Arrival;
use rprof_tracee::address::CacheAddress;
use rprof_tracee::restarts::ended_without_bytes;
use rprof_tracee::thread::{Registers, Stopped};

/// The records of a run.
pub(crate) struct Recorded {
    /// Addresses and bursts.
    pub samples: Recording,
    /// Finds the callers that allocate memory.
    pub askers: AllocationCallers,
    /// The marked regions that threads are in.
    pub marks: Marks,
    /// Calls of MPI and BLAS.
    pub calls: CallRecorder,
}

impl Recorded {
    /// For these sinks; `visits`: of a program that is only visited.
    pub fn new(sinks: (Option<AccessBuffer>, Option<Bursts>), visits: bool) -> Self {
        Recorded {
            samples: Recording::new(sinks, visits),
            askers: AllocationCallers::default(),
            marks: Marks::default(),
            calls: CallRecorder::default(),
        }
    }

    /// Hands a thread's records to their sink.
    pub fn drain_buffer(&mut self, program: &Program, tid: Pid) {
        if let Ok((thread, address_space)) = program.thread_and_space(tid) {
            self.samples.take_records(&address_space.image.cache.borrow(), thread);
        }
    }

    /// Ends the burst of a thread, because its next instruction does not follow its last one.
    pub fn end_burst(&mut self, program: &Program, tid: Pid) {
        if let Ok(thread) = program.thread(tid)
            && thread.version.traces()
        {
            self.drain_buffer(program, tid);
            self.samples.close_burst(thread);
        }
    }

    /// A stopped thread waits in a marker call.
    pub fn note_mark(&mut self, program: &Program, tid: Pid) {
        if let Ok((thread, address_space)) = program.thread_and_space(tid) {
            note_call(&mut self.marks, &mut self.calls, address_space, thread);
        }
    }

    /// Corrects the counters of a thread that ends. If it is already gone, its registers are not available.
    pub fn settle(&mut self, program: &Program, ending: &Stopped) {
        let Ok(mut registers) = ending.registers() else { return };
        let Ok((thread, address_space)) = program.thread_and_space(ending.tid()) else { return };
        if let Some(at) = address_space.image.cache.borrow().expelled_at(registers.rip, false) {
            // The thread has executed no instruction of the program there.
            registers.rip = at.get();
        }
        let at = CacheAddress::new(registers.rip);
        let Ok(State::Between) = self.as_the_program_has_it(program, ending.tid(), &mut registers) else { return };
        correct_counters(thread, address_space, at, &mut registers);
    }

    /// Maps the registers of a thread in the cache to the program's, and corrects its counts accordingly. The thread is about to
    /// continue elsewhere.
    pub fn as_the_program_has_it(
        &mut self,
        program: &Program,
        tid: Pid,
        registers: &mut Registers,
    ) -> Result<State, RunError> {
        let state = self.program_state(program, tid, registers)?;
        if let State::Program | State::Outside = state {
            self.end_burst(program, tid);
        }
        Ok(state)
    }

    fn program_state(&mut self, program: &Program, tid: Pid, registers: &mut Registers) -> Result<State, RunError> {
        let (thread, address_space) = program.thread_and_space(tid)?;
        let at = CacheAddress::new(registers.rip);
        let cache = address_space.image.cache.borrow();
        let Some(arena) = cache.arena_of(at) else { return Ok(State::Outside) };
        let stubs = cache.arenas[arena].stubs;
        let get = |offset| thread.contexts.borrow().get(thread.context, offset);
        if at > stubs.direct && at < stubs.wait.1 {
            let site = get(layout::SITE) as u32;
            let state = if site == DRAIN || site == MARK { State::Continued } else { State::Program };
            registers.rip = match site {
                DRAIN | MARK => get(layout::TARGET),
                _ if Arrival::of(site).is_some() => get(layout::TARGET),
                _ => cache.sites[site as usize].target.get(),
            };
            if site == DRAIN {
                self.samples.take_records(&cache, thread);
            }
            drop(cache);
            if site == MARK {
                note_call(&mut self.marks, &mut self.calls, address_space, thread);
            }
            registers.rcx = get(layout::SAVE_RCX);
            thread.contexts.borrow().respond(thread.context, 0);
            return Ok(state);
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
}
