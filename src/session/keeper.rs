//! A process between the user and rprof's work on a running program: if the user kills it, the work ends in order. A process that
//! is killed in the midst of a visit would leave the program's threads in its code cache, without a process that serves them.
//!
//! ```text
//!  rprof, which waits ─┬─ signals sent to it ─▶ the worker, which visits the program
//!                      └─ SIGKILL ────────────▶ (the kernel) SIGTERM to the worker ─▶ threads leave, report, end
//! ```

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

use super::end::ProgramEnd;

/// rprof itself failed.
const FAILED: u8 = 125;
/// Signals that are passed on.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

static WORKER: AtomicI32 = AtomicI32::new(0);

/// Does `work` in a process of its own and hands on its exit status. If there can be no further process, does it here.
pub fn apart(work: impl FnOnce() -> u8) -> ExitCode {
    let keeper = getpid();
    // SAFETY: the child goes on with this thread alone; the only other one waits for its end, and holds no lock meanwhile.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            // Without it the keeper's death goes unnoticed.
            let _ = set_pdeathsig(Signal::SIGTERM);
            if getppid() != keeper {
                std::process::exit(FAILED.into());
            }
            let code = work();
            // Their reader may be gone.
            let _ = (stdout().flush(), stderr().flush());
            std::process::exit(code.into());
        }
        Ok(ForkResult::Parent { child }) => keep(child),
        Err(_) => ExitCode::from(work()),
    }
}

fn keep(worker: Pid) -> ExitCode {
    WORKER.store(worker.as_raw(), Ordering::SeqCst);
    for signal in PASSED_ON {
        let action = SigAction::new(SigHandler::SigAction(pass_on), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler reads an atomic and calls kill(2) only.
        if let Ok(before) = unsafe { sigaction(signal, &action) }
            && matches!(before.handler(), SigHandler::SigIgn)
        {
            // SAFETY: restores the earlier disposition.
            let _ = unsafe { sigaction(signal, &before) };
        }
    }
    // The thread that was the first blocks all signals, and this one takes them.
    loop {
        match waitpid(worker, None) {
            Ok(WaitStatus::Exited(_, code)) => return ExitCode::from(code as u8),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                // The work handles these as soon as there is a program.
                let is_early = PASSED_ON.contains(&signal);
                let consequence =
                    if is_early { "it had not started the program" } else { "there is no report, start it again" };
                // Standard error may be gone.
                let _ = writeln!(stderr(), "rprof: its work was ended by {signal}; {consequence}");
                return ExitCode::from(if is_early {
                    ProgramEnd::Signalled(signal as i32).exit_code()
                } else {
                    FAILED
                });
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return ExitCode::from(FAILED),
        }
    }
}

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; kill is async-signal-safe; errno is restored.
    unsafe {
        // The terminal sends its signals to the worker, too.
        if !info.is_null() && (*info).si_code <= 0 {
            let errno = *libc::__errno_location();
            libc::kill(WORKER.load(Ordering::SeqCst), signal);
            *libc::__errno_location() = errno;
        }
    }
}
