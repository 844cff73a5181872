//! Remembers recent look-ups: accesses return to few places, so only other numbers need looking up.

const ENTRIES: usize = 64;

/// The numbers met last, + 1, by their low bits.
#[derive(Debug)]
pub struct LastLookup([u64; ENTRIES]);

impl Default for LastLookup {
    fn default() -> Self {
        LastLookup([0; ENTRIES])
    }
}

impl LastLookup {
    /// Notes that `number` is met; returns whether it was not met recently.
    #[inline]
    pub fn is_new(&mut self, number: u64) -> bool {
        std::mem::replace(&mut self.0[number as usize % ENTRIES], number + 1) != number + 1
    }

    /// Makes `number` new when it is met again.
    pub fn forget(&mut self, number: u64) {
        let entry = &mut self.0[number as usize % ENTRIES];
        if *entry == number + 1 {
            *entry = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_until_it_was_met_and_once_another_took_its_place() {
        let mut latest = LastLookup::default();
        let of =
            |latest: &mut LastLookup, numbers: &[u64]| numbers.iter().map(|n| latest.is_new(*n)).collect::<Vec<_>>();
        assert_eq!(of(&mut latest, &[0, 0, 1, 0, 64, 0]), [true, false, true, false, true, true]);
        latest.forget(64);
        assert_eq!(of(&mut latest, &[0, 1]), [false, false], "of another nothing is forgotten");
        latest.forget(0);
        assert!(latest.is_new(0));
    }
}
