//! What was seen of one instruction behind L1, and what that stands for: each book in terms of lines of the whole program.

use crate::profile::evidence::memory::Traffic;

use super::estimate::{Beyond, Near, near};
use super::executions::Factors;
use super::fate::Fate;
use super::geometry::LINE_BYTES;
use super::line::Owner;
use super::strata::ENOUGH;
use super::tallies::Tallies;
use super::tally::Tally;

/// One instruction of one thread behind L1, where one line in so many is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Behind {
    /// The opening, windows, and warm-ups of windows.
    books: [Scaled; 3],
    /// How many misses of L2, more or less, the placement of pages makes.
    pub of_placement: f64,
    /// What was left in the caches at the end of the program, which stands for itself.
    end: Tally,
    /// What became of dirty lines.
    fate: Fate,
    lines: f64,
    has_l2: bool,
}

/// A book, and what is told from it.
#[derive(Debug, Clone, Copy)]
struct Scaled {
    tally: Tally,
    /// Events in the tally for each that was seen: what was put away is weighted.
    weight: f64,
    /// An event stands for so many of the program.
    scale: f64,
}

impl Scaled {
    /// Events that were seen, where they stand for anything.
    fn seen(&self, events: impl Fn(&Tally) -> u64) -> f64 {
        if self.scale > 0.0 { events(&self.tally) as f64 / self.weight } else { 0.0 }
    }
}

impl Behind {
    /// What `tallies`, to be asked when all is back, have of `owner`, whose events stand for `factors` on average. `mean_weight` is
    /// taken where they do not tell what windows weigh.
    pub fn of(tallies: &Tallies, owner: Owner, factors: &Factors, mean_weight: f64, lines: f64, has_l2: bool) -> Self {
        let books = [*tallies.plain_of(owner), tallies.sample(owner), tallies.warming(owner)];
        // Weights divide what executions say among windows: their mean is 1.
        let weights = [1.0, tallies.mean_weight(owner).unwrap_or(mean_weight), 1.0];
        let factors = factors.each();
        let scaled: [Scaled; 3] = std::array::from_fn(|i| Scaled {
            tally: tallies.as_placed(&books[i]),
            weight: weights[i],
            scale: lines * factors[i] / weights[i],
        });
        let more =
            |(placed, tally): (&Scaled, Tally)| (placed.tally.l2_fills as f64 - tally.l2_fills as f64) * placed.scale;
        let of_placement = scaled.iter().zip(books).map(more).sum::<f64>().abs();
        Behind {
            books: scaled,
            of_placement,
            end: tallies.end(owner),
            fate: tallies.fate(owner, has_l2),
            lines,
            has_l2,
        }
    }

    /// Anything of it was simulated before the end of the program.
    pub fn saw_any(&self) -> bool {
        self.books.iter().any(|book| book.tally.accesses > 0)
    }

    /// So many events were seen that what is told is told from.
    pub fn seen(&self, events: impl Fn(&Tally) -> u64) -> f64 {
        self.books.iter().map(|book| book.seen(&events)).sum()
    }

    /// How much more or less often an execution had such events in windows than in the opening, or in warm-ups where that saw
    /// nothing of it, relative to windows, at most 1; `executed` tells executions by phase. `None` where too few were seen to tell.
    pub fn changed(&self, executed: [u64; 4], events: impl Fn(&Tally) -> u64) -> Option<f64> {
        let [opening, _, warming, measured] = executed;
        let rate = |book: usize, executed: u64| {
            let Scaled { tally, weight, .. } = &self.books[book];
            (executed as f64 >= ENOUGH).then(|| events(tally) as f64 / weight / executed as f64)
        };
        let (now, before) = (rate(1, measured)?, rate(0, opening).or(rate(2, warming))?);
        Some(if before == now { 0.0 } else { (before / now - 1.0).abs().min(1.0) })
    }

