//! A perf ring buffer: one page of positions, then the records.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};

const PAGE: usize = 4096;

/// A buffer that the kernel writes records into.
pub trait Ring {
    /// Hands over the records that are new, each with its header.
    fn drain(&mut self, take: &mut dyn FnMut(&[u8]));
}

/// A mapped buffer.
#[derive(Debug)]
pub struct MappedRing {
    page: NonNull<perf_event_mmap_page>,
    bytes: usize,
    record: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone; nothing of it is bound to the thread that made it.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// Maps the buffer of perf descriptor `fd`; `bytes` is a power of two of pages.
    ///
    /// # Errors
    /// The error of `mmap`; EPERM if the limit of locked memory is reached.
    pub fn map(fd: RawFd, bytes: usize) -> io::Result<MappedRing> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE + bytes, protection, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(at.cast()) {
            Some(page) if at != libc::MAP_FAILED => Ok(MappedRing { page, bytes, record: Vec::new() }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn position(&self, field: *mut u64) -> &AtomicU64 {
        // SAFETY: `field` is an aligned word of the mapped page, which lives as long as `self`, and is only ever accessed
        // atomically by us and the kernel.
        unsafe { AtomicU64::from_ptr(field) }
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: takes the address of a field of the mapped page without reading it.
        self.position(unsafe { &raw mut (*self.page.as_ptr()).data_head })
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as in `head`.
        self.position(unsafe { &raw mut (*self.page.as_ptr()).data_tail })
    }

    /// Copies `length` bytes at position `from`, which may wrap around.
    fn copy(&mut self, from: u64, length: usize) {
        let start = (from % self.bytes as u64) as usize;
        let first = length.min(self.bytes - start);
        self.record.clear();
        // SAFETY: both parts lie inside the mapped data; the kernel does not write between tail and head.
        unsafe {
            let data = self.page.as_ptr().cast::<u8>().add(PAGE);
            self.record.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            self.record.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
    }
}

impl Ring for MappedRing {
    fn drain(&mut self, take: &mut dyn FnMut(&[u8])) {
        const HEADER: usize = size_of::<perf_event_header>();
        let head = self.head().load(Ordering::Acquire);
        let mut tail = self.tail().load(Ordering::Relaxed);
        while head.wrapping_sub(tail) >= HEADER as u64 {
            self.copy(tail, HEADER);
            let size = usize::from(u16::from_ne_bytes([self.record[6], self.record[7]]));
            if size < HEADER || size as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            self.copy(tail, size);
            take(&self.record);
            tail += size as u64;
        }
        self.tail().store(tail, Ordering::Release);
    }
}

impl Drop for MappedRing {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nobody uses any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), PAGE + self.bytes) };
    }
}
