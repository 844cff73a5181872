//! System calls on sockets: the bytes that go to and come from other hosts.

use std::collections::HashMap;

use nix::unistd::Pid;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::call_record::SocketRecord;
use crate::translator::code_cache::descriptor::DescriptorKind;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use rprof_profile::evidence::mpi::{NetworkMissing, Traffic};
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;
use rprof_tracee::sockets::{OwnAddresses, Peer, is_socket, peer_of};

/// Bytes of a `struct mmsghdr`, and the offset of `msg_len` in it.
const MESSAGE: u64 = 64;
const MESSAGE_LENGTH: u64 = 56;

/// Traffic of sockets, and that with other hosts by call site.
#[derive(Debug, Default)]
pub struct SocketTraffic {
    /// To and from this host.
    pub within_host: Traffic,
    /// Why figures are not whole.
    pub missing: Option<NetworkMissing>,
    own: HashMap<Pid, OwnAddresses>,
}

/// A thread, its address space and its code cache.
pub type Caller<'c> = (&'c AddressSpace, &'c CodeCache, &'c Thread);

impl SocketTraffic {
    /// Notes a system call; returns the bytes that it passed to or from another host.
    pub fn note(&mut self, caller: Caller<'_>, record: &SocketRecord) -> Traffic {
        let (_, cache, thread) = caller;
        let [first, second, third, _] = record.arguments;
        let fd = first as i32;
        let look = |fd: i32| {
            let kind = if is_socket(thread.pid, fd) { DescriptorKind::New } else { DescriptorKind::Other };
            cache.set_descriptor(fd, if shares_descriptors(caller) { DescriptorKind::New } else { kind });
        };
        let mut moved = Traffic::default();
        match record.number {
            libc::SYS_close | libc::SYS_connect => look(fd),
            _ if record.result < 0 => {}
            libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3 => {
                look(record.result as i32);
            }
            libc::SYS_fcntl => {
                if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(second as i32)) {
                    look(record.result as i32);
                }
            }
            libc::SYS_io_uring_setup => self.missing = Some(NetworkMissing::IoUring),
            libc::SYS_splice => {
                let bytes = record.result as u64;
                moved = self.by_peer(caller, fd, DescriptorKind::New, Traffic { sent: 0, received: bytes });
                moved += self.by_peer(caller, third as i32, DescriptorKind::New, Traffic { sent: bytes, received: 0 });
            }
            _ => {
                let all = moved_by(record, &caller.0.memory);
                if all == Traffic::default() {
                    return moved;
                }
                let kind = match DescriptorKind::from_byte(record.kind) {
                    DescriptorKind::Other => DescriptorKind::New,
                    kind => kind,
                };
                moved = self.by_peer(caller, fd, kind, all);
            }
        }
        moved
    }

    /// The part of `all` to be counted for another host.
    fn by_peer(&mut self, caller: Caller<'_>, fd: i32, kind: DescriptorKind, all: Traffic) -> Traffic {
        let kind = if kind == DescriptorKind::New { self.resolve(caller, fd) } else { kind };
        match kind {
            DescriptorKind::OtherHost => return all,
            DescriptorKind::SameHost => self.within_host += all,
            DescriptorKind::New => {
                self.missing.get_or_insert(NetworkMissing::NotConnected);
            }
            DescriptorKind::Other => {}
        }
        Traffic::default()
    }

    /// Finds the host of a descriptor's other end; keeps that for the next call if no other process has the same number for another
    /// one.
    fn resolve(&mut self, caller: Caller<'_>, fd: i32) -> DescriptorKind {
        let (_, cache, thread) = caller;
        if !is_socket(thread.pid, fd) {
            return DescriptorKind::Other;
        }
        let own = self.own.entry(thread.pid).or_insert_with(|| OwnAddresses::read(thread.pid));
        let kind = match peer_of(thread.pid, fd, own) {
            Ok(Peer::OtherHost) => DescriptorKind::OtherHost,
            Ok(Peer::SameHost) => DescriptorKind::SameHost,
            Ok(Peer::NotConnected) => DescriptorKind::New,
            Err(_) => {
                self.missing = Some(NetworkMissing::NoDescriptors);
                return DescriptorKind::Other;
            }
        };
        if !shares_descriptors(caller) {
            cache.set_descriptor(fd, kind);
        }
        kind
    }
}

