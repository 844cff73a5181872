//! The targets that lookups of indirect jumps, calls and returns find, and the callees.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use crate::translator::code_cache::block::{BlockId, SiteId};
use crate::translator::code_cache::bucket_heads::BucketHeads;
use crate::translator::code_cache::hash::{AddressHasher, AddressMap};
use crate::translator::code_cache::version::{Place, Version};

/// The program's addresses that lookups find, and those of calls.
#[derive(Debug, Default)]
pub struct Lookups {
    /// The exits of addresses' entries for lookups of indirect jumps.
    pub(crate) entries: AddressMap<Place, SiteId>,
    /// The exits of addresses' entries for lookups of returns, except those of landings.
    pub(crate) return_entries: AddressMap<Place, SiteId>,
    /// The exits of addresses' entries for lookups of indirect calls.
    pub(crate) callee_entries: AddressMap<Place, SiteId>,
    /// Blocks that end in a call, by return address.
    pub(crate) callers: AddressMap<Place, BlockId>,
    /// Targets of direct calls.
    pub(crate) callees: HashSet<Place, BuildHasherDefault<AddressHasher>>,
    /// Versions with filled lookup tables.
    pub(crate) prepared: [bool; Version::ALL.len()],
    /// The comparisons that lookups reach first.
    pub(crate) bucket_heads: BucketHeads,
}
