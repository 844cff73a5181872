//! Inline caches for the usual targets of indirect jumps and calls. Most hot ones nearly always go to one target (those of the
//! PLT, and in an interpreter those between the instructions of a loop). Until relayout, their blocks record the last target;
//! after relayout, they reach the usual target by a comparison of their own, without a lookup.
//!
//! ```text
//!  first place:  RDX = target; slot = RDX; look RDX up
//!  later:        RDX = target; RDX = usual? ─no─▶ cold: look RDX up
//!                registers back; the block there, or its call
//! ```

use iced_x86::{OpKind, Register};

use crate::translator::code_cache::block::SpillState;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::plan::InlineCache;
use crate::translator::translate::returns::{Callee, call_looked_up_in};
use crate::translator::translate::terminators::look_up_in;
use crate::x86_64::compare::can_undo;
use crate::x86_64::emit::{Gpr, RCX, RDX, relative};
use crate::x86_64::liveness::Dead;
use crate::x86_64::rewrite::{NoRule, gpr};
use rprof_tracee::address::{Address, CacheAddress};

/// The state of a jump or a call while its target is compared.
#[derive(Debug, Clone, Copy)]
struct Held {
    place: Place,
    /// The block is not counted yet, but will be behind the comparison, with these flags dead.
    counts_later: Option<Dead>,
}

impl Held {
    /// The program's registers that are elsewhere.
    fn moved(self) -> SpillState {
        if self.place == Place::Rdx { SpillState::RcxAndRdx } else { SpillState::Rcx }
    }
}

/// The target's place when it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the program's own register.
    In(Gpr),
    /// Loaded into RCX alone: this avoids a dependency chain through saves and reloads of RDX from jump to jump.
    Rcx,
    /// In RDX, with RCX to compare it.
    Rdx,
}

impl Writer<'_> {
    /// Records RDX, the target, if the block may still be relaid out.
    pub(crate) fn note_target(&mut self) {
        if self.unit.version != Version::Plain || self.unit.places > 0 {
            return;
        }
        let start = self.block.start;
        let slot = match self.cache.usual.slot(start) {
            Some(slot) => slot,
            None => {
                // Without a slot, the jump records no target.
                let Some(slot) = self.cache.new_slot() else { return };
                self.cache.usual.record_in(start, slot);
                slot
            }
        };
        self.unit.hot.save(layout::counter(slot), RDX);
    }

    /// Writes the indirect jump, which usually goes to `usual`; returns the address at which the chain continues.
    pub(crate) fn jump_to_usual(&mut self, usual: InlineCache, counted: bool) -> Result<Option<Address>, NoRule> {
        let held = self.hold_target(usual, counted)?;
        let other = self.unless_usual(usual, held);
        self.load_rcx_unless_parked();
        self.go_elsewhere(held, usual.at, other);
        // Leaving an inlined body goes through a call.
        let go = if self.unit.copy.is_some() { call_looked_up_in } else { look_up_in };
        go(&mut self.unit.cold, self.unit.version);
        Ok(Some(usual.at))
    }

    /// Whether the indirect call compares its usual target: not if instruction fetch is the bottleneck, and not if another
    /// block that ends in the same call executes it.
    pub(crate) fn calls_directly(&self) -> bool {
        !self.cache.is_to_be_short() && !self.is_called_elsewhere()
    }

    /// Writes the indirect call with the usual target `usual`; returns the address at which the chain continues.
    pub(crate) fn call_usual(&mut self, usual: InlineCache, counted: bool) -> Result<Option<Address>, NoRule> {
        let next = self.block.next();
        let held = self.hold_target(usual, counted)?;
        self.point(self.last_offset(), held.moved());
        // The push comes here, with the program's registers known.
        self.push_next();
        let call = self.unit.hot.here();
        let other = self.unless_usual(usual, held);
        self.unit.hot.load(RCX, layout::SAVE_RCX);
        if self.plan.copies_callee {
            self.go_elsewhere(held, usual.at, other);
            self.call_aside(call);
            return Ok(Some(next));
        }
        self.align_call(0, Callee::At(usual.at), next);
        self.call_at(usual.at);
        let landing = self.land_at(next, call, true);
        self.go_elsewhere(held, usual.at, other);
        call_looked_up_in(&mut self.unit.cold, self.unit.version);
        // No return reaches this jump.
        self.unit.cold.jump(landing);
        Ok(Some(next))
    }

    /// Brings the target to a place where it can be compared.
    fn hold_target(&mut self, usual: InlineCache, counted: bool) -> Result<Held, NoRule> {
        // If flags are dead, a counter costs less.
        let counts_later = Some(usual.dead).filter(|&dead| !counted && dead != Dead::None);
        let counted = counted || counts_later.is_some();
        let place = match self.target_register() {
            Some(register) => Place::In(register),
            // Counting before the comparison needs RCX.
            None if counted && can_undo(usual.at.get()) => Place::Rcx,
            None => Place::Rdx,
        };
        match place {
            Place::In(_) => self.save_rcx(counted),
            Place::Rcx => {
                self.save_rcx(true);
                self.point(self.last_offset(), self.plain());
                self.load_target_into(Register::RCX)?;
            }
            Place::Rdx => {
                self.load_target()?;
                self.save_rcx(counted);
            }
        }
        Ok(Held { place, counts_later })
    }

    /// Writes a comparison of the target that falls through with all registers but RCX restored. Returns the rel32 of the jump
    /// for another target.
    fn unless_usual(&mut self, usual: InlineCache, held: Held) -> CacheAddress {
        let (hot, at) = (&mut self.unit.hot, usual.at.get());
        let other = match held.place {
            Place::In(register) => hot.unless_equal(register, at).other,
            Place::Rcx => hot.unless_rcx_is(at).other,
            Place::Rdx => hot.unless_equal(RDX, at).other,
        };
        if let Some(dead) = held.counts_later {
            hot.increment(layout::counter(self.slot), dead);
            self.counted_at = Some((hot.here() - self.entry) as u32);
        }
        if held.place == Place::Rdx {
            hot.load(RDX, layout::SAVE_RDX);
        }
        other
    }

    /// Writes to the cold part the path from the rel32 at `other` for all but the usual target, with the target in RDX.
    fn go_elsewhere(&mut self, held: Held, usual: Address, other: CacheAddress) {
        let cold = &mut self.unit.cold;
        let from = cold.here();
        self.unit.hot.set_word(other, relative(other, from));
        match held.place {
            Place::In(register) => {
                cold.save(layout::SAVE_RDX, RDX);
                cold.copy(RDX, register);
            }
            Place::Rcx => {
                cold.save(layout::SAVE_RDX, RDX);
                cold.rcx_that_differed(RDX, usual.get());
            }
            Place::Rdx => {}
        }
        if held.counts_later.is_some() {
            self.count_aside_with_rcx(self.slot, from);
        }
        if let Some(leave) = self.leave {
            self.count_aside_with_rcx(leave.slot, from);
        }
    }

    /// The register that holds the target, if it can be compared there.
    fn target_register(&self) -> Option<Gpr> {
        let instruction = self.block.steps.last()?.instruction;
        let register = (instruction.op0_kind() == OpKind::Register).then(|| instruction.op0_register());
        register.filter(|r| !matches!(r, Register::RCX | Register::RSP)).and_then(gpr)
    }
}
