//! Where indirect jumps and calls usually go. Most that are hot go to one place nearly always (those of the PLT, and in an
//! interpreter those between the instructions of a loop): while their blocks have their first place they note where they went
//! last, and when they are placed anew, they go to the usual target by a comparison of their own, without a lookup.
//!
//! ```text
//!  first place:  RDX = target; slot = RDX; look RDX up
//!  later:        RDX = target; RDX = usual? ─no─▶ cold: look RDX up
//!                registers back; the block there, or its call
//! ```

use std::time::Duration;

use iced_x86::{OpKind, Register};

use crate::instrument::translator::code_cache::block::Moved;
use crate::instrument::translator::code_cache::hash::AddressMap;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::version::Version;
use crate::instrument::translator::tracer::process::Process;
use crate::instrument::translator::translate::block_emitter::Writer;
use crate::instrument::translator::translate::returns::{Callee, call_looked_up_in};
use crate::instrument::translator::translate::terminators::look_up_in;
use crate::instrument::x86_64::compare::can_undo;
use crate::instrument::x86_64::emit::{Gpr, RCX, RDX, relative};
use crate::instrument::x86_64::liveness::Dead;
use crate::instrument::x86_64::rewrite::{NoRule, gpr};
use crate::tracee::address::{Address, CacheAddress};

/// How often it is looked where a jump went last, and with how long a pause: no whole number of a loop's passes.
const LOOKS: u32 = 8;
const PAUSE: Duration = Duration::from_micros(30);

/// Where the jump at the end of a block usually goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsualTarget {
    pub(crate) at: Address,
    /// The flags that are not needed there.
    pub(crate) dead: Dead,
}

/// How a jump or a call stands while its target is compared.
#[derive(Debug, Clone, Copy)]
struct Held {
    place: Place,
    /// The block is not counted yet, but will be behind the comparison, where these flags are not needed.
    counts_later: Option<Dead>,
}

impl Held {
    /// What of the program stands elsewhere.
    fn moved(self) -> Moved {
        if self.place == Place::Rdx { Moved::RcxAndRdx } else { Moved::Rcx }
    }
}

/// Where the target is when it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the register that the program has it in.
    In(Gpr),
    /// In RCX alone, loaded: what waits for RDX, saved and loaded again jump after jump, need not wait here.
    Rcx,
    /// In RDX, with RCX to compare it.
    Rdx,
}

/// What is known of the targets of indirect jumps, by the beginnings of their blocks.
#[derive(Debug, Default)]
pub struct Usual {
    /// The slots in which they note where they went last.
    slots: AddressMap<u64, u32>,
    /// Where they usually go.
    targets: AddressMap<u64, Address>,
}

impl Usual {
    /// Where the jump at the end of the block at `start` usually goes, if it is known.
    pub fn target(&self, start: Address) -> Option<Address> {
        self.targets.get(&start.get()).copied()
    }

    /// The text from `from` to `to` is another one.
    pub fn forget(&mut self, from: Address, to: Address) {
        self.targets.retain(|&at, _| at < from.get() || at >= to.get());
    }
}

/// The address that three quarters of `seen` are.
fn usual(seen: &[u64]) -> Option<Address> {
    let most = seen.iter().copied().max_by_key(|at| seen.iter().filter(|s| *s == at).count())?;
    let times = seen.iter().filter(|s| **s == most).count();
    (times * 4 >= seen.len() * 3).then(|| Address::new(most))
}

impl Process {
    /// Looks where the jumps at the ends of the blocks at `starts` go in the threads of `regions`.
    pub(crate) fn look_where_jumps_go(&mut self, starts: &[Address], regions: &[u32]) {
        let mut space = self.image.space.borrow_mut();
        let all = self.image.regions.borrow();
        let slots: Vec<(Address, u32)> =
            starts.iter().filter_map(|at| Some((*at, *space.usual.slots.get(&at.get())?))).collect();
        if slots.is_empty() {
            return;
        }
        let mut seen: Vec<Vec<u64>> = vec![Vec::new(); slots.len()];
        for _ in 0..LOOKS {
            for (seen, (_, slot)) in seen.iter_mut().zip(&slots) {
                let targets = regions.iter().map(|&region| all.get(region, layout::counter(*slot)));
                seen.extend(targets.filter(|&at| at != 0));
            }
            std::thread::sleep(PAUSE);
        }
        for ((start, _), seen) in slots.iter().zip(&seen) {
            if let Some(target) = usual(seen).filter(|at| space.find(Version::Plain, *at).is_some()) {
                space.usual.targets.insert(start.get(), target);
            }
        }
    }
}

