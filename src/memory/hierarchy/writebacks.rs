//! What goes back to memory, where a program is looked at in windows.
//!
//! A dirty line leaves the last level long after it was written, while something else may be executed and another part of the
//! program is looked at, or none. What is known best of a line is when it came. So each stay of a line in the caches is followed from
//! its fill on, and stands for as many as the fill does: it ends with a write-back if anyone wrote the line meanwhile, and that is
//! booked on who did so last.
//!
//! ```text
//!         fill by F ─────────── writes ────────────▶ eviction, or the end of the program
//!   events of F stand for w                          w lines written back by the last writer, or none
//! ```
//!
//! So no more is written to memory than came from it (but for what another last level asks for, which is written each time), and a
//! set that stays in the caches is written once, however often the program writes it.
//!
//! A stay that a pause interrupts goes on where the model still has the line afterwards. If nobody uses it any more there, the
//! rest of its stay was not seen: when it was clean, it may have been written later. How often, stays of the same instruction tell that
//! were seen to their end.
//!
//! Stays as long as a pause are seen by one window or another, wherever their fill was: those that a window finds going on since before
//! the pause stand for themselves. If the pause turned the last level over, the line may have left meanwhile and have come again, unless
//! it is used as often as that: in the warm-up of the window, and when it measures. So do stays that began in the first half of the
//! program's start and are found going on in the second one: what lines there are of that kind the start has met.

use std::collections::HashMap;

use crate::memory::attribution::tallies::Book;
use crate::memory::caches::hash::Mixing;
use crate::memory::caches::line::{Line, Owner, State};

/// Kinds of stays that are told apart at most: 32 bytes each.
const MOST_KINDS: usize = 1 << 17;
/// Stays that were seen to their end, of one instruction, that are enough to tell others.
const ENOUGH: u64 = 64;

/// All stays in the caches.
#[derive(Debug, Default)]
pub struct Residencies {
    /// Those that go on, of each last level.
    present: Vec<HashMap<Line, Stay, Mixing>>,
    /// The latest pause did not turn the last level over: stays from before it that go on went on all the time.
    outlast: bool,
    /// A window measures, or the second half of the start runs: lines that are not idle were used in it.
    measuring: bool,
    /// Those that are over, by whose fill they began with.
    over: Vec<Vec<Over>>,
    kinds: usize,
}

/// One that goes on: 8 bytes, of which there are as many as lines in the caches.
#[derive(Debug, Clone, Copy)]
struct Stay {
    /// Whose fill it began with, above [`BOOK_SHIFT`] the book of that, and whether it began before the latest pause, or the
    /// half of the start ([`OLD`]).
    filler: u32,
    /// Of the fill among those of its instruction; [`UNKNOWN`] until that is told.
    weight: f32,
}

/// Owners are fewer than two to this power.
const BOOK_SHIFT: u32 = 28;
const OLD: u32 = 1 << 31;
/// The book of stays that stand for themselves.
const ITSELF: Book = Book::End;
const UNKNOWN: f32 = 0.0;

/// All of one kind that are over.
#[derive(Debug, Clone, Copy)]
struct Over {
    kind: Kind,
    /// How many, what those weigh together whose fills' weight is known, and how many others there are.
    stays: u32,
    unweighted: u32,
    weight: f64,
}

/// What is told apart of the stays that began with one owner's fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    book: Book,
    /// Who wrote the line last.
    writer: Option<Owner>,
    /// It was seen to its end.
    followed: bool,
}

/// What is known of one owner's fills.
#[derive(Debug, Clone, Copy)]
pub struct KnownFills {
    /// How many lines one of a [`Book`] stands for, weight aside.
    pub stands_for: [f64; Book::ALL.len()],
    /// Their relative error.
    pub error: f64,
}

/// Lines that memory gets of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Written {
    /// How many.
    pub lines: f64,
    /// Their standard error, from what is not known of the fills that they came with, and of stays that were not followed.
    pub scatter: f64,
}

impl Residencies {
    /// `line` comes from memory to last level `last`, for `filler`.
    pub fn begin(&mut self, last: usize, line: Line, filler: Owner, book: Book) {
        if self.present.len() <= last {
            self.present.resize_with(last + 1, HashMap::default);
        }
        if let Some(before) = self.present[last].insert(line, Stay::new(filler, book)) {
            // It left unnoticed: clean.
            self.end_stay(before, None, true);
        }
    }

