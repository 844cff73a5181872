//! The end of the program's first process: its wait status and the CPU time it used.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::unistd::Pid;

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reaped {
    /// Its wait status.
    pub status: ExitStatus,
    /// User and system CPU seconds of it and of the descendants that it waited for.
    pub cpu_s: f64,
    /// The user part of `cpu_s`.
    pub user_s: f64,
    /// Minor and major page faults of it and of the descendants that it waited for, if known.
    pub page_faults: Option<(u64, u64)>,
}

/// A descriptor that becomes readable when `pid` exits; fails before Linux 5.3.
pub(super) fn exit_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers; on success the descriptor is ours.
    match unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: see above.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

/// Whether our child has exited. It stays a zombie, and if another thread of ours traces it, its stops are left for that one.
fn has_exited(pid: Pid) -> io::Result<bool> {
    // SAFETY: a siginfo of zeroes is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel writes one siginfo into a live variable.
    match unsafe { libc::waitid(libc::P_PID, pid.as_raw() as libc::id_t, &raw mut info, options) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED)),
    }
}

/// Reaps our child if it has exited; `None` while it runs.
pub(super) fn try_reap(pid: Pid) -> io::Result<Option<Reaped>> {
    match has_exited(pid) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(None),
        Err(e) => return Err(e),
    }
    let mut status = 0;
    // SAFETY: an rusage of zeroes is valid, and the kernel writes whole structures into live variables.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: see above.
    match unsafe { libc::wait4(pid.as_raw(), &raw mut status, libc::WNOHANG, &raw mut usage) } {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(None),
            e => Err(e),
        },
        _ => Ok(Some(Reaped::new(status, &usage))),
    }
}

impl Reaped {
    /// As a tracer saw it, which cannot distinguish user from system time.
    pub fn seen(status: i32, cpu_s: f64) -> Reaped {
        Reaped { status: ExitStatus::from_raw(status), cpu_s, user_s: cpu_s, page_faults: None }
    }

    /// From the result of `wait4`.
    pub fn new(status: i32, usage: &libc::rusage) -> Reaped {
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        let (user_s, system_s) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
        let page_faults = Some((usage.ru_minflt.max(0) as u64, usage.ru_majflt.max(0) as u64));
        Reaped { status: ExitStatus::from_raw(status), cpu_s: user_s + system_s, user_s, page_faults }
    }
}
