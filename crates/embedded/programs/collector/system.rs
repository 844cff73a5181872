//! The functions of the C library that the collector uses, memory, and a lock.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    pub fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    pub fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    pub fn read(fd: c_int, to: *mut u8, length: usize) -> isize;
    pub fn write(fd: c_int, from: *const u8, length: usize) -> isize;
    pub fn getpid() -> c_int;
    pub fn sched_yield() -> c_int;
    fn strlen(text: *const c_char) -> usize;
    pub fn __cxa_atexit(f: unsafe extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
    fn getenv(name: *const c_char) -> *const c_char;
    fn mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn clock_gettime(clock: c_int, to: *mut [i64; 2]) -> c_int;
}

/// O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC.
pub const NEW_FILE: c_int = 0o2_000_301;
/// O_WRONLY | O_APPEND | O_CLOEXEC.
pub const APPEND: c_int = 0o2_002_001;
/// O_RDONLY | O_CLOEXEC.
pub const READ_ONLY: c_int = 0o2_000_000;
pub const CLOCK_REALTIME: c_int = 0;
pub const CLOCK_MONOTONIC: c_int = 1;

/// The environment variable `name`, or null if it is unset or empty.
pub unsafe fn variable(name: &CStr) -> *const c_char {
    unsafe {
        let value = getenv(name.as_ptr());
        if value.is_null() || *value == 0 { core::ptr::null() } else { value }
    }
}

/// The bytes of a C string.
pub unsafe fn text<'a>(at: *const c_char) -> &'a [u8] {
    unsafe { core::slice::from_raw_parts(at.cast(), strlen(at)) }
}

/// `length` bytes of zeroed memory, or null.
pub unsafe fn memory(length: usize) -> *mut u8 {
    let (read_write, private_anonymous) = (3, 0x22);
    let at = unsafe { mmap(core::ptr::null_mut(), length, read_write, private_anonymous, -1, 0) };
    if at as isize == -1 { core::ptr::null_mut() } else { at.cast() }
}

/// Gives memory back.
pub unsafe fn give_back(at: *mut u8, length: usize) {
    unsafe { munmap(at.cast(), length) };
}

/// Nanoseconds of a clock.
pub unsafe fn now(clock: c_int) -> u64 {
    let mut t = [0i64; 2];
    unsafe { clock_gettime(clock, &mut t) };
    t[0] as u64 * 1_000_000_000 + t[1] as u64
}

/// A hash of bytes (FNV-1a).
pub fn hash(bytes: &[u8], seed: u64) -> u64 {
    bytes.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// State behind a spin lock.
pub struct Locked<T> {
    /// The thread that holds the lock, or 0.
    owner: AtomicUsize,
    state: UnsafeCell<T>,
}

unsafe impl<T> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub const fn new(state: T) -> Self {
        Locked { owner: AtomicUsize::new(0), state: UnsafeCell::new(state) }
    }

    /// Runs `f` on the state while no other thread does. `None` if this thread holds the lock already: CUPTI called back from within.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let me = thread();
        if self.owner.load(Ordering::Relaxed) == me {
            return None;
        }
        while self.owner.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            unsafe { sched_yield() };
        }
        let result = f(unsafe { &mut *self.state.get() });
        self.owner.store(0, Ordering::Release);
        Some(result)
    }
}

/// A turn that one thread has at a time, from one callback to a later one.
pub struct Turn(AtomicUsize);

impl Turn {
    pub const fn new() -> Self {
        Turn(AtomicUsize::new(0))
    }

    /// Waits for the turn; false if this thread has it already.
    pub unsafe fn take(&self) -> bool {
        loop {
            match self.0.compare_exchange_weak(0, thread(), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(owner) if owner == thread() => return false,
                Err(_) => unsafe { sched_yield() },
            };
        }
    }

    /// The same, but not for ever: whether it was taken now, and whether this thread has it.
    pub unsafe fn take_soon(&self) -> (bool, bool) {
        for _ in 0..100_000 {
            match self.0.compare_exchange(0, thread(), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return (true, true),
                Err(owner) if owner == thread() => return (false, true),
                Err(_) => unsafe { sched_yield() },
            };
        }
        (false, false)
    }

    pub fn is_mine(&self) -> bool {
        self.0.load(Ordering::Relaxed) == thread()
    }

    pub fn give(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A number that no other thread of the process has: its thread pointer.
fn thread() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}
