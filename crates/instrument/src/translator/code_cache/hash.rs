//! A quick hash for addresses and ids.

use std::hash::{BuildHasherDefault, Hasher};

/// Multiplies by an odd constant and folds.
#[derive(Debug, Default, Clone, Copy)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map keyed by addresses or ids.
pub type AddressMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<AddressHasher>>;
