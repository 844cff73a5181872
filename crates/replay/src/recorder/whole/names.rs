//! Names of code addresses, in the order in which a run meets them: predictors that hash them predict alike wherever the code lies.

use std::collections::HashMap;

/// The distance of two names: predictors leave out the lowest bits of addresses.
const STEP: u64 = 16;

/// The names so far. Processes share them: equal addresses have equal names.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<u64, u64>,
}

impl Names {
    /// The name of `address`.
    pub(super) fn name(&mut self, address: u64) -> u64 {
        let next = (self.known.len() as u64 + 1) * STEP;
        *self.known.entry(address).or_insert(next)
    }
}
