//! The translator's own heap. What is noted of blocks comes to tens of megabytes within tenths of a second where a program
//! with much code starts, and the program waits meanwhile. Taking that memory page by page, and giving pieces back only
//! to take them again, was a seventh of the translator's time (import of numpy, guest on Zen 5).

#[cfg(target_env = "gnu")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the heap grows by at once. They are addresses only until they are used.
#[cfg(target_env = "gnu")]
const GROWTH: usize = 64 << 20;

/// Small pages, as `madvise` has them.
#[cfg(target_env = "gnu")]
const PAGE: usize = 4096;

/// Where the heap ended when advice about it was given last.
#[cfg(target_env = "gnu")]
static ADVISED: AtomicUsize = AtomicUsize::new(0);

/// From here on the heap keeps what it was given, and is in huge pages where the kernel allows that.
#[cfg(target_env = "gnu")]
pub fn prepare() {
    // SAFETY: sets parameters of the allocator; it refuses what it does not know.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, (GROWTH / 2) as i32);
        libc::mallopt(libc::M_TOP_PAD, GROWTH as i32);
    }
    ADVISED.store(end(), Ordering::Relaxed);
    // More than can be free in it.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(GROWTH / 4)));
    advise();
}

/// Asks for huge pages for what the heap grew by since.
#[cfg(target_env = "gnu")]
pub fn advise() {
    let end = end();
    let before = ADVISED.swap(end, Ordering::Relaxed);
    if end > before {
        // The page across the old end becomes part of what was advised before.
        let start = before & !(PAGE - 1);
        // SAFETY: advice about memory of the heap, whose content it leaves alone; a kernel that cannot follow it says so.
        unsafe { libc::madvise(start as *mut _, end.saturating_sub(start), libc::MADV_HUGEPAGE) };
    }
}

#[cfg(target_env = "gnu")]
fn end() -> usize {
    // SAFETY: asks where the heap ends, and moves nothing.
    unsafe { libc::sbrk(0) as usize }
}

/// Other allocators are left to themselves.
#[cfg(not(target_env = "gnu"))]
pub fn prepare() {}

/// Neither is what they take.
#[cfg(not(target_env = "gnu"))]
pub fn advise() {}
