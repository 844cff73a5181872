//! A traced thread: running or stopped, each its own type, so that no code can read registers of one that runs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::address::Address;

/// All general-purpose registers, flags and segment bases.
pub type Registers = libc::user_regs_struct;
/// The kernel's information about a signal for its handler.
pub type SignalInfo = libc::siginfo_t;

/// Why a request on a traced thread failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} thread {tid}: {source}")]
pub struct TraceError {
    /// The operation asked for.
    pub operation: &'static str,
    /// The thread that it was for.
    pub tid: Pid,
    /// The kernel's error.
    #[source]
    pub source: Errno,
}

impl TraceError {
    fn new(operation: &'static str, tid: Pid) -> impl FnOnce(Errno) -> Self {
        move |source| TraceError { operation, tid, source }
    }

    /// The thread was killed meanwhile: we must still wait for its end.
    pub fn is_gone(&self) -> bool {
        self.source == Errno::ESRCH
    }

    /// A [`WakeUp`](super::wake_up::WakeUp) has ended the wait for leave to trace it.
    pub fn is_interrupted(&self) -> bool {
        self.source == Errno::EINTR
    }

    /// The kernel's answer as an [`io::Error`].
    pub fn io(&self) -> io::Error {
        io::Error::from_raw_os_error(self.source as i32)
    }
}

/// How a stopped thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Until the next event.
    Continue,
    /// For one instruction.
    Step,
    /// Until the next entry to or exit from a system call.
    Syscall,
}

/// A traced thread that runs (or has not been waited for).
#[derive(Debug)]
pub struct Running {
    tid: Pid,
}

impl Running {
    /// Starts to trace `tid` without stopping it; children and programs that it executes are traced from their first
    /// instruction. If we die, it dies.
    ///
    /// # Errors
    /// EPERM if the kernel refuses (Yama, seccomp, setuid).
    pub fn seize(tid: Pid) -> Result<Self, TraceError> {
        use ptrace::Options;
        let options = Options::PTRACE_O_EXITKILL
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACEEXIT
            | Options::PTRACE_O_TRACESYSGOOD;
        ptrace::seize(tid, options).map_err(TraceError::new("trace", tid))?;
        Ok(Running { tid })
    }

    /// As [`seize`](Self::seize), for watching alone: if we die, it runs on untraced.
    ///
    /// # Errors
    /// EPERM if the kernel refuses (Yama, seccomp, setuid).
    pub fn observe(tid: Pid) -> Result<Self, TraceError> {
        use ptrace::Options;
        let options = Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACEEXIT;
        ptrace::seize(tid, options).map_err(TraceError::new("trace", tid))?;
        Ok(Running { tid })
    }

    /// Starts to trace `tid` without stopping it, without its children, and for a short while: if we die, it runs on untraced.
    ///
    /// # Errors
    /// EPERM if the kernel refuses (Yama, seccomp, setuid) or another process traces it.
    pub fn visit(tid: Pid) -> Result<Self, TraceError> {
        ptrace::seize(tid, ptrace::Options::empty()).map_err(TraceError::new("trace", tid))?;
        Ok(Running { tid })
    }

    /// A thread that we trace and have resumed.
    pub fn resumed(tid: Pid) -> Self {
        Running { tid }
    }

    /// Asks for a stop; it arrives as [`Stop::Group`](super::wait::Stop::Group) or whatever comes first.
    pub fn interrupt(&self) -> Result<(), TraceError> {
        ptrace::interrupt(self.tid).map_err(TraceError::new("interrupt", self.tid))
    }
}

/// How many stops of traced threads this process has ended.
static RESUMED: AtomicU64 = AtomicU64::new(0);

/// The number of stops of traced threads that this process has ended so far.
pub fn resumed_so_far() -> u64 {
    RESUMED.load(Ordering::Relaxed)
}

/// A traced thread in a ptrace stop. Dropping it leaves it stopped.
#[derive(Debug)]
pub struct Stopped {
    tid: Pid,
}

impl Stopped {
    /// For [`wait`](super::wait) alone, which has seen the stop.
    pub(super) fn seen(tid: Pid) -> Self {
        Stopped { tid }
    }

    /// A thread that is known to be in the stop that was seen last: nothing has resumed it.
    pub fn still(tid: Pid) -> Self {
        Stopped { tid }
    }

    /// The thread.
    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// From now on its new threads and children are traced from their first instruction. If we die, all of them run on.
    pub fn follow_children(&self) -> Result<(), TraceError> {
        use ptrace::Options;
        let options = Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACEEXIT
            | Options::PTRACE_O_TRACESYSGOOD;
        ptrace::setoptions(self.tid, options).map_err(TraceError::new("follow the children of", self.tid))
    }

    /// How it is traced from now on. Processes and threads that it makes inherit that from their first instruction.
    pub fn set_options(&self, options: ptrace::Options) -> Result<(), TraceError> {
        ptrace::setoptions(self.tid, options).map_err(TraceError::new("set the options of", self.tid))
    }

    /// Its registers.
    pub fn registers(&self) -> Result<Registers, TraceError> {
        ptrace::getregs(self.tid).map_err(TraceError::new("read the registers of", self.tid))
    }

