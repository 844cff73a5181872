//! Estimates L1 events outside bursts from the sample of lines.
//!
//! Bursts see all of L1 for a short time. The sample of lines sees L1 for a long time, but only a part of it, with few sets that evict
//! other lines than L1 does. The sample's events within bursts are therefore compared with the bursts' events, and its events outside
//! bursts are added in proportion to their correlation: the regression estimator, with the sample as auxiliary variable (Cochran, Sampling
//! Techniques, chapter 7):
//!
//! ```text
//! events = bursts scaled up + slope × (sample − sample within bursts scaled up)
//! ```
//!
//! If there are too few bursts for a correlation, or no burst saw a rare event that the sample saw, the mean of both estimates is used:
//! one burst may have met a function only at its start, as it loads its working set.
//!
//! Lines that other cores take are excluded and estimated from bursts alone: in the sample, threads that compete for a line do not take
//! turns as they do if no access is left out.
//!
//! So a function that loads its working set at its start and then hits is estimated from all its starts, not from the one or two that a
//! burst happened to meet. A stream, of which every burst sees the same, has a slope of 0.

use crate::attribution::tallies::{L1Events, Tallies};
use crate::attribution::tally::Tally;
use crate::caches::line::Owner;

/// Minimum number of bursts for a slope.
const ENOUGH_BURSTS: f64 = 3.0;
/// Events are rare below this rate per access: whether a burst met one is weak evidence.
const RARE: f64 = 0.01;
/// Standard errors that an estimate is off by at most, in 19 of 20 cases.
const LIKELY: f64 = 2.0;
/// Maximum slope: a few lines, hardly any of which are in the sample.
const STEEPEST: f64 = 4.0;

/// Events that bursts saw, and events that the sample saw in them.
#[derive(Debug, Default)]
pub struct ControlVariate {
    /// By owner.
    owners: Vec<OfOwner>,
    /// By thread: its present burst.
    present: Vec<Burst>,
    /// By owner: the number of the last burst that met it, and the burst's thread.
    met: Vec<(u32, u32)>,
    bursts: u32,
}

/// The present burst of one thread.
#[derive(Debug, Default)]
struct Burst {
    number: u32,
    /// Accesses and events of each owner when the burst first met it.
    before: Vec<(Owner, u64, L1Events)>,
}

/// The sums of one owner.
#[derive(Debug, Clone, Copy, Default)]
struct OfOwner {
    /// Events of the sample in bursts that are not weighted yet, and the weighted ones.
    noted: [f64; 2],
    put_away: [f64; 2],
    bursts: f64,
    /// Sums over bursts of accesses and their squares.
    a: f64,
    aa: f64,
    kinds: [Moments; 2],
}

/// Sums over bursts of one kind of events: `x` in bursts, `y` in the sample, and products with accesses `a`.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    /// Bursts that saw any.
    bursts: f64,
    x: f64,
    y: f64,
    ax: f64,
    ay: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// Events of L1 of one owner and one kind, each estimate scaled up to all executions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimates {
    /// From bursts.
    pub bursts: f64,
    /// From the sample.
    pub sample: f64,
    /// Number of events that the sample's estimate is based on.
    pub events: f64,
    /// Scale factor of an event in a burst; `lines` is the additional factor of an event in the sample.
    pub scale: f64,
    pub lines: f64,
}

impl ControlVariate {
    /// `owner`, with this tally, is about to access memory in a burst of its thread.
    #[inline]
    pub fn meet(&mut self, thread: u32, owner: Owner, tally: &Tally) {
        let (at, of_thread) = (owner.0 as usize, thread as usize);
        if self.present.len() <= of_thread {
            self.present.resize_with(of_thread + 1, Burst::default);
        }
        let burst = &mut self.present[of_thread];
        if burst.before.is_empty() {
            self.bursts += 1;
            burst.number = self.bursts;
        }
        if self.met.len() <= at {
            self.met.resize(at + 1, (0, thread));
        }
        if self.met[at].0 != burst.number {
            self.met[at] = (burst.number, thread);
            burst.before.push((owner, tally.accesses, tally.own_events()));
        }
    }

