//! Who listens at the address of a socket: the program itself, or others.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::unistd::Pid;

/// `TCP_LISTEN` in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Who takes a connection to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// No process: the connection is refused.
    Nobody,
    /// A process of the program.
    Own,
    /// Another process, or an unknown one.
    Other,
}

/// Who listens at the local address (`sockaddr_un`).
pub fn local_listener(own: &BTreeSet<Pid>, address: &[u8]) -> Listener {
    let Some(name) = address.get(2..).filter(|name| !name.is_empty()) else { return Listener::Other };
    // An abstract name has its whole length, and begins with a zero, which /proc shows as `@`.
    let name: Vec<u8> = match name[0] {
        0 => std::iter::once(b'@').chain(name[1..].iter().map(|byte| if *byte == 0 { b'@' } else { *byte })).collect(),
        _ => name.iter().copied().take_while(|byte| *byte != 0).collect(),
    };
    let Ok(name) = String::from_utf8(name) else { return Listener::Other };
    let table = own.first().and_then(|pid| fs::read_to_string(format!("/proc/{pid}/net/unix")).ok());
    let Some(table) = table else { return Listener::Other };
    // Num RefCount Protocol Flags Type St Inode Path
    let inode = |line: &str| {
        let mut words = line.split_whitespace();
        let inode = words.nth(6)?.parse().ok()?;
        (line.ends_with(&format!(" {name}"))).then_some(inode)
    };
    let inodes: BTreeSet<u64> = table.lines().filter_map(inode).collect();
    who_has(own, &inodes)
}

/// Who listens at the address of a network socket (`sockaddr_in`, `sockaddr_in6`): others, beyond this host.
pub fn listener_on_port(own: &BTreeSet<Pid>, address: &[u8]) -> Listener {
    let Some((ip, port)) = ip_and_port(address) else { return Listener::Other };
    if !ip.is_loopback() {
        return Listener::Other;
    }
    let inode = |line: &str| {
        // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.get(1)?.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok())?;
        (*words.get(3)? == LISTENS && at == port).then(|| words.get(9)?.parse().ok()).flatten()
    };
    let tables = ["tcp", "tcp6"].into_iter().filter_map(|table| {
        let pid = own.first()?;
        fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok()
    });
    let inodes: BTreeSet<u64> = tables.flat_map(|table| table.lines().filter_map(inode).collect::<Vec<_>>()).collect();
    who_has(own, &inodes)
}

fn ip_and_port(address: &[u8]) -> Option<(IpAddr, u16)> {
    let family = i32::from(u16::from_ne_bytes([*address.first()?, *address.get(1)?]));
    let port = u16::from_be_bytes([*address.get(2)?, *address.get(3)?]);
    let ip = match family {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address.get(4..8)?).ok()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address.get(8..24)?).ok()?)),
        _ => return None,
    };
    Some((ip, port))
}

/// Who has one of the sockets open.
fn who_has(own: &BTreeSet<Pid>, inodes: &BTreeSet<u64>) -> Listener {
    let is_one = |link: &str| {
        let number = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        number.and_then(|number| number.parse().ok()).is_some_and(|inode| inodes.contains(&inode))
    };
    let open = |pid: &Pid| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|link| link.to_str().is_some_and(is_one))
    };
    match inodes.is_empty() {
        true => Listener::Nobody,
        false if own.iter().any(open) => Listener::Own,
        false => Listener::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn own_listeners_are_found() {
        let (own, others) = (BTreeSet::from([Pid::this()]), BTreeSet::from([Pid::from_raw(1)]));
        let family = |family: i32| (family as u16).to_ne_bytes();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _by_path = UnixListener::bind(&path).unwrap();
        let name = format!("rprof-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let _by_name = UnixListener::bind_addr(&abstract_name).unwrap();
        let local = |name: &str| [&family(libc::AF_UNIX)[..], name.as_bytes()].concat();
        for at in [local(path.to_str().unwrap()), local(&format!("\0{name}"))] {
            assert_eq!((local_listener(&own, &at), local_listener(&others, &at)), (Listener::Own, Listener::Other));
        }
        assert_eq!(local_listener(&own, &local("/nowhere")), Listener::Nobody);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_be_bytes();
        let at = |ip: [u8; 4]| [&family(libc::AF_INET)[..], &port, &ip].concat();
        let here = at([127, 0, 0, 1]);
        assert_eq!((listener_on_port(&own, &here), listener_on_port(&others, &here)), (Listener::Own, Listener::Other));
        assert_eq!(listener_on_port(&own, &at([192, 0, 2, 1])), Listener::Other, "another host");
        drop(listener);
        assert_eq!(listener_on_port(&own, &here), Listener::Nobody);
    }
}
