//! The translator's own heap. What is noted of blocks comes to tens of megabytes within tenths of a second where a program
//! with much code starts, and the program waits meanwhile. Taking that memory page by page, and giving pieces back only
//! to take them again, was a seventh of the translator's time (import of numpy, guest on Zen 5).

/// Bytes that the heap grows by at once. They are addresses only until they are used.
#[cfg(target_env = "gnu")]
const GROWTH: usize = 64 << 20;

/// From here on the heap keeps what it was given, and is in huge pages where the kernel allows that.
#[cfg(target_env = "gnu")]
pub fn prepare() {
    // SAFETY: sets parameters of the allocator; it refuses what it does not know.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, (GROWTH / 2) as i32);
        libc::mallopt(libc::M_TOP_PAD, GROWTH as i32);
    }
    let top = || {
        // SAFETY: asks where the heap ends, and moves nothing.
        unsafe { libc::sbrk(0) as usize }
    };
    let before = top();
    // More than can be free in it.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(GROWTH / 4)));
    let after = top();
    if after > before {
        let start = before.next_multiple_of(super::huge::HUGE as usize);
        // SAFETY: advice about memory of the heap, whose content it leaves alone; a kernel that cannot follow it says so.
        unsafe { libc::madvise(start as *mut _, after.saturating_sub(start), libc::MADV_HUGEPAGE) };
    }
}

/// Other allocators are left to themselves.
#[cfg(not(target_env = "gnu"))]
pub fn prepare() {}
