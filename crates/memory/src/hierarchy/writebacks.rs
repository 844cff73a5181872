//! Write-backs to memory of a program that is sampled in windows.
//!
//! A dirty line leaves the last level long after the store, when the program may execute other code and the sampler may look at another
//! part of it, or at none. The fill of a line is known best. So the model follows each stay of a line in the caches from its fill on, and
//! gives the stay the weight of the fill. The stay ends with a write-back if any instruction wrote the line meanwhile; the last writer is
//! charged for it.
//!
//! ```text
//!         fill by F ─────────── writes ────────────▶ eviction, or the end of the program
//!   events of F stand for w                          w lines written back by the last writer, or none
//! ```
//!
//! So memory receives no more lines than came from it (except lines that another last level requests, which are written each time), and a
//! set that stays in the caches is written once, however often the program writes it.
//!
//! A stay that a pause interrupts goes on if the model still has the line afterwards. If no access uses the line there any more, the rest
//! of its stay was not seen: a line that was clean may have been written later. The frequency of that is estimated from stays of the same
//! instruction that were followed to their end.
//!
//! A window sees stays that are as long as a pause, wherever their fill was: stays that began before the pause and still go on represent
//! themselves. If the pause turned the last level over, the line may have left and returned meanwhile, unless the window uses it soon: in
//! its warm-up, and when it measures. Stays that began in the first half of the program's start and still go on in the second half also
//! represent themselves: the start has met all lines of that kind.

use std::collections::HashMap;

use crate::attribution::tallies::Stratum;
use crate::caches::hash::Mixing;
use crate::caches::line::{Line, Owner, State};

/// Maximum number of kinds of stays: 32 bytes each.
const MOST_KINDS: usize = 1 << 17;
/// Stays of one instruction, followed to their end, that suffice to extrapolate to others.
const ENOUGH: u64 = 64;

/// All stays in the caches.
#[derive(Debug, Default)]
pub struct CacheResidencies {
    /// Those that go on, by last level.
    present: Vec<HashMap<Line, CacheResidency, Mixing>>,
    /// The latest pause did not turn the last level over: stays that began before it and still go on were never interrupted.
    outlast: bool,
    /// A window measures, or the second half of the start runs: lines that are not idle were used in it.
    measuring: bool,
    /// Those that are over, by owner of their fill.
    over: Vec<Vec<Over>>,
    kinds: usize,
}

/// A stay that goes on: 8 bytes for each line in the caches.
#[derive(Debug, Clone, Copy)]
struct CacheResidency {
    /// The owner of its fill; above [`STRATUM_SHIFT`] the fill's stratum, and whether the stay began before the latest pause, or before the
    /// current half of the start ([`OLD`]).
    filler: u32,
    /// Weight of the fill among the fills of its instruction; [`UNKNOWN`] until windows are weighted.
    weight: f32,
}

/// The number of owners is below two to this power.
const STRATUM_SHIFT: u32 = 28;
const OLD: u32 = 1 << 31;
/// The stratum of stays that represent only themselves.
const ITSELF: Stratum = Stratum::End;
const UNKNOWN: f32 = 0.0;

/// All stays of one kind that are over.
#[derive(Debug, Clone, Copy)]
struct Over {
    kind: Kind,
    /// Their number, the sum of the known weights, and the number of stays without a known weight.
    stays: u32,
    unweighted: u32,
    weight: f64,
}

/// The kind of a stay that began with one owner's fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    stratum: Stratum,
    /// The last writer of the line.
    writer: Option<Owner>,
    /// It was followed to its end.
    followed: bool,
}

/// Scale and error of one owner's fills.
#[derive(Debug, Clone, Copy)]
pub struct KnownFills {
    /// Lines of the program per line, by [`Stratum`], without the weight.
    pub stands_for: [f64; Stratum::ALL.len()],
    /// Their relative error.
    pub error: f64,
}

/// Lines written to memory for one owner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Written {
    /// Their number.
    pub lines: f64,
    /// Their standard error, from errors of the fills and from stays that were not followed.
    pub scatter: f64,
}

impl CacheResidencies {
    /// `line` comes from memory to last level `last`, for `filler`.
    pub fn begin(&mut self, last: usize, line: Line, filler: Owner, stratum: Stratum) {
        if self.present.len() <= last {
            self.present.resize_with(last + 1, HashMap::default);
        }
        if let Some(before) = self.present[last].insert(line, CacheResidency::new(filler, stratum)) {
            // The line left unnoticed: clean.
            self.end_stay(before, None, true);
        }
    }