    /// `line` leaves last level `last` in this `state`, in an event of `book`. If nobody saw it come (a level had given it up that a private
    /// cache still held it behind, dirty), it stands for as many as the writer's own events do.
    pub fn end(&mut self, last: usize, line: Line, state: State, book: Book) {
        let mut stay = self.present.get_mut(last).and_then(|present| present.remove(&line));
        stay.iter_mut().filter(|_| self.outlasts(state)).for_each(Stay::outlast);
        if let Some(stay) = stay.or_else(|| state.writer().map(|filler| Stay::new(filler, book))) {
            self.end_stay(stay, state.writer(), !state.is_stale());
        }
    }

    /// A line in this state, if it is from before the latest pause, was there all the time.
    fn outlasts(&self, state: State) -> bool {
        !state.is_stale() && (self.outlast || self.measuring && !state.is_idle())
    }

    /// A pause is over, before which there were these lines.
    pub fn pause(&mut self, lines: impl Iterator<Item = (usize, Line, State)>) {
        for (last, line, state) in lines {
            if self.outlasts(state) {
                let stay = self.present.get_mut(last).and_then(|present| present.get_mut(&line));
                stay.into_iter().for_each(Stay::outlast);
            }
        }
        self.grow_old();
        (self.outlast, self.measuring) = (false, false);
    }

    /// The second half of the start begins.
    pub fn half_time(&mut self) {
        self.grow_old();
        self.measuring = true;
    }

    fn grow_old(&mut self) {
        self.present.iter_mut().flat_map(HashMap::values_mut).for_each(|stay| stay.filler |= OLD);
    }

    /// A window begins to measure. `outlast`: the pause before it did not turn the last level over.
    pub fn measure(&mut self, outlast: bool) {
        (self.outlast, self.measuring) = (outlast, true);
    }

    fn end_stay(&mut self, stay: Stay, writer: Option<Owner>, followed: bool) {
        let over = self.over(stay.filler(), Kind { book: stay.book(), writer, followed });
        over.stays = over.stays.saturating_add(1);
        if stay.weight == UNKNOWN {
            over.unweighted += 1;
        } else {
            over.weight += f64::from(stay.weight);
        }
    }

    /// Those of this kind; if there are too many kinds, of the writer's own.
    fn over(&mut self, mut filler: Owner, kind: Kind) -> &mut Over {
        let find = |over: &[Over]| over.iter().position(|over| over.kind == kind);
        let of = |over: &mut Vec<Vec<Over>>, filler: Owner| {
            if over.len() <= filler.0 as usize {
                over.resize(filler.0 as usize + 1, Vec::new());
            }
            find(&over[filler.0 as usize])
        };
        let mut at = of(&mut self.over, filler);
        if at.is_none() && self.kinds >= MOST_KINDS {
            filler = kind.writer.unwrap_or(filler);
            at = of(&mut self.over, filler);
        }
        let of_filler = &mut self.over[filler.0 as usize];
        let at = at.unwrap_or_else(|| {
            self.kinds += 1;
            of_filler.push(Over { kind, stays: 0, unweighted: 0, weight: 0.0 });
            of_filler.len() - 1
        });
        &mut of_filler[at]
    }

    /// Fills in windows of those of whom it is known weigh so much, if that was not known before.
    pub fn weigh(&mut self, weight: impl Fn(Owner) -> Option<f64>) {
        let present = self.present.iter_mut().flat_map(HashMap::values_mut);
        for stay in present.filter(|stay| stay.weight == UNKNOWN) {
            stay.weight = weight(stay.filler()).map_or(UNKNOWN, |weight| weight as f32);
        }
        for (filler, of_filler) in (0..).map(Owner).zip(&mut self.over) {
            let Some(weight) = weight(filler) else { continue };
            for over in of_filler {
                over.weight += weight * f64::from(std::mem::take(&mut over.unweighted));
            }
        }
    }