impl Writer<'_> {
    /// Notes RDX, the target, if the block is not in its last place and is going to have one.
    pub(crate) fn note_target(&mut self) {
        if self.unit.version != Version::Plain || self.unit.places > 0 {
            return;
        }
        let start = self.block.start.get();
        let slot = match self.space.usual.slots.get(&start) {
            Some(&slot) => slot,
            None => {
                // Without a slot nothing is noted.
                let Some(slot) = self.space.new_slot() else { return };
                self.space.usual.slots.insert(start, slot);
                slot
            }
        };
        self.unit.hot.save(layout::counter(slot), RDX);
    }

    /// The indirect jump, which usually goes to `usual`; returns the address that the chain goes on with.
    pub(crate) fn jump_to_usual(&mut self, usual: UsualTarget, counted: bool) -> Result<Option<Address>, NoRule> {
        let held = self.hold_target(usual, counted)?;
        let other = self.unless_usual(usual, held);
        self.load_rcx_unless_parked();
        self.go_elsewhere(held, usual.at, other);
        // Whoever leaves a copy calls what he goes to.
        let go = if self.unit.copy.is_some() { call_looked_up_in } else { look_up_in };
        go(&mut self.unit.cold, self.space.tables_at(), self.unit.version);
        Ok(Some(usual.at))
    }

    /// Whether the indirect call is to compare its usual target. Not where code is the bottleneck, and not in another place than
    /// other blocks that end in it.
    pub(crate) fn calls_directly(&self) -> bool {
        !self.space.is_to_be_short() && !self.is_called_elsewhere()
    }

    /// The indirect call of what is usually at `usual`; returns the address that the chain goes on with.
    pub(crate) fn call_usual(&mut self, usual: UsualTarget, counted: bool) -> Result<Option<Address>, NoRule> {
        let next = self.block.next();
        let held = self.hold_target(usual, counted)?;
        self.point(self.last_offset(), held.moved());
        // Here, where it is known what the program has in its registers.
        self.push_next();
        let call = self.unit.hot.here();
        let other = self.unless_usual(usual, held);
        self.unit.hot.load(RCX, layout::SAVE_RCX);
        if self.unit.copies_callee {
            self.go_elsewhere(held, usual.at, other);
            self.call_aside(call);
            return Ok(Some(next));
        }
        self.align_call(0, Callee::At(usual.at), next);
        self.call_at(usual.at);
        let landing = self.land_at(next, call, true);
        self.go_elsewhere(held, usual.at, other);
        call_looked_up_in(&mut self.unit.cold, self.space.tables_at(), self.unit.version);
        // No return leads here.
        self.unit.cold.jump(landing);
        Ok(Some(next))
    }

    /// Gets the target to where it can be compared.
    fn hold_target(&mut self, usual: UsualTarget, counted: bool) -> Result<Held, NoRule> {
        // Where no flags are needed a counter costs less.
        let counts_later = Some(usual.dead).filter(|&dead| !counted && dead != Dead::None);
        let counted = counted || counts_later.is_some();
        let place = match self.target_register() {
            Some(register) => Place::In(register),
            // What counts before needs RCX.
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

    /// Compares it; goes on with everything but RCX where the program has it. Returns the rel32 that leads on where it is another one.
    fn unless_usual(&mut self, usual: UsualTarget, held: Held) -> CacheAddress {
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

    /// In the cold part: the way, from the rel32 at `other`, to where control does not go usually, with the target in RDX.
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

    /// The register that holds the target and can be compared where it is.
    fn target_register(&self) -> Option<Gpr> {
        let instruction = self.block.steps.last()?.instruction;
        let register = (instruction.op0_kind() == OpKind::Register).then(|| instruction.op0_register());
        register.filter(|r| !matches!(r, Register::RCX | Register::RSP)).and_then(gpr)
    }
}
