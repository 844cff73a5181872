//! Which boot of a kernel this is.

/// The identity of the running kernel's boot, which no other host has; `None` if the kernel does not say.
pub fn boot_id() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}