    /// `line` leaves last level `last` in this `state`, in an event of `stratum`. If the model did not see its fill (a level had given the
    /// line up while a private cache still held it, dirty), it has the scale of the writer's own events.
    pub fn end(&mut self, last: usize, line: Line, state: State, stratum: Stratum) {
        let mut stay = self.present.get_mut(last).and_then(|present| present.remove(&line));
        stay.iter_mut().filter(|_| self.outlasts(state)).for_each(CacheResidency::outlast);
        if let Some(stay) = stay.or_else(|| state.writer().map(|filler| CacheResidency::new(filler, stratum))) {
            self.end_stay(stay, state.writer(), !state.is_stale());
        }
    }

    /// Whether a line in this state that was there before the latest pause stayed all the time.
    fn outlasts(&self, state: State) -> bool {
        !state.is_stale() && (self.outlast || self.measuring && !state.is_idle())
    }

    /// A pause is over; the caches held these `lines` before it.
    pub fn pause(&mut self, lines: impl Iterator<Item = (usize, Line, State)>) {
        for (last, line, state) in lines {
            if self.outlasts(state) {
                let stay = self.present.get_mut(last).and_then(|present| present.get_mut(&line));
                stay.into_iter().for_each(CacheResidency::outlast);
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

    fn end_stay(&mut self, stay: CacheResidency, writer: Option<Owner>, followed: bool) {
        let over = self.over(stay.filler(), Kind { stratum: stay.stratum(), writer, followed });
        over.stays = over.stays.saturating_add(1);
        if stay.weight == UNKNOWN {
            over.unweighted += 1;
        } else {
            over.weight += f64::from(stay.weight);
        }
    }

    /// The entry for this kind of `filler`'s stays; if there are too many kinds, the entry of the writer's own.
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

    /// Sets the weight of fills in windows of unknown weight, for owners that have one.
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

    /// Lines written to memory, by last writer, once all stays are over; `known` returns the scale and error of an owner's fills.
    pub fn written(mut self, known: impl Fn(Owner) -> KnownFills) -> HashMap<Owner, Written, Mixing> {
        for stay in std::mem::take(&mut self.present).into_iter().flat_map(HashMap::into_values) {
            self.end_stay(stay, None, false);
        }
        self.weigh(|_| Some(1.0));
        let mut written: HashMap<Owner, Written, Mixing> = HashMap::default();
        for (filler, over) in (0..).map(Owner).zip(&self.over).filter(|(_, over)| !over.is_empty()) {
            let mut fills = Fills::default();
            let KnownFills { stands_for, error } = known(filler);
            over.iter().for_each(|over| fills.add(over, stands_for[over.kind.stratum as usize]));
            let unseen_share = fills.written_unseen() / fills.followed_dirty().max(1e-9);
            for (writer, of_writer) in &fills.writers {
                let more = unseen_share * of_writer.followed;
                let Written { lines, scatter } = written.entry(*writer).or_default();
                *lines += of_writer.all + more;
                // The relative error of one instruction's fills applies to all their lines, except those that represent themselves.
                *scatter += (error * (of_writer.all + more - of_writer.themselves)).hypot(more);
            }
        }
        written
    }
}

impl CacheResidency {
    /// A stay that begins with an event of `filler` in this stratum; in windows its weight is set later.
    fn new(filler: Owner, stratum: Stratum) -> Self {
        let weight = if stratum == Stratum::Sample { UNKNOWN } else { 1.0 };
        CacheResidency { filler: filler.0 | (stratum as u32) << STRATUM_SHIFT, weight }
    }

    /// The line is found still present.
    fn outlast(&mut self) {
        if self.filler & OLD != 0 {
            *self = CacheResidency { filler: CacheResidency::new(self.filler(), ITSELF).filler, weight: 1.0 };
        }
    }

    fn filler(&self) -> Owner {
        Owner(self.filler & ((1 << STRATUM_SHIFT) - 1))
    }

    fn stratum(&self) -> Stratum {
        Stratum::ALL[((self.filler & !OLD) >> STRATUM_SHIFT) as usize]
    }
}

/// The lines that one instruction brought from memory, by outcome.
#[derive(Debug, Default)]
struct Fills {
    writers: HashMap<Owner, OfWriter, Mixing>,
    /// Lines of stays that were followed to their end and of all stays; clean lines of both.
    followed: f64,
    followed_clean: f64,
    all: f64,
    all_clean: f64,
    /// Number of followed stays.
    stays: u64,
}

/// Lines of these fills that one owner wrote last.
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
        of_writer.themselves += if kind.stratum == ITSELF { lines } else { 0.0 };
        of_writer.followed += if kind.followed { lines } else { 0.0 };
    }

    fn followed_dirty(&self) -> f64 {
        self.followed - self.followed_clean
    }

    /// Lines that were clean when they were seen last and were written later, if stays that were not followed end dirty as often as
    /// followed stays.
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

    /// Windows have a factor of 10, and the fills of `ONE` have an error of 5 %.
    fn written(stays: CacheResidencies) -> [(f64, f64); 2] {
        let stands_for = Stratum::ALL.map(|stratum| if stratum == Stratum::Sample { 10.0 } else { 1.0 });
        let written = stays.written(|filler| KnownFills { stands_for, error: if filler == ONE { 0.05 } else { 0.0 } });
        [ONE, OTHER].map(|owner| written.get(&owner).map_or((0.0, 0.0), |w| (w.lines, w.scatter)))
    }

    #[test]
    fn a_line_is_written_back_as_often_as_it_came() {
        let mut stays = CacheResidencies::default();
        lines(0..100).for_each(|line| stays.begin(0, line, ONE, Stratum::Plain));
        lines(100..200).for_each(|line| stays.begin(0, line, ONE, Stratum::Sample));
        // Half of the fills in windows leave before their weight is known, the other half after.
        let dirty = State::dirty(OTHER);
        lines(100..150).for_each(|line| stays.end(0, line, dirty, Stratum::Warming));
        stays.weigh(|owner| (owner == ONE).then_some(3.0));
        lines(150..180).for_each(|line| stays.end(0, line, dirty, Stratum::End));
        lines(0..100).chain(lines(180..200)).for_each(|line| stays.end(0, line, State::CLEAN, Stratum::End));
        let [(of_one, _), (of_other, scatter)] = written(stays);
        assert_eq!((of_one, of_other), (0.0, 80.0 * 30.0));
        assert!((scatter - 0.05 * of_other).abs() < 1e-9, "as well known as the fills that brought them");
    }

    #[test]
    fn last_levels_have_lines_of_their_own_and_others_are_the_writers() {
        let mut stays = CacheResidencies::default();
        stays.begin(0, Line(7), ONE, Stratum::Plain);
        stays.begin(1, Line(7), OTHER, Stratum::Plain);
        stays.end(1, Line(7), State::dirty(OTHER), Stratum::Plain);
        // Another level still has the line that this one gave up.
        stays.end(1, Line(7), State::dirty(OTHER), Stratum::Sample);
        stays.end(0, Line(7), State::dirty(ONE), Stratum::Plain);
        assert_eq!(written(stays).map(|(lines, _)| lines), [1.0, 11.0]);
    }

    #[test]
    fn what_a_pause_hides_is_told_by_stays_that_it_does_not() {
        let mut stays = CacheResidencies::default();
        lines(0..200).for_each(|line| stays.begin(0, line, ONE, Stratum::Plain));
        lines(0..50).for_each(|line| stays.end(0, line, State::dirty(OTHER), Stratum::Plain));
        lines(50..100).for_each(|line| stays.end(0, line, State::CLEAN, Stratum::Plain));
        lines(100..110).for_each(|line| stays.end(0, line, State::dirty(OTHER).aged(), Stratum::Plain));
        lines(110..200).for_each(|line| stays.end(0, line, State::CLEAN.aged(), Stratum::Plain));
        let [_, (lines_written, scatter)] = written(stays);
        assert!((lines_written - 100.0).abs() < 1e-9, "{lines_written}");
        assert!((scatter - 5.0f64.hypot(40.0)).abs() < 1e-9, "40 of them nobody saw: {scatter}");
    }

    #[test]
    fn stays_that_outlast_a_pause_stand_for_themselves() {
        let run = |outlast, state: State| {
            let mut stays = CacheResidencies::default();
            lines(0..20).for_each(|line| stays.begin(0, line, ONE, Stratum::Sample));
            stays.pause(std::iter::empty());
            // Met in a warm-up, which has no scale otherwise.
            lines(20..30).for_each(|line| stays.begin(0, line, ONE, Stratum::Warming));
            stays.measure(outlast);
            lines(0..10).for_each(|line| stays.end(0, line, state, Stratum::Sample));
            stays.pause(lines(10..30).map(|line| (0, line, state)));
            stays.measure(outlast);
            lines(10..30).for_each(|line| stays.end(0, line, state, Stratum::End));
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
        let mut stays = CacheResidencies::default();
        for number in 0..MOST_KINDS as u64 + 10 {
            stays.begin(0, Line(number), Owner(number as u32), Stratum::Plain);
            stays.end(0, Line(number), State::dirty(OTHER), Stratum::Plain);
        }
        assert!(stays.kinds <= MOST_KINDS + 1);
        assert_eq!(written(stays)[1].0, MOST_KINDS as f64 + 10.0);
    }
}
