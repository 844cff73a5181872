//! Jumps, calls and returns of an inlined body, and of the call that it is inlined behind.

use crate::translator::code_cache::block::{CompareImmediate, ReturnPoint};
use crate::translator::translate::arrival::Arrival;
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::returns::{CALL_TABLE, call_looked_up_in, unless_equal};
use crate::translator::translate::superblock::{PendingBucket, Superblock};
use crate::x86_64::compare::Comparison;
use crate::x86_64::emit::{Code, RSP};
use rprof_tracee::address::{Address, CacheAddress};

/// Offset of the tag in a landing.
pub(crate) fn tag_in_landing(next: Address) -> u64 {
    let mut landing = Code::new(CacheAddress::new(0));
    unless_equal(&mut landing, next, Arrival::Return).tag.0.get()
}

impl Writer<'_> {
    /// Links the rel32 at `patch` to `target`, which may be in the same inlined body.
    pub(crate) fn lead(&mut self, patch: CacheAddress, target: Address) {
        match &mut self.unit.copy {
            Some(copy) => copy.jumps.push((patch, target)),
            None => _ = self.exit(patch, target),
        }
    }

    /// Writes a call of the address in RDX, which is not the inlined callee, and its landing to the cold part. The hot part
    /// continues with the call at `call`, behind the push.
    pub(crate) fn call_aside(&mut self, call: CacheAddress) {
        let next = self.block.next();
        let cold = &mut self.unit.cold;
        cold.pad_for(&[Self::lookup_length() + CALL_TABLE + tag_in_landing(next)]);
        call_looked_up_in(cold, self.unit.version);
        let (tag, patch) = self.unit.land_in_cold(next);
        let from = self.call_of_block();
        // Another block with the same call cannot continue here.
        self.landing_aside = Some((ReturnPoint { from, call, own: true, tag }, patch));
    }

    /// Writes the return of an inlined body; returns the address at which the chain continues.
    pub(crate) fn return_from_copy(&mut self, next: Address) -> Option<Address> {
        self.unit.hot.add_small(RSP, 8);
        Some(next)
    }
}

impl Superblock {
    /// Writes a landing for returns to `next` at the end of the cold part. Returns its comparison's tag, and the rel32 of the
    /// jump behind the call.
    pub(crate) fn land_in_cold(&mut self, next: Address) -> (CompareImmediate, CacheAddress) {
        let head = self.cold.here();
        let Comparison { tag, other } = unless_equal(&mut self.cold, next, Arrival::Return);
        self.heads.push(PendingBucket { arrival: Arrival::Return, at: next, head, other });
        let here = self.cold.here();
        (tag, self.cold.jump(here))
    }
}
