//! Huge pages of the program that copies have split: they are put together again.

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::unistd::Pid;

use rprof_tracee::address::Address;

use crate::pages;

/// `MADV_COLLAPSE`
const COLLAPSE: i32 = 25;
/// Loss of a smaller part of them does not matter.
const LOST_PART: f64 = 0.05;

/// The huge pages of a program before copies are made of it.
#[derive(Debug)]
pub struct HugePages {
    pid: Pid,
    bytes: u64,
    /// Mappings with most of their memory on huge pages.
    pub ranges: Vec<Range<Address>>,
}

impl HugePages {
    /// Looks at `pid`.
    pub fn of(pid: Pid) -> HugePages {
        let bytes = pages::huge_bytes(pid);
        let ranges = if bytes > 0 { pages::huge_ranges(pid) } else { Vec::new() };
        HugePages { pid, bytes, ranges }
    }

    /// Bytes on huge pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts together what was split.
    pub fn restore(&self) {
        let now = pages::huge_bytes(self.pid);
        if self.bytes == 0 || now as f64 >= (1.0 - LOST_PART) * self.bytes as f64 {
            return;
        }
        // SAFETY: takes two integers; on success the descriptor is ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid.as_raw(), 0) };
        if fd < 0 {
            return;
        }
        // SAFETY: see above.
        let process = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        for range in &self.ranges {
            let Some(range) = pages::aligned(&(range.start.get()..range.end.get())) else { continue };
            let part = libc::iovec {
                iov_base: range.start as usize as *mut libc::c_void,
                iov_len: (range.end - range.start) as usize,
            };
            // SAFETY: the kernel reads one iovec; the addresses in it are the other process's. If it refuses, the pages stay small.
            unsafe { libc::syscall(libc::SYS_process_madvise, process.as_raw_fd(), &raw const part, 1, COLLAPSE, 0) };
        }
    }
}
