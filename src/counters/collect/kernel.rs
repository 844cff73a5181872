//! The system calls behind groups that are read at samples.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::ring::MappedRing;
use crate::counters::kernel::{Linux, PerfKernel, too_little};

/// A group's counts, summed over the program's threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupReading {
    /// Nanoseconds enabled.
    pub enabled_ns: u64,
    /// Nanoseconds on the PMU.
    pub running_ns: u64,
    /// Raw counts: the leader, then the members as they were opened.
    pub values: Vec<u64>,
}

/// A buffer that the kernel writes records into.
pub trait Ring {
    /// Hands over the records that are new, each with its header.
    fn drain(&mut self, take: &mut dyn FnMut(&[u8]));
}

/// What the collection needs of the kernel beyond single events.
pub trait GroupKernel: PerfKernel {
    /// A mapped buffer.
    type Ring: Ring;
    /// The number by which records name the event.
    fn id(&self, handle: &Self::Handle) -> io::Result<u64>;
    /// Reads the group that `leader` leads, of `events` events: an error, or fewer bytes than asked (as `UnexpectedEof`).
    fn read_group(&self, leader: &Self::Handle, events: usize) -> io::Result<GroupReading>;
    /// Maps a buffer of `bytes` (a power of two of pages) for the event's records.
    fn ring(&self, handle: &Self::Handle, bytes: usize) -> io::Result<Self::Ring>;
    /// Sends the records of `handle` to the buffer of `to`.
    fn redirect(&self, handle: &Self::Handle, to: &Self::Handle) -> io::Result<()>;
}

impl GroupKernel for Linux {
    type Ring = MappedRing;

    fn id(&self, handle: &OwnedFd) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the kernel writes one word into a live variable.
        match unsafe { perf_event_open_sys::ioctls::ID(handle.as_raw_fd(), &raw mut id) } {
            0 => Ok(id),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn read_group(&self, leader: &OwnedFd, events: usize) -> io::Result<GroupReading> {
        // { nr, time_enabled, time_running, { value, id }[nr] }
        let mut words = vec![0u64; 3 + 2 * events];
        let bytes = words.len() * size_of::<u64>();
        // SAFETY: reads at most as many bytes as the buffer has.
        let got = unsafe { libc::read(leader.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
        match got {
            n if n < bytes as isize => Err(too_little(n)),
            _ if words[0] != events as u64 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(GroupReading {
                enabled_ns: words[1],
                running_ns: words[2],
                values: words[3..].iter().copied().step_by(2).collect(),
            }),
        }
    }

    fn ring(&self, handle: &OwnedFd, bytes: usize) -> io::Result<MappedRing> {
        MappedRing::map(handle.as_raw_fd(), bytes)
    }

    fn redirect(&self, handle: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        // SAFETY: two perf descriptors.
        match unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(handle.as_raw_fd(), to.as_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