    /// What these lines tell about L1.
    pub fn near(&self) -> Near {
        let mut all = Near::default();
        self.books.iter().for_each(|book| all.add(&near(&book.tally, book.scale)));
        all
    }

    /// What they tell about the levels behind it.
    pub fn traffic(&self, beyond: &Beyond) -> Traffic {
        let gone = self.fate.gone();
        let mut all = beyond.traffic(&self.end, self.lines, gone);
        for book in &self.books {
            let mut traffic = beyond.traffic(&book.tally, book.scale, gone);
            traffic.seen_lines = book.seen(Tally::seen_in_memory);
            traffic.l3_seen_lines = book.seen(if self.has_l2 { Tally::seen_in_l3 } else { Tally::seen_in_memory });
            all.add(&traffic);
        }
        if beyond.windows {
            let at_end = LINE_BYTES as f64 * self.written_at_end();
            all.dram_write += at_end;
            all.l3_write += if self.has_l2 { 0.0 } else { at_end };
        }
        // What others took over may have been written where a line weighs less.
        all.l3_write = all.l3_write.max(all.dram_nt);
        all.dram_write = all.dram_write.max(all.dram_nt);
        all
    }

    /// Lines that memory gets at the end of the program. Those that are dirty in the last level may have been written while nobody
    /// looked; of a set that private caches hold, the last window saw all.
    fn written_at_end(&self) -> f64 {
        let dirty = |tally: &Tally| if self.has_l2 { tally.l2_writebacks } else { tally.l1_writebacks };
        let in_private = dirty(&self.end).min(self.fate.at_end);
        let left = self.fate.left.saturating_sub(dirty(&self.end)).max(1) as f64;
        let scaled: f64 = self.books.iter().map(|book| dirty(&book.tally) as f64 * book.scale).sum();
        let each = self.fate.end_stands_for(scaled / self.lines / left);
        self.lines * (self.private_stands_for() * in_private as f64 + each * (self.fate.at_end - in_private) as f64)
    }

