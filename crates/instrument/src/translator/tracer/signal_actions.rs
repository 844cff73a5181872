//! The effect of signals in the program, and the restoring of actions after rprof's own traps.

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::code_cache::layout;
use crate::translator::kernel::dispositions::{Action, Dispositions, RAISED_BY_US, SignalEffect};
use crate::translator::kernel::signal_bits::bit;
use crate::translator::tracer::program::{Program, remote_in};
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::run_evidence::RunEvidence;
use crate::translator::tracer::system_calls::succeeded;
use crate::translator::tracer::watched_calls::CallRecorder;
use rprof_tracee::address::Address;
use rprof_tracee::proc_status::read_status;
use rprof_tracee::thread::{Registers, Stopped};

impl Run {
    /// `rt_sigaction` of one of the two signals. The program gets the action that it has set, also while a trap of rprof's has reset it in
    /// another thread.
    pub fn sigaction(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let held = self.hold_siblings(tid);
        let done = self.program.sigaction(stopped, registers, site);
        self.let_on(held)?;
        self.program.go_on(done?)
    }
}

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
            // A thread faults when it leaves native code.
            libc::SIGSEGV => self.threads.values().any(|thread| thread.pid == pid && thread.native.is_some()),
            _ => false,
        }
    }

    /// The actions of process `pid`.
    fn dispositions(&mut self, pid: Pid) -> &mut Dispositions {
        self.settings.entry(pid).or_default().dispositions.get_or_insert_default()
    }

    /// A process has taken a SIGTRAP that was not of rprof's making.
    pub fn note_trap(&mut self, pid: Pid) {
        self.settings.entry(pid).or_default().traps = true;
    }

    /// The handler of `signal` was called.
    pub fn note_delivery(&mut self, tid: Pid, signal: i32, calls: &mut CallRecorder) {
        let Ok(thread) = self.thread(tid) else { return };
        calls.got_signal(thread);
        let pid = thread.pid;
        if signal == libc::SIGTRAP {
            self.note_trap(pid);
        }
        if let Some(action) = self.settings.get_mut(&pid).and_then(|g| g.dispositions.as_mut()?.of(signal))
            && action.lasts_once()
        {
            action.0[0] = libc::SIG_DFL as u64;
        }
    }

    /// `rt_sigaction` of one of the two signals, while no other thread of the process runs.
    fn sigaction(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let (signal, action) = (registers.rdi as i32, Address::new(registers.rsi));
        let mut words = [0; 32];
        let address_space = self.address_space(tid)?;
        let read = registers.rsi != 0 && address_space.memory.read(action, &mut words).is_ok();
        let stopped = self.ignore_again(stopped)?;
        let (stopped, after) = self.execute(stopped, registers, site)?;
        let pid = self.thread(tid)?.pid;
        if read
            && succeeded(&after)
            && let Some(kept) = self.dispositions(pid).of(signal)
        {
            let word = |i: usize| words[8 * i..8 * i + 8].try_into().map_or(0, u64::from_le_bytes);
            *kept = Action([word(0), word(1), word(2), word(3)]);
        }
        Ok(stopped)
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
        let pid = thread.pid;
        let mask = thread.contexts.borrow().get(thread.context, layout::SIGNAL_MASK);
        let blocked = mask & bit(signal) != 0;
        if blocked {
            stopped.set_signal_mask(mask)?;
        }
        let action = self.dispositions(pid).of(signal).copied().unwrap_or_default();
        if action.is_default() || !(blocked || action.is_ignored()) {
            return Ok((stopped, false));
        }
        if action.is_ignored() && self.has_siblings(tid) {
            // To ignore it again would drop traps of rprof's that are pending in other threads; rprof drops the program's (`deliver`).
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
        Ok((self.set_action(stopped, signal, action)?, true))
    }

    /// Ignores the signals again that the program ignores. No other thread of the process may run.
    pub fn ignore_again(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        // Alone, `restore_signal_state` does so at once.
        if self.has_siblings(stopped.tid()) { self.set_kept(stopped, Action::is_ignored) } else { Ok(stopped) }
    }

    /// Gives a new process the actions of the one that it was forked from: a trap of rprof's may just have reset one there.
    pub fn inherit_actions(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        self.set_kept(stopped, |action| !action.is_default())
    }

    /// Sets those of the process's own actions that are meant, unless it filters its system calls.
    fn set_kept(&mut self, stopped: Stopped, is_meant: impl Fn(Action) -> bool) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let pid = self.thread(tid)?.pid;
        let mut kept = self.settings.get(&pid).and_then(|settings| settings.dispositions).unwrap_or_default();
        let mut stopped = stopped;
        for signal in RAISED_BY_US {
            if let Some(action) = kept.of(signal).copied().filter(|action| is_meant(*action))
                && !read_status(tid).map_err(|_| RunError::Gone)?.may_be_filtered_more_than_us()
            {
                stopped = self.set_action(stopped, signal, action)?;
            }
        }
        Ok(stopped)
    }

    fn has_siblings(&self, tid: Pid) -> bool {
        let pid = self.threads.get(&tid).map(|thread| thread.pid);
        self.threads.iter().any(|(other, thread)| *other != tid && Some(thread.pid) == pid)
    }

    /// Sets the kernel's action of `signal` in the name of a stopped thread.
    fn set_action(&mut self, stopped: Stopped, signal: i32, action: Action) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let (thread, address_space) = self.thread_and_space(tid)?;
        let place = {
            let contexts = thread.contexts.borrow();
            for (i, word) in (0u32..).zip(action.0) {
                contexts.set(thread.context, layout::ACTION + 8 * i, word);
            }
            contexts.base(thread.context) + u64::from(layout::ACTION)
        };
        let mut remote = remote_in(address_space, stopped)?;
        remote.call("rt_sigaction", libc::SYS_rt_sigaction, [signal as u64, place.get(), 0, 8, 0, 0])?;
        let (stopped, signals) = remote.finish()?;
        self.defer_all(tid, signals);
        Ok(stopped)
    }
}
