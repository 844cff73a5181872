//! The limit on locked memory.

use libc::{RLIMIT_MEMLOCK, rlimit};
use nix::errno::Errno;
use nix::unistd::Pid;

/// The capability to lock as much as one likes.
pub(crate) const CAP_IPC_LOCK: u32 = 14;

/// Bytes that process `pid` may lock without that capability.
pub(crate) fn lock_limit(pid: Pid) -> Result<u64, Errno> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills a live variable.
    Errno::result(unsafe { libc::prlimit(pid.as_raw(), RLIMIT_MEMLOCK, std::ptr::null(), &raw mut limit) })?;
    Ok(limit.rlim_cur)
}
