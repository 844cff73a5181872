//! Facts from `/proc` about a thread that is not stopped: whether it runs, how long it has waited for a CPU and, if it is
//! blocked, where.
//!
//! Blocked threads are never interrupted: a system call that a stop interrupts is restarted in most cases, but not in all
//! (`epoll_wait` and its like return EINTR).

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::x86_64::registers::Registers;
use rprof_isa::x86_64::system_call;
use rprof_profile::evidence::timed::BlockedIn;
use rprof_profile::system::{FileKind, Reason};
use rprof_tracee::proc_status::state;

/// Open files of one thread, so that each look is one read.
#[derive(Debug)]
pub(super) struct ThreadFiles {
    stat: Option<File>,
    schedstat: Option<File>,
    syscall: Option<File>,
}

/// The activity of a thread.
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

    /// The thread's present activity.
    pub fn activity(&self) -> Activity {
        match read(self.stat.as_ref()).as_deref().and_then(state) {
            Some('R') => Activity::Running,
            Some('S' | 'D' | 'I') => Activity::Blocked,
            _ => Activity::Other,
        }
    }

    /// How long it has been ready to run without a CPU, in nanoseconds, as accounted when it last got one; `None` if the kernel
    /// does not account it.
    pub fn queued_ns(&self) -> Option<u64> {
        read(self.schedstat.as_ref())?.split_whitespace().nth(1)?.parse().ok()
    }

    /// Where a blocked thread entered the kernel: instruction and stack pointer. `None` if it runs, or we may not know.
    pub fn where_blocked(&self) -> Option<BlockedAt> {
        BlockedAt::read(self.syscall.as_ref()).ok().flatten()
    }
}

/// Where a blocked thread entered the kernel, and its system call.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockedAt {
    /// Instruction and stack pointer.
    pub registers: Registers,
    /// The system call; `None`: none, it is a page fault.
    call: Option<u32>,
    /// The call's first argument.
    argument: u64,
}

impl BlockedAt {
    /// From a thread's `/proc/…/syscall`; `None` if it runs.
    ///
    /// # Errors
    /// Those of reading: `EPERM` if we may not know, `ESRCH` if the thread has ended.
    pub fn read(file: Option<&File>) -> std::io::Result<Option<BlockedAt>> {
        let mut bytes = [0; 512];
        let length = file.ok_or(std::io::ErrorKind::NotFound)?.read_at(&mut bytes, 0)?;
        Ok(parse(&String::from_utf8_lossy(&bytes[..length])))
    }

    /// The call, with the kind of file that process `pid` has there.
    pub fn in_call(&self, pid: u32) -> BlockedIn {
        let reason = self.call.and_then(system_call::name).map(Reason::of_call);
        let link = || std::fs::read_link(format!("/proc/{pid}/fd/{}", self.argument)).ok();
        let file = reason.filter(|r| r.is_of_file()).and_then(|_| link());
        BlockedIn { call: self.call, file: file.map(|path| FileKind::of_link(&path.to_string_lossy())) }
    }
}

fn read(file: Option<&File>) -> Option<String> {
    let mut bytes = [0; 512];
    let length = file?.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// `NUMBER [ARGUMENTS] SP PC`, all but the first in hexadecimal, and −1 for no call; `running` otherwise.
fn parse(line: &str) -> Option<BlockedAt> {
    let hexadecimal = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [number, arguments @ .., sp, pc] = &words[..] else { return None };
    let number: i64 = number.parse().ok()?;
    let argument = arguments.first().and_then(|word| hexadecimal(word)).unwrap_or(0);
    let registers = Registers::new(hexadecimal(pc)?, hexadecimal(sp)?, 0);
    Some(BlockedAt { registers, call: u32::try_from(number).ok(), argument })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_syscall_tells_where() {
        let at = parse("0 0x3 0x7ffe 0x400 0x0 0x0 0x0 0x7ffd1000 0x7f12\n").unwrap();
        assert_eq!((at.registers.ip(), at.registers.sp()), (0x7f12, 0x7ffd1000));
        assert_eq!((at.call, at.argument), (Some(0), 3));
        let fault = parse("-1 0x7ffd1000 0x7f12").unwrap();
        assert_eq!((fault.registers.ip(), fault.call), (0x7f12, None));
        assert!(parse("running").is_none());
    }

    #[test]
    fn we_ourselves_run() {
        let files = ThreadFiles::open(std::process::id(), nix::unistd::gettid().as_raw() as u32);
        assert_eq!(files.activity(), Activity::Running);
    }
}
