//! Memory for emitted code. It is never writable and executable at once.

use std::io;
use std::ptr;

use super::Arguments;
use crate::error::MachineError;

/// A mapped function of the form `extern "sysv64" fn(iterations, *mut Arguments)`.
#[derive(Debug)]
pub struct Executable {
    base: *mut libc::c_void,
    mapped: usize,
    length: usize,
}

// SAFETY: the mapping is never written after `new`, and it is unmapped only when the last owner drops it.
unsafe impl Send for Executable {}
// SAFETY: as above; concurrent execution of read-only code is sound.
unsafe impl Sync for Executable {}

impl Executable {
    /// Maps `code`: first writable, then executable.
    ///
    /// # Errors
    /// [`MachineError::Executable`] if the kernel refuses either.
    pub fn new(code: &[u8]) -> Result<Self, MachineError> {
        let mapped = code.len().max(1).next_multiple_of(4096);
        let refused = || MachineError::Executable { bytes: mapped, source: io::Error::last_os_error() };
        // SAFETY: a fresh private anonymous mapping; no existing memory is touched.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(refused());
        }
        let executable = Executable { base, mapped, length: code.len() };
        // SAFETY: the mapping is writable, at least code.len() long, and no other code knows it yet.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), base.cast(), code.len()) };
        // SAFETY: changes the protection of our own mapping only.
        if unsafe { libc::mprotect(base, mapped, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(refused());
        }
        Ok(executable)
    }

    /// The code.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable for `length` bytes as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.length) }
    }

    /// Calls it.
    ///
    /// # Safety
    /// The bytes must be a function of the form above, and `arguments` must cover its accesses.
    pub unsafe fn call(&self, iterations: u64, arguments: &mut Arguments) {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: the mapping is executable and holds such a function, says the caller.
            let function: extern "sysv64" fn(u64, *mut Arguments) = unsafe { std::mem::transmute(self.base) };
            function(iterations, arguments);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (iterations, arguments);
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `new`; no caller can still run it, since running borrows `self`.
        unsafe { libc::munmap(self.base, self.mapped) };
    }
}