    /// Sets its registers.
    pub fn set_registers(&self, registers: &Registers) -> Result<(), TraceError> {
        ptrace::setregs(self.tid, *registers).map_err(TraceError::new("set the registers of", self.tid))
    }

    /// The signal it stopped for.
    pub fn signal_info(&self) -> Result<SignalInfo, TraceError> {
        ptrace::getsiginfo(self.tid).map_err(TraceError::new("read the signal of", self.tid))
    }

    /// Replaces the information that its handler will get.
    pub fn set_signal_info(&self, info: &SignalInfo) -> Result<(), TraceError> {
        ptrace::setsiginfo(self.tid, info).map_err(TraceError::new("set the signal of", self.tid))
    }

    /// The event's number: the new thread's id, or the id that a thread had before it executed a program.
    pub fn event_message(&self) -> Result<u64, TraceError> {
        ptrace::getevent(self.tid).map(|m| m as u64).map_err(TraceError::new("read the event of", self.tid))
    }

    /// The signals that it blocks: bit n−1 is signal n.
    pub fn signal_mask(&self) -> Result<u64, TraceError> {
        let mut mask = 0u64;
        self.request(libc::PTRACE_GETSIGMASK, 8, (&raw mut mask).cast(), "read the signal mask of")?;
        Ok(mask)
    }

    /// Sets the signals that it blocks.
    pub fn set_signal_mask(&self, mask: u64) -> Result<(), TraceError> {
        let mut mask = mask;
        self.request(libc::PTRACE_SETSIGMASK, 8, (&raw mut mask).cast(), "set the signal mask of")
    }

    /// Reads its XSAVE area (vector, mask and x87 registers) into `area`; returns how many bytes it has.
    pub fn extended_state(&self, area: &mut [u8]) -> Result<usize, TraceError> {
        let mut part = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
        const NT_X86_XSTATE: usize = 0x202;
        self.request(libc::PTRACE_GETREGSET, NT_X86_XSTATE, (&raw mut part).cast(), "read the vector registers of")?;
        Ok(part.iov_len)
    }

    /// Replaces its XSAVE area by `area`, as [`extended_state`](Self::extended_state) read it.
    pub fn set_extended_state(&self, area: &[u8]) -> Result<(), TraceError> {
        let mut part = libc::iovec { iov_base: area.as_ptr().cast_mut().cast(), iov_len: area.len() };
        const NT_X86_XSTATE: usize = 0x202;
        self.request(libc::PTRACE_SETREGSET, NT_X86_XSTATE, (&raw mut part).cast(), "set the vector registers of")
    }

    /// The flags of its floating-point exceptions that were raised at any time (bits 0 to 5 of MXCSR).
    pub fn exception_flags(&self) -> Result<u32, TraceError> {
        /// Offset of MXCSR in the XSAVE area.
        const MXCSR: usize = 24;
        // The kernel gives whole words of 8 bytes.
        let mut area = [0u8; MXCSR + 8];
        self.extended_state(&mut area)?;
        let flags = <[u8; 4]>::try_from(&area[MXCSR..MXCSR + 4]).expect("four bytes");
        Ok(u32::from_le_bytes(flags) & 0x3f)
    }

    fn request(
        &self,
        request: libc::c_uint,
        address: usize,
        data: *mut libc::c_void,
        operation: &'static str,
    ) -> Result<(), TraceError> {
        // SAFETY: `data` points to memory of the size that `request` and `address` imply, alive during the call.
        let result = unsafe { libc::ptrace(request, self.tid.as_raw(), address, data) };
        Errno::result(result).map(drop).map_err(TraceError::new(operation, self.tid))
    }

    /// Goes on; `signal` is delivered first.
    pub fn resume(self, mode: Mode, signal: Option<Signal>) -> Result<Running, TraceError> {
        self.resume_raw(mode, signal.map_or(0, |s| s as i32))
    }

    /// Goes on; the signal with that number (0: none) is delivered first. Real-time signals have no name.
    pub fn resume_raw(self, mode: Mode, signal: i32) -> Result<Running, TraceError> {
        RESUMED.fetch_add(1, Ordering::Relaxed);
        let request = match mode {
            Mode::Continue => libc::PTRACE_CONT,
            Mode::Step => libc::PTRACE_SINGLESTEP,
            Mode::Syscall => libc::PTRACE_SYSCALL,
        };
        self.request(request, 0, signal as usize as *mut libc::c_void, "resume")?;
        Ok(Running { tid: self.tid })
    }

    /// Stays stopped as job control wants it, but reports when it is continued.
    pub fn listen(self) -> Result<Running, TraceError> {
        self.request(libc::PTRACE_LISTEN, 0, std::ptr::null_mut(), "listen to")?;
        Ok(Running { tid: self.tid })
    }

    /// Lets it go for good; the signal with that number (0: none) is delivered first.
    pub fn detach(self, signal: i32) -> Result<(), TraceError> {
        self.request(libc::PTRACE_DETACH, 0, signal as usize as *mut libc::c_void, "release")
    }

    /// Its program counter.
    pub fn program_counter(&self) -> Result<Address, TraceError> {
        self.registers().map(|r| Address::new(r.rip))
    }
}
