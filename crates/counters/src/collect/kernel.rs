//! The system calls behind groups that are read at samples.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::kernel::{Linux, PerfKernel, too_little};
use rprof_tracee::perf_ring::{PerfRing, send_records};

/// A buffer that the kernel writes records into.
pub trait Ring {
    /// Hands over the records that are new, each with its header.
    fn drain(&mut self, take: impl FnMut(&[u8]));
}

impl Ring for PerfRing {
    fn drain(&mut self, take: impl FnMut(&[u8])) {
        PerfRing::drain(self, take);
    }
}

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

/// The kernel calls that the collection needs beyond single events.
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
    type Ring = PerfRing;

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

    fn ring(&self, handle: &OwnedFd, bytes: usize) -> io::Result<PerfRing> {
        PerfRing::map(handle, bytes)
    }

    fn redirect(&self, handle: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        send_records(handle, to.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Reading;
    use crate::refusal::Refusal;
    use std::fs::File;
    use std::io::Write;

    /// The errors of reading a count, and a group of one event, from `handle`.
    fn reasons(handle: &OwnedFd) -> [Refusal; 2] {
        let alone = Linux.read(handle).map(|_| ());
        let group = Linux.read_group(handle, 1).map(|_| ());
        [alone, group].map(|read| Refusal::of_read(&read.expect_err("there is no count")))
    }

    #[test]
    fn a_read_that_fails_or_ends_is_no_count() {
        let unmapped: OwnedFd = File::open("/proc/self/mem").unwrap().into();
        assert_eq!(reasons(&unmapped), [Refusal::StoppedCounting, Refusal::StoppedCounting], "EIO");
        let ended: OwnedFd = File::open("/dev/null").unwrap().into();
        assert_eq!(reasons(&ended), [Refusal::StoppedCounting, Refusal::StoppedCounting], "an end of file");
        let not_readable: OwnedFd = File::options().write(true).open("/dev/null").unwrap().into();
        assert_eq!(reasons(&not_readable)[0], Refusal::Other { errno: libc::EBADF });
    }

    #[test]
    fn a_read_of_fewer_bytes_than_asked_is_no_count() {
        for bytes in [8, 16, 23] {
            let short = || {
                let (reader, mut writer) = io::pipe().unwrap();
                writer.write_all(&[1; 40][..bytes]).unwrap();
                OwnedFd::from(reader)
            };
            assert_eq!(Refusal::of_read(&Linux.read(&short()).unwrap_err()), Refusal::ShortRead, "{bytes}");
            assert_eq!(Refusal::of_read(&Linux.read_group(&short(), 1).unwrap_err()), Refusal::ShortRead, "{bytes}");
        }
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&[7u64, 5, 3].map(u64::to_ne_bytes).concat()).unwrap();
        let whole = Reading { value: 7, enabled_ns: 5, running_ns: 3 };
        assert_eq!(Linux.read(&reader.into()).unwrap(), whole);
    }
}
