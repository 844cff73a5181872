//! A ring buffer of perf events: one page of positions, then the records. Both the sampler and the counters read theirs with it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use perf_event_open_sys::ioctls;

const HEADER: usize = size_of::<perf_event_header>();

/// The mapped buffer of an event. It outlives the event's descriptor.
#[derive(Debug)]
pub struct PerfRing {
    positions: NonNull<perf_event_mmap_page>,
    /// Bytes of the first page, which holds the positions.
    page: usize,
    /// Bytes of records.
    bytes: usize,
    record: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone; nothing of it is bound to the thread that made it.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Maps the buffer of the perf event `fd`; `bytes` is a power of two of pages.
    ///
    /// # Errors
    /// The error of `mmap`; EPERM if the limit of locked memory is reached.
    pub fn map(fd: &impl AsRawFd, bytes: usize) -> io::Result<PerfRing> {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096) as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (size, fd) = (page + bytes, fd.as_raw_fd());
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(at.cast()) {
            Some(positions) if at != libc::MAP_FAILED => Ok(PerfRing { positions, page, bytes, record: Vec::new() }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Hands over the records that were there when this was called, each with its header. The kernel may write over a record as
    /// soon as `take` has returned.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let head = self.head().load(Ordering::Acquire);
        let mut tail = self.tail().load(Ordering::Relaxed);
        while head.wrapping_sub(tail) >= HEADER as u64 {
            self.copy(tail, HEADER);
            let size = usize::from(u16::from_ne_bytes([self.record[6], self.record[7]]));
            if size < HEADER || size as u64 > head.wrapping_sub(tail) {
                // Damaged: the start of the next record is not known.
                self.tail().store(head, Ordering::Release);
                return;
            }
            self.copy(tail, size);
            tail += size as u64;
            self.tail().store(tail, Ordering::Release);
            take(&self.record);
        }
    }

    fn position(&self, field: *mut u64) -> &AtomicU64 {
        // SAFETY: `field` is an aligned word of the mapped page, which lives as long as `self`, and is only ever accessed
        // atomically by us and the kernel.
        unsafe { AtomicU64::from_ptr(field) }
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: takes the address of a field of the mapped page without reading it.
        self.position(unsafe { &raw mut (*self.positions.as_ptr()).data_head })
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as in `head`.
        self.position(unsafe { &raw mut (*self.positions.as_ptr()).data_tail })
    }

    /// Copies `length` bytes at position `from`, which may wrap around.
    fn copy(&mut self, from: u64, length: usize) {
        let start = (from % self.bytes as u64) as usize;
        let first = length.min(self.bytes - start);
        self.record.clear();
        // SAFETY: both parts lie inside the mapped data; the kernel does not write between tail and head.
        unsafe {
            let data = self.positions.as_ptr().cast::<u8>().add(self.page);
            self.record.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            self.record.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which is not used any more.
        unsafe { libc::munmap(self.positions.as_ptr().cast(), self.page + self.bytes) };
    }
}

/// Sends the records of the event `of` to the ring of the event `to`, both on one CPU.
///
/// # Errors
/// The kernel's error.
pub fn send_records(of: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: an ioctl with a descriptor as its argument.
    match unsafe { ioctls::SET_OUTPUT(of.as_raw_fd(), to) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const BYTES: usize = 4096;

    /// A ring in a file that the test writes as the kernel would.
    struct Written {
        file: File,
        ring: PerfRing,
        head: u64,
    }

    impl Written {
        /// With its next record at position `at`.
        fn new(at: u64) -> Written {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1 << 17).unwrap();
            let ring = PerfRing::map(&file, BYTES).unwrap();
            ring.head().store(at, Ordering::Release);
            ring.tail().store(at, Ordering::Release);
            Written { file, ring, head: at }
        }

        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                let at = self.ring.page as u64 + self.head % BYTES as u64;
                self.file.write_all_at(&[*byte], at).unwrap();
                self.head += 1;
            }
            self.ring.head().store(self.head, Ordering::Release);
        }

        fn drained(&mut self) -> Vec<Vec<u8>> {
            let mut records = Vec::new();
            self.ring.drain(|bytes| records.push(bytes.to_vec()));
            records
        }
    }

    /// A record that states a size of `stated` bytes and has `content` after its header.
    fn record(stated: u16, content: &[u8]) -> Vec<u8> {
        [&9u32.to_ne_bytes()[..], &0u16.to_ne_bytes(), &stated.to_ne_bytes(), content].concat()
    }

    #[test]
    fn records_are_handed_over_once_and_whole_also_where_the_buffer_wraps_around() {
        // Within the header, behind it, and within the content of the second record.
        for before_end in [20, 24, 30, 4000] {
            let mut written = Written::new(3 * BYTES as u64 - before_end);
            let records = [record(16, &[1; 8]), record(24, &[2; 16]), record(8, &[])];
            written.write(&records.concat());
            assert_eq!(written.drained(), records);
            assert_eq!(written.drained(), [[0u8; 0]; 0], "nothing new");
            assert_eq!(written.ring.tail().load(Ordering::Relaxed), written.head, "the kernel may use all of it again");
            written.write(&records[1]);
            assert_eq!(written.drained(), [records[1].clone()]);
        }
    }

    #[test]
    fn the_kernel_may_write_over_a_record_as_soon_as_it_was_taken() {
        let mut written = Written::new(0);
        written.write(&[record(16, &[1; 8]), record(16, &[2; 8])].concat());
        let (tail, mut seen) = (written.ring.tail() as *const AtomicU64, Vec::new());
        // SAFETY: the mapping lives as long as `written`.
        written.ring.drain(|_| seen.push(unsafe { &*tail }.load(Ordering::Relaxed)));
        assert_eq!(seen, [16, 32]);
    }

    #[test]
    fn damaged_records_end_a_round_and_not_the_reading() {
        for stated in [0, 7, 400] {
            let mut written = Written::new(0);
            written.write(&[record(8, &[]), record(stated, &[])].concat());
            assert_eq!(written.drained(), [record(8, &[])], "{stated}");
            written.write(&record(16, &[3; 8]));
            assert_eq!(written.drained(), [record(16, &[3; 8])], "{stated}");
        }
    }
}
