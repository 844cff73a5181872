//! A set-associative memory with LRU replacement, and a set of keys.

/// The keys in a set-associative memory. A key of 0 is none.
#[derive(Debug, Clone)]
pub(super) struct Sets {
    /// Each set's keys, the last used one first.
    keys: Vec<u64>,
    ways: usize,
    mask: u64,
}

impl Sets {
    /// Room for `entries` keys; the number of sets is rounded down to a power of two, the ways fill up the rest.
    pub(super) fn new(entries: usize, ways: usize) -> Sets {
        let sets = (entries / ways.max(1)).max(1);
        let sets = 1 << sets.ilog2();
        let ways = (entries / sets).max(1);
        Sets { keys: vec![0; sets * ways], ways, mask: sets as u64 - 1 }
    }

    /// Whether `key`, which belongs into the set of `index`, is there; it is from now on.
    #[inline]
    pub(super) fn meet(&mut self, index: u64, key: u64) -> bool {
        let start = (index & self.mask) as usize * self.ways;
        let set = &mut self.keys[start..start + self.ways];
        if set[0] == key {
            return true;
        }
        let place = set.iter().position(|&held| held == key);
        let end = place.unwrap_or(self.ways - 1);
        set.copy_within(0..end, 1);
        set[0] = key;
        place.is_some()
    }
}

/// Places for keys, as a power of two.
const KEY_BITS: u32 = 17;

/// A set of keys. When it is half full, no more are taken in.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    keys: Vec<u64>,
    held: usize,
}

impl Keys {
    pub(super) fn new() -> Keys {
        Keys { keys: Vec::new(), held: 0 }
    }

    pub(super) fn clear(&mut self) {
        // Keys carry the number of their burst: those of earlier ones only take room.
        if self.held > 0 {
            self.keys.fill(0);
            self.held = 0;
        }
    }

    /// Whether `key` was there; it is from now on.
    pub(super) fn insert(&mut self, key: u64) -> bool {
        if self.keys.is_empty() {
            self.keys = vec![0; 1 << KEY_BITS];
        }
        let mask = self.keys.len() - 1;
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KEY_BITS)) as usize;
        while self.keys[place] != 0 {
            if self.keys[place] == key {
                return true;
            }
            place = (place + 1) & mask;
        }
        if self.held < self.keys.len() / 2 {
            self.keys[place] = key;
            self.held += 1;
        }
        false
    }
}
