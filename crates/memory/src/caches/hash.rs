//! Hashing for pseudo-random choices that are the same in every run.

use std::hash::{BuildHasherDefault, Hasher};

use rprof_basics::random::mix;

/// For tables with keys that are numbers already.
pub type Mixing = BuildHasherDefault<MixHasher>;

/// [`mix`] as a hasher.
#[derive(Debug, Default)]
pub struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}