    /// Ends the present burst of `thread`, if there is one: `full` has the tallies of all accesses, `sample` the events noted apart.
    pub fn end_burst(&mut self, thread: u32, full: &Tallies, sample: &mut Tallies) -> bool {
        let Some(burst) = self.present.get_mut(thread as usize).filter(|burst| !burst.before.is_empty()) else {
            return false;
        };
        let before = std::mem::take(&mut burst.before);
        let met = &self.met;
        let of_thread = |owner: Owner| met.get(owner.0 as usize).is_none_or(|&(_, its)| its == thread);
        let mut noted: Vec<(Owner, L1Events)> = sample.noted(of_thread).collect();
        noted.sort_unstable_by_key(|(owner, _)| owner.0);
        for (owner, events) in &noted {
            let noted = &mut self.of(*owner).noted;
            noted.iter_mut().zip(events).for_each(|(sum, more)| *sum += *more as f64);
        }
        for (owner, accesses, events) in before {
            let now = &full.plain()[owner.0 as usize];
            let in_sample = noted.binary_search_by_key(&owner.0, |(owner, _)| owner.0).map_or([0, 0], |at| noted[at].1);
            let own = now.own_events();
            let in_burst = [own[0] - events[0], own[1] - events[1]];
            self.of(owner).add((now.accesses - accesses) as f64, in_burst, in_sample);
        }
        true
    }

    /// All bursts are over.
    pub fn end_bursts(&mut self, full: &Tallies, sample: &mut Tallies) {
        for thread in 0..self.present.len() as u32 {
            self.end_burst(thread, full, sample);
        }
    }

    fn of(&mut self, owner: Owner) -> &mut OfOwner {
        let at = owner.0 as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, OfOwner::default());
        }
        &mut self.owners[at]
    }

    /// Gives this weight to the bursts of `owner` that are not weighted yet. Not within a burst.
    pub fn put_away(&mut self, owner: Owner, weight: f64) {
        if let Some(OfOwner { noted, put_away, .. }) = self.owners.get_mut(owner.0 as usize) {
            noted.iter_mut().zip(put_away).for_each(|(noted, all)| *all += weight * std::mem::take(noted));
        }
    }

    /// Estimates the events of this kind that `owner` caused in L1, fills (0) or write-backs (1) of [`Tally::own_events`], and their
    /// standard error.
    pub fn estimate(&self, owner: Owner, kind: usize, estimates: Estimates) -> (f64, f64) {
        let Estimates { bursts, sample, events, scale, lines } = estimates;
        let of_owner = self.owners.get(owner.0 as usize).copied().unwrap_or_default();
        let of_kind = &of_owner.kinds[kind];
        let few_bursts = of_owner.bursts < ENOUGH_BURSTS;
        if few_bursts || of_kind.x < RARE * of_owner.a && of_kind.y == 0.0 {
            // Two estimates of one quantity, each weighted by its number of independent observations. The mean has the error of that many
            // random events, and more if bursts that met events differ from the sample by more than chance.
            let (by_bursts, by_sample) = (of_kind.bursts, events);
            let both = by_bursts + by_sample;
            if both == 0.0 {
                return (0.0, 0.0);
            }
            let mean = (by_bursts * bursts + by_sample * sample) / both;
            let by_chance = if by_bursts > 0.0 { LIKELY * bursts / by_bursts.sqrt() } else { f64::INFINITY };
            let apart = ((bursts - sample).abs() - by_chance).max(0.0);
            return (mean, (mean / both.sqrt()).hypot(apart));
        }
        let within = scale * lines * (of_owner.noted[kind] + of_owner.put_away[kind]);
        let (slope, error) = of_owner.regression(kind, lines);
        ((bursts + slope * (sample - within)).max(0.0), error * bursts)
    }
}

