//! The relaid-out blocks that lookups reach first.

use crate::translator::code_cache::hash::AddressMap;
use rprof_tracee::address::CacheAddress;

/// The first comparison that an entry leads to, if it belongs to a relaid-out block.
#[derive(Debug, Clone, Copy)]
struct BucketHead {
    /// The round in which its block was placed.
    round: u32,
    /// The rel32 of its jump for a different address.
    other: CacheAddress,
}

/// The placed blocks that entries of the lookup tables lead to, by the entries' offsets.
#[derive(Debug, Default)]
pub struct BucketHeads(AddressMap<u64, BucketHead>);

impl BucketHeads {
    /// The rel32 of the comparison behind which one of a block goes that was placed in round `places` (0: in none).
    pub fn way(&self, entry: u64, places: u32) -> Option<CacheAddress> {
        self.0.get(&entry).filter(|l| places == 0 || l.round == places).map(|l| l.other)
    }

    /// The entry leads to a block that round `round` has placed, with its jump for a different address at `other`.
    pub fn insert(&mut self, entry: u64, round: u32, other: CacheAddress) {
        self.0.insert(entry, BucketHead { round, other });
    }
}
