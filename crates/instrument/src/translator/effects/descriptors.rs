//! The objects behind descriptors of a traced process.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;

/// The name of the file that thread `tid` has open as `fd`; `None` if it has none (pipes, sockets, memory, removed files).
pub fn named_file(tid: Pid, fd: i32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let is_removed = path.to_string_lossy().ends_with(" (deleted)");
    (path.is_absolute() && !is_removed && !path.starts_with("/memfd:")).then_some(path)
}

/// The process that a pidfd is of.
pub fn process_of_pidfd(tid: Pid, fd: i32) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().map(Pid::from_raw)
}

/// A socket of a traced process.
#[derive(Debug)]
pub struct Socket {
    /// Its family, `AF_…`.
    pub family: i32,
    /// It has a stream or a sequence of packets, not single datagrams.
    pub is_stream: bool,
    /// The process at the other end, for local sockets that are connected.
    pub peer: Option<Pid>,
}

impl Socket {
    /// Looks at descriptor `fd` of process `pid`. `None`: it is no socket, or this kernel does not lend descriptors.
    pub fn look(pid: Pid, fd: i32) -> Option<Socket> {
        let socket = borrow(pid, fd)?;
        let number = |option| int_option(&socket, option);
        let family = number(libc::SO_DOMAIN)?;
        let is_stream = number(libc::SO_TYPE)? != libc::SOCK_DGRAM;
        let credentials = getsockopt(&socket, sockopt::PeerCredentials).ok();
        let peer = credentials.map(|of| of.pid()).filter(|pid| *pid > 0).map(Pid::from_raw);
        Some(Socket { family, is_stream, peer: peer.filter(|_| family == libc::AF_UNIX) })
    }
}

/// A copy of descriptor `fd` of process `pid`.
fn borrow(pid: Pid, fd: i32) -> Option<OwnedFd> {
    // SAFETY: plain numbers; the descriptors returned are ours.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) as i32;
        if process < 0 {
            return None;
        }
        let process = OwnedFd::from_raw_fd(process);
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) as i32;
        (copy >= 0).then(|| OwnedFd::from_raw_fd(copy))
    }
}

fn int_option(socket: &OwnedFd, option: i32) -> Option<i32> {
    let (mut value, mut size) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: `value` and `size` outlive the call, which writes at most four bytes.
    let result = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, &raw mut size)
    };
    (result == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_files_of_a_process() {
        let own = Pid::this();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = Socket::look(own, one.as_raw_fd()).unwrap();
        assert_eq!((socket.family, socket.is_stream, socket.peer), (libc::AF_UNIX, true, Some(own)));
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = Socket::look(own, datagrams.as_raw_fd()).unwrap();
        assert_eq!((socket.family, socket.is_stream, socket.peer), (libc::AF_INET, false, None));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(named_file(own, file.as_raw_fd()).as_deref(), Some(file.path()));
        assert_eq!(named_file(own, one.as_raw_fd()), None);
        let unnamed = tempfile::tempfile().unwrap();
        assert_eq!(named_file(own, unnamed.as_raw_fd()), None);
        assert!(Socket::look(own, unnamed.as_raw_fd()).is_none());
    }
}