impl OfOwner {
    fn add(&mut self, a: f64, x: L1Events, y: L1Events) {
        self.bursts += 1.0;
        self.a += a;
        self.aa += a * a;
        for (moments, (x, y)) in self.kinds.iter_mut().zip(x.into_iter().zip(y)) {
            let (x, y) = (x as f64, y as f64);
            moments.bursts += f64::from(u8::from(x > 0.0));
            moments.x += x;
            moments.y += y;
            moments.ax += a * x;
            moments.ay += a * y;
            moments.xx += x * x;
            moments.xy += x * y;
            moments.yy += y * y;
        }
    }

    /// The events of bursts per event of the sample, which represents `lines` lines, with the part proportional to accesses removed; and
    /// the scatter of bursts around this estimate, relative to their sum.
    fn regression(&self, kind: usize, lines: f64) -> (f64, f64) {
        let &OfOwner { bursts, a, aa, .. } = self;
        let Moments { x, y, ax, ay, xx, xy, yy, .. } = self.kinds[kind];
        if bursts < ENOUGH_BURSTS || x == 0.0 {
            return (0.0, 0.0);
        }
        let (per_x, per_y) = (x / a, y / a);
        let xx = (xx - 2.0 * per_x * ax + per_x * per_x * aa).max(0.0);
        let xy = xy - per_x * ay - per_y * ax + per_x * per_y * aa;
        let yy = yy - 2.0 * per_y * ay + per_y * per_y * aa;
        let slope = if yy > 1e-9 * y * y { (xy / yy / lines).clamp(0.0, STEEPEST) } else { 0.0 };
        let left = xx - 2.0 * slope * lines * xy + slope * slope * lines * lines * yy;
        (slope, (bursts / (bursts - 1.0) * left.max(0.0)).sqrt() / x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::tallies::Stratum;

    /// Bursts of 1000 accesses each, with their fills and the fills in the sample of one line in 32.
    fn after(bursts: &[(u64, u64)]) -> (ControlVariate, u64) {
        let (mut control, mut full, mut sample) = (ControlVariate::default(), Tallies::default(), Tallies::default());
        let owner = full.add();
        full.open(Stratum::Plain);
        sample.add();
        for &(fills, of_sample) in bursts {
            control.meet(0, owner, &full.plain()[0]);
            full.of(owner).accesses += 1000;
            full.of(owner).l1_fills += fills;
            sample.note_apart(true);
            (0..of_sample).for_each(|_| sample.fill_l1(owner, false));
            sample.note_apart(false);
            // Not in a burst.
            sample.fill_l1(owner, false);
            control.meet(0, owner, &full.plain()[0]);
            control.end_burst(0, &full, &mut sample);
            control.end_burst(0, &full, &mut sample);
        }
        (control, bursts.iter().map(|(fills, _)| fills).sum())
    }

    fn estimate(bursts: &[(u64, u64)], sample: f64) -> (f64, f64) {
        let (control, fills) = after(bursts);
        let events = sample / 32.0;
        let estimates = Estimates { bursts: 100.0 * fills as f64, sample, events, scale: 100.0, lines: 32.0 };
        control.estimate(Owner(0), 0, estimates)
    }

    #[test]
    fn what_goes_together_is_told_by_the_sample() {
        // A working set of 64 lines, loaded twelve times, one of which a burst met: too many without the sample.
        let (fills, error) = estimate(&[(0, 0), (64, 2), (0, 0), (0, 0)], 12.0 * 64.0);
        assert!((fills - 12.0 * 64.0).abs() < 1e-6 && error < 1e-6, "{fills} {error}");
        // None, and all the same.
        assert_eq!(estimate(&[(0, 0), (0, 0)], 12.0 * 64.0).0, 12.0 * 64.0);
    }

    #[test]
    fn what_bursts_know_well_stays() {
        // A stream: each burst misses alike, and the sample scatters.
        let (fills, error) = estimate(&[(125, 3), (125, 5), (125, 4)], 50_000.0);
        assert_eq!((fills, error), (37_500.0, 0.0));
        // Conflicts, none of which are in the sample.
        assert_eq!(estimate(&[(900, 0), (1000, 0), (1000, 0)], 0.0).0, 290_000.0);
        // Two bursts do not show a correlation, and differ from the sample by more than two errors.
        let (fills, error) = estimate(&[(125, 3), (0, 0)], 50_000.0);
        assert!((fills - (12_500.0 + 1562.5 * 50_000.0) / 1563.5).abs() < 1e-6, "{fills}");
        assert!(error > 12_500.0 && error < 13_000.0, "{error}");
        // One burst that met a function at its start and had 18 times as many misses as the sample.
        let (fills, error) = estimate(&[(960, 30)], 16.0 * 320.0);
        assert!(fills / 5_120.0 < 1.2 && fills - 2.0 * error < 5_120.0, "{fills} {error}");
    }

    #[test]
    fn rare_events_are_told_by_whatever_saw_them() {
        // One burst met eight; the sample met 15 or none elsewhere, and by chance none of those eight.
        assert_eq!(estimate(&[(8, 0), (0, 0), (0, 0), (0, 0)], 480.0).0, (800.0 + 15.0 * 480.0) / 16.0);
        assert_eq!(estimate(&[(8, 0), (0, 0)], 0.0).0, 800.0);
        assert_eq!(estimate(&[(0, 0), (0, 0)], 480.0).0, 480.0);
        // Unless they are frequent.
        assert_eq!(estimate(&[(80, 0), (0, 0), (0, 0), (0, 0)], 480.0).0, 8_000.0);
    }

    #[test]
    fn bursts_of_threads_are_their_own() {
        let (mut control, mut full, mut sample) = (ControlVariate::default(), Tallies::default(), Tallies::default());
        let owners = [full.add(), full.add()];
        full.open(Stratum::Plain);
        owners.iter().for_each(|_| _ = sample.add());
        // Both threads have a burst of two parts at one time.
        for _ in 0..2 {
            for (thread, owner) in (0..).zip(owners) {
                control.meet(thread, owner, full.plain_of(owner));
                full.of(owner).accesses += 500;
                full.of(owner).l1_fills += 50;
                sample.note_apart(true);
                sample.fill_l1(owner, false);
            }
        }
        assert!(control.end_burst(0, &full, &mut sample) && !control.end_burst(0, &full, &mut sample));
        full.of(owners[1]).l1_fills += 10;
        control.end_bursts(&full, &mut sample);
        let of = |owner: Owner| {
            let of_owner = control.owners[owner.0 as usize];
            (of_owner.bursts, of_owner.a, of_owner.kinds[0].x, of_owner.noted[0])
        };
        assert_eq!(owners.map(of), [(1.0, 1000.0, 100.0, 2.0), (1.0, 1000.0, 110.0, 2.0)]);
    }

    #[test]
    fn what_is_rare_is_known_as_well_as_its_events_are_many() {
        // One burst in two saw four, the sample 15: the mean of both, and 1 / sqrt(16) of it.
        let (fills, error) = estimate(&[(4, 0), (0, 0)], 15.0 * 32.0);
        assert!((fills - (400.0 + 15.0 * 480.0) / 16.0).abs() < 1e-9 && (error - fills / 4.0).abs() < 1e-9, "{error}");
        assert_eq!(estimate(&[(0, 0)], 0.0), (0.0, 0.0));
    }

    #[test]
    fn bursts_that_differ_have_an_error() {
        let (fills, error) = estimate(&[(0, 0), (200, 0), (0, 0), (200, 0)], 0.0);
        // Four bursts of 100 ± 115 each.
        assert!((fills, (error / fills - 0.5 * (4.0f64 / 3.0).sqrt()).abs() < 1e-9) == (40_000.0, true), "{error}");
    }

    #[test]
    fn weights_are_those_of_bursts() {
        let (mut control, _) = after(&[(64, 2), (64, 2), (0, 0), (0, 0)]);
        control.put_away(Owner(0), 3.0);
        control.put_away(Owner(0), 1e9);
        let estimates = Estimates { bursts: 3.0 * 128.0, sample: 500.0, events: 16.0, scale: 1.0, lines: 32.0 };
        assert!((control.estimate(Owner(0), 0, estimates).0 - 500.0).abs() < 1e-9);
    }
}