    /// What memory gets, by last writer, when all stays are over, where so much is `known` of the owners' fills.
    pub fn written(mut self, known: impl Fn(Owner) -> KnownFills) -> HashMap<Owner, Written, Mixing> {
        for stay in std::mem::take(&mut self.present).into_iter().flat_map(HashMap::into_values) {
            self.end_stay(stay, None, false);
        }
        self.weigh(|_| Some(1.0));
        let mut written: HashMap<Owner, Written, Mixing> = HashMap::default();
        for (filler, over) in (0..).map(Owner).zip(&self.over).filter(|(_, over)| !over.is_empty()) {
            let mut fills = Fills::default();
            let KnownFills { stands_for, error } = known(filler);
            over.iter().for_each(|over| fills.add(over, stands_for[over.kind.book as usize]));
            let unseen_share = fills.written_unseen() / fills.followed_dirty().max(1e-9);
            for (writer, of_writer) in &fills.writers {
                let more = unseen_share * of_writer.followed;
                let Written { lines, scatter } = written.entry(*writer).or_default();
                *lines += of_writer.all + more;
                // What one instruction's fills are off by all their lines are, but for those that stand for themselves.
                *scatter += (error * (of_writer.all + more - of_writer.themselves)).hypot(more);
            }
        }
        written
    }
}

impl Stay {
    /// That begins with an event of `filler` in this book: of windows its weight is told later.
    fn new(filler: Owner, book: Book) -> Self {
        let weight = if book == Book::Sample { UNKNOWN } else { 1.0 };
        Stay { filler: filler.0 | (book as u32) << BOOK_SHIFT, weight }
    }

    /// It is found going on.
    fn outlast(&mut self) {
        if self.filler & OLD != 0 {
            *self = Stay { filler: Stay::new(self.filler(), ITSELF).filler, weight: 1.0 };
        }
    }

    fn filler(&self) -> Owner {
        Owner(self.filler & ((1 << BOOK_SHIFT) - 1))
    }

    fn book(&self) -> Book {
        Book::ALL[((self.filler & !OLD) >> BOOK_SHIFT) as usize]
    }
}

/// What became of the lines that one instruction brought from memory.
#[derive(Debug, Default)]
struct Fills {
    writers: HashMap<Owner, OfWriter, Mixing>,
    /// Lines of stays that were followed to their end, and all; clean ones of both.
    followed: f64,
    followed_clean: f64,
    all: f64,
    all_clean: f64,
    /// How many were followed.
    stays: u64,
}

/// Those of them that one owner wrote last.
#[derive(Debug, Clone, Copy, Default)]
struct OfWriter {
    followed: f64,
    themselves: f64,
    all: f64,
}

impl Fills {
    fn add(&mut self, &Over { kind, stays, weight, .. }: &Over, scale: f64) {
        let lines = scale * weight;
        self.all += lines;
        if kind.followed {
            self.followed += lines;
            self.stays += u64::from(stays);
        }
        let Some(writer) = kind.writer else {
            self.all_clean += lines;
            self.followed_clean += if kind.followed { lines } else { 0.0 };
            return;
        };
        let of_writer = self.writers.entry(writer).or_default();
        of_writer.all += lines;
        of_writer.themselves += if kind.book == ITSELF { lines } else { 0.0 };
        of_writer.followed += if kind.followed { lines } else { 0.0 };
    }

    fn followed_dirty(&self) -> f64 {
        self.followed - self.followed_clean
    }

