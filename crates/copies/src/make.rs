//! Making copies of a stopped program: a clone that the program's own thread is made to call, from the vdso.
//!
//! ```text
//!  halted thread ─ registers, signal mask aside ─▶ `syscall` in the vdso: clone ─▶ both as before
//!                                                       └─▶ the copy's first thread, stopped before its first instruction
//! ```
//!
//! No byte of the program is written. The copy is traced from its beginning and is killed when rprof ends. It is a child of rprof, not of the
//! program, whose waits do not see it.

use nix::sys::ptrace::Options;
use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::maps::read_maps;
use rprof_tracee::memory::Memory;
use rprof_tracee::remote::RemoteError;
use rprof_tracee::thread::{Mode, Registers, Stopped};
use rprof_tracee::wait::{Event, Stop, wait_for_soon};

use crate::error::{CopyError, Refused};
use crate::halt::Halted;

/// `syscall`
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// How copies are traced, from their first instruction.
pub fn options() -> Options {
    Options::PTRACE_O_EXITKILL
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACESECCOMP
}

/// A `syscall` instruction in the vdso of `pid`.
///
/// # Errors
/// It has none.
pub fn call_site(pid: Pid, memory: &Memory) -> Result<Address, CopyError> {
    let maps = read_maps(pid).map_err(|e| CopyError::Proc("read the program's maps", e))?;
    let vdso = maps.iter().find(|m| m.path == "[vdso]").ok_or(CopyError::Refused(Refused::NoCallSite))?;
    let mut bytes = vec![0; (vdso.end - vdso.start) as usize];
    memory.read(vdso.start, &mut bytes).map_err(|e| CopyError::Proc("read the program's vdso", e))?;
    let at = bytes.windows(2).position(|two| two == SYSCALL).ok_or(CopyError::Refused(Refused::NoCallSite))?;
    Ok(Address::new(vdso.start.get() + at as u64))
}

/// A new task, stopped before its first instruction.
pub struct Born {
    /// Its thread.
    pub thread: Stopped,
}

/// Makes one copy of `program`; its first thread is a copy of the thread at place `maker`.
///
/// # Errors
/// The kernel refuses (EAGAIN: RLIMIT_NPROC or the pids cgroup; ENOMEM: overcommit), or the program has ended.
pub fn copy(program: &Halted, maker: usize, site: Address) -> Result<Born, CopyError> {
    const ALL: u64 = u64::MAX;
    let thread = program.thread(maker);
    let before = thread.registers()?;
    let mask = program.states[maker].mask;
    thread.set_options(options())?;
    thread.set_signal_mask(ALL)?;
    let born = injected_clone(Stopped::still(thread.tid()), &before, site, libc::CLONE_PARENT as u64);
    // The thread is as it was, whatever the clone did.
    let mut restored = before;
    if program.states[maker].in_call {
        let state = &program.states[maker];
        restored = state.registers;
        if before.rax as i64 == -516 {
            restored.rax = libc::SYS_restart_syscall as u64;
        }
    }
    restored.orig_rax = u64::MAX;
    let back = thread.set_registers(&restored).and_then(|()| thread.set_signal_mask(mask));
    let back = back.and_then(|()| thread.set_options(Options::empty()));
    let born = born?;
    back?;
    Ok(born)
}

/// Makes the stopped `thread` call `clone(flags)` at `site`. It stays stopped, with the registers that the call left.
///
/// # Errors
/// The kernel refuses, or one of both ended.
pub fn injected_clone(thread: Stopped, registers: &Registers, site: Address, flags: u64) -> Result<Born, CopyError> {
    let tid = thread.tid();
    let mut call = *registers;
    call.rip = site.get();
    call.rax = libc::SYS_clone as u64;
    call.orig_rax = u64::MAX;
    [call.rdi, call.rsi, call.rdx, call.r10, call.r8] = [flags, 0, 0, 0, 0];
    thread.set_registers(&call)?;
    let mut child = None;
    let mut entered = false;
    let mut thread = thread;
    loop {
        thread.resume(Mode::Syscall, None)?;
        match wait_for_soon(tid) {
            Some(Event::Stopped(stopped, Stop::NewTask)) => {
                child = Some(Pid::from_raw(stopped.event_message()? as i32));
                thread = stopped;
            }
            Some(Event::Stopped(stopped, Stop::Syscall)) if entered => {
                thread = stopped;
                break;
            }
            Some(Event::Stopped(stopped, stop)) => {
                entered |= stop == Stop::Syscall;
                thread = stopped;
            }
            Some(Event::Ended(..)) | None => return Err(CopyError::Gone(None)),
        }
    }
    let result = thread.registers()?.rax as i64;
    let Some(child) = child else {
        let source = nix::errno::Errno::from_raw(-result as i32);
        return Err(CopyError::Call(RemoteError::Refused { call: "clone", source }));
    };
    match wait_for_soon(child) {
        Some(Event::Stopped(thread, _)) => Ok(Born { thread }),
        Some(Event::Ended(..)) | None => Err(CopyError::Gone(None)),
    }
}
