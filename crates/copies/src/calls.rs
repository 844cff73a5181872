//! What becomes of a system call of a copy that its filter stopped.
//!
//! | call | answer |
//! | --- | --- |
//! | reads and seeks of regular files | made, on a descriptor that the copy has opened anew |
//! | writes | not made; the copy sees the length that it asked for |
//! | syncs | not made; 0 |
//! | opening a regular file or a folder to read it | made |
//! | the end of a thread | made |
//! | waits for others: `epoll_wait`, `poll`, reads of pipes and sockets | the thread is left waiting |
//! | all others | the end of the copy |

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::maps::read_maps;
use rprof_tracee::memory::Memory;
use rprof_tracee::thread::Registers;

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is made.
    Make,
    /// It is made, and returns a descriptor that is the copy's alone.
    Open,
    /// It is not made, and returns this.
    Pretend(u64),
    /// It is made after the copy has opened the file of this descriptor anew.
    Anew(i32),
    /// Its thread waits for others from now on.
    Wait,
    /// The copy ends before it.
    End,
}

/// The answer to the call in `registers`, of a thread of the copy `pid`. `own`: its descriptors that nobody else has.
pub fn answer(pid: Pid, memory: &Memory, registers: &Registers, own: &dyn Fn(i32) -> bool) -> Answer {
    let descriptor = registers.rdi as i32;
    let is_regular = || fs::metadata(format!("/proc/{pid}/fd/{descriptor}")).is_ok_and(|about| about.is_file());
    match registers.orig_rax as i64 {
        libc::SYS_read | libc::SYS_readv | libc::SYS_lseek | libc::SYS_getdents64 if own(descriptor) => Answer::Make,
        libc::SYS_read | libc::SYS_readv | libc::SYS_lseek if is_regular() => Answer::Anew(descriptor),
        libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 if is_regular() => Answer::Make,
        libc::SYS_write | libc::SYS_pwrite64 => Answer::Pretend(registers.rdx),
        libc::SYS_writev | libc::SYS_pwritev => {
            lengths(memory, registers.rsi, registers.rdx).map_or(Answer::End, Answer::Pretend)
        }
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range | libc::SYS_fadvise64 => Answer::Pretend(0),
        libc::SYS_fcntl if matches!(registers.rsi as i32, libc::F_GETFD | libc::F_SETFD | libc::F_GETFL) => {
            Answer::Make
        }
        libc::SYS_ioctl if registers.rsi == libc::TCGETS => Answer::Make,
        libc::SYS_openat => opening(pid, memory, (registers.rdi as i32, registers.rsi), registers.rdx as i32),
        libc::SYS_open => opening(pid, memory, (libc::AT_FDCWD, registers.rdi), registers.rsi as i32),
        libc::SYS_mprotect if changes_shared_memory(pid, registers) => Answer::End,
        libc::SYS_mprotect => Answer::Make,
        // The end of a thread.
        libc::SYS_exit => Answer::Make,
        libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_poll
        | libc::SYS_ppoll
        | libc::SYS_select
        | libc::SYS_pselect6
        | libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_rt_sigtimedwait
        | libc::SYS_rt_sigsuspend
        | libc::SYS_pause => Answer::Wait,
        _ => Answer::End,
    }
}

/// The sum of the lengths in an array of `iovec`.
fn lengths(memory: &Memory, at: u64, count: u64) -> Option<u64> {
    const MOST: u64 = 1024;
    let mut sum = 0u64;
    for n in 0..count.min(MOST) {
        sum = sum.checked_add(memory.read_u64(Address::new(at + 16 * n + 8)).ok()?)?;
    }
    Some(sum)
}

/// Whether the call gives the right to write memory that others share.
fn changes_shared_memory(pid: Pid, registers: &Registers) -> bool {
    let (start, end) = (registers.rdi, registers.rdi.saturating_add(registers.rsi));
    let overlaps = |start_of: u64, end_of: u64| start_of < end && start < end_of;
    registers.rdx as i32 & libc::PROT_WRITE != 0
        && read_maps(pid).is_ok_and(|maps| maps.iter().any(|m| m.shared && overlaps(m.start.get(), m.end.get())))
}

