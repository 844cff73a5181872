//! Bandwidth between two levels: the part that is taken in each stretch of time.

use crate::parameters::Banks;

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

    fn clear(&mut self) {
        self.taken.fill((u32::MAX, 0));
        self.full = 0..0;
    }

    /// Cycle at which a transfer of `cost` (cycles × 16), requested at `time`, begins.
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
                // The part that does not fit runs over into the next stretch.
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

/// Bandwidth of a level: that of the whole level, and that of each bank.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    all: Bandwidth,
    banks: Vec<Bandwidth>,
    /// Cycles × 16 of a line that is read, and of one that is written.
    line: [u32; 2],
    bank_line: [u32; 2],
    used: bool,
}

impl Channel {
    /// `line`: cycles × 16 of a line that is read, and of one that is written; a bank takes as much longer for the latter.
    pub(super) fn new(line: [u32; 2], banks: Banks) -> Channel {
        let written = u64::from(banks.line) * u64::from(line[1]) / u64::from(line[0].max(1));
        let count = if banks.count > 1 { banks.count as usize } else { 0 };
        Channel {
            all: Bandwidth::new(),
            banks: vec![Bandwidth::new(); count],
            line,
            bank_line: [banks.line, written as u32],
            used: false,
        }
    }

    /// Forgets all transfers.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.used) {
            self.all.clear();
            self.banks.iter_mut().for_each(Bandwidth::clear);
        }
    }

    /// Cycle at which a transfer of line number `line`, requested at `time`, begins. It takes the whole channel for `cost`, or else for the
    /// usual cost of a line.
    pub(super) fn transfer(&mut self, line: u64, time: u32, writes: bool, cost: Option<u32>) -> u32 {
        self.used = true;
        let begins = self.all.transfer(time, cost.unwrap_or(self.line[usize::from(writes)]));
        match self.banks.len() {
            0 => begins,
            count => self.banks[line as usize & (count - 1)].transfer(begins, self.bank_line[usize::from(writes)]),
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
    #[test]
    fn lines_of_one_bank_queue_where_lines_of_all_do_not() {
        let banks = Banks { count: 4, line: 16 * 20 };
        let last = |every: u64| {
            let mut channel = Channel::new([16 * 6, 16 * 12], banks);
            (0..100).map(|n| channel.transfer(n * every, 0, false, None)).max().unwrap_or(0)
        };
        assert!((560..640).contains(&last(1)), "{}", last(1));
        assert!((940..1040).contains(&last(2)), "{}", last(2));
        assert!((1920..2040).contains(&last(4)), "{}", last(4));
        assert_eq!(last(4), last(64));
    }
}
