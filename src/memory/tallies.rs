//! The tallies of all instructions and threads, in books by what their events stand for.

use std::collections::HashMap;

use super::fate::Fate;
use super::line::Owner;
use super::mix::Mixing;
use super::tally::Tally;

/// What the events that happen stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Book {
    /// Themselves.
    #[default]
    Plain,
    /// Those of the program's pauses, too.
    Sample,
    /// The end of the program: what is left in the caches.
    End,
    /// What was in the warm-up of windows alone, in the pauses, too.
    Warming,
    /// Nothing.
    Nothing,
}

/// The tallies of all owners. All lists but the first grow when something is counted in them.
#[derive(Debug, Default)]
pub struct Tallies {
    plain: Vec<Tally>,
    sample: Vec<Tally>,
    end: Vec<Tally>,
    warming: Vec<Tally>,
    nothing: Tally,
    book: Book,
    /// Compulsory misses of the sample and of warm-ups before the present window, by owner.
    before_window: [Vec<u64>; 2],
    /// Of the dirty lines of warm-ups before the present window, by owner.
    before_warm_up: Vec<Left>,
    /// Of all dirty lines before the last window but one, and before the present one, by owner.
    before_windows: [Vec<Left>; 2],
    /// What was put away, weighted, of one book.
    put_away: Vec<Tally>,
    /// By owner: what was put away of the sample.
    weighed: Vec<Weighed>,
    /// L2 is there by the frames of pages, too.
    has_placed_l2: bool,
    /// What happens in L1 is noted apart, too, and what was so.
    apart: bool,
    noted: HashMap<Owner, L1Events, Mixing>,
}

/// Dirty lines of one owner that left L2 (L1, where there is none), and those that were written again, later ones apart.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    left: u64,
    rewritten: u64,
    rewritten_later: u64,
}

impl Left {
    fn of(tally: &Tally) -> Self {
        let left = if tally.l2_writebacks > 0 { tally.l2_writebacks } else { tally.l1_writebacks };
        Left { left, rewritten: tally.rewritten, rewritten_later: tally.rewritten_later }
    }

    /// The share of the lines that left since `before` which were not written again since; `None` where none left.
    fn gone_since(&self, before: &Left) -> Option<f64> {
        let left = self.left.saturating_sub(before.left);
        let soon = |of: &Left| of.rewritten - of.rewritten_later;
        let again = soon(self).saturating_sub(soon(before)).min(left);
        (left > 0).then(|| 1.0 - again as f64 / left as f64)
    }
}

/// Of the sample of one owner that was put away: lines that it touched, with their weights and without; and how many events more its
/// weighted tally has than happened.
#[derive(Debug, Clone, Copy, Default)]
struct Weighed {
    lines: u64,
    heavy: u64,
    l1_writebacks: i64,
    l2_writebacks: i64,
    rewritten: i64,
    rewritten_later: i64,
}

/// What happens in L1: fills, and [`Tally::left_l1`].
pub type L1Events = [i64; 2];

impl Tallies {
    /// Adds an owner with an empty tally.
    pub fn add(&mut self) -> Owner {
        self.plain.push(Tally::default());
        Owner((self.plain.len() - 1) as u32)
    }

    /// L2 is there by the frames of pages, too, from now on.
    pub fn place_l2(&mut self) {
        self.has_placed_l2 = true;
    }

    /// The same with L2 as it is known best.
    pub fn as_placed(&self, tally: &Tally) -> Tally {
        if self.has_placed_l2 { tally.as_placed() } else { *tally }
    }

    /// The tally of `owner`.
    #[inline]
    pub fn of(&mut self, owner: Owner) -> &mut Tally {
        match self.book {
            Book::Plain => &mut self.plain[owner.0 as usize],
            Book::Sample => of_growing(&mut self.sample, owner),
            Book::End => of_growing(&mut self.end, owner),
            Book::Warming => of_growing(&mut self.warming, owner),
            Book::Nothing => &mut self.nothing,
        }
    }

    /// `owner` brings a line into L1.
    #[inline]
    pub fn fill_l1(&mut self, owner: Owner) {
        self.of(owner).l1_fills += 1;
        self.note(owner, 0, 1);
    }

    /// `owner` writes a line in L1 that was not dirty, or that `before` wrote last.
    #[inline]
    pub fn dirty_l1(&mut self, owner: Owner, before: Option<Owner>) {
        self.of(owner).l1_dirtied += 1;
        self.note(owner, 1, 1);
        if let Some(before) = before {
            self.of(before).l1_taken_over += 1;
            self.note(before, 1, -1);
        }
    }

