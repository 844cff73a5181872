//! A timer with a signal that interrupts the calling thread's wait.
//!
//! Among these waits is that for leave to trace a thread while another thread of its process executes a program. The kernel gives
//! no such leave before all other threads of the process have ended, and those that the caller traces end only if it goes on:
//! without the signal both would wait for ever.

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

/// `syscall`
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The kernel would begin an interrupted request to trace anew. It fails with EINTR instead.
extern "C" fn interrupt(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes a valid context of this thread, which was at executable code of ours.
    unsafe {
        let registers = &mut (*context).uc_mcontext.gregs;
        let is_seize = registers[libc::REG_RAX as usize] == libc::SYS_ptrace
            && registers[libc::REG_RDI as usize] == i64::from(libc::PTRACE_SEIZE);
        let at = registers[libc::REG_RIP as usize] as *const [u8; 2];
        if is_seize && at.read_unaligned() == SYSCALL {
            registers[libc::REG_RIP as usize] += SYSCALL.len() as i64;
            registers[libc::REG_RAX as usize] = -i64::from(libc::EINTR);
        }
    }
}

impl WakeUp {
    /// A timer that is not set yet. The handler that it installs stays: without the signal it does nothing.
    ///
    /// # Errors
    /// The kernel has no more timers for us.
    pub fn new() -> io::Result<WakeUp> {
        let action = SigAction::new(SigHandler::SigAction(interrupt), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler changes nothing but the registers of the thread that it interrupts.
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

    /// Interrupts no more.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn rest(&mut self) -> io::Result<()> {
        Ok(self.timer.set(Expiration::OneShot(Duration::ZERO.into()), TimerSetTimeFlags::empty())?)
    }
}

/// Interrupts the thread that made it every `period`, except while it rests. If the kernel has no timer for us, it never does.
#[derive(Debug)]
pub struct Ticks {
    timer: Option<WakeUp>,
    period: Duration,
}

impl Ticks {
    /// It rests.
    pub fn new(period: Duration) -> Ticks {
        Ticks { timer: WakeUp::new().ok(), period }
    }

    /// Interrupts from now on.
    pub fn go_on(&mut self) {
        if self.timer.as_mut().is_some_and(|timer| timer.set(self.period).is_err()) {
            self.timer = None;
        }
    }

    /// Interrupts no more.
    pub fn rest(&mut self) {
        // A timer that runs on costs time, no more.
        let _ = self.timer.as_mut().map(WakeUp::rest);
    }

    /// Whether there is a timer.
    pub fn work(&self) -> bool {
        self.timer.is_some()
    }
}