    /// Lines that were clean when they were seen last, and written later, if those that were not followed to their end are as often
    /// written as those that were.
    fn written_unseen(&self) -> f64 {
        if self.stays < ENOUGH || self.followed <= 0.0 {
            return 0.0;
        }
        let unfollowed = self.all - self.followed;
        let expected = unfollowed * self.followed_clean / self.followed;
        (self.all_clean - self.followed_clean - expected).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owner = Owner(1);
    const OTHER: Owner = Owner(2);

    fn lines(range: std::ops::Range<u64>) -> impl Iterator<Item = Line> {
        range.map(Line)
    }

    /// Windows stand for ten times as much, and fills of `ONE` are known to 5 %.
    fn written(stays: Residencies) -> [(f64, f64); 2] {
        let stands_for = Book::ALL.map(|book| if book == Book::Sample { 10.0 } else { 1.0 });
        let written = stays.written(|filler| KnownFills { stands_for, error: if filler == ONE { 0.05 } else { 0.0 } });
        [ONE, OTHER].map(|owner| written.get(&owner).map_or((0.0, 0.0), |w| (w.lines, w.scatter)))
    }

    #[test]
    fn a_line_is_written_back_as_often_as_it_came() {
        let mut stays = Residencies::default();
        lines(0..100).for_each(|line| stays.begin(0, line, ONE, Book::Plain));
        lines(100..200).for_each(|line| stays.begin(0, line, ONE, Book::Sample));
        // Of those of windows one half leaves before it is known what they weigh, the other one after.
        let dirty = State::dirty(OTHER);
        lines(100..150).for_each(|line| stays.end(0, line, dirty, Book::Warming));
        stays.weigh(|owner| (owner == ONE).then_some(3.0));
        lines(150..180).for_each(|line| stays.end(0, line, dirty, Book::End));
        lines(0..100).chain(lines(180..200)).for_each(|line| stays.end(0, line, State::CLEAN, Book::End));
        let [(of_one, _), (of_other, scatter)] = written(stays);
        assert_eq!((of_one, of_other), (0.0, 80.0 * 30.0));
        assert!((scatter - 0.05 * of_other).abs() < 1e-9, "as well known as the fills that brought them");
    }

    #[test]
    fn last_levels_have_lines_of_their_own_and_others_are_the_writers() {
        let mut stays = Residencies::default();
        stays.begin(0, Line(7), ONE, Book::Plain);
        stays.begin(1, Line(7), OTHER, Book::Plain);
        stays.end(1, Line(7), State::dirty(OTHER), Book::Plain);
        // Another level still has what this one gave up.
        stays.end(1, Line(7), State::dirty(OTHER), Book::Sample);
        stays.end(0, Line(7), State::dirty(ONE), Book::Plain);
        assert_eq!(written(stays).map(|(lines, _)| lines), [1.0, 11.0]);
    }

    #[test]
    fn what_a_pause_hides_is_told_by_stays_that_it_does_not() {
        let mut stays = Residencies::default();
        lines(0..200).for_each(|line| stays.begin(0, line, ONE, Book::Plain));
        lines(0..50).for_each(|line| stays.end(0, line, State::dirty(OTHER), Book::Plain));
        lines(50..100).for_each(|line| stays.end(0, line, State::CLEAN, Book::Plain));
        lines(100..110).for_each(|line| stays.end(0, line, State::dirty(OTHER).aged(), Book::Plain));
        lines(110..200).for_each(|line| stays.end(0, line, State::CLEAN.aged(), Book::Plain));
        let [_, (lines_written, scatter)] = written(stays);
        assert!((lines_written - 100.0).abs() < 1e-9, "{lines_written}");
        assert!((scatter - 5.0f64.hypot(40.0)).abs() < 1e-9, "40 of them nobody saw: {scatter}");
    }

    #[test]
    fn stays_that_outlast_a_pause_stand_for_themselves() {
        let run = |outlast, state: State| {
            let mut stays = Residencies::default();
            lines(0..20).for_each(|line| stays.begin(0, line, ONE, Book::Sample));
            stays.pause(std::iter::empty());
            // Met in a warm-up, which stands for nothing otherwise.
            lines(20..30).for_each(|line| stays.begin(0, line, ONE, Book::Warming));
            stays.measure(outlast);
            lines(0..10).for_each(|line| stays.end(0, line, state, Book::Sample));
            stays.pause(lines(10..30).map(|line| (0, line, state)));
            stays.measure(outlast);
            lines(10..30).for_each(|line| stays.end(0, line, state, Book::End));
            written(stays)[1]
        };
        let used = State::dirty(OTHER);
        assert_eq!(run(true, used), (30.0, 0.0));
        assert_eq!(run(false, used), (30.0, 0.0), "used twice");
        let once = used.idle();
        assert_eq!(run(true, once), (30.0, 0.0));
        assert_eq!(run(false, once), (20.0 * 10.0 + 10.0, 0.05 * 210.0), "it may have come again");
        assert_eq!(run(true, used.aged()), (20.0 * 10.0 + 10.0, 0.05 * 210.0), "nobody used it");
    }

    #[test]
    fn kinds_beyond_the_limit_are_the_writers_own() {
        let mut stays = Residencies::default();
        for number in 0..MOST_KINDS as u64 + 10 {
            stays.begin(0, Line(number), Owner(number as u32), Book::Plain);
            stays.end(0, Line(number), State::dirty(OTHER), Book::Plain);
        }
        assert!(stays.kinds <= MOST_KINDS + 1);
        assert_eq!(written(stays)[1].0, MOST_KINDS as f64 + 10.0);
    }
}
