//! A timer whose signal interrupts the calling thread's wait.

use std::io;
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

/// The signal. Nothing else of rprof's uses it.
const SIGNAL: Signal = Signal::SIGALRM;

/// Interrupts the thread that made it.
#[derive(Debug)]
pub struct WakeUp {
    timer: Timer,
}

extern "C" fn nothing(_: i32) {}

impl WakeUp {
    /// A timer that is not set yet. The handler that it installs stays, as it does nothing.
    ///
    /// # Errors
    /// The kernel has no more timers for us.
    pub fn new() -> io::Result<WakeUp> {
        let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing.
        unsafe { sigaction(SIGNAL, &action) }?;
        let notify =
            SigevNotify::SigevThreadId { signal: SIGNAL, thread_id: nix::unistd::gettid().as_raw(), si_value: 0 };
        Ok(WakeUp { timer: Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(notify))? })
    }

    /// Interrupts after `period`, and again every `period`: a signal that arrives just before a wait begins is lost.
    ///
    /// # Errors
    /// The kernel refuses the period.
    pub fn set(&mut self, period: Duration) -> io::Result<()> {
        Ok(self.timer.set(Expiration::Interval(period.into()), TimerSetTimeFlags::empty())?)
    }
}
