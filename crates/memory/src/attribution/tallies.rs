//! The tallies of all instructions and threads, in strata by the scale of their events.

use std::collections::HashMap;

use crate::attribution::tally::Tally;
use crate::caches::hash::Mixing;
use crate::caches::line::Owner;

/// The part of the program that a stratum's events represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stratum {
    /// Only themselves.
    #[default]
    Plain,
    /// Themselves and the program's pauses.
    Sample,
    /// The end of the program: lines left in the caches.
    End,
    /// Themselves and the pauses, for instructions that only the warm-up of windows saw.
    Warming,
    /// No part: its events are discarded.
    Nothing,
}

impl Stratum {
    /// All, in order.
    pub const ALL: [Stratum; 5] = [Stratum::Plain, Stratum::Sample, Stratum::End, Stratum::Warming, Stratum::Nothing];
}

/// The tallies of all owners. All lists but the first grow when something is counted in them.
#[derive(Debug, Default)]
pub struct Tallies {
    plain: Vec<Tally>,
    sample: Vec<Tally>,
    end: Vec<Tally>,
    warming: Vec<Tally>,
    nothing: Tally,
    stratum: Stratum,
    /// Compulsory misses of the sample and of warm-ups before the present window, by owner.
    before_window: [Vec<u64>; 2],
    /// Events that were put away, weighted, of one stratum.
    put_away: Vec<Tally>,
    /// By owner: lines of the sample that were put away.
    weighed: Vec<Weighed>,
    /// There is a second L2, indexed by the frames of pages.
    has_placed_l2: bool,
    /// The caches that are indexed by the frames of pages are left out.
    ignores_frames: bool,
    /// Whether L1 events are also noted apart, and the events noted so.
    apart: bool,
    noted: HashMap<Owner, L1Events, Mixing>,
}

/// Lines that one owner touched in the part of the sample that was put away, with their weights and without.
#[derive(Debug, Clone, Copy, Default)]
struct Weighed {
    lines: u64,
    heavy: u64,
}

/// L1 events: [`Tally::own_events`].
pub type L1Events = [i64; 2];

impl Tallies {
    /// Adds an owner with an empty tally.
    pub fn add(&mut self) -> Owner {
        self.plain.push(Tally::default());
        Owner((self.plain.len() - 1) as u32)
    }

    /// From now on there is a second L2, indexed by the frames of pages.
    pub fn place_l2(&mut self) {
        self.has_placed_l2 = true;
    }

    /// Leaves out the caches that are indexed by the frames of pages.
    pub fn ignore_frames(&mut self) {
        self.ignores_frames = true;
    }

    /// The tally with the best estimate for L2 and the last level.
    pub fn as_placed(&self, tally: &Tally) -> Tally {
        if self.ignores_frames {
            return *tally;
        }
        let known = tally.with_placed_last();
        if self.has_placed_l2 { known.with_placed_l2() } else { known }
    }

    /// The tally of `owner`.
    #[inline]
    pub fn of(&mut self, owner: Owner) -> &mut Tally {
        match self.stratum {
            Stratum::Plain => &mut self.plain[owner.0 as usize],
            Stratum::Sample => of_growing(&mut self.sample, owner),
            Stratum::End => of_growing(&mut self.end, owner),
            Stratum::Warming => of_growing(&mut self.warming, owner),
            Stratum::Nothing => &mut self.nothing,
        }
    }

    /// `owner` brings a line into L1, which another core had taken if it was `lost`.
    #[inline]
    pub fn fill_l1(&mut self, owner: Owner, lost: bool) {
        let tally = self.of(owner);
        tally.l1_fills += 1;
        tally.coherence += u64::from(lost);
        if !lost {
            self.note(owner, 0, 1);
        }
    }

