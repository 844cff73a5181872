//! One single-stepped thread: the instruction that it is about to execute, and the effect of that instruction.

use iced_x86::Code;
use nix::unistd::Pid;

use super::records::{RunCounts, Space};
use crate::strings::{self, Run};
use crate::x86_64::observe::{DIRECTION, State};
use rprof_isa::facts::Dynamic;
use rprof_profile::evidence::memory::{Access, AccessSink};
use rprof_tracee::address::Address;
use rprof_tracee::thread::{Registers, Stopped, TraceError};

/// System calls after which text may be mapped elsewhere: mmap, mprotect, munmap, mremap, shmat, shmdt.
const MAPPING_CALLS: [i64; 6] =
    [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_shmat, libc::SYS_shmdt];

/// The treatment of a signal that a thread stopped for.
pub enum Flow {
    /// It was the trap of a step.
    Step,
    /// It is the program's own.
    Deliver,
}

/// A thread of the program.
#[derive(Debug)]
pub struct Thread {
    /// Its process.
    pub process: Pid,
    ordinal: u32,
    pending: Option<Pending>,
    /// The accesses of a `rep` instruction, known only behind it.
    repeated: Vec<Access>,
}

/// An instruction about to be executed.
#[derive(Debug)]
struct Pending {
    at: Address,
    /// `rep`: the count register before its first iteration.
    repeat_from: Option<u64>,
    /// Active lanes.
    sum: u64,
    /// The number of a `syscall`.
    call: Option<i64>,
    /// `rep`: the first access of each operand, and whether further ones go downwards.
    first: Vec<Access>,
    downwards: bool,
}

impl Thread {
    /// A thread that has not executed anything.
    pub fn new(process: Pid, ordinal: u32) -> Self {
        Thread { process, ordinal, pending: None, repeated: Vec::new() }
    }

    /// For interrupting it.
    pub fn running(&self, tid: Pid) -> rprof_tracee::thread::Running {
        rprof_tracee::thread::Running::resumed(tid)
    }

    /// Whether it is inside a system call (an event stopped it there): then its registers are not valid yet.
    pub fn in_call(&self) -> bool {
        self.pending.as_ref().is_some_and(|p| p.call.is_some())
    }

    /// A signal stop: the trap after an instruction, or a signal before one.
    pub fn signal(&mut self, stopped: &Stopped, signal: i32, space: &mut Space) -> Result<Flow, TraceError> {
        if signal == libc::SIGTRAP {
            match stopped.signal_info()?.si_code {
                libc::TRAP_TRACE | libc::TRAP_BRKPT | libc::TRAP_HWBKPT => {
                    let registers = stopped.registers()?;
                    self.complete(Address::new(registers.rip), registers.rcx, space);
                    return Ok(Flow::Step);
                }
                // The entry to a handler is reported so: nothing was executed.
                libc::SIGTRAP => {
                    self.pending = None;
                    return Ok(Flow::Step);
                }
                _ => {}
            }
        }
        let registers = stopped.registers()?;
        let moved = self.pending.as_ref().is_some_and(|p| p.at.get() != registers.rip);
        if moved {
            self.complete(Address::new(registers.rip), registers.rcx, space);
        }
        self.pending = self.pending.take().filter(|p| p.repeat_from.is_some());
        Ok(Flow::Deliver)
    }

    /// The pending instruction was executed and control is at `now`.
    fn complete(&mut self, now: Address, count_register: u64, space: &mut Space) {
        let Some(pending) = self.pending.take() else { return };
        if pending.repeat_from.is_some() && now == pending.at {
            self.pending = Some(pending); // one iteration of several
            return;
        }
        if let Some(record) = space.known(pending.at) {
            let iterations = pending.repeat_from.map(|from| from.wrapping_sub(count_register));
            record.count(self.ordinal, iterations.unwrap_or(pending.sum));
            pending.call.into_iter().for_each(|number| record.count_call(number));
            let run = |first: &Access| {
                let element = u64::from(first.bytes);
                let bytes = element.saturating_mul(iterations.unwrap_or(0));
                let back = if pending.downwards { bytes.saturating_sub(element) } else { 0 };
                Run { address: first.address.wrapping_sub(back), bytes, kind: first.kind }
            };
            if let Some(first) = pending.first.first() {
                let runs: Vec<Run> = pending.first.iter().map(run).collect();
                strings::accesses(&runs, first.site, &mut self.repeated);
            }
        }
        if pending.call.is_some_and(|c| MAPPING_CALLS.contains(&c)) {
            space.forget_maps();
        }
    }

    /// The thread ends or executes a program: the system call that did it was executed.
    pub fn complete_final(&mut self, space: &mut Space) {
        if let Some(pending) = self.pending.take_if(|p| p.call.is_some())
            && let Some(record) = space.known(pending.at)
        {
            record.count(self.ordinal, 0);
            pending.call.into_iter().for_each(|number| record.count_call(number));
        }
    }

    /// Looks at the instruction that the next step executes, and reports its memory accesses.
    pub fn prepare(
        &mut self,
        stopped: &Stopped,
        space: &mut Space,
        run_counts: &mut RunCounts,
        sink: &mut Option<Box<dyn AccessSink>>,
    ) -> Result<(), TraceError> {
        if let Some(sink) = sink
            && !self.repeated.is_empty()
        {
            sink.record(self.ordinal, self.process.as_raw() as u32, &std::mem::take(&mut self.repeated));
        }
        let registers = stopped.registers()?;
        let at = Address::new(registers.rip);
        if self.pending.as_ref().is_some_and(|p| p.at == at && p.repeat_from.is_some()) {
            return Ok(());
        }
        self.pending = None;
        let Some(record) = space.record(at, run_counts) else { return Ok(()) };
        if record.instruction.code() == Code::Xbegin_rel32 || record.instruction.code() == Code::Xbegin_rel16 {
            // As under the translator: aborted at once. A step would continue behind the first instruction of the abort path.
            record.count(self.ordinal, 0);
            let way_out = record.instruction.near_branch_target();
            stopped.set_registers(&Registers { rax: 0, rip: way_out, ..registers })?;
            return self.prepare(stopped, space, run_counts, sink);
        }
        let mut state = State::new(stopped, &registers);
        let active = state.active_lanes(record.dynamic)?;
        let address_size_32 = record.instruction.memory_index().size() == 4;
        let count = if address_size_32 { registers.rcx & 0xffff_ffff } else { registers.rcx };
        let repeat = matches!(record.dynamic, Some(Dynamic::Repeat)).then_some(count);
        let mut first = Vec::new();
        if let Some(sink) = sink {
            let mut batch = Vec::new();
            state.accesses(&record.instruction, &record.operands, active, record.site, &mut batch)?;
            if repeat.is_some() {
                first = batch;
            } else if !batch.is_empty() {
                sink.record(self.ordinal, self.process.as_raw() as u32, &batch);
            }
        }
        let call = (record.instruction.code() == Code::Syscall).then_some(registers.rax as i64);
        if call == Some(libc::SYS_rseq) {
            // As under the translator: rseq does not exist (an unknown call number returns ENOSYS).
            stopped.set_registers(&Registers { rax: u64::MAX, ..registers })?;
        }
        let sum = active.map_or(0, |a| u64::from(a.count_ones()));
        let downwards = registers.eflags & DIRECTION != 0;
        self.pending = Some(Pending { at, repeat_from: repeat, sum, call, first, downwards });
        Ok(())
    }
}