    /// A dirty line that `owner` wrote leaves L1.
    #[inline]
    pub fn write_back_l1(&mut self, owner: Owner) {
        self.of(owner).l1_writebacks += 1;
    }

    #[inline]
    fn note(&mut self, owner: Owner, event: usize, more: i64) {
        if self.apart {
            self.noted.entry(owner).or_default()[event] += more;
        }
    }

    /// What happens in L1 is noted apart from now on, or not any more.
    pub fn note_apart(&mut self, apart: bool) {
        self.apart = apart;
    }

    /// What was noted apart of such owners since this was asked last.
    pub fn noted(&mut self, of: impl Fn(Owner) -> bool) -> impl Iterator<Item = (Owner, L1Events)> {
        self.noted.extract_if(move |&owner, _| of(owner))
    }

    /// From now on events are counted in `book`.
    pub fn open(&mut self, book: Book) {
        self.book = book;
    }

    /// A window of the sample begins.
    pub fn begin_window(&mut self, has_l2: bool) {
        let all = (0..self.plain.len() as u32).map(|owner| self.unweighted(Owner(owner), has_l2)).collect();
        self.before_windows = [std::mem::take(&mut self.before_windows[1]), all];
        let compulsory = |tallies: &[Tally]| tallies.iter().map(|tally| tally.compulsory).collect();
        self.before_window = [compulsory(&self.sample), compulsory(&self.warming)];
        self.before_warm_up = self.warming.iter().map(Left::of).collect();
    }

    /// A pause has turned the last level over: lines that were dirty there before it had gone to memory when the present window
    /// began, unless they are of a set that is written again within a turnover. What its warm-up wrote again of the others was
    /// not there in truth. Which they are the warm-up shows: the share of the dirty lines that left L2 in it which it did not
    /// write again. That share, by owner; of those who wrote nothing in it all, if it was as long as a turnover (`warm`), else none.
    pub fn undo_old_rewrites(&mut self, warm: bool) -> Vec<f64> {
        if warm {
            self.warming.resize(self.plain.len(), Tally::default());
        }
        let before = |i: usize| self.before_warm_up.get(i).copied().unwrap_or_default();
        let undo = |(i, tally): (usize, &mut Tally)| {
            let (before, now) = (before(i), Left::of(tally));
            let gone = now.gone_since(&before).unwrap_or(if warm { 1.0 } else { 0.0 });
            let again = ((now.rewritten_later - before.rewritten_later) as f64 * gone).round() as u64;
            (tally.rewritten, tally.rewritten_later) = (tally.rewritten - again, tally.rewritten_later - again);
            gone
        };
        self.warming.iter_mut().enumerate().map(undo).collect()
    }

    /// Of the compulsory misses of the present window only `share` are so; the others are of lines that were touched
    /// where nobody looked, and may still be in the last level unless its warm-up has filled that (`warm`), which during the warm-up
    /// it had not.
    pub fn limit_compulsory(&mut self, share: f64, warm: bool) {
        let books = [(&mut self.sample, warm), (&mut self.warming, false)];
        for ((tallies, warm), before) in books.into_iter().zip(&self.before_window) {
            for (i, tally) in tallies.iter_mut().enumerate() {
                let before = before.get(i).copied().unwrap_or(0);
                let compulsory = before + ((tally.compulsory - before) as f64 * share).round() as u64;
                tally.cold += if warm { 0 } else { tally.compulsory - compulsory };
                tally.compulsory = compulsory;
            }
        }
    }

    /// Puts what `owner` has in `book` away with a weight: plain events, or those of the sample. Always of the same book.
    pub fn put_away(&mut self, book: Book, owner: Owner, weight: f64) {
        let at = owner.0 as usize;
        let tallies = if book == Book::Plain { &mut self.plain } else { &mut self.sample };
        let Some(tally) = tallies.get_mut(at).map(std::mem::take) else { return };
        let weighted = tally.weighted(weight);
        of_growing(&mut self.put_away, owner).add(&weighted);
        if book == Book::Sample {
            let weighed = of_growing(&mut self.weighed, owner);
            weighed.lines += tally.admitted;
            weighed.heavy += weighted.admitted;
            let more = |of: fn(&Tally) -> u64| of(&weighted) as i64 - of(&tally) as i64;
            weighed.l1_writebacks += more(|t| t.l1_writebacks);
            weighed.l2_writebacks += more(|t| t.l2_writebacks);
            weighed.rewritten += more(|t| t.rewritten);
            weighed.rewritten_later += more(|t| t.rewritten_later);
            self.before_window[0].get_mut(at).into_iter().for_each(|before| *before = 0);
        }
    }

