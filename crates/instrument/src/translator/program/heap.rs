//! The translator's own heap. When a program with much code starts, the data about blocks grows to tens of megabytes within
//! tenths of a second, and the program waits meanwhile. Page-by-page growth, and returning memory only to take it again, took a
//! seventh of the translator's time (import of numpy, guest on Zen 5).

#[cfg(target_env = "gnu")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes by which the heap grows at once. They take no memory until they are used.
#[cfg(target_env = "gnu")]
const GROWTH: usize = 64 << 20;

/// Small pages, as `madvise` has them.
#[cfg(target_env = "gnu")]
const PAGE: usize = 4096;

/// End of the heap at the last call of [`advise`].
#[cfg(target_env = "gnu")]
static ADVISED: AtomicUsize = AtomicUsize::new(0);

/// Makes the heap keep its memory from now on, in huge pages if the kernel allows that.
#[cfg(target_env = "gnu")]
pub fn prepare() {
    // SAFETY: sets parameters of the allocator; it refuses unknown ones.
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

/// Requests huge pages for the memory that the heap has gained since the last call.
#[cfg(target_env = "gnu")]
pub fn advise() {
    let end = end();
    let before = ADVISED.swap(end, Ordering::Relaxed);
    if end > before {
        // The page across the old end belongs to the new range, too.
        let start = before & !(PAGE - 1);
        // SAFETY: advice about memory of the heap that leaves the content alone; a kernel that cannot follow it returns
        // an error.
        unsafe { libc::madvise(start as *mut _, end.saturating_sub(start), libc::MADV_HUGEPAGE) };
    }
}

#[cfg(target_env = "gnu")]
fn end() -> usize {
    // SAFETY: queries the end of the heap, and moves nothing.
    unsafe { libc::sbrk(0) as usize }
}

/// Does nothing for other allocators.
#[cfg(not(target_env = "gnu"))]
pub fn prepare() {}

/// Does nothing for other allocators.
#[cfg(not(target_env = "gnu"))]
pub fn advise() {}
