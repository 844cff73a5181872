//! The destination of the second run's output: a stream of the same kind, read and thrown away.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::stat::{SFlag, fstat};

use super::end::ProgramEnd;
use super::input::unnamed_file;

/// Reports if the first run ended because the reader of its output did: the sink of a second run would never end it.
///
/// # Errors
/// The reason why there is no second run.
pub fn refuse_if_cut_short(end: ProgramEnd) -> Result<(), String> {
    let by_signal = end == ProgramEnd::Signalled(libc::SIGPIPE);
    if by_signal || end != ProgramEnd::Exited(0) && is_broken(io::stdout().as_fd()) {
        return Err(
            "whoever read the program's output left, which ended the program; a second run would not end there, \
                    so lead the output into a file or to /dev/null"
                .into(),
        );
    }
    Ok(())
}

/// Whether `ours` is a pipe without a reader.
fn is_broken(ours: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(ours, PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO).is_ok()
        && polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Makes a sink of the same kind as `ours`: terminal for a terminal, pipe for a pipe, unnamed file for a file, the same device
/// otherwise. Programs that look at the kind of their output behave alike in both runs.
pub fn like(ours: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    if nix::unistd::isatty(ours).unwrap_or(false) {
        return terminal(ours);
    }
    let Ok(stat) = fstat(ours) else {
        return null();
    };
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    if kind == SFlag::S_IFREG {
        return Ok(unnamed_file()?.into());
    }
    if kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK {
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        drain(read.into());
        return Ok(write);
    }
    null()
}

fn terminal(ours: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let modes = nix::sys::termios::tcgetattr(ours).ok();
    let pair = openpty(None, modes.as_ref())?;
    copy_size(ours, pair.slave.as_fd());
    for fd in [&pair.master, &pair.slave] {
        nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    }
    drain(pair.master.into());
    Ok(pair.slave)
}

fn copy_size(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    use std::os::fd::AsRawFd;
    // SAFETY: `size` outlives both calls, each of which reads or writes exactly one winsize.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        if libc::ioctl(from.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) == 0 {
            libc::ioctl(to.as_raw_fd(), libc::TIOCSWINSZ, &raw const size);
        }
    }
}

/// Reads `file` to its end on a thread of its own. A pseudo-terminal ends with EIO when the last slave is closed.
fn drain(mut file: File) {
    std::thread::spawn(move || {
        let mut buffer = vec![0u8; 64 << 10];
        while matches!(file.read(&mut buffer), Ok(n) if n > 0) {}
    });
}

fn null() -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().write(true).open("/dev/null")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(fd: &impl AsFd) -> SFlag {
        SFlag::from_bits_truncate(fstat(fd.as_fd()).unwrap().st_mode & SFlag::S_IFMT.bits())
    }

    #[test]
    fn a_pipe_is_broken_when_its_reader_has_gone() {
        let (read, write) = nix::unistd::pipe().unwrap();
        assert!(!is_broken(write.as_fd()));
        drop(read);
        assert!(is_broken(write.as_fd()));
        assert!(!is_broken(File::open("/dev/null").unwrap().as_fd()));
        assert!(refuse_if_cut_short(ProgramEnd::Signalled(libc::SIGPIPE)).is_err());
        assert!(refuse_if_cut_short(ProgramEnd::Exited(0)).is_ok());
    }

    #[test]
    fn a_sink_is_of_the_same_kind() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(kind(&like(file.as_fd()).unwrap()), SFlag::S_IFREG);
        let (_read, write) = nix::unistd::pipe().unwrap();
        assert_eq!(kind(&like(write.as_fd()).unwrap()), SFlag::S_IFIFO);
        let pty = openpty(None, None).unwrap();
        assert!(nix::unistd::isatty(like(pty.slave.as_fd()).unwrap()).unwrap());
        let null = File::open("/dev/null").unwrap();
        assert_eq!(kind(&like(null.as_fd()).unwrap()), SFlag::S_IFCHR);
    }
}
