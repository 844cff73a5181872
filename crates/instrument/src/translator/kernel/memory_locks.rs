//! A program that locks its memory (`mlockall`): rprof's mappings, which are large and nearly empty, are never locked and never
//! populated.
//!
//! ```text
//!  the program has MCL_FUTURE set ─▶ MCL_FUTURE | MCL_ONFAULT ─▶ mappings of rprof, munlock ─▶ MCL_FUTURE as it was
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::unistd::Pid;

use rprof_tracee::maps::{mapped_since, read_maps};
use rprof_tracee::proc_status::read_locked_bytes;
use rprof_tracee::remote::{Remote, RemoteError};

const PAGE: u64 = 4096;
/// Bit of an entry of `/proc/PID/pagemap`.
const PRESENT: u64 = 1 << 63;

/// The kernel's treatment of new mappings of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Future {
    /// Nothing.
    Unlocked,
    /// Locks and populates them.
    Locked,
    /// Locks their pages as they are used.
    OnFault,
}

impl Future {
    /// The flags of the `mlockall` that asked for it.
    fn flags(self) -> u64 {
        let on_fault = if self == Future::OnFault { libc::MCL_ONFAULT } else { 0 };
        (libc::MCL_FUTURE | on_fault) as u64
    }
}

/// Has `map` make mappings in the process of `remote`, none of which the kernel locks or populates.
///
/// # Errors
/// Those of `map`; the process's limit on locked memory leaves no room.
pub fn unpopulated<T>(
    pid: Pid,
    remote: &mut Remote<'_>,
    map: impl FnOnce(&mut Remote<'_>) -> Result<T, RemoteError>,
) -> Result<T, RemoteError> {
    let future = future_of(pid, remote)?;
    if future == Future::Unlocked {
        return map(remote);
    }
    let lock = |remote: &mut Remote<'_>, future: Future| {
        remote.call("mlockall", libc::SYS_mlockall, [future.flags(), 0, 0, 0, 0, 0])
    };
    let before = read_maps(pid)?;
    lock(remote, Future::OnFault)?;
    let mapped = map(remote);
    for ours in mapped_since(pid, &before)? {
        unlock(remote, ours.start.get(), ours.end - ours.start)?;
    }
    lock(remote, future)?;
    match mapped {
        Err(RemoteError::Refused { source: Errno::EAGAIN, .. }) => Err(RemoteError::MemoryIsLocked),
        mapped => mapped,
    }
}

/// Unlocks a mapping of rprof's.
pub fn unlock(remote: &mut Remote<'_>, at: u64, size: u64) -> Result<(), RemoteError> {
    remote.call("munlock", libc::SYS_munlock, [at, size, 0, 0, 0, 0]).map(drop)
}

/// Finds out by a page.
fn future_of(pid: Pid, remote: &mut Remote<'_>) -> Result<Future, RemoteError> {
    let before = read_locked_bytes(pid);
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let at = match remote.call("mmap", libc::SYS_mmap, [0, PAGE, protection, flags, u64::MAX, 0]) {
        Err(RemoteError::Refused { source: Errno::EAGAIN, .. }) => return Err(RemoteError::MemoryIsLocked),
        at => at?,
    };
    let future = if read_locked_bytes(pid) <= before {
        Future::Unlocked
    } else if is_present(pid, at).unwrap_or(true) {
        Future::Locked
    } else {
        Future::OnFault
    };
    remote.call("munmap", libc::SYS_munmap, [at, PAGE, 0, 0, 0, 0])?;
    Ok(future)
}

/// Whether the page at `at` is in memory; `None` if the kernel does not report it.
fn is_present(pid: Pid, at: u64) -> Option<bool> {
    let mut entry = [0; 8];
    let pages = File::open(format!("/proc/{pid}/pagemap")).ok()?;
    pages.read_exact_at(&mut entry, at / PAGE * 8).ok()?;
    Some(u64::from_ne_bytes(entry) & PRESENT != 0)
}
