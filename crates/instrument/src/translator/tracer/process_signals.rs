//! Signals that are meant for a process, and that the kernel gives to its first thread.
//!
//! The kernel prefers the first thread unless that thread blocks the signal, or is in a stop of its tracer (`complete_signal` in
//! kernel/signal.c). Stops of rprof's must not change the thread that runs the handler: a handler may jump to a frame of the
//! thread that it expects to be in.

use nix::unistd::Pid;

use crate::translator::kernel::dispositions::SignalEffect;
use crate::translator::kernel::signal_bits::{SI_KERNEL, bit};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use rprof_tracee::proc_status::read_status;
use rprof_tracee::restarts::repeat_ended_call;
use rprof_tracee::thread::{SignalInfo, Stopped};

/// Whether the kernel sends such a signal to a process, with its first thread as the preferred one: `setitimer(ITIMER_REAL)` and
/// `kill`. Timers of CPU time prefer the thread that runs.
fn prefers_first_thread(signal: i32, info: &SignalInfo) -> bool {
    match info.si_code {
        SI_KERNEL => signal == libc::SIGALRM,
        code => code == libc::SI_USER,
    }
}

impl Program {
    /// Sends a signal on to the first thread of its process if that would have got it without rprof's stops. Returns the stopped
    /// thread if the signal is its own.
    pub fn pass_to_first_thread(
        &mut self,
        stopped: Stopped,
        signal: i32,
        info: &SignalInfo,
    ) -> Result<Option<Stopped>, RunError> {
        let tid = stopped.tid();
        let pid = self.thread(tid)?.pid;
        if tid == pid || !prefers_first_thread(signal, info) || !self.takes(pid, signal)? {
            return Ok(Some(stopped));
        }
        let Some(first) = self.threads.get_mut(&pid) else { return Ok(Some(stopped)) };
        first.defer_once(signal, *info);
        self.send_deferred(pid);
        let mut registers = stopped.registers()?;
        repeat_ended_call(&mut registers);
        stopped.set_registers(&registers)?;
        self.go_on(stopped)?;
        Ok(None)
    }

    /// Whether the first thread of process `pid` would handle `signal`.
    fn takes(&mut self, pid: Pid, signal: i32) -> Result<bool, RunError> {
        // A first thread that has ended has no entry.
        if !self.threads.contains_key(&pid) || self.fate(pid, signal)? != SignalEffect::Caught {
            return Ok(false);
        }
        Ok(read_status(pid).is_ok_and(|status| status.blocked & bit(signal) == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_and_kill_prefer_the_first_thread() {
        let prefers = |signal, code| {
            // SAFETY: a siginfo of zeroes is valid.
            let mut info: SignalInfo = unsafe { std::mem::zeroed() };
            info.si_code = code;
            prefers_first_thread(signal, &info)
        };
        assert!(prefers(libc::SIGALRM, SI_KERNEL) && prefers(libc::SIGUSR1, libc::SI_USER));
        assert!(!prefers(libc::SIGPROF, SI_KERNEL), "of the thread that runs");
        assert!(!prefers(libc::SIGUSR1, libc::SI_TKILL), "sent to the thread");
        assert!(!prefers(libc::SIGALRM, libc::SI_TIMER), "may be sent to the thread");
    }
}
