//! Loads behind a mispredicted branch that are issued before it is resolved.
//!
//! Until then the core executes the wrong side of the branch, and then the code behind the meeting point of both sides. The right path
//! executes the loads of that code again. If their addresses do not depend on either side, it finds their lines on the way. Without these
//! loads the model would serialise independent memory look-ups with a branch in between.

use crate::op::{NO_FORM, NONE, kind};
use crate::parameters::PER_CYCLE;
use crate::paths::written;
use rprof_profile::evidence::bursts::{Burst, Found, Prediction};

use super::{Core, TO_ISSUE};

/// Accesses behind the branch among which one must miss for the rest to be worth doing.
const LOOKED_AT: usize = 200;
/// Blocks of the right side that are followed at most.
const LONGEST_SIDE: usize = 64;

impl Core<'_> {
    /// Between `dispatched` and `resolved` instructions behind the branch at the end of `step` were executed in vain.
    pub(super) fn wrong_path(&mut self, burst: &Burst, step: usize, dispatched: u32, resolved: u32) {
        let room = u64::from(resolved.saturating_sub(dispatched)) * u64::from(self.core.width);
        let room = room.min(u64::from(self.core.reorder)) as u32;
        let Some(next) = burst.steps.get(step + 1) else { return };
        let first = next.first_access as usize;
        let ahead = &burst.accesses[first..(first + LOOKED_AT).min(burst.accesses.len())];
        if room == 0 || ahead.iter().all(|access| access.found == Found::L1) {
            return;
        }
        let block = burst.steps[step].block;
        let (Some(meet), Some(side)) = (self.code.paths.meet(block), self.code.paths.other_side(block, next.block))
        else {
            return;
        };
        let program = &self.code.program;
        let mut unknown = side.writes;
        let from = step + 1;
        let mut at = from;
        let mut depth = 0i32;
        while let Some(step) = burst.steps.get(at).filter(|next| next.block != meet || depth != 0) {
            let ops = program.block(step.block).1;
            ops.iter().for_each(|op| unknown |= written(&op.writes));
            if let Some(last) = ops.last() {
                depth += i32::from(last.is(kind::CALL)) - i32::from(last.is(kind::RETURN));
            }
            at += 1;
            if at > from + LONGEST_SIDE || depth < 0 {
                return;
            }
        }
        self.speculate(burst, at, unknown, side.slots, room, dispatched);
    }

    /// Executes `burst` from its `at`th step on with registers of which some are `unknown`, from slot `slots` up to slot `room`.
    fn speculate(&mut self, burst: &Burst, at: usize, mut unknown: u128, mut slots: u32, room: u32, dispatched: u32) {
        let program = &self.code.program;
        let mut times = self.registers.map(|register| register.time);
        for (n, step) in burst.steps.iter().enumerate().skip(at) {
            let mut access = step.first_access as usize;
            for op in program.block(step.block).1 {
                slots += u32::from(op.slots);
                if slots >= room {
                    return;
                }
                let mut ready = dispatched + TO_ISSUE + slots / self.core.width;
                let inputs = |list: &[u8]| {
                    let known = list.iter().filter(|&&register| register != NONE);
                    known.map(|&register| times[register as usize]).max().unwrap_or(0)
                };
                let mut depends = written(&op.data) & unknown != 0;
                let data = inputs(&op.data);
                while burst.accesses.get(access).is_some_and(|a| a.access.offset < op.offset)
                    && access_is_of(burst, n, access)
                {
                    access += 1;
                }
                if op.is(kind::LOAD) {
                    let address = inputs(&op.address).max(ready);
                    let known = written(&op.address) & unknown == 0;
                    depends |= !known;
                    while access_is_of(burst, n, access) && burst.accesses[access].access.offset == op.offset {
                        if known && !op.is(kind::STORE | kind::STRING) {
                            let l1 = self.core.l1[op.data_width as usize];
                            let arrives =
                                self.memory.early(&burst.accesses[access], op.site, access as u32, address, l1);
                            ready = ready.max(arrives);
                        }
                        access += 1;
                    }
                } else if !op.is(kind::STORE) {
                    ready = ready.max(inputs(&op.address));
                }
                let latency = match op.form {
                    NO_FORM => 0,
                    form => u32::from(self.core.forms[form as usize].latency / PER_CYCLE),
                };
                let done = if op.is(kind::CLEARS) { ready } else { ready.max(data) + latency };
                let writes = written(&op.writes);
                if depends && !op.is(kind::CLEARS) {
                    unknown |= writes;
                } else {
                    unknown &= !writes;
                    for &register in op.writes.iter().take_while(|&&register| register != NONE) {
                        times[register as usize] = done;
                    }
                }
            }
            if step.branch != Prediction::Right {
                return;
            }
        }
    }
}

fn access_is_of(burst: &Burst, step: usize, access: usize) -> bool {
    let end = burst.steps.get(step + 1).map_or(burst.accesses.len(), |next| next.first_access as usize);
    access < end
}
