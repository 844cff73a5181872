//! The effect of signals in the program, and the restoring of actions after rprof's own traps.

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::block::CallSite;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::kernel::dispositions::{Action, Dispositions, SignalEffect};
use crate::instrument::translator::kernel::signal_bits::bit;
use crate::instrument::translator::tracer::program::{Program, remote_in};
use crate::instrument::translator::tracer::run_error::RunError;
use crate::instrument::translator::tracer::run_evidence::RunEvidence;
use crate::instrument::translator::tracer::system_calls::succeeded;
use crate::instrument::translator::tracer::watched_calls::CallRecorder;
use crate::tracee::address::Address;
use crate::tracee::proc_status::read_status;
use crate::tracee::thread::{Registers, Stopped};

impl Program {
    /// The effect that the program has set for `signal`.
    pub fn fate(&mut self, tid: Pid, signal: i32) -> Result<SignalEffect, RunError> {
        let pid = self.thread(tid)?.pid;
        let kept = self.settings.get_mut(&pid).and_then(|g| g.dispositions.as_mut()?.of(signal)).copied();
        if let Some(action) = kept {
            return Ok(match action {
                a if a.is_default() => SignalEffect::Default,
                a if a.is_ignored() => SignalEffect::Ignored,
                _ => SignalEffect::Caught,
            });
        }
        let status = read_status(tid).map_err(|_| RunError::Gone)?;
        Ok(match bit(signal) {
            b if status.caught & b != 0 => SignalEffect::Caught,
            b if status.ignored & b != 0 => SignalEffect::Ignored,
            _ => SignalEffect::Default,
        })
    }

    /// Whether another thread of the process may lose the action of `signal` for a moment: by a trap of rprof's while it blocks the
    /// signal.
    pub fn may_lose_action(&self, tid: Pid, signal: i32) -> bool {
        let Ok(pid) = self.thread(tid).map(|t| t.pid) else { return false };
        match signal {
            libc::SIGTRAP => true,
            // A thread faults where it leaves native code.
            libc::SIGSEGV => self.threads.values().any(|thread| thread.pid == pid && thread.native.is_some()),
            _ => false,
        }
    }

    /// The actions of process `pid`.
    fn dispositions(&mut self, pid: Pid) -> &mut Dispositions {
        self.settings.entry(pid).or_default().dispositions.get_or_insert_default()
    }

    /// The handler of `signal` was called.
    pub fn note_delivery(&mut self, tid: Pid, signal: i32, calls: &mut CallRecorder) {
        let Ok(thread) = self.thread(tid) else { return };
        calls.got_signal(thread);
        let pid = thread.pid;
        if let Some(action) = self.settings.get_mut(&pid).and_then(|g| g.dispositions.as_mut()?.of(signal))
            && action.lasts_once()
        {
            action.0[0] = libc::SIG_DFL as u64;
        }
    }

    /// `rt_sigaction` of one of the two signals.
    pub fn sigaction(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let (signal, action) = (registers.rdi as i32, Address::new(registers.rsi));
        let mut words = [0; 32];
        let address_space = self.address_space(tid)?;
        let read = registers.rsi != 0 && address_space.memory.read(action, &mut words).is_ok();
        let (stopped, after) = self.execute(stopped, registers, site)?;
        let pid = self.thread(tid)?.pid;
        if read
            && succeeded(&after)
            && let Some(kept) = self.dispositions(pid).of(signal)
        {
            let word = |i: usize| words[8 * i..8 * i + 8].try_into().map_or(0, u64::from_le_bytes);
            *kept = Action([word(0), word(1), word(2), word(3)]);
        }
        self.go_on(stopped)
    }

    /// Restores the action of `signal`, which a trap of rprof's raised, and the signal mask. Returns whether this took a system
    /// call: then the thread is no longer at the stop of a signal.
    pub fn restore_signal_state(
        &mut self,
        stopped: Stopped,
        signal: i32,
        evidence: &mut RunEvidence,
    ) -> Result<(Stopped, bool), RunError> {
        let tid = stopped.tid();
        let thread = self.thread(tid)?;
        let (context, contexts, pid) = (thread.context, thread.contexts.clone(), thread.pid);
        let mask = contexts.borrow().get(context, layout::SIGNAL_MASK);
        let blocked = mask & bit(signal) != 0;
        if blocked {
            stopped.set_signal_mask(mask)?;
        }
        let action = self.dispositions(pid).of(signal).copied().unwrap_or_default();
        if action.is_default() || !(blocked || action.is_ignored()) {
            return Ok((stopped, false));
        }
        if read_status(tid).map_err(|_| RunError::Gone)?.may_be_filtered_more_than_us() {
            evidence.warn_once(
                "signal-action-lost",
                "the program filters its system calls, so the action of a blocked or ignored SIGTRAP or SIGSEGV was lost",
                "such a signal would end the program",
                "--passes timed",
            );
            return Ok((stopped, false));
        }
        let place = {
            let contexts = contexts.borrow();
            for (i, word) in (0u32..).zip(action.0) {
                contexts.set(context, layout::ACTION + 8 * i, word);
            }
            contexts.base(context) + u64::from(layout::ACTION)
        };
        let address_space = self.address_space(tid)?;
        let mut remote = remote_in(address_space, stopped)?;
        remote.call("rt_sigaction", libc::SYS_rt_sigaction, [signal as u64, place.get(), 0, 8, 0, 0])?;
        let (stopped, signals) = remote.finish()?;
        self.defer_all(tid, signals);
        Ok((stopped, true))
    }
}
