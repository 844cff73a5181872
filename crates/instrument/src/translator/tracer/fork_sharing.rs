//! Forked processes share translations until one of them has different text at an address that the others have translated or
//! could translate, or needs another arena, which the others would not have. Then it gets a code cache of its own.
//!
//! ```text
//!  learns text ─▶ do relatives have other bytes there? ─▶ hold its threads ─▶ new tables, contexts, arenas
//!                                                              └▶ each goes on at its own program counter ◀┘
//! ```

use std::sync::Arc;

use nix::unistd::Pid;

use crate::translator::program::address_space::AddressSpace;
use crate::translator::tracer::program::Program;
use crate::translator::translate::text_ranges::Treatment;
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Bytes compared at once.
const PIECE: u64 = 1 << 16;

impl Program {
    /// Whether the new text of address space `space` at `from..to` differs from that of the processes that share its code cache.
    pub fn differs_from_relatives(&self, space: Pid, from: Address, to: Address, treatment: Treatment) -> bool {
        let Some(address_space) = self.address_spaces.get(&space) else { return false };
        if !address_space.image.is_shared() {
            return false;
        }
        let code = address_space.image.cache.borrow();
        if treatment != Treatment::Translate {
            return code.holds_blocks(from, to);
        }
        if code.foreign_block(&address_space.memory, from, to) {
            return true;
        }
        let shares = |other: &AddressSpace| Arc::ptr_eq(&other.image.cache, &address_space.image.cache);
        let mut relatives = self.address_spaces.iter().filter(|&(&id, other)| id != space && shares(other));
        relatives.any(|(_, relative)| {
            let mut overlapping = relative.text.iter().filter(|t| t.is_translated_in(from, to));
            overlapping.any(|t| differ(&address_space.memory, &relative.memory, t.start.max(from), t.end.min(to)))
        })
    }

    /// Whether other address spaces share the translations of that of `tid`.
    pub fn has_relatives(&self, tid: Pid) -> bool {
        self.thread_and_space(tid).is_ok_and(|(_, address_space)| address_space.image.is_shared())
    }
}

/// Whether two processes have different bytes at `from..to`.
fn differ(one: &Memory, other: &Memory, from: Address, to: Address) -> bool {
    let mut at = from;
    let (mut a, mut b) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    while at < to {
        let size = (to - at).min(PIECE) as usize;
        if one.read(at, &mut a[..size]).is_err() || other.read(at, &mut b[..size]).is_err() || a[..size] != b[..size] {
            return true;
        }
        at = at + size as u64;
    }
    false
}
