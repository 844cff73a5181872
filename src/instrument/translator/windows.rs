//! When threads note addresses: in windows whose beginning and length the access sink decides, with pauses between them
//! that are long enough to keep the cost down. A thread is moved from one version of the program to another at a stop,
//! where its state is the program's own; versions that note nothing hold no check.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::run::{Run, RunError};
use super::signals::State;
use super::version::Version;
use crate::target::address::Address;
use crate::target::proc_status::is_runnable;
use crate::target::tracee::{Mode, Registers, Stopped};
use crate::target::wait::Stop;
use crate::target::wake_up::WakeUp;

/// How many times as long as the window before it a pause lasts.
const PAUSE: u32 = 3;
/// How often it is looked whether threads are to be moved.
const LOOK: Duration = Duration::from_millis(2);
/// More steps than any sequence of ours has instructions.
const MAX_STEPS: usize = 200;
/// A system call that was interrupted is to be restarted: −ERESTARTSYS … −ERESTART_RESTARTBLOCK.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// The present window or pause.
#[derive(Debug)]
pub struct Windows {
    /// What threads are to be in.
    wanted: Version,
    /// When that began, and when the window did.
    since: Instant,
    window: Instant,
    /// How long the last window was.
    length: Duration,
    looked: Instant,
    /// Interrupts our wait, so that a pause ends.
    wake_up: Option<WakeUp>,
}

impl Windows {
    /// Nothing has run yet. `needed`: there is an access sink.
    pub fn new(needed: bool) -> Self {
        let now = Instant::now();
        // Without a timer pauses end at the next stop or request.
        let wake_up = if needed { WakeUp::new().ok() } else { None };
        Windows { wanted: Version::default(), since: now, window: now, length: Duration::ZERO, looked: now, wake_up }
    }

    /// Whether some time has passed since the last look; only with an access sink.
    pub fn is_time_to_look(&self) -> bool {
        self.wake_up.is_some() && self.looked.elapsed() >= LOOK
    }

    /// Threads are to be in `wanted` now.
    fn turn_to(&mut self, wanted: Version) {
        if wanted == self.wanted {
            return;
        }
        let now = Instant::now();
        match (self.wanted, wanted) {
            (_, Version::Plain) => self.length = now - self.window,
            (Version::Plain, _) => self.window = now,
            _ => {}
        }
        // Interruptions of our wait cost time: only programs that are sampled in time need them.
        if let Some(timer) = &mut self.wake_up
            && wanted == Version::Plain
        {
            let _ = timer.set(LOOK);
        }
        (self.wanted, self.since) = (wanted, now);
    }

    fn pause_is_over(&self) -> bool {
        self.wanted == Version::Plain && self.length > Duration::ZERO && self.since.elapsed() >= PAUSE * self.length
    }
}

impl Run {
    /// Asks every running thread to stop that is not in the version which the access sink wants.
    pub fn keep_pace(&mut self) {
        self.windows.looked = Instant::now();
        let Some(drain) = &mut self.drain else { return };
        if self.windows.pause_is_over() {
            drain.resume();
        }
        let wanted = drain.wanted();
        self.windows.turn_to(wanted);
        for (&tid, thread) in &self.threads {
            // A thread that waits for something would have its system call interrupted.
            if thread.version != wanted && !thread.stalled && is_runnable(tid) {
                // If it is gone, its end will be seen.
                let _ = thread.running(tid).interrupt();
            }
        }
    }

    /// Whether a thread is in another version than it should be.
    pub fn is_to_turn(&self, tid: Pid) -> bool {
        let (Some(drain), Some(thread)) = (&self.drain, self.threads.get(&tid)) else { return false };
        thread.version != drain.wanted()
    }

    /// Moves a stopped thread to the version that it should be in; it stays where it is if it is in a system call.
    pub fn turn(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let mut stopped = stopped;
        for _ in 0..MAX_STEPS {
            let mut registers = stopped.registers()?;
            if is_to_restart(&registers) {
                return Ok(stopped);
            }
            match self.as_the_program_has_it(tid, &mut registers)? {
                state @ (State::Between | State::Continued) => {
                    if let State::Continued = state {
                        stopped.set_registers(&registers)?;
                    }
                    (stopped, _) = self.until(stopped, Mode::Step, 0, |s| *s == Stop::Signal(libc::SIGTRAP))?;
                }
                State::Outside => {
                    self.enter_version(tid);
                    return Ok(stopped);
                }
                State::Program => {
                    self.enter_version(tid);
                    return self.redirect(stopped, registers, Address::new(registers.rip));
                }
            }
        }
        Ok(stopped)
    }

    fn enter_version(&mut self, tid: Pid) {
        self.drain_buffer(tid);
        let (Some(thread), Some(drain)) = (self.threads.get_mut(&tid), &mut self.drain) else { return };
        thread.version = drain.wanted();
        drain.enter(&thread.regions.borrow(), thread.region, thread.ordinal, thread.version);
    }
}

fn is_to_restart(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0 && RESTARTS.contains(&(registers.rax as i64))
}
