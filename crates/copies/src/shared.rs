//! What a copy shares with others is made its own: shared memory that it may write, memory that is not copied by a fork, devices.

use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::memory::Memory;
use rprof_tracee::remote::Remote;

use crate::error::{CopyError, Refused};

/// The most bytes of shared memory that a copy takes.
pub const MOST: u64 = 256 << 20;
/// Bytes that are copied at once.
const AT_ONCE: usize = 1 << 20;

/// A mapping that writes of a copy would be seen through.
pub fn is_shared(mapping: &Mapping) -> bool {
    mapping.shared && mapping.writable && !is_device(mapping)
}

/// A mapping of a device: a copy may not touch it.
fn is_device(mapping: &Mapping) -> bool {
    let path = mapping.path.as_str();
    let memory = ["/dev/shm/", "/dev/zero", "/dev/hugepages/"];
    path.starts_with("/dev/") && !memory.iter().any(|start| path.starts_with(start)) || path.starts_with("anon_inode:")
}

/// Bytes of shared memory that `pid` may write.
///
/// # Errors
/// Its maps cannot be read.
pub fn shared_bytes(pid: Pid) -> Result<u64, CopyError> {
    let maps = read_maps(pid).map_err(|e| CopyError::Proc("read the program's maps", e))?;
    Ok(maps.iter().filter(|m| is_shared(m)).map(|m| m.end - m.start).sum())
}

/// In the copy `pid` of the stopped `program`: replaces shared memory by private memory with the same bytes, adds the memory that a fork
/// leaves out, and drops mappings of devices.
///
/// # Errors
/// There is too much of it, or the kernel refuses.
pub fn make_private(remote: &mut Remote<'_>, pid: Pid, program: Pid, memory: &Memory) -> Result<(), CopyError> {
    let maps = read_maps(pid).map_err(|e| CopyError::Proc("read a copy's maps", e))?;
    let bytes: u64 = maps.iter().filter(|m| is_shared(m)).map(|m| m.end - m.start).sum();
    if bytes > MOST {
        return Err(CopyError::Refused(Refused::SharedMemory(bytes)));
    }
    for mapping in &maps {
        let (start, length) = (mapping.start.get(), mapping.end - mapping.start);
        if is_device(mapping) {
            remote.call("munmap", libc::SYS_munmap, [start, length, 0, 0, 0, 0])?;
        } else if is_shared(mapping) {
            replace(remote, mapping, memory)?;
        }
    }
    let theirs = read_maps(program).map_err(|e| CopyError::Proc("read the program's maps", e))?;
    let is_missing = |m: &&Mapping| !maps.iter().any(|own| own.start < m.end && m.start < own.end);
    let is_memory = |m: &&Mapping| !m.path.starts_with("[v") && !is_device(m) && m.readable;
    for mapping in theirs.iter().filter(is_missing).filter(is_memory) {
        if mapping.end - mapping.start > MOST {
            return Err(CopyError::Refused(Refused::SharedMemory(mapping.end - mapping.start)));
        }
        replace(remote, mapping, memory)?;
    }
    Ok(())
}

/// Puts private memory with the program's bytes in the place of `mapping`.
fn replace(remote: &mut Remote<'_>, mapping: &Mapping, memory: &Memory) -> Result<(), CopyError> {
    let (start, length) = (mapping.start.get(), mapping.end - mapping.start);
    let rights = [
        (mapping.readable, libc::PROT_READ),
        (mapping.writable, libc::PROT_WRITE),
        (mapping.executable, libc::PROT_EXEC),
    ];
    let rights: i32 = rights.into_iter().filter(|(has, _)| *has).map(|(_, right)| right).sum();
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
    remote.call("mmap", libc::SYS_mmap, [start, length, rights as u64, flags, u64::MAX, 0])?;
    let mut buffer = vec![0; AT_ONCE.min(length as usize)];
    let mut at = 0;
    while at < length {
        let part = buffer.len().min((length - at) as usize);
        // Beyond the end of a file there is nothing.
        let Ok(read) = memory.read_some(Address::new(start + at), &mut buffer[..part]) else { break };
        if buffer[..read].iter().any(|byte| *byte != 0) {
            let to = Address::new(start + at);
            remote.memory().write(to, &buffer[..read]).map_err(|e| CopyError::Proc("write to a copy", e))?;
        }
        at += part as u64;
    }
    Ok(())
}