/// Whether processes with other descriptors execute the same code, which reads one table of them.
fn shares_descriptors((address_space, _, thread): Caller<'_>) -> bool {
    address_space.image.is_shared() || thread.pid != address_space.pid
}

fn receives(number: i64) -> bool {
    [libc::SYS_read, libc::SYS_readv, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg].contains(&number)
}

/// The bytes that a call on a socket has moved: as its result says, which may be less than was asked for. None if it failed, or if it has
/// looked at bytes that another call will take.
fn moved_by(record: &SocketRecord, memory: &Memory) -> Traffic {
    let bytes = u64::try_from(record.result).ok().and_then(|result| bytes_of(record, memory, result)).unwrap_or(0);
    match receives(record.number) {
        true => Traffic { sent: 0, received: bytes },
        false => Traffic { sent: bytes, received: 0 },
    }
}

fn bytes_of(record: &SocketRecord, memory: &Memory, result: u64) -> Option<u64> {
    let [_, second, third, fourth] = record.arguments;
    let flags = match record.number {
        libc::SYS_recvfrom | libc::SYS_recvmmsg => fourth as i32,
        libc::SYS_recvmsg => third as i32,
        _ => 0,
    };
    if flags & (libc::MSG_PEEK | libc::MSG_ERRQUEUE) != 0 {
        return None;
    }
    if ![libc::SYS_sendmmsg, libc::SYS_recvmmsg].contains(&record.number) {
        return Some(result);
    }
    let length = |i: u64| {
        let mut bytes = [0; 4];
        let at = Address::new(second.wrapping_add(i * MESSAGE + MESSAGE_LENGTH));
        memory.read(at, &mut bytes).ok().map(|()| u64::from(u32::from_le_bytes(bytes)))
    };
    (0..result).map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_calls_that_only_look_do_not_count() {
        let memory = Memory::open(Pid::this()).unwrap();
        let moved = |number, flags: i32| {
            let record = SocketRecord { number, arguments: [3, 0, flags as u64, flags as u64], kind: 2, result: 100 };
            moved_by(&record, &memory)
        };
        let (sent, received) = (Traffic { sent: 100, received: 0 }, Traffic { sent: 0, received: 100 });
        assert_eq!(moved(libc::SYS_recvfrom, 0), received);
        assert_eq!(moved(libc::SYS_recvfrom, libc::MSG_PEEK), Traffic::default());
        assert_eq!(moved(libc::SYS_recvmsg, libc::MSG_ERRQUEUE), Traffic::default());
        assert_eq!(moved(libc::SYS_write, libc::MSG_PEEK), sent, "it has no flags");
    }

    #[test]
    fn failed_calls_move_nothing_and_partial_ones_what_they_say() {
        let memory = Memory::open(Pid::this()).unwrap();
        let moved = |number, result| {
            let record = SocketRecord { number, arguments: [3, 0, 1_000_000, 0], kind: 2, result };
            moved_by(&record, &memory)
        };
        let failed = [libc::EAGAIN, libc::EPIPE, libc::ECONNRESET, 512, 4095].map(|error| -i64::from(error));
        for number in [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_writev, libc::SYS_recvmmsg] {
            for result in failed.into_iter().chain([0]) {
                assert_eq!(moved(number, result), Traffic::default(), "{number} {result}");
            }
        }
        assert_eq!(moved(libc::SYS_sendto, 4096), Traffic { sent: 4096, received: 0 }, "of a million");
        assert_eq!(moved(libc::SYS_readv, 1), Traffic { sent: 0, received: 1 });
    }

    #[test]
    fn several_messages_have_their_own_lengths() {
        let memory = Memory::open(Pid::this()).unwrap();
        let mut messages = [0u32; 48];
        (messages[14], messages[30], messages[46]) = (5, 7, 9);
        let at = messages.as_ptr() as u64;
        let record = SocketRecord { number: libc::SYS_recvmmsg, arguments: [3, at, 2, 0], kind: 0, result: 2 };
        assert_eq!(moved_by(&record, &memory).received, 12);
        let some = SocketRecord { number: libc::SYS_sendmmsg, arguments: [3, at, 3, 0], kind: 0, result: 2 };
        assert_eq!(moved_by(&some, &memory).sent, 12, "the third was not sent");
    }
}
