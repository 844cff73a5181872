//! Whether two processes have one address space (`clone` with `CLONE_VM` but without `CLONE_THREAD`, `vfork`).

use nix::errno::Errno;
use nix::unistd::Pid;

/// `KCMP_VM`
const VM: libc::c_int = 1;

/// The answer for two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// They have one address space.
    Shared,
    /// Each has its own, or one of them is gone.
    Separate,
    /// The kernel does not report it.
    Unknown,
}

/// Compares the address spaces of two processes.
pub fn compare(one: Pid, other: Pid) -> Memory {
    // SAFETY: the call takes plain values.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one.as_raw(), other.as_raw(), VM, 0, 0) };
    match (result, Errno::last()) {
        (0, _) => Memory::Shared,
        (1.., _) | (_, Errno::ESRCH) => Memory::Separate,
        // A kernel without the call, or a filter.
        _ => Memory::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_shares_its_memory_with_itself_alone() {
        let own = Pid::this();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Pid::from_raw(child.id() as i32);
        let known = compare(own, own);
        let separate = compare(own, other);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(known, Memory::Shared | Memory::Unknown));
        assert!(matches!(separate, Memory::Separate | Memory::Unknown));
    }
}
