//! Pseudo-random numbers that are the same in each run (splitmix64).

/// The distance of two states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the bits of `x` over 64 bits.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The word with this number, of those that follow one another from the seed 0.
pub fn word(number: u64) -> u64 {
    mix(number.wrapping_mul(STEP))
}

/// A word as a number in 0..1.
pub fn unit_interval(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// Words one after another.
#[derive(Debug, Clone, Copy, Default)]
pub struct SplitMix(u64);

impl SplitMix {
    /// From this seed on.
    pub fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// The next number in 0..1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(STEP);
        unit_interval(mix(self.0))
    }
}
