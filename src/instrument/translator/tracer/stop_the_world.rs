//! Stopping all threads of an address space at once, to move or to release them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::instrument::translator::kernel::signal_bits::SI_KERNEL;
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::instrument::translator::translate::text_ranges::find_text;
use crate::tracee::address::Address;
use crate::tracee::proc_status::has_fault_pending;
use crate::tracee::thread::{Mode, Running, SignalInfo, Stopped};
use crate::tracee::wait::{Event, Stop, wait_for};

/// How long a thread may take to stop: one that waits for its child of `vfork` cannot.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between looks.
const LOOK: Duration = Duration::from_micros(50);

/// A thread that was stopped.
pub(crate) struct Held {
    /// The thread.
    pub stopped: Stopped,
    /// A signal that was about to be delivered to it.
    pub signal: Option<(i32, SignalInfo)>,
    /// Job control has stopped it.
    pub job: bool,
}

impl Run {
    /// Stops every thread of `space`, including those made meanwhile, except `but`.
    pub fn hold(&mut self, space: Pid, but: Option<Pid>) -> Vec<Held> {
        let mut held = Vec::new();
        let mut seen: HashSet<Pid> = but.into_iter().collect();
        loop {
            let next = self.threads.iter().find(|(tid, t)| t.address_space == space && !seen.contains(tid));
            let Some((&tid, thread)) = next else { return held };
            seen.insert(tid);
            if let Some(stop) = self.stuck.remove(&tid) {
                held.extend(self.hold_stuck(Stopped::still(tid), stop));
                continue;
            }
            // rprof does not wait for a thread that is gone.
            if thread.running(tid).interrupt().is_ok() {
                held.extend(self.hold_one(tid));
            }
        }
    }

    /// A thread that is still in a stop that could not be handled.
    fn hold_stuck(&mut self, stopped: Stopped, stop: Stop) -> Option<Held> {
        match stop {
            Stop::Signal(signal) => self.hold_at_signal(stopped, signal).ok(),
            _ => Some(Held { stopped, signal: None, job: false }),
        }
    }

    fn hold_one(&mut self, tid: Pid) -> Option<Held> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match wait_for(tid, false) {
                None => std::thread::sleep(LOOK),
                Some(Event::Stopped(stopped, Stop::Group(libc::SIGTRAP))) if has_fault_pending(tid) => {
                    // Its trap is reported next, or its end if it is gone.
                    let _ = stopped.resume(Mode::Continue, None);
                }
                Some(Event::Stopped(stopped, Stop::Group(signal))) => {
                    return Some(Held { stopped, signal: None, job: signal != libc::SIGTRAP });
                }
                Some(Event::Stopped(stopped, Stop::Signal(signal))) => {
                    return self.hold_at_signal(stopped, signal).ok();
                }
                Some(Event::Stopped(stopped, stop @ (Stop::NewTask | Stop::Exit))) => {
                    // A thread that is gone need not be stopped. Any stop takes the request for another one back.
                    let _ = self.stopped(stopped, stop);
                    let _ = Running::resumed(tid).interrupt();
                }
                Some(Event::Stopped(stopped, stop @ Stop::Exec)) => {
                    self.backlog.push_back(Event::Stopped(stopped, stop));
                    return None;
                }
                Some(Event::Stopped(stopped, _)) => {
                    // If it is gone, its end comes next.
                    let _ = stopped.resume(Mode::Continue, None).and_then(|running| running.interrupt());
                }
                Some(event @ Event::Ended(..)) => {
                    self.backlog.push_back(event);
                    return None;
                }
            }
        }
        None
    }

    /// Undoes traps of rprof's: the thread is before the trap again, and no signal is left.
    fn hold_at_signal(&mut self, stopped: Stopped, signal: i32) -> Result<Held, RunError> {
        let info = stopped.signal_info()?;
        let mut registers = stopped.registers()?;
        let address_space = self.address_space(stopped.tid())?;
        let own = address_space.image.cache.borrow().own_trap(registers.rip, info.si_code == SI_KERNEL);
        let escape = signal == libc::SIGSEGV && find_text(&address_space.text, Address::new(registers.rip)).is_some();
        if signal == libc::SIGTRAP && own.is_some() {
            registers.rip -= 1;
            stopped.set_registers(&registers)?;
        } else if !escape {
            return Ok(Held { stopped, signal: Some((signal, info)), job: false });
        }
        let is_own = info.si_code == SI_KERNEL || escape && info.si_code > 0;
        if !is_own {
            self.defer_merged(stopped.tid(), signal, info);
        }
        let (stopped, _) = self.restore_signal_state(stopped, signal)?;
        Ok(Held { stopped, signal: None, job: false })
    }
}
