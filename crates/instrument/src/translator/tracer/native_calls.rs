//! System calls of code that is not translated, in programs with their first instruction in such code (writable text, as
//! packers have it): they may make other code executable, which can be translated.
//!
//! ```text
//!  native code ─▶ stop before the call ─▶ handled as if from the cache, by the same code ─▶ native code
//!                                     └─▶ of no interest: runs to its end ─▶ stop behind it ─▶ native code
//! ```

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::code_cache::syscall_table::{CallClass, class};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use rprof_tracee::address::CacheAddress;
use rprof_tracee::thread::{Mode, Registers, Stopped};
use rprof_tracee::wait::Stop;

/// Size of `syscall`.
const CALL: u64 = 2;

/// Whether rprof handles the call with these registers.
fn concerns(class: CallClass, registers: &Registers) -> bool {
    match class {
        CallClass::Native | CallClass::Moves | CallClass::Changes | CallClass::ChangesSocket => false,
        CallClass::Action => matches!(registers.rdi as i32, libc::SIGTRAP | libc::SIGSEGV),
        CallClass::Stop => {
            let call = registers.orig_rax as i64;
            !matches!(call, libc::SYS_clone | libc::SYS_clone3 | libc::SYS_open | libc::SYS_openat | libc::SYS_openat2)
        }
        CallClass::Absent | CallClass::Mask | CallClass::Map | CallClass::Rule | CallClass::Judged => true,
    }
}

impl Program {
    /// How to resume a thread: with stops at its system calls if they matter in the code it is in.
    pub fn mode_of(&self, tid: Pid) -> Mode {
        if self.watches_calls(tid) { Mode::Syscall } else { Mode::Continue }
    }

    /// Whether the thread is in native code with system calls that matter.
    pub fn watches_calls(&self, tid: Pid) -> bool {
        self.thread_and_space(tid)
            .is_ok_and(|(thread, space)| thread.native.is_some() && (space.begins_natively || self.effects.is_some()))
    }

    /// A thread in native code stopped before or behind a system call. Returns the call if it is one to be handled as if from the
    /// cache; else the thread goes on.
    pub fn native_call(&mut self, stopped: Stopped) -> Result<Option<(Stopped, Registers, CallSite)>, RunError> {
        let tid = stopped.tid();
        let native = self.thread_mut(tid)?.native.as_mut().ok_or(RunError::Gone)?;
        native.in_call = !native.in_call;
        let registers = stopped.registers()?;
        let (in_call, number) = (native.in_call, registers.orig_rax as i64);
        if in_call {
            self.judge(tid, number, &registers)?;
        }
        let class = class(number);
        if !in_call || !concerns(class, &registers) {
            return self.go_on(stopped).map(|()| None);
        }
        self.thread_mut(tid)?.native.as_mut().ok_or(RunError::Gone)?.in_call = false;
        // The call is left out, and made again in a way that shows its result at once.
        stopped.set_registers(&Registers { orig_rax: u64::MAX, ..registers })?;
        let (stopped, _) = self.until(stopped, Mode::Syscall, 0, |s| *s == Stop::Syscall)?;
        let absent = -i64::from(libc::ENOSYS) as u64;
        let native = registers.rip - CALL;
        let site = CallSite { native: CacheAddress::new(native), after: CacheAddress::new(registers.rip) };
        // As after the trap of a call in the cache, which is one byte long.
        let before = Registers { rax: registers.orig_rax, orig_rax: u64::MAX, rip: native + 1, ..registers };
        match class {
            CallClass::Absent => stopped.set_registers(&Registers { rax: absent, orig_rax: u64::MAX, ..registers })?,
            CallClass::Mask => {
                let (stopped, _) = self.execute(stopped, before, site)?;
                self.note_mask(&stopped)?;
                return self.go_on(stopped).map(|()| None);
            }
            _ => return Ok(Some((stopped, before, site))),
        }
        self.go_on(stopped).map(|()| None)
    }
}