    /// Brings what was put away of `owner` back to `book`, weighted as it is.
    pub fn bring_back(&mut self, book: Book, owner: Owner) {
        let tallies = if book == Book::Plain { &mut self.plain } else { &mut self.sample };
        if let Some(tally) = self.put_away.get_mut(owner.0 as usize).map(std::mem::take) {
            of_growing(tallies, owner).add(&tally);
        }
    }

    /// What an event of the sample of `owner` that was put away weighs on average, as the lines that it touched tell; `None` where
    /// there were none.
    pub fn mean_weight(&self, owner: Owner) -> Option<f64> {
        let &Weighed { lines, heavy, .. } = self.weighed.get(owner.0 as usize)?;
        (lines > 0).then(|| heavy as f64 / lines as f64)
    }

    /// What became of the dirty lines by `owner` that left L2 (L1, if `has_l2` is false). A line that leaves in one window may be
    /// written in another one, which weighs more or less: without weights, and in all books together, no more are written
    /// again than have left. To be asked when all is back.
    pub fn fate(&self, owner: Owner, has_l2: bool) -> Fate {
        let (end, looked_at) = (self.end(owner), self.unweighted(owner, has_l2));
        let at_end = if has_l2 { end.l2_writebacks } else { end.l1_writebacks };
        let latest = self.before_windows.iter().find(|before| !before.is_empty());
        let before = |before: &Vec<Left>| before.get(owner.0 as usize).copied().unwrap_or_default();
        let before = latest.map(before).unwrap_or(looked_at);
        let is_new = |of: &Left| of.left.saturating_sub(of.rewritten);
        Fate {
            left: looked_at.left + at_end,
            rewritten: looked_at.rewritten + end.rewritten,
            rewritten_later: looked_at.rewritten_later + end.rewritten_later,
            at_end: end.last_writebacks,
            known: looked_at.rewritten_later.saturating_sub(before.rewritten_later),
            fresh: is_new(&looked_at).saturating_sub(is_new(&before)),
        }
    }

    /// Dirty lines by `owner` before the end, of all books, without weights.
    fn unweighted(&self, owner: Owner, has_l2: bool) -> Left {
        let at = owner.0 as usize;
        let weighed = self.weighed.get(at).copied().unwrap_or_default();
        let all = |of: fn(&Tally) -> u64| -> i64 {
            let books = [&self.plain, &self.sample, &self.warming];
            books.iter().filter_map(|book| book.get(at)).map(|tally| of(tally) as i64).sum()
        };
        let left = match has_l2 {
            true => all(|t| t.l2_writebacks) - weighed.l2_writebacks,
            false => all(|t| t.l1_writebacks) - weighed.l1_writebacks,
        };
        let count = |lines: i64| lines.max(0) as u64;
        Left {
            left: count(left),
            rewritten: count(all(|t| t.rewritten) - weighed.rewritten),
            rewritten_later: count(all(|t| t.rewritten_later) - weighed.rewritten_later),
        }
    }

    /// All is back: there is no more room needed for it.
    pub fn all_back(&mut self) {
        self.put_away = Vec::new();
    }

    /// Where events are counted now.
    pub fn book(&self) -> Book {
        self.book
    }

    /// The tallies of [`Book::Plain`], by owner.
    pub fn plain(&self) -> &[Tally] {
        &self.plain
    }

    /// That of `owner`.
    #[inline]
    pub fn plain_of(&self, owner: Owner) -> &Tally {
        &self.plain[owner.0 as usize]
    }

    /// The tally of [`Book::End`] of `owner`.
    pub fn end(&self, owner: Owner) -> Tally {
        self.end.get(owner.0 as usize).copied().unwrap_or_default()
    }

    /// The tally of [`Book::Sample`] of `owner`.
    pub fn sample(&self, owner: Owner) -> Tally {
        self.sample.get(owner.0 as usize).copied().unwrap_or_default()
    }

    /// The tally of [`Book::Warming`] of `owner`.
    pub fn warming(&self, owner: Owner) -> Tally {
        self.warming.get(owner.0 as usize).copied().unwrap_or_default()
    }

    /// Share of conflicts among the shadowed misses of all owners; 0 without any.
    pub fn conflict_share(&self) -> f64 {
        let all = self.plain.iter().chain(&self.sample);
        let (capacity, conflict) = all.fold((0, 0), |(a, b), t| (a + t.capacity, b + t.conflict));
        if conflict == 0 { 0.0 } else { conflict as f64 / (capacity + conflict) as f64 }
    }
}

