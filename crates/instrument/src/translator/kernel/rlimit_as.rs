//! Limits on address space that the program sets or reads itself (`setrlimit`, `getrlimit`, `prlimit64`): rprof's mappings in it
//! are large and must not count.

use libc::{RLIM_INFINITY, RLIMIT_AS, rlimit};
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::translator::code_cache::arena::ARENA;
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Bytes for further code, because rprof cannot raise a hard limit later.
const MORE_CODE: u64 = 16 * ARENA;

/// The amount by which the kernel's limits exceed those that a process sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

impl Allowance {
    /// The allowance for `ours` bytes of mappings.
    pub(crate) fn of(ours: u64) -> Self {
        Allowance { soft: ours, hard: ours + MORE_CODE }
    }

    /// The allowance if the kernel's limit is `above` and the program's is `limit`.
    pub(crate) fn between(limit: rlimit, above: rlimit) -> Self {
        let more = |above: u64, limit: u64| if limit == RLIM_INFINITY { 0 } else { above.saturating_sub(limit) };
        Allowance { soft: more(above.rlim_cur, limit.rlim_cur), hard: more(above.rlim_max, limit.rlim_max) }
    }

    /// The kernel's limit for the program's `limit`.
    pub(crate) fn above(self, limit: rlimit) -> rlimit {
        let add = |limit: u64, more: u64| if limit == RLIM_INFINITY { limit } else { limit.saturating_add(more) };
        rlimit { rlim_cur: add(limit.rlim_cur, self.soft), rlim_max: add(limit.rlim_max, self.hard) }
    }

    /// The program's limit for the kernel's `limit`.
    pub(crate) fn below(self, limit: rlimit) -> rlimit {
        let subtract = |limit: u64, more: u64| if limit == RLIM_INFINITY { limit } else { limit.saturating_sub(more) };
        rlimit { rlim_cur: subtract(limit.rlim_cur, self.soft), rlim_max: subtract(limit.rlim_max, self.hard) }
    }
}

/// The kernel's limit on the address space of `pid`.
pub fn limit_of(pid: Pid) -> Result<rlimit, Errno> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills a live variable.
    Errno::result(unsafe { libc::prlimit(pid.as_raw(), RLIMIT_AS, std::ptr::null(), &raw mut limit) }).map(|_| limit)
}

/// Sets the kernel's limit on the address space of `pid`.
pub(crate) fn set_limit(pid: Pid, limit: rlimit) -> Result<(), Errno> {
    // SAFETY: the kernel reads a live variable.
    Errno::result(unsafe { libc::prlimit(pid.as_raw(), RLIMIT_AS, &raw const limit, std::ptr::null_mut()) }).map(drop)
}

/// Sets `limit`, or the current hard limit if rprof may not raise it that far; returns the limit that was set.
pub(crate) fn set_at_most(pid: Pid, limit: rlimit) -> Result<rlimit, Errno> {
    match set_limit(pid, limit) {
        Err(Errno::EPERM) => {
            let most = limit_of(pid)?.rlim_max;
            let limit = rlimit { rlim_cur: limit.rlim_cur.min(most), rlim_max: limit.rlim_max.min(most) };
            set_limit(pid, limit).map(|()| limit)
        }
        result => result.map(|()| limit),
    }
}

/// Reads a limit of the program.
pub(crate) fn read(memory: &Memory, at: Address) -> Result<rlimit, Errno> {
    let word = |at| memory.read_u64(at).map_err(|_| Errno::EFAULT);
    Ok(rlimit { rlim_cur: word(at)?, rlim_max: word(at + 8)? })
}

/// Writes a limit for the program.
pub(crate) fn write(memory: &Memory, at: Address, limit: rlimit) -> Result<(), Errno> {
    let bytes: Vec<u8> = [limit.rlim_cur, limit.rlim_max].iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(at, &bytes).map_err(|_| Errno::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_not_seen() {
        let allowance = Allowance::of(128 << 30);
        let pair = |l: rlimit| (l.rlim_cur, l.rlim_max);
        for (soft, hard) in [(1 << 30, 2 << 30), (0, 0), (1 << 30, RLIM_INFINITY), (RLIM_INFINITY, RLIM_INFINITY)] {
            let meant = rlimit { rlim_cur: soft, rlim_max: hard };
            let above = allowance.above(meant);
            assert!(above.rlim_cur <= above.rlim_max, "the kernel would refuse it");
            assert_eq!(pair(allowance.below(above)), (soft, hard));
        }
        assert_eq!(pair(Allowance::default().below(rlimit { rlim_cur: 5, rlim_max: 7 })), (5, 7));
    }
}
