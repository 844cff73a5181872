//! The share of the program's address space that rprof takes: all that is useful, or a part of a limit.

use nix::unistd::Pid;

use crate::translator::code_cache::arena::{ARENA, LEAST};
use crate::translator::code_cache::layout;
use crate::translator::kernel::rlimit_as::limit_of;

/// Sizes of rprof's mappings in one program image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Contexts, and so threads at once.
    pub contexts: u64,
    /// Bytes of each arena.
    pub arena: u64,
}

impl Room {
    /// The budget in the address space of `pid`.
    pub fn of(pid: Pid) -> Room {
        // If the kernel does not report the limit, rprof assumes none.
        Room::within(limit_of(pid).map_or(libc::RLIM_INFINITY, |limit| limit.rlim_cur))
    }

    /// The budget within a limit: a quarter is for contexts. A thread with its stack and heap takes some 70 MiB itself, so there
    /// cannot be many more of them. Most programs have two arenas, and more when these are full.
    fn within(limit: u64) -> Room {
        let contexts = (limit / 4 / layout::CONTEXT).clamp(1, layout::CONTEXTS);
        let arena = 1 << (limit / 16).clamp(LEAST, ARENA).ilog2();
        Room { contexts, arena }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_the_program_more_than_half() {
        assert_eq!(Room::within(libc::RLIM_INFINITY), Room { contexts: layout::CONTEXTS, arena: ARENA });
        assert_eq!(Room::within(100_000 << 10), Room { contexts: 1, arena: LEAST });
        for limit in (27..46).map(|bits| 3_u64 << bits) {
            let Room { contexts, arena } = Room::within(limit);
            assert!(contexts * layout::CONTEXT + 2 * arena + layout::TABLES < limit / 2, "{limit:#x}");
            assert!(arena.is_power_of_two());
        }
    }
}
