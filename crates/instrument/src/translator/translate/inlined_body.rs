//! The body of a leaf that was inlined behind a call.

use crate::translator::code_cache::block::BlockId;
use rprof_tracee::address::{Address, CacheAddress};

/// An inlined body: the hot blocks of a callee in place of a call.
pub(crate) struct InlinedBody {
    /// The call, and the block that ends in it.
    pub(crate) call: Address,
    pub(crate) caller: BlockId,
    /// The return address.
    pub(crate) next: Address,
    /// Start in the cache of the code at the return address.
    pub(crate) behind: CacheAddress,
    /// Entries of the body's blocks.
    pub(crate) entries: Vec<(Address, CacheAddress)>,
    /// Rel32s to fill in, and their targets.
    pub(crate) jumps: Vec<(CacheAddress, Address)>,
    /// There is a landing for returns to it.
    pub(crate) lands: bool,
}

impl InlinedBody {
    /// Records that the block at `start` is entered at `entry`.
    pub(crate) fn enter(&mut self, start: Address, entry: CacheAddress) {
        self.entries.push((start, entry));
    }
}
