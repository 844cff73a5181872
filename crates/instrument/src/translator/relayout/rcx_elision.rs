//! The places at which it pays to leave RCX in its slot ([`spilled_rcx`](crate::translator::translate::spilled_rcx)).

use iced_x86::InstructionInfoFactory;

use crate::translator::relayout::pettis_hansen::Placed;
use crate::translator::translate::spilled_rcx::use_in;
use crate::translator::translate::text_reader::Source;
use crate::x86_64::decode::{Decoded, Terminator};
use crate::x86_64::operands::is_dynamic;
use crate::x86_64::rewrite::Use;

/// Number of blocks searched for the next use of RCX.
const BLOCKS: usize = 8;

/// The use of RCX in a block.
enum RcxUse {
    /// The block, or code that follows it, needs it.
    Needed,
    /// It is overwritten, or saved again.
    Spared,
    /// It is neither used nor changed.
    Untouched,
}

fn fate(block: &Decoded, factory: &mut InstructionInfoFactory) -> RcxUse {
    if block.repeats() || block.steps.iter().any(|s| is_dynamic(&s.instruction)) {
        return RcxUse::Needed;
    }
    for i in 0..block.steps.len() {
        match use_in(block, i, factory) {
            Use::None => {}
            Use::Overwrites => return RcxUse::Spared,
            Use::Reads => return RcxUse::Needed,
        }
    }
    match block.end {
        Terminator::Return(_) | Terminator::JumpIndirect | Terminator::CallIndirect => RcxUse::Spared,
        Terminator::Next | Terminator::Jump(_) | Terminator::Branch(..) => RcxUse::Untouched,
        _ => RcxUse::Needed,
    }
}

/// Whether it pays to leave RCX in its slot for the first of `chain`.
pub(crate) fn pays(source: &mut Source<'_>, factory: &mut InstructionInfoFactory, chain: &[Placed]) -> bool {
    for placed in chain.iter().take(BLOCKS) {
        let Some(block) = source.block(placed.at) else { return false };
        match fate(&block, factory) {
            RcxUse::Needed => return false,
            RcxUse::Spared => return true,
            RcxUse::Untouched if !placed.next_flows => return false,
            RcxUse::Untouched => {}
        }
    }
    false
}

/// Whether the block behind `block` may begin with RCX in its slot, because `block` leaves it there.
pub(crate) fn may_leave(block: &Decoded) -> bool {
    matches!(block.end, Terminator::Call(_) | Terminator::CallIndirect | Terminator::JumpIndirect)
}
