//! What becomes of dirty lines behind the private caches: written again, written to memory, or left there at the end.

/// Lines of the latest windows that are enough to tell how many of them were known.
const ENOUGH_LATEST: u64 = 64;

/// What became of dirty lines that left L2 while they were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// All of them.
    pub left: u64,
    /// Those that were written again, before memory got them.
    pub rewritten: u64,
    /// Those of them that were so in another window than they had left in.
    pub rewritten_later: u64,
    /// Those that memory gets at the end of the program.
    pub at_end: u64,
    /// Of the lines that were written in the latest windows for the first time there, those that earlier ones knew as dirty, and
    /// those that they did not.
    pub known: u64,
    pub fresh: u64,
}

impl Fate {
    /// The share that memory got before the end.
    pub fn gone(&self) -> f64 {
        let gone = self.left.saturating_sub(self.rewritten + self.at_end);
        if self.left > 0 { gone as f64 / self.left as f64 } else { 0.0 }
    }

    /// How many lines there are at the end for each that was seen, where a write-back that was seen stands for `each`. A line that
    /// is written in one go was as likely seen as a write-back is; one that is written time and again was seen. Lines that were
    /// seen were so in `1 + rewritten later / (left − rewritten)` windows on average: `λ / (1 − exp(−λ))` if they are seen λ times
    /// on average by chance, of which `1 − exp(−λ)` are seen at all.
    ///
    /// Where nearly all that the latest windows wrote was known, there is not much else.
    pub fn end_stands_for(&self, each: f64) -> f64 {
        let latest = self.known + self.fresh;
        let each = if latest >= ENOUGH_LATEST { each.min(latest as f64 / self.known as f64) } else { each };
        let times = 1.0 + self.rewritten_later as f64 / self.left.saturating_sub(self.rewritten).max(1) as f64;
        let (mut low, mut high) = (0.0, times);
        for _ in 0..40 {
            let rate: f64 = (low + high) / 2.0;
            let expected = if rate > 1e-9 { rate / -(-rate).exp_m1() } else { 1.0 };
            if expected < times { low = rate } else { high = rate }
        }
        (1.0 / -(-high).exp_m1()).min(each).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_written_once_are_seen_as_often_as_windows_are() {
        let of = |rewritten, rewritten_later| {
            let at_end = 2_000_000 - rewritten;
            Fate { left: 2_000_000, rewritten, rewritten_later, at_end, ..Fate::default() }.end_stands_for(30.0)
        };
        assert_eq!((of(0, 0), of(1_000_000, 0)), (30.0, 30.0));
        // Seen once on average: 1 / (1 - 1/e) times those that were seen at all.
        assert!((of(1_000_000, 581_977) - 1.581_977).abs() < 1e-4, "{}", of(1_000_000, 581_977));
        assert!((of(1_990_000, 1_990_000) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_the_latest_windows_knew_all_of_is_all_there_is() {
        // One window: each line in it was written in the opening; formula alone would say that there are more.
        let of = |known, fresh| {
            let one = Fate { left: 4000, rewritten: 2000, rewritten_later: 2000, at_end: 2000, known, fresh };
            one.end_stands_for(30.0)
        };
        assert!((of(0, 0) - 1.25).abs() < 0.01, "too few: {}", of(0, 0));
        assert!((of(1990, 10) - 1.005).abs() < 0.001, "{}", of(1990, 10));
        assert!((of(1000, 1000) - of(0, 0)).abs() < 1e-9, "no more than windows say");
        assert!((of(0, 2000) - of(0, 0)).abs() < 1e-9);
    }
}
