//! How the kernel presents signals.

/// `si_code` of signals that the kernel raises itself: an `int3`, a signal with a frame that it cannot write.
pub(crate) const SI_KERNEL: i32 = 0x80;

/// Bit of a signal in a mask.
pub(crate) fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}