/// The tally of `owner` in a list that has those that were asked for so far.
#[inline]
fn of_growing<T: Copy + Default>(tallies: &mut Vec<T>, owner: Owner) -> &mut T {
    let at = owner.0 as usize;
    if tallies.len() <= at {
        tallies.resize(at + 1, T::default());
    }
    &mut tallies[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_a_mean_weight_of_its_own() {
        let mut tallies = Tallies::default();
        let [one, other, idle] = [(); 3].map(|()| tallies.add());
        tallies.open(Book::Sample);
        for (owner, lines, weight) in [(one, 30, 100.0), (other, 20, 1.0), (other, 20, 3.0)] {
            *tallies.of(owner) = Tally { admitted: lines, last_fills: lines, ..Tally::default() };
            tallies.put_away(Book::Sample, owner, weight);
            assert_eq!(*tallies.of(owner), Tally::default());
        }
        assert_eq!([one, other, idle].map(|owner| tallies.mean_weight(owner)), [Some(100.0), Some(2.0), None]);
        [one, other, idle].into_iter().for_each(|owner| tallies.bring_back(Book::Sample, owner));
        // Divided by its mean weight, each has what it had.
        assert_eq!([one, other, idle].map(|owner| tallies.sample(owner).last_fills), [3000, 80, 0]);
    }

    #[test]
    fn what_a_turnover_drove_out_was_not_written_again_but_by_who_does_so_all_the_time() {
        let mut tallies = Tallies::default();
        let owners = [(); 3].map(|()| tallies.add());
        tallies.open(Book::Warming);
        for owner in owners {
            *tallies.of(owner) = Tally { l2_writebacks: 50, rewritten: 9, rewritten_later: 5, ..Tally::default() };
        }
        tallies.begin_window(true);
        // A stream, a set that is written again within the warm-up, and one that did not leave L2 meanwhile.
        for (owner, (left, rewritten)) in owners.into_iter().zip([(40, 30), (40, 60), (0, 30)]) {
            let tally = tallies.of(owner);
            tally.l2_writebacks += left;
            tally.rewritten += rewritten;
            tally.rewritten_later += 30;
        }
        assert_eq!(tallies.undo_old_rewrites(false), [1.0, 0.25, 0.0]);
        let now = owners.map(|owner| (tallies.of(owner).rewritten, tallies.of(owner).rewritten_later));
        assert_eq!(now, [(9, 5), (61, 27), (39, 35)]);
        // Had the warm-up been as long as a turnover, what the third one's lines held would have gone, too.
        assert_eq!(tallies.undo_old_rewrites(true), [1.0, 0.25, 1.0]);
        assert_eq!((tallies.of(owners[2]).rewritten, tallies.of(owners[2]).rewritten_later), (9, 5));
    }

    #[test]
    fn what_is_written_again_is_told_without_weights() {
        let mut tallies = Tallies::default();
        let [one, idle] = [(); 2].map(|()| tallies.add());
        // A light window in which 90 lines leave, the heavy one in which they are written again, and what is seen besides.
        for (left, rewritten, weight) in [(90, 0, 1.0), (0, 80, 50.0)] {
            tallies.open(Book::Sample);
            *tallies.of(one) = Tally { l2_writebacks: left, rewritten, ..Tally::default() };
            tallies.put_away(Book::Sample, one, weight);
        }
        tallies.open(Book::End);
        *tallies.of(one) = Tally { l2_writebacks: 10, last_writebacks: 10, ..Tally::default() };
        tallies.bring_back(Book::Sample, one);
        assert_eq!(tallies.sample(one).rewritten, 4000);
        let fate = tallies.fate(one, true);
        let expected = Fate { left: 100, rewritten: 80, at_end: 10, ..Fate::default() };
        assert_eq!((fate, fate.gone()), (expected, 0.1));
        assert_eq!(tallies.fate(idle, true).gone(), 0.0);
    }

    #[test]
    fn lines_are_known_or_fresh_since_the_last_window_but_one() {
        let mut tallies = Tallies::default();
        let one = tallies.add();
        tallies.open(Book::Plain);
        tallies.of(one).l2_writebacks = 100;
        for _ in 0..3 {
            tallies.begin_window(true);
            tallies.open(Book::Warming);
            let tally = tallies.of(one);
            // Five lines leave, of which one was dirty since before the window, one since shortly before.
            tally.l2_writebacks += 5;
            tally.rewritten += 2;
            tally.rewritten_later += 1;
        }
        let fate = tallies.fate(one, true);
        assert_eq!((fate.left, fate.rewritten, fate.known, fate.fresh), (115, 6, 2, 6));
    }
}
