//! Loads behind a mispredicted branch that are issued before it is resolved.

use crate::profile::evidence::bursts::Burst;

use super::Core;

impl Core<'_> {
    /// Between `dispatched` and `resolved` instructions behind the branch at the end of `step` were executed in vain.
    pub(super) fn wrong_path(&mut self, burst: &Burst, step: usize, dispatched: u32, resolved: u32) {
        let _ = (burst, step, dispatched, resolved);
    }
}
