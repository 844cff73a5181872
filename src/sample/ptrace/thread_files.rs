//! What `/proc` tells about a thread without stopping it: whether it runs, how long it has waited for a CPU and, if it is
//! blocked, where.
//!
//! Blocked threads are never interrupted: a system call that a stop interrupts is restarted in most cases, but not in all
//! (`epoll_wait` and its like return EINTR).

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::sample::survivors::state;
use crate::sample::x86_64::registers::Registers;

/// Open files of one thread, so that each look is one read.
#[derive(Debug)]
pub(super) struct ThreadFiles {
    stat: Option<File>,
    schedstat: Option<File>,
    syscall: Option<File>,
}

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// On a CPU, or waiting for one.
    Running,
    /// In a system call that waits.
    Blocked,
    /// Stopped, ended, or unknown.
    Other,
}

impl ThreadFiles {
    /// Opens the files of thread `tid` of process `pid`.
    pub fn open(pid: u32, tid: u32) -> ThreadFiles {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}")).ok();
        ThreadFiles { stat: open("stat"), schedstat: open("schedstat"), syscall: open("syscall") }
    }

    /// What the thread is doing now.
    pub fn activity(&self) -> Activity {
        match read(self.stat.as_ref()).as_deref().and_then(state) {
            Some('R') => Activity::Running,
            Some('S' | 'D' | 'I') => Activity::Blocked,
            _ => Activity::Other,
        }
    }

    /// How long it has been ready to run without a CPU, in nanoseconds, as accounted when it last got one; `None` where
    /// the kernel does not account it.
    pub fn queued_ns(&self) -> Option<u64> {
        read(self.schedstat.as_ref())?.split_whitespace().nth(1)?.parse().ok()
    }

    /// Where a blocked thread entered the kernel: instruction and stack pointer. `None` if it runs, or we may not know.
    pub fn where_blocked(&self) -> Option<Registers> {
        where_blocked(&read(self.syscall.as_ref())?)
    }
}

fn read(file: Option<&File>) -> Option<String> {
    let mut bytes = [0; 512];
    let length = file?.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// `NUMBER [ARGUMENTS] SP PC`, the last two in hexadecimal; `running` otherwise.
fn where_blocked(line: &str) -> Option<Registers> {
    let mut from_end = line.split_whitespace().rev();
    let mut number = || u64::from_str_radix(from_end.next()?.strip_prefix("0x")?, 16).ok();
    let (pc, sp) = (number()?, number()?);
    Some(Registers::new(pc, sp, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_syscall_tells_where() {
        let at = where_blocked("0 0x3 0x7ffe 0x400 0x0 0x0 0x0 0x7ffd1000 0x7f12\n").unwrap();
        assert_eq!((at.ip(), at.sp()), (0x7f12, 0x7ffd1000));
        assert_eq!(where_blocked("-1 0x7ffd1000 0x7f12").unwrap().ip(), 0x7f12);
        assert!(where_blocked("running").is_none());
    }

    #[test]
    fn we_ourselves_run() {
        let files = ThreadFiles::open(std::process::id(), nix::unistd::gettid().as_raw() as u32);
        assert_eq!(files.activity(), Activity::Running);
    }
}