/// The answer to a call that opens the file named at an address, relative to a descriptor.
fn opening(pid: Pid, memory: &Memory, (folder, name): (i32, u64), flags: i32) -> Answer {
    const EFFECTS: i32 = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY;
    if flags & EFFECTS != libc::O_RDONLY {
        return Answer::End;
    }
    let Some(path) = path_at(memory, name) else { return Answer::End };
    let base = match folder {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        descriptor => format!("/proc/{pid}/fd/{descriptor}"),
    };
    let seen = if path.is_absolute() {
        Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(&path))
    } else {
        Path::new(&base).join(&path)
    };
    match fs::metadata(seen) {
        Ok(about) if about.is_file() || about.is_dir() => Answer::Open,
        // Opening a pipe or a device may be noticed.
        Ok(_) => Answer::End,
        // It fails, which nobody notices.
        Err(_) => Answer::Make,
    }
}

fn path_at(memory: &Memory, at: u64) -> Option<PathBuf> {
    let mut bytes = [0; libc::PATH_MAX as usize];
    let read = memory.read_some(Address::new(at), &mut bytes).ok()?;
    let length = bytes[..read].iter().position(|byte| *byte == 0)?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes[..length])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(call: i64, arguments: [u64; 3], own: bool) -> Answer {
        // SAFETY: registers of zeroes are valid.
        let zeroes: Registers = unsafe { std::mem::zeroed() };
        let [rdi, rsi, rdx] = arguments;
        let registers = Registers { orig_rax: call as u64, rdi, rsi, rdx, ..zeroes };
        let memory = Memory::open(Pid::this()).unwrap();
        answer(Pid::this(), &memory, &registers, &|_| own)
    }

    #[test]
    fn effects_end_a_copy_and_reads_of_files_do_not() {
        use std::os::fd::AsRawFd;
        let file = fs::File::open("/proc/self/exe").unwrap();
        let descriptor = file.as_raw_fd();
        assert_eq!(asked(libc::SYS_read, [descriptor as u64, 0, 8], false), Answer::Anew(descriptor));
        assert_eq!(asked(libc::SYS_read, [descriptor as u64, 0, 8], true), Answer::Make);
        assert_eq!(asked(libc::SYS_pread64, [descriptor as u64, 0, 8], false), Answer::Make);
        let (pipe, _other) = nix::unistd::pipe().unwrap();
        assert_eq!(asked(libc::SYS_read, [pipe.as_raw_fd() as u64, 0, 8], false), Answer::Wait);
        assert_eq!(asked(libc::SYS_write, [1, 0, 77], false), Answer::Pretend(77));
        for call in [libc::SYS_kill, libc::SYS_clone, libc::SYS_sendto, libc::SYS_unlink, libc::SYS_ftruncate, 9999] {
            assert_eq!(asked(call, [0, 0, 0], false), Answer::End, "{call}");
        }
    }

    #[test]
    fn files_are_opened_to_be_read_only() {
        let here = libc::AT_FDCWD as u64;
        let of = |name: &std::ffi::CStr, flags: i32| {
            asked(libc::SYS_openat, [here, name.as_ptr() as u64, flags as u64], false)
        };
        assert_eq!(of(c"/etc/passwd", libc::O_RDONLY | libc::O_CLOEXEC), Answer::Open);
        assert_eq!(of(c"/nonexistent", libc::O_RDONLY), Answer::Make);
        assert_eq!(of(c"/etc/passwd", libc::O_RDWR), Answer::End);
        assert_eq!(of(c"/tmp/x", libc::O_CREAT), Answer::End);
        assert_eq!(of(c"/dev/null", libc::O_RDONLY), Answer::End);
    }

    #[test]
    fn lengths_of_vectors_are_summed() {
        let vectors: [[u64; 2]; 2] = [[0, 5], [0, 7]];
        assert_eq!(asked(libc::SYS_writev, [1, vectors.as_ptr() as u64, 2], false), Answer::Pretend(12));
    }
}
