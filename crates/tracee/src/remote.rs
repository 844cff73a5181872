//! System calls in the name of a stopped thread. Its registers and the bytes borrowed for the call are restored on drop.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::address::Address;
use super::memory::Memory;
use super::thread::{Mode, Registers, SignalInfo, Stopped, TraceError};
use super::wait::{Event, Stop, wait_for_soon};

/// `syscall`
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Why a remote system call failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Tracing failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The thread ended during the call; the status is as `waitpid` gives it.
    #[error("the thread ended during a system call made on its behalf")]
    Ended(i32),
    /// The program's memory could not be reached.
    #[error("cannot place a system call in the program: {0}")]
    Memory(#[from] std::io::Error),
    /// Our side of memory shared with the program could not be made.
    #[error("cannot share memory with the program: {0}")]
    Share(#[source] std::io::Error),
    /// The program has asked for all new memory to be locked, and may not lock more.
    #[error("it locks all its memory (mlockall), and its limit (ulimit -l) leaves none for rprof")]
    MemoryIsLocked,
    /// The kernel refused.
    #[error("{call} on behalf of the program failed: {source}")]
    Refused {
        /// The system call.
        call: &'static str,
        /// The kernel's error.
        #[source]
        source: Errno,
    },
}

impl RemoteError {
    /// The kernel's error, if it was not about tracing.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            RemoteError::Refused { source, .. } => Some(*source),
            RemoteError::Share(source) | RemoteError::Memory(source) => source.raw_os_error().map(Errno::from_raw),
            RemoteError::Trace(_) | RemoteError::Ended(_) | RemoteError::MemoryIsLocked => None,
        }
    }

    /// Whether the program's address space has no room for the mapping.
    pub fn leaves_no_room(&self) -> bool {
        self.errno() == Some(Errno::ENOMEM)
    }
}

/// A stopped thread lent for system calls.
///
/// Precondition: the thread is not inside a system call that would be restarted (an exec stop, a system-call stop, a
/// signal stop in user code are fine), and no other thread executes the two bytes at `site` meanwhile.
pub struct Remote<'a> {
    thread: Option<Stopped>,
    memory: &'a Memory,
    saved: Registers,
    site: Address,
    overwritten: Option<[u8; 2]>,
    pending: Vec<(i32, SignalInfo)>,
}

impl<'a> Remote<'a> {
    /// Borrows `thread`. The two bytes at `site`, executable memory, become a `syscall` instruction until the drop.
    pub fn new(thread: Stopped, memory: &'a Memory, site: Address) -> Result<Self, RemoteError> {
        let saved = thread.registers()?;
        let mut bytes = [0; 2];
        memory.read(site, &mut bytes)?;
        let overwritten = (bytes != SYSCALL).then_some(bytes);
        if overwritten.is_some() {
            memory.write(site, &SYSCALL)?;
        }
        Ok(Remote { thread: Some(thread), memory, saved, site, overwritten, pending: Vec::new() })
    }

    /// Makes one system call and returns its result.
    ///
    /// # Errors
    /// [`RemoteError::Refused`] with the errno that it returned; others if the thread cannot be driven.
    pub fn call(&mut self, name: &'static str, number: i64, arguments: [u64; 6]) -> Result<u64, RemoteError> {
        let Some(thread) = self.thread.take() else { return Err(RemoteError::Ended(0)) };
        let mut registers = self.saved;
        registers.rip = self.site.get();
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        thread.set_registers(&registers)?;
        let thread = self.next_syscall_stop(thread)?;
        let thread = self.next_syscall_stop(thread)?;
        let result = thread.registers()?.rax as i64;
        self.thread = Some(thread);
        match result {
            -4095..=-1 => Err(RemoteError::Refused { call: name, source: Errno::from_raw(-result as i32) }),
            _ => Ok(result as u64),
        }
    }

    /// The address space that the calls act on.
    pub fn memory(&self) -> &Memory {
        self.memory
    }

    /// The thread that makes the calls; `None` if it has ended.
    pub fn tid(&self) -> Option<Pid> {
        self.thread.as_ref().map(Stopped::tid)
    }

    /// Restores registers and bytes and gives the thread back, with the signals that arrived meanwhile.
    pub fn finish(mut self) -> Result<(Stopped, Vec<(i32, SignalInfo)>), RemoteError> {
        self.restore()?;
        let pending = std::mem::take(&mut self.pending);
        self.thread.take().map(|t| (t, pending)).ok_or(RemoteError::Ended(0))
    }

    fn next_syscall_stop(&mut self, thread: Stopped) -> Result<Stopped, RemoteError> {
        let tid = thread.tid();
        thread.resume(Mode::Syscall, None)?;
        loop {
            match wait_for_soon(tid) {
                Some(Event::Stopped(thread, Stop::Syscall)) => return Ok(thread),
                Some(Event::Stopped(thread, stop)) => {
                    if let Stop::Signal(signal) = stop {
                        self.pending.push((signal, thread.signal_info()?));
                    }
                    thread.resume(Mode::Syscall, None)?;
                }
                Some(Event::Ended(_, status, _)) => return Err(RemoteError::Ended(status)),
                None => return Err(RemoteError::Ended(0)),
            }
        }
    }

    fn restore(&mut self) -> Result<(), RemoteError> {
        if let Some(bytes) = self.overwritten.take() {
            self.memory.write(self.site, &bytes)?;
        }
        if let Some(thread) = &self.thread {
            thread.set_registers(&self.saved)?;
        }
        Ok(())
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // A thread that is gone needs no restoring.
        let _ = self.restore();
    }
}