    /// How many lines memory gets for each that is dirty in a private cache at the end. One of a set that is written there again and
    /// again is one; one that was written in passing, as it is where nearly all that leaves L1 dirty finds it clean in L2, is as
    /// those in the last level, unless most of those that have left L2 before came back.
    fn private_stands_for(&self) -> f64 {
        let sum = |of: &dyn Fn(&Scaled) -> f64| -> f64 { self.books.iter().map(of).sum() };
        let seen = sum(&|book| book.seen(|t| t.l2_dirtied));
        if !self.has_l2 || seen == 0.0 {
            return 1.0;
        }
        let stands_for = sum(&|book| book.tally.l2_dirtied as f64 * book.scale);
        let left_l1 = sum(&|book| book.tally.left_l1().max(0) as f64 * book.scale);
        let in_passing = (stands_for / left_l1.max(stands_for)).min(1.0);
        let left_before = self.fate.left.saturating_sub(self.end.l2_writebacks) as f64;
        let most_came_back = left_before > 0.0 && self.fate.gone() * self.fate.left as f64 <= left_before / 2.0;
        if most_came_back {
            return 1.0;
        }
        1.0 + (self.fate.end_stands_for(stands_for / self.lines / seen) - 1.0) * in_passing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tallies::Book;

    const LINES: f64 = 32.0;
    const WINDOWS: Beyond = Beyond { has_l2: true, conflict_share: 0.0, windows: true };

    /// One owner with these tallies, whose windows stand for ten times as much.
    fn behind(books: impl IntoIterator<Item = (Book, Tally)>) -> Behind {
        let mut tallies = Tallies::default();
        let owner = tallies.add();
        for (book, tally) in books {
            tallies.open(book);
            *tallies.of(owner) = tally;
        }
        let factors = Factors { plain: 1.0, sample: 10.0, warming: 0.0 };
        Behind::of(&tallies, owner, &factors, 1.0, LINES, true)
    }

    fn fills(lines: u64) -> Tally {
        Tally { accesses: 8 * lines, l1_fills: lines, l2_fills: lines, last_fills: lines, ..Tally::default() }
    }

    #[test]
    fn warm_ups_that_stand_for_nothing_are_no_lines_that_were_seen() {
        let it = behind([(Book::Plain, fills(5)), (Book::Sample, fills(40)), (Book::Warming, fills(1000))]);
        let traffic = it.traffic(&WINDOWS);
        assert_eq!((traffic.seen_lines, traffic.l3_seen_lines, it.seen(|t| t.l1_fills)), (45.0, 45.0, 45.0));
        assert_eq!((traffic.l3_misses, it.near().traffic.l1_misses), (LINES * 405.0, LINES * 405.0));
        assert!(it.saw_any() && !behind([]).saw_any());
    }

    #[test]
    fn windows_that_are_as_what_came_before_have_not_changed() {
        let changed = |opening, windows, executed| {
            behind([(Book::Plain, fills(opening)), (Book::Sample, fills(windows))]).changed(executed, |t| t.last_fills)
        };
        assert_eq!(changed(100, 200, [10_000, 7, 7, 20_000]), Some(0.0));
        assert_eq!(changed(150, 200, [10_000, 7, 7, 20_000]), Some(0.5));
        assert_eq!(changed(1000, 200, [10_000, 7, 7, 20_000]), Some(1.0), "at most all of it");
        assert_eq!(
            (changed(1, 0, [10_000, 7, 7, 20_000]), changed(0, 0, [10_000, 0, 0, 20_000])),
            (Some(1.0), Some(0.0))
        );
        assert_eq!((changed(100, 200, [100, 7, 7, 20_000]), changed(100, 200, [10_000, 7, 7, 20])), (None, None));
        let late = behind([(Book::Sample, fills(200)), (Book::Warming, fills(80))]);
        let changed = late.changed([0, 7, 10_000, 20_000], |t| t.l2_fills).unwrap();
        assert!((changed - 0.2).abs() < 1e-9);
    }

    #[test]
    fn what_is_dirty_at_the_end_stands_for_what_nobody_saw_written_behind_private_caches_alone() {
        let written = |lines| Tally { l2_writebacks: lines, ..Tally::default() };
        let end = |l2, last| Tally { l2_writebacks: l2, last_writebacks: last, ..Tally::default() };
        // 100 lines that left L2 in windows, all of which the last level still has: as many were written in ten times the time.
        let of_last = behind([(Book::Sample, written(100)), (Book::End, end(0, 100))]);
        assert_eq!(of_last.traffic(&WINDOWS).dram_write, 64.0 * LINES * 1000.0);
        // 20 more in L2 neither thin that out nor stand for others.
        let of_both = behind([(Book::Sample, written(100)), (Book::End, end(20, 120))]);
        assert_eq!(of_both.traffic(&WINDOWS).dram_write, 64.0 * LINES * 1020.0);
        // 20 of 40 lines that were written in passing, the others of which have gone to memory; and 20 that were written there ten
        // times.
        let dirtied = |l1_dirtied| Tally { l1_dirtied, l2_dirtied: 40, l2_writebacks: 20, ..Tally::default() };
        let in_passing = behind([(Book::Sample, dirtied(40)), (Book::End, end(20, 20))]);
        assert_eq!(in_passing.traffic(&WINDOWS).dram_write, 64.0 * LINES * 400.0);
        let again = behind([(Book::Sample, dirtied(400)), (Book::End, end(20, 20))]);
        assert_eq!(again.traffic(&WINDOWS).dram_write, 64.0 * LINES * (200.0 + 1.9 * 20.0));
        // A working set that never leaves L2.
        let of_l2 = behind([(Book::Sample, fills(0)), (Book::End, end(20, 20))]);
        assert_eq!(of_l2.traffic(&WINDOWS).dram_write, 64.0 * LINES * 20.0);
    }
}
