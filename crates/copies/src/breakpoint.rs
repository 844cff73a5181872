//! Breakpoints in one thread of a copy: counted by the kernel, or such that every n-th passing stops the thread.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::unistd::Pid;
use perf_event_open_sys::bindings as sys;

use rprof_tracee::address::Address;

/// `HW_BREAKPOINT_X`
const EXECUTION: u32 = 4;
/// A period that is never reached.
const NEVER: u64 = 1 << 62;

/// A breakpoint; gone when it is dropped.
#[derive(Debug)]
pub struct Breakpoint {
    event: OwnedFd,
}

impl Breakpoint {
    /// Counts the passings of `at` by the thread `tid`.
    ///
    /// # Errors
    /// The kernel refuses, or the processor's four breakpoints are in use.
    pub fn counting(tid: Pid, at: Address) -> io::Result<Breakpoint> {
        open(tid, at, NEVER, false)
    }

    /// Stops the thread `tid` by SIGTRAP at the `number`-th passing of `at`, before it executes the instruction.
    ///
    /// # Errors
    /// As [`counting`](Self::counting).
    pub fn stopping(tid: Pid, at: Address, number: u64) -> io::Result<Breakpoint> {
        open(tid, at, number.max(1), true)
    }

    /// Passings so far.
    pub fn count(&self) -> u64 {
        let mut value = [0u8; 8];
        // SAFETY: eight bytes into a live buffer.
        let read = unsafe { libc::read(self.event.as_raw_fd(), value.as_mut_ptr().cast(), value.len()) };
        if read == 8 { u64::from_ne_bytes(value) } else { 0 }
    }
}

fn open(tid: Pid, at: Address, period: u64, stops: bool) -> io::Result<Breakpoint> {
    let mut attr = sys::perf_event_attr::default();
    attr.type_ = sys::PERF_TYPE_BREAKPOINT;
    attr.size = std::mem::size_of::<sys::perf_event_attr>() as u32;
    attr.bp_type = EXECUTION;
    attr.__bindgen_anon_3.bp_addr = at.get();
    attr.__bindgen_anon_4.bp_len = std::mem::size_of::<libc::c_long>() as u64;
    attr.__bindgen_anon_1.sample_period = period;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    if stops {
        attr.set_sigtrap(1);
        attr.set_remove_on_exec(1);
    }
    let flags = libc::c_ulong::from(sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a fully initialised attribute of the size that it states.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, tid.as_raw(), -1, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just given us.
    Ok(Breakpoint { event: unsafe { OwnedFd::from_raw_fd(fd) } })
}
