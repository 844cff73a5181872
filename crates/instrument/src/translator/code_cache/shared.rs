//! Memory that rprof and the program share: a memfd or another file without a name, mapped into both.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rprof_tracee::address::Address;

/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

/// rprof's mapping of a memfd, and its address in the program.
#[derive(Debug)]
pub struct Shared {
    file: File,
    ours: NonNull<u8>,
    size: u64,
    /// Its address in the program.
    pub base: Address,
}

// SAFETY: the mapping is ours until `drop`, and no thread of ours is tied to it; memory that two threads may access at the same
// time is accessed atomically or not published yet.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the first `size` bytes of `memfd` readable and writable; `base` is their address in the program.
    ///
    /// # Errors
    /// `mmap` fails.
    pub fn map(memfd: OwnedFd, size: u64, base: Address) -> io::Result<Self> {
        let file = File::from(memfd);
        let room = reserve(size)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: a mapping of a descriptor that we own, in place of the memory reserved for it.
        let ours =
            unsafe { libc::mmap(room, size as usize, libc::PROT_READ | libc::PROT_WRITE, flags, file.as_raw_fd(), 0) };
        match NonNull::new(ours.cast::<u8>()) {
            Some(ours) if ours.as_ptr().cast() != libc::MAP_FAILED => Ok(Shared { file, ours, size, base }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Bytes mapped.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the program's address `at` lies in it.
    pub fn contains(&self, at: u64) -> bool {
        at.wrapping_sub(self.base.get()) < self.size
    }

    /// Copies `bytes` to `offset`. No thread that executes or reads them may know of the place yet.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.size, "write beyond shared memory");
        // SAFETY: in bounds of our mapping; the program does not read these bytes before they are published.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ours.as_ptr().add(offset as usize), bytes.len()) }
    }

    /// A word that the program may access at the same time.
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.size, "word beyond shared memory");
        // SAFETY: aligned and in bounds; both sides access it atomically.
        unsafe { &*self.ours.as_ptr().add(offset as usize).cast() }
    }

    /// `count` words from `offset` on that the program may access at the same time.
    pub fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && offset + 8 * count as u64 <= self.size, "words beyond shared memory");
        // SAFETY: aligned and in bounds; both sides access them atomically.
        unsafe { std::slice::from_raw_parts(self.ours.as_ptr().add(offset as usize).cast(), count) }
    }

    /// Stores four bytes in one piece; they must lie in one cache line.
    pub fn patch(&self, offset: u64, value: u32) {
        assert!(offset + 4 <= self.size && offset % 64 <= 60, "patch across a cache line");
        if offset.is_multiple_of(4) {
            // SAFETY: aligned and in bounds.
            unsafe { &*self.ours.as_ptr().add(offset as usize).cast::<AtomicU32>() }.store(value, Ordering::Release);
        } else {
            std::sync::atomic::fence(Ordering::Release);
            // SAFETY: in bounds; x86-64 stores that stay in one cache line are seen whole.
            unsafe { self.ours.as_ptr().add(offset as usize).cast::<u32>().write_unaligned(value) }
        }
    }

    /// Stores one byte, which the program may be executing.
    pub fn store(&self, offset: u64, value: u8) {
        assert!(offset < self.size, "store beyond shared memory");
        // SAFETY: in bounds.
        unsafe { &*self.ours.as_ptr().add(offset as usize).cast::<AtomicU8>() }.store(value, Ordering::Release);
    }

    /// Loads a byte that only rprof stores.
    pub fn load(&self, offset: u64) -> u8 {
        assert!(offset < self.size, "load beyond shared memory");
        // SAFETY: in bounds.
        unsafe { &*self.ours.as_ptr().add(offset as usize).cast::<AtomicU8>() }.load(Ordering::Acquire)
    }

    /// Moves the memory from `offset` on into a huge page, if the kernel can.
    pub fn gather(&self, offset: u64) {
        if offset + HUGE <= self.size {
            // SAFETY: in bounds of our mapping; its contents stay as they are.
            unsafe {
                libc::madvise(self.ours.as_ptr().add(offset as usize).cast(), HUGE as usize, libc::MADV_COLLAPSE)
            };
        }
    }

    /// Reads `buffer.len()` bytes at `offset` without allocating pages that were never written.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// The first range in `from..to` that holds data, if any.
    pub fn data(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let seek = |at: u64, whence| {
            // SAFETY: moves the offset of a descriptor with no other user.
            let found = unsafe { libc::lseek(self.file.as_raw_fd(), at as i64, whence) };
            (found >= 0).then_some(found as u64)
        };
        let start = seek(from, libc::SEEK_DATA).filter(|&s| s < to)?;
        let end = seek(start, libc::SEEK_HOLE).unwrap_or(to).min(to);
        Some((start, end))
    }

    /// Makes `from..from + size` zero again and gives its pages back.
    pub fn clear(&self, from: u64, size: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: punches a hole into our own memfd; both mappings read zeros there afterwards.
        let result = unsafe { libc::fallocate(self.file.as_raw_fd(), mode, from as i64, size as i64) };
        if result != 0 {
            self.write(from, &vec![0; size.min(self.size - from) as usize]);
        }
    }
}

/// Reserves `size` bytes in rprof's address space, aligned for huge pages.
fn reserve(size: u64) -> io::Result<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let (size, huge) = (size as usize, HUGE as usize);
    // SAFETY: a new mapping; nothing existing is replaced.
    let all = unsafe { libc::mmap(std::ptr::null_mut(), size + huge, libc::PROT_NONE, flags, -1, 0) };
    if all == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let before = (all as usize).wrapping_neg() % huge;
    // SAFETY: both are parts of the new mapping, and not in use; empty ones are refused, which does no harm.
    unsafe {
        let start = all.byte_add(before);
        libc::munmap(all, before);
        libc::munmap(start.byte_add(size), huge - before);
        Ok(start)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: unmaps our own mapping, to which no reference outlives `self`.
        unsafe { libc::munmap(self.ours.as_ptr().cast(), self.size as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_stays_as_it_is() {
        // SAFETY: a constant name; the descriptor returned is ours.
        let memfd = unsafe { std::os::fd::FromRawFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0)) };
        let size = 2 * HUGE + 4096;
        std::fs::File::from(std::os::fd::OwnedFd::try_clone(&memfd).unwrap()).set_len(size).unwrap();
        let shared = Shared::map(memfd, size, Address::new(0)).unwrap();
        assert!((shared.ours.as_ptr() as u64).is_multiple_of(HUGE));
        let places = [8, 5 * 4096, HUGE - 8, HUGE, 2 * HUGE + 8];
        for (place, value) in places.into_iter().zip(1..) {
            shared.word(place).store(value, Ordering::Relaxed);
        }
        // The last stretch is shorter than a huge page, and one was never written.
        [0, HUGE, 2 * HUGE].into_iter().for_each(|at| shared.gather(at));
        for (place, value) in places.into_iter().zip(1..) {
            assert_eq!(shared.word(place).load(Ordering::Relaxed), value, "at {place:#x}");
        }
        let mut bytes = [1; 8];
        shared.read(4096, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8]);
    }
}