    /// Another core gets a dirty line out of L1 that `owner` wrote.
    pub fn hand_over(&mut self, owner: Owner) {
        self.of(owner).handed_over += 1;
        self.note(owner, 1, -1);
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

    /// Starts or stops noting L1 events apart.
    pub fn note_apart(&mut self, apart: bool) {
        self.apart = apart;
    }

    /// L1 events noted apart for these owners since the last call.
    pub fn noted(&mut self, of: impl Fn(Owner) -> bool) -> impl Iterator<Item = (Owner, L1Events)> {
        self.noted.extract_if(move |&owner, _| of(owner))
    }

    /// From now on events are counted in `stratum`.
    pub fn open(&mut self, stratum: Stratum) {
        self.stratum = stratum;
    }

    /// A window of the sample begins.
    pub fn begin_window(&mut self) {
        let compulsory = |tallies: &[Tally]| tallies.iter().map(|tally| tally.compulsory).collect();
        self.before_window = [compulsory(&self.sample), compulsory(&self.warming)];
    }

    /// Of the compulsory misses of the present window only `share` are compulsory. The others are lines that were touched outside windows.
    /// They may still be in the last level unless the warm-up has filled it (`warm`); misses during the warm-up count as if it had not.
    /// `missing`: the part of them that is not there. The doubt is the standard deviation of that part, and all of them if nothing is
    /// known of it (`None`) and all count as missing.
    pub fn limit_compulsory(&mut self, share: f64, warm: bool, missing: Option<f64>) {
        let doubt = missing.map_or(1.0, |part| (part * (1.0 - part)).sqrt());
        let found = missing.map_or(0.0, |part| 1.0 - part);
        let strata = [(&mut self.sample, warm), (&mut self.warming, false)];
        for ((tallies, warm), before) in strata.into_iter().zip(&self.before_window) {
            for (i, tally) in tallies.iter_mut().enumerate() {
                let before = before.get(i).copied().unwrap_or(0);
                let compulsory = before + ((tally.compulsory - before) as f64 * share).round() as u64;
                if !warm {
                    let touched_before = (tally.compulsory - compulsory) as f64;
                    tally.cold += (touched_before * doubt).round() as u64;
                    tally.last_fills -= ((touched_before * found).round() as u64).min(tally.last_fills);
                }
                tally.compulsory = compulsory;
            }
        }
    }

    /// Puts the events of `owner` in `stratum` away with a weight: plain events, or those of the sample. Always of the same stratum.
    pub fn apply_weight(&mut self, stratum: Stratum, owner: Owner, weight: f64) {
        let at = owner.0 as usize;
        let tallies = if stratum == Stratum::Plain { &mut self.plain } else { &mut self.sample };
        let Some(tally) = tallies.get_mut(at).map(std::mem::take) else { return };
        let weighted = tally.weighted(weight);
        of_growing(&mut self.put_away, owner).add(&weighted);
        if stratum == Stratum::Sample {
            let weighed = of_growing(&mut self.weighed, owner);
            weighed.lines += tally.visited;
            weighed.heavy += weighted.visited;
            self.before_window[0].get_mut(at).into_iter().for_each(|before| *before = 0);
        }
    }

    /// Brings the events of `owner` that were put away back to `stratum`, with their weights.
    pub fn merge_weighted(&mut self, stratum: Stratum, owner: Owner) {
        let tallies = if stratum == Stratum::Plain { &mut self.plain } else { &mut self.sample };
        if let Some(tally) = self.put_away.get_mut(owner.0 as usize).map(std::mem::take) {
            of_growing(tallies, owner).add(&tally);
        }
    }

    /// Mean weight of the events of `owner`'s sample that were put away, from the lines that it visited; `None` if there were none.
    pub fn mean_weight(&self, owner: Owner) -> Option<f64> {
        let &Weighed { lines, heavy, .. } = self.weighed.get(owner.0 as usize)?;
        (lines > 0).then(|| heavy as f64 / lines as f64)
    }

    /// Frees the room of events put away, after all of them were brought back.
    pub fn all_back(&mut self) {
        self.put_away = Vec::new();
    }

    /// The stratum that events are counted in now.
    pub fn stratum(&self) -> Stratum {
        self.stratum
    }

    /// The tallies of [`Stratum::Plain`], by owner.
    pub fn plain(&self) -> &[Tally] {
        &self.plain
    }

    /// That of `owner`.
    #[inline]
    pub fn plain_of(&self, owner: Owner) -> &Tally {
        &self.plain[owner.0 as usize]
    }

    /// The tally of [`Stratum::End`] of `owner`.
    pub fn end(&self, owner: Owner) -> Tally {
        self.end.get(owner.0 as usize).copied().unwrap_or_default()
    }

    /// The tally of [`Stratum::Sample`] of `owner`.
    pub fn sample(&self, owner: Owner) -> Tally {
        self.sample.get(owner.0 as usize).copied().unwrap_or_default()
    }

    /// The tally of [`Stratum::Warming`] of `owner`.
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

/// The tally of `owner` in a list that grows on demand.
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
        tallies.open(Stratum::Sample);
        for (owner, lines, weight) in [(one, 30, 100.0), (other, 20, 1.0), (other, 20, 3.0)] {
            *tallies.of(owner) = Tally { visited: lines, last_fills: lines, ..Tally::default() };
            tallies.apply_weight(Stratum::Sample, owner, weight);
            assert_eq!(*tallies.of(owner), Tally::default());
        }
        assert_eq!([one, other, idle].map(|owner| tallies.mean_weight(owner)), [Some(100.0), Some(2.0), None]);
        [one, other, idle].into_iter().for_each(|owner| tallies.merge_weighted(Stratum::Sample, owner));
        // Divided by its mean weight, each has its unweighted events.
        assert_eq!([one, other, idle].map(|owner| tallies.sample(owner).last_fills), [3000, 80, 0]);
    }

    #[test]
    fn lines_touched_before_are_found_as_far_as_the_last_level_has_room() {
        let after = |warm, missing| {
            let mut tallies = Tallies::default();
            let one = tallies.add();
            tallies.begin_window();
            tallies.open(Stratum::Sample);
            *tallies.of(one) = Tally { last_fills: 100, compulsory: 80, ..Tally::default() };
            tallies.limit_compulsory(0.0, warm, missing);
            let tally = tallies.of(one);
            (tally.last_fills, tally.compulsory, tally.cold)
        };
        assert_eq!(after(true, Some(0.5)), (100, 0, 0), "the warm-up has filled the level: they are not there");
        assert_eq!(after(false, None), (100, 0, 80), "nothing is known: they may all be there");
        assert_eq!(after(false, Some(0.0)), (20, 0, 0), "all have room");
        assert_eq!(after(false, Some(0.5)), (60, 0, 40));
    }

    #[test]
    fn what_other_cores_take_is_not_noted_apart() {
        let mut tallies = Tallies::default();
        let one = tallies.add();
        tallies.note_apart(true);
        for lost in [false, true, true] {
            tallies.fill_l1(one, lost);
            tallies.dirty_l1(one, None);
        }
        tallies.hand_over(one);
        tallies.hand_over(one);
        assert_eq!(tallies.plain_of(one).own_events(), [1, 1]);
        assert_eq!(tallies.noted(|_| true).collect::<Vec<_>>(), [(one, [1, 1])]);
    }
}
