//! Sockets of another process: which of its descriptors are some, and whether the other end is on another host.
//!
//! Another network namespace is another host.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};

use nix::unistd::Pid;

/// The place of a socket's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// On another host.
    OtherHost,
    /// On this host, or it is no socket of the internet protocols.
    SameHost,
    /// It is not connected: datagrams have addresses of their own.
    NotConnected,
}

/// The addresses of a process's network namespace.
#[derive(Debug, Clone, Default)]
pub struct OwnAddresses(HashSet<IpAddr>);

impl OwnAddresses {
    /// Reads them; none, if /proc does not say.
    pub fn read(pid: Pid) -> OwnAddresses {
        let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        OwnAddresses(local_v4(&file("fib_trie")).chain(local_v6(&file("if_inet6"))).collect())
    }

    fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.0.contains(&address)
    }
}

/// The addresses before lines `/32 host LOCAL`.
fn local_v4(trie: &str) -> impl Iterator<Item = IpAddr> {
    let lines = trie.lines().map(str::trim);
    lines.clone().zip(lines.skip(1)).filter_map(|(address, kind)| {
        let address: Ipv4Addr = address.strip_prefix("|-- ")?.parse().ok()?;
        (kind == "/32 host LOCAL").then_some(address.into())
    })
}

/// The first column: 32 hexadecimal digits.
fn local_v6(table: &str) -> impl Iterator<Item = IpAddr> {
    table.lines().filter_map(|line| {
        let bits = u128::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
        Some(Ipv6Addr::from_bits(bits).into())
    })
}

/// Whether descriptor `fd` of process `pid` is a socket.
pub fn is_socket(pid: Pid, fd: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/fd/{fd}"))
        .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
}

/// The descriptors of process `pid` that are sockets.
pub fn open_sockets(pid: Pid) -> Vec<i32> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let fds = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    fds.filter(|&fd| is_socket(pid, fd)).collect()
}

/// The place of the other end of socket `fd` of process `pid`, which has the addresses `own`.
///
/// # Errors
/// The kernel does not hand out descriptors of the process (before Linux 5.6, or another user's), or it is gone.
pub fn peer_of(pid: Pid, fd: i32, own: &OwnAddresses) -> io::Result<Peer> {
    // SAFETY: no memory is passed; a descriptor that is returned is ours.
    let process = unsafe { owned(libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0)) }?;
    // SAFETY: as above.
    let socket = unsafe {
        let process = std::os::fd::AsRawFd::as_raw_fd(&process);
        owned(libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0))
    }?;
    // Only asked for its addresses, which every socket can be.
    let socket = TcpStream::from(socket);
    let Ok(local) = socket.local_addr() else { return Ok(Peer::SameHost) };
    let Ok(peer) = socket.peer_addr() else { return Ok(Peer::NotConnected) };
    let is_here = peer.ip() == local.ip() || own.holds(peer.ip());
    Ok(if is_here { Peer::SameHost } else { Peer::OtherHost })
}

/// # Safety
/// `result` is a descriptor without another owner, or negative.
unsafe fn owned(result: i64) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: by contract.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn own_addresses_are_the_local_ones() {
        let trie = "Main:\n  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.7\n        \
                    /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(local_v4(trie).collect::<Vec<_>>(), [IpAddr::from([10, 0, 0, 7])]);
        let v6 = "fe800000000000000000000000000001 02 40 20 80     eth0\n";
        assert_eq!(local_v6(v6).collect::<Vec<_>>(), ["fe80::1".parse::<IpAddr>().unwrap()]);
        let own = OwnAddresses(local_v4(trie).collect());
        assert!(own.holds("::ffff:10.0.0.7".parse().unwrap()) && own.holds([127, 1, 2, 3].into()));
        assert!(!own.holds([10, 0, 0, 8].into()));
    }

    #[test]
    fn peers_of_own_sockets() {
        let (own, pid) = (OwnAddresses::read(Pid::this()), Pid::this());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagrams = UdpSocket::bind("0.0.0.0:0").unwrap();
        let (unix, _other) = UnixStream::pair().unwrap();
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let peer = |fd| peer_of(pid, fd, &own).unwrap();
        assert_eq!(peer(one.as_raw_fd()), Peer::SameHost);
        assert_eq!(peer(unix.as_raw_fd()), Peer::SameHost);
        assert_eq!(peer(datagrams.as_raw_fd()), Peer::NotConnected);
        // A documentation address (RFC 5737): connecting a datagram socket sends nothing, but needs a route.
        if datagrams.connect("192.0.2.1:9").is_ok() {
            assert_eq!(peer(datagrams.as_raw_fd()), Peer::OtherHost);
        }
        // A host may have no IPv6.
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert_eq!(peer(one.as_raw_fd()), Peer::SameHost);
        }
        if let Ok(datagrams) = UdpSocket::bind("[::]:0") {
            assert_eq!(peer(datagrams.as_raw_fd()), Peer::NotConnected);
            // Likewise (RFC 3849).
            if datagrams.connect("[2001:db8::1]:9").is_ok() {
                assert_eq!(peer(datagrams.as_raw_fd()), Peer::OtherHost);
            }
        }
        let sockets = open_sockets(pid);
        assert!(sockets.contains(&unix.as_raw_fd()) && !sockets.contains(&file.as_raw_fd()));
    }
}
