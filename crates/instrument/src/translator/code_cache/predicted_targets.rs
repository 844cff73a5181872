//! The usual targets of indirect jumps and calls, and the counters in which those record their last ones.

use crate::translator::code_cache::hash::AddressMap;
use rprof_tracee::address::Address;

/// The known targets of indirect jumps, by the start addresses of their blocks.
#[derive(Debug, Default)]
pub struct PredictedTargets {
    /// The slots in which they record their last targets.
    slots: AddressMap<u64, u32>,
    /// Their usual targets.
    targets: AddressMap<u64, Address>,
}

impl PredictedTargets {
    /// The usual target of the jump at the end of the block at `start`, if known.
    pub fn target(&self, start: Address) -> Option<Address> {
        self.targets.get(&start.get()).copied()
    }

    /// Forgets the targets of jumps in the changed text `from..to`.
    pub fn forget(&mut self, from: Address, to: Address) {
        self.targets.retain(|&at, _| at < from.get() || at >= to.get());
    }

    /// The counter in which the jump at the end of the block at `start` records its last target.
    pub fn slot(&self, start: Address) -> Option<u32> {
        self.slots.get(&start.get()).copied()
    }

    /// Jumps that record their last targets, by the starts of their blocks, and the counters for these.
    pub fn recorded(&self) -> impl Iterator<Item = (Address, u32)> + '_ {
        self.slots.iter().map(|(&start, &slot)| (Address::new(start), slot))
    }

    /// The jump at the end of the block at `start` records its last target in `slot` from now on.
    pub fn record_in(&mut self, start: Address, slot: u32) {
        self.slots.insert(start.get(), slot);
    }

    /// The jump at the end of the block at `start` usually goes to `target`.
    pub fn learn(&mut self, start: Address, target: Address) {
        self.targets.insert(start.get(), target);
    }
}
