//! Parts of a slab that a kernel walks one after the other.
//!
//! A stream from DRAM must find none of its lines in a cache. Walking all of a buffer of several times the last cache in every repetition
//! ensures that, at the price of a tenth of a second each if that cache has half a GiB. Walking one part of it, and the next part in the
//! next repetition, ensures it as well: the kernel meets a line again only after all the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kernels::{Arguments, Kernel};

/// Parts of one size, side by side from the arrays of a kernel's arguments on.
#[derive(Debug, Clone)]
pub struct Windows {
    /// Number of windows.
    pub count: u64,
    /// Bytes from one to the next.
    pub bytes: u64,
    /// Bytes between the accesses of the kernel. Each round begins a line further, modulo this number, so that in the end the kernel meets
    /// every line.
    pub stride: u64,
    /// Windows that were walked in this slab.
    pub walked: Arc<AtomicU64>,
}

/// Bytes of a cache line.
const LINE: u64 = 64;

impl Windows {
    /// Bytes from the first window to the one at `step`.
    fn offset(&self, step: u64) -> u64 {
        let shift = (step / self.count * LINE) % self.stride.max(LINE);
        step % self.count * self.bytes + shift
    }
}

/// Runs `iterations` of `kernel`, on the arrays of `arguments` or each on the next window from `step` on. Returns the step after the last
/// one.
///
/// # Safety
/// As [`Kernel::call`], for each of the windows.
pub unsafe fn walk(
    kernel: &Kernel,
    iterations: u64,
    arguments: &mut Arguments,
    windows: Option<&Windows>,
    step: u64,
) -> u64 {
    let Some(windows) = windows else {
        // SAFETY: the caller's.
        unsafe { kernel.call(iterations, arguments) };
        return step;
    };
    let first = arguments.pointers;
    for step in step..step + iterations {
        let offset = windows.offset(step);
        arguments.pointers = first.map(|pointer| pointer + offset);
        // SAFETY: the caller's.
        unsafe { kernel.call(1, arguments) };
    }
    arguments.pointers = first;
    step + iterations
}

/// The step that the next walk begins with.
pub fn next(windows: Option<&Windows>) -> u64 {
    windows.map_or(0, |w| w.walked.load(Ordering::Relaxed))
}

/// Notes the end of the last walk.
pub fn note(windows: Option<&Windows>, step: u64) {
    if let Some(windows) = windows {
        windows.walked.store(step, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_is_walked_before_one_is_walked_again() {
        let windows = Windows { count: 3, bytes: 4096, stride: 8, walked: Arc::default() };
        assert_eq!([0, 1, 2, 3, 7].map(|step| windows.offset(step)), [0, 4096, 8192, 0, 4096]);
        let strided = Windows { stride: 128, ..windows };
        assert_eq!(
            [2, 3, 5, 6].map(|step| strided.offset(step)),
            [8192, 64, 8192 + 64, 0],
            "a line further each round"
        );
    }
}
