//! Hot blocks without a counter in line: rprof computes their executions from the counter of the block before, which falls
//! through into them, and from counters on the edges in and out.
//!
//! ```text
//!  hot:   A, counted; jcc ─▶ leave       B, not counted …     cold:  leave: exits of A + 1; jmp to where it went
//!                                                                     side:  entries of B + 1; jmp B   ◀─ all others that go to B
//!  executions of B = entries of B + executions of A − exits of A
//! ```
//!
//! A thread that is interrupted in B has not executed it: rprof then subtracts one from the counter of entries to B.

use crate::translator::code_cache::layout;
use crate::x86_64::decode::{Decoded, Terminator};
use crate::x86_64::emit::{Code, Gpr, RCX};
use crate::x86_64::liveness::Dead;
use rprof_tracee::address::{Address, CacheAddress};

/// A counted exit of a block, needed because the block behind has no counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExitCounter {
    /// Its counter.
    pub slot: u32,
    /// The flags that are dead at its target.
    pub dead: Dead,
}

/// Whether every execution of `block` either takes a counted exit or falls through to the next block in the chain. (The successor
/// of an indirect jump is its usual target.)
pub(crate) fn runs_on(block: &Decoded, usual: Option<Address>) -> bool {
    match block.end {
        Terminator::JumpIndirect => usual.is_some_and(|to| to != block.start),
        Terminator::Next | Terminator::Jump(_) => true,
        // A loop may be counted by its induction register.
        Terminator::Branch(..) => !block.repeats(),
        _ => false,
    }
}

/// Writes an increment at the end of `code` with the `dead` flags free and RCX in its slot if `rcx_spilled`; returns the
/// address at which the count is complete.
pub(crate) fn count(code: &mut Code, slot: u32, dead: Dead, rcx_spilled: bool) -> CacheAddress {
    let counter = layout::counter(slot);
    if dead != Dead::None {
        code.increment(counter, dead);
        return code.here();
    }
    if rcx_spilled {
        count_with(code, RCX, slot);
        return code.here();
    }
    code.save(layout::SAVE_LENT, RCX);
    count_with(code, RCX, slot);
    let counted = code.here();
    code.load(RCX, layout::SAVE_LENT);
    counted
}

/// Writes an increment that uses a free register.
pub(crate) fn count_with(code: &mut Code, free: Gpr, slot: u32) {
    let counter = layout::counter(slot);
    code.load(free, counter);
    code.add_small(free, 1);
    code.save(counter, free);
}
