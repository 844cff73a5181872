//! Stores that have not reached L1 yet, by address.

use crate::op::Renaming;

/// Places, as a power of two.
const BITS: u32 = 12;
/// Stores that are remembered; more than any store buffer has.
const STORES: usize = 256;

/// Stores back that a load may be put together from.
const PARTS: usize = 16;

/// A store.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Store {
    pub address: u64,
    pub bytes: u32,
    /// Time at which its data can be forwarded, and the node of that event.
    pub data: u32,
    pub node: u32,
    /// Time at which it is in L1.
    pub commits: u32,
    /// Its memory operand as written, and the versions of its registers.
    pub expression: u32,
    pub versions: [u32; 2],
    pub renaming: Renaming,
    /// Executions of backward branches before it.
    pub iteration: u32,
}

/// Match of a load with the stores before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Match {
    /// This store wrote all bytes of the load.
    Whole(Store),
    /// It wrote only some: the load waits until the stores that it reads from are in L1. Of these, this one has its data last.
    Part(Store),
}

/// The youngest store of each eight bytes.
#[derive(Debug, Clone)]
pub(super) struct Stores {
    /// Number of the store + 1 by eight bytes of address.
    youngest: Vec<u32>,
    stores: Vec<Store>,
    count: u32,
    last_commit: u32,
}

impl Stores {
    pub(super) fn new() -> Stores {
        Stores { youngest: vec![0; 1 << BITS], stores: vec![Store::default(); STORES], count: 0, last_commit: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.youngest.fill(0);
        (self.count, self.last_commit) = (0, 0);
    }

    #[inline]
    fn place(granule: u64) -> usize {
        (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize
    }

    pub(super) fn insert(&mut self, store: Store) {
        self.stores[self.count as usize % STORES] = store;
        self.count += 1;
        self.last_commit = store.commits;
        let last = store.address.saturating_add(u64::from(store.bytes.clamp(1, 64)) - 1) >> 3;
        for granule in store.address >> 3..=last {
            self.youngest[Stores::place(granule)] = self.count;
        }
    }

    /// The store that a load issued at `time` meets on its way, if there is one.
    #[inline]
    pub(super) fn meet(&self, address: u64, bytes: u32, time: u32) -> Option<Match> {
        if self.last_commit <= time {
            return None;
        }
        let last = address.saturating_add(u64::from(bytes.clamp(1, 64)) - 1);
        let mut found = self.at(address >> 3);
        if last >> 3 != address >> 3 {
            let other = self.at(last >> 3);
            found = if other.map(|(number, _)| number) > found.map(|(number, _)| number) { other } else { found };
        }
        let (_, store) = found.filter(|(_, store)| store.commits > time)?;
        let (from, to) = (store.address, store.address.saturating_add(u64::from(store.bytes)));
        if from <= address && last < to {
            Some(Match::Whole(*store))
        } else if address < to && from <= last {
            let read =
                |of: &&Store| of.commits > time && of.address <= last && address < of.address + u64::from(of.bytes);
            let all = self.recent().take(PARTS).filter(read);
            all.max_by_key(|of| of.data).or(Some(store)).copied().map(Match::Part)
        } else {
            None
        }
    }

    /// The stores that are remembered, the youngest first.
    fn recent(&self) -> impl Iterator<Item = &Store> {
        let oldest = self.count.saturating_sub(STORES as u32);
        (oldest..self.count).rev().map(|number| &self.stores[number as usize % STORES])
    }

    #[inline]
    fn at(&self, granule: u64) -> Option<(u32, &Store)> {
        let number = self.youngest[Stores::place(granule)];
        let recent = number > 0 && self.count - number < STORES as u32;
        recent.then(|| (number, &self.stores[(number - 1) as usize % STORES]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_meet_the_youngest_store_of_their_bytes() {
        let mut stores = Stores::new();
        let store = |address, bytes, data| Store { address, bytes, data, commits: 100, ..Store::default() };
        stores.insert(store(0x1000, 8, 1));
        stores.insert(store(0x1008, 8, 2));
        assert!(matches!(stores.meet(0x1004, 4, 50), Some(Match::Whole(s)) if s.data == 1));
        assert!(matches!(stores.meet(0x1000, 16, 50), Some(Match::Part(s)) if s.data == 2));
        assert!(stores.meet(0x1010, 8, 50).is_none());
        assert!(stores.meet(0x1000, 8, 100).is_none(), "it is in L1 by then");
    }
}
