//! Bandwidth between two levels: how much of it is taken in which stretch of time.

/// Cycles of a stretch, as a power of two.
const STRETCH_BITS: u32 = 6;
/// Stretches that the calendar reaches; a power of two.
const STRETCHES: usize = 2048;

/// A calendar of transfers. Requests come in program order, not in the order of time: later ones fill gaps.
#[derive(Debug, Clone)]
pub(super) struct Bandwidth {
    /// Number of the stretch and cycles × 16 taken in it.
    taken: Vec<(u32, u32)>,
    /// All stretches of `full` are taken.
    full: std::ops::Range<u32>,
}

impl Bandwidth {
    pub(super) fn new() -> Bandwidth {
        Bandwidth { taken: vec![(u32::MAX, 0); STRETCHES], full: 0..0 }
    }

    /// When a transfer of `cost` (cycles × 16) that is asked for at `time` begins.
    pub(super) fn transfer(&mut self, time: u32, cost: u32) -> u32 {
        const CAPACITY: u32 = 16 << STRETCH_BITS;
        let wanted = time >> STRETCH_BITS;
        let mut stretch = wanted;
        if self.full.contains(&stretch) {
            stretch = self.full.end;
        }
        let mut tries = 0;
        loop {
            let entry = &mut self.taken[stretch as usize % STRETCHES];
            if entry.0 != stretch {
                *entry = (stretch, 0);
            }
            if entry.1 < CAPACITY || tries > STRETCHES {
                // What does not fit runs over into the next stretch.
                let before = entry.1;
                let over = (before + cost).saturating_sub(CAPACITY);
                entry.1 = (before + cost).min(CAPACITY);
                self.spill(stretch + 1, over);
                if stretch > wanted {
                    let joins = self.full.contains(&wanted) || self.full.end == wanted;
                    self.full = if joins { self.full.start..stretch } else { wanted..stretch };
                }
                let begins = (stretch << STRETCH_BITS) + before / 16;
                return time.max(begins);
            }
            stretch += 1;
            tries += 1;
        }
    }

    fn spill(&mut self, mut stretch: u32, mut cost: u32) {
        const CAPACITY: u32 = 16 << STRETCH_BITS;
        let mut tries = 0;
        while cost > 0 && tries < STRETCHES {
            let entry = &mut self.taken[stretch as usize % STRETCHES];
            if entry.0 != stretch {
                *entry = (stretch, 0);
            }
            let part = cost.min(CAPACITY - entry.1);
            entry.1 += part;
            cost -= part;
            stretch += 1;
            tries += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_queue_when_there_are_too_many() {
        let mut bandwidth = Bandwidth::new();
        let last = (0..100).map(|_| bandwidth.transfer(0, 16 * 10)).max();
        assert!((950..1000).contains(&last.unwrap_or(0)), "{last:?}");
        assert_eq!(bandwidth.transfer(5000, 160), 5000);
        let spread: Vec<u32> = (0..50).map(|n| bandwidth.transfer(10_000 + 20 * n, 160) - 10_000 - 20 * n).collect();
        assert!(spread.iter().all(|&wait| wait <= 32), "{spread:?}");
    }
}
