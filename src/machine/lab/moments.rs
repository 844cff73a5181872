//! Moments at which a ceiling was measured.
//!
//! What neighbours are part of, DRAM and the last cache of a shared host, changes between states that last for seconds. What the
//! machine can do is the highest state; a value is settled when that state came back at another moment, and the lower one is told
//! beside it. One that none of many other moments comes near is no state, if the interval of the one that stands reaches to it. Moments
//! in which the CPUs were placed otherwise (`placed.rs`) are moments of another figure, and so are those at another clock of the core.
//!
//! What a core does by itself, per cycle, hardly changes; but a hypervisor may slow all repetitions of one moment, and where code
//! and data lie is a matter of luck. There, too, the best counts once it came out again. Several threads that have nothing in common
//! do together what each does at its best, at whatever moment.
//!
//! What streams on small pages do goes with the pages that the kernel has at hand, other ones at each moment: of those no state is the
//! machine's, and their mean stands.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Steadiness;
use super::effort::is_of_given_pages;
use crate::machine::bench::timing::is_at_clock;
use crate::profile::machine::Ceiling;

/// Measurements closer to each other than this are of one moment.
pub const APART: Duration = Duration::from_millis(400);

/// How far from the best of `moments` the best of as many others lies, in 19 of 20 cases, relative to the range that the moments
/// show, where every value in a range is as likely: twice the standard deviation of the difference of two such maxima,
/// `2 √(2 n / ((n + 1)² (n + 2)))` of the range that there is, which is `(n + 1) / (n − 1)` times what n moments show on average.
pub fn another_best(moments: usize) -> f64 {
    let n = moments.max(2) as f64;
    2.0 * (2.0 * n / (n + 2.0)).sqrt() / (n - 1.0)
}

/// The same, relative to how far the second best is below the best: on average `1 / (n + 1)` of the range. The others may be as low
/// as neighbours make them.
fn another_best_by_gap(moments: usize) -> f64 {
    (moments.max(2) - 1) as f64 * another_best(moments)
}

/// By how much the clock of a moment may be told wrong: a core's clock changes between a kernel and the chain behind it.
const CLOCK_ERROR: f64 = 0.025;

/// Moments among which one that stands alone is an exception, of what neighbours are part of; what cores do by themselves is not looked at
/// once more for it.
const MANY: usize = 5;

/// By how much such an exception may be better: the interval of what stands, which is at most 10 %, reaches to it.
const EXCEPTION: f64 = 0.09;

/// How much more one of `moments` of the ceiling `id` may show that is not believed if it does not come out again: of what neighbours are
/// part of any may be the machine's unless there are many, of a core's rates one whose clock was told wrong; a cost is a difference,
/// small by chance.
fn unbelieved(id: &str, moments: usize) -> f64 {
    match Steadiness::of(id) {
        Steadiness::Shared if moments >= MANY => EXCEPTION,
        Steadiness::Shared => 0.0,
        Steadiness::Cost => f64::INFINITY,
        Steadiness::Core | Steadiness::Near => CLOCK_ERROR,
    }
}

/// One moment.
#[derive(Debug, Clone, PartialEq)]
struct Moment {
    /// `None`: an earlier run's.
    at: Option<Instant>,
    /// Rate, of what a core does by itself per cycle; where the ceiling is a time, one over it.
    rate: f64,
    /// The same of each thread, where they have nothing in common; else empty.
    each: Vec<f64>,
    /// What was measured; its spread is that of the repetitions.
    ceiling: Ceiling,
    /// How many moments of the ceiling were before it.
    number: usize,
}

impl Moment {
    /// The clock that a look at the core saw, 0 if it is not known.
    fn clock_hz(&self) -> f64 {
        self.ceiling.looked_hz().unwrap_or(0.0)
    }

    fn is_at(&self, clock_hz: f64) -> bool {
        is_at_clock(self.clock_hz(), clock_hz)
    }
}

/// What the moments of a ceiling say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// How far another measurement's value may lie from the one that stands, relative to it.
    pub spread: f64,
    /// How many moments showed the state that stands.
    pub agreeing: usize,
    /// How many there were.
    pub moments: usize,
    /// The least rate of any moment, and the highest, relative to the one that stands.
    pub lowest: f64,
    pub highest: f64,
}

impl Verdict {
    /// Whether what stands came out again, and nothing better was seen, or not in many moments.
    pub fn is_confirmed(&self) -> bool {
        self.agreeing > 1 && (self.highest <= 1.0 || self.moments >= MANY)
    }

    /// What those of several threads say of all together: a mean where each adds its part, else the least sure.
    fn of_threads(each: &[Verdict]) -> Verdict {
        let mean = |of: fn(&Verdict) -> f64| each.iter().map(of).sum::<f64>() / each.len().max(1) as f64;
        let least = |of: fn(&Verdict) -> usize| each.iter().map(of).min().unwrap_or(0);
        Verdict {
            spread: mean(|v| v.spread),
            agreeing: least(|v| v.agreeing),
            moments: least(|v| v.moments),
            lowest: mean(|v| v.lowest),
            highest: mean(|v| v.highest),
        }
    }
}

/// The moments of each ceiling, by id, threads and placement of the CPUs (where it depends on that).
#[derive(Debug, Default)]
pub struct Moments {
    of: HashMap<Key, Vec<Moment>>,
    /// The clocks of all of this run's that are of so many threads, ascending.
    clocks: HashMap<(u32, bool), Vec<f64>>,
}

/// Id, threads, placement.
pub type Key = (String, u32, Option<usize>);

/// The ceilings among which one clock is the usual one: those of so many threads, slow cores apart.
fn clocked_alike((id, threads, _): &Key) -> (u32, bool) {
    (*threads, id.starts_with("slow."))
}

impl Moments {
    /// Notes a measurement of now, or (`at` = `None`) of an earlier run: the rate of all threads, and of each where that is known.
    pub fn note(&mut self, key: Key, at: Option<Instant>, (rate, each): (f64, Vec<f64>), ceiling: Ceiling) {
        if let Some(hz) = ceiling.looked_hz().filter(|hz| *hz > 0.0 && at.is_some()) {
            let clocks = self.clocks.entry(clocked_alike(&key)).or_default();
            clocks.insert(clocks.partition_point(|other| *other < hz), hz);
        }
        let is_shared = Steadiness::of(&key.0) == Steadiness::Shared;
        let is_another_buffer = is_of_given_pages(&key.0);
        let all = self.of.entry(key).or_default();
        let mut new = Moment { at, rate, each, ceiling, number: all.len() };
        let mut of_now = all.iter_mut().rev().take_while(|m| same(m.at, at) && !is_another_buffer);
        match of_now.find(|m| !is_shared || new.is_at(m.clock_hz())) {
            Some(last) => {
                let each = std::mem::take(&mut new.each);
                last.each.iter_mut().zip(each).for_each(|(each, new)| *each = each.max(new));
                if new.rate > last.rate {
                    let (at, number) = (last.at, last.number);
                    *last = Moment { at, number, each: std::mem::take(&mut last.each), ..new };
                }
            }
            None => all.push(new),
        }
    }

    /// The keys of streams on pages that the kernel handed out.
    pub fn of_given_pages(&self) -> Vec<Key> {
        self.of.keys().filter(|key| is_of_given_pages(&key.0)).cloned().collect()
    }

    /// What is known of a ceiling after at least two moments, and what stands: one of them, or of threads that have nothing in
    /// common each one's own.
    pub fn verdict(&self, key: &Key) -> Option<(Verdict, Ceiling)> {
        let steadiness = Steadiness::of(&key.0);
        let moments = match (self.of.get(key)?, steadiness) {
            (all, Steadiness::Shared) => self.at_usual_clock(key, all),
            (all, _) => all.iter().collect(),
        };
        if is_of_given_pages(&key.0) {
            return mean(&moments, self.luck());
        }
        let stands = |rates: Vec<f64>| {
            let all: Vec<_> = rates.into_iter().zip(&moments).map(|(rate, m)| (rate, m.ceiling.spread)).collect();
            judge(&all, steadiness.state(), unbelieved(&key.0, moments.len()))
        };
        let (at, mut verdict) = stands(moments.iter().map(|m| m.rate).collect())?;
        if steadiness == Steadiness::Shared {
            verdict.spread = verdict.spread.max(verdict.highest - 1.0);
        }
        let threads = moments.iter().map(|m| m.each.len()).min().filter(|n| *n > 1);
        let Some(threads) = threads else { return Some((verdict, moments[at].ceiling.clone())) };
        let (mut together, mut verdicts) = (0.0, Vec::new());
        for thread in 0..threads {
            let (at, verdict) = stands(moments.iter().map(|m| m.each[thread]).collect())?;
            together += moments[at].each[thread];
            verdicts.push(verdict);
        }
        let times = together / moments[at].each.iter().sum::<f64>();
        let ceiling = &moments[at].ceiling;
        let value = ceiling.value.map(|value| if ceiling.unit == "s" { value / times } else { value * times });
        Some((Verdict::of_threads(&verdicts), Ceiling { value, ..ceiling.clone() }))
    }

    /// By how much a stream on pages that the kernel handed out differs between moments with nearly the same pages, as a standard
    /// deviation relative to its mean: what was given back last is handed out next, so that these are every other one of this run. Told
    /// by all such streams together, as they walk the same buffers.
    fn luck(&self) -> Option<f64> {
        let (mut count, mut sum) = (0, 0.0);
        for (key, all) in self.of.iter().filter(|(key, _)| is_of_given_pages(&key.0)) {
            let moments = self.at_usual_clock(key, all);
            let now = || moments.iter().filter(|m| m.at.is_some());
            for (a, b) in now().flat_map(|a| now().filter(|b| b.number == a.number + 2).map(move |b| (a, b))) {
                let apart = 2.0 * (a.rate - b.rate) / (a.rate + b.rate);
                (count, sum) = (count + 1, sum + apart * apart);
            }
        }
        (count > 0).then(|| (sum / f64::from(2 * count)).sqrt())
    }

    /// Those of `moments` at the clock that most moments of any ceiling had, if they are several and at least half (wide vectors have
    /// clocks of their own): a core whose clock is higher for a while
    /// reaches more of what it shares with others, too, by as much or by less, and what it does at its usual one is what the next run
    /// finds.
    fn at_usual_clock<'m>(&self, key: &Key, moments: &'m [Moment]) -> Vec<&'m Moment> {
        let clocks = self.clocks.get(&clocked_alike(key));
        let usual = clocks.and_then(|all| all.get(all.len() / 2)).copied().unwrap_or(0.0);
        let at_it: Vec<&Moment> = moments.iter().filter(|m| m.is_at(usual)).collect();
        let enough = at_it.len() > 1 && 2 * at_it.len() >= moments.len();
        if enough { at_it } else { moments.iter().collect() }
    }
}

/// What `moments` say of a ceiling that goes with the pages that the kernel has at hand: the mean of those with either set of pages,
/// between which it is taken in turn. The next run meets two sets that came about in the same way; with `luck`, by how much each moment
/// is off, its mean lies within `2 √2 luck / √n` of this one in 19 of 20 cases. An earlier run's mean counts as [`MANY`] moments. Where
/// nothing is known of luck, twice what is between the moments is promised.
fn mean(moments: &[&Moment], luck: Option<f64>) -> Option<(Verdict, Ceiling)> {
    if moments.len() < 2 {
        return None;
    }
    let (earlier, now): (Vec<&Moment>, Vec<&Moment>) = moments.iter().partition(|m| m.at.is_none());
    let mean = |all: &[f64]| (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
    let rates = |all: &[&Moment]| all.iter().map(|m| m.rate).collect::<Vec<f64>>();
    let (even, odd): (Vec<&Moment>, Vec<&Moment>) = now.iter().partition(|m| m.number % 2 == 0);
    let sets: Vec<f64> = [even, odd].iter().filter_map(|set| mean(&rates(set))).collect();
    let of_earlier = (mean(&rates(&earlier)).unwrap_or(0.0), (MANY * earlier.len()) as f64);
    let of_now = (mean(&sets).unwrap_or(0.0), now.len() as f64);
    let n = of_earlier.1 + of_now.1;
    let value = (of_earlier.0 * of_earlier.1 + of_now.0 * of_now.1) / n;
    let all = rates(moments);
    let lowest = all.iter().copied().fold(f64::INFINITY, f64::min) / value;
    let highest = all.iter().copied().fold(0.0, f64::max) / value;
    let spread = luck.map_or(2.0 * (highest - lowest), |luck| 2.0 * luck * (2.0 / n).sqrt());
    let like = moments.iter().min_by(|a, b| (a.rate - value).abs().total_cmp(&(b.rate - value).abs()))?;
    let times = value / like.rate;
    let verdict = Verdict { spread, agreeing: moments.len(), moments: moments.len(), lowest, highest };
    Some((verdict, Ceiling { value: like.ceiling.value.map(|value| value * times), ..like.ceiling.clone() }))
}

fn same(a: Option<Instant>, b: Option<Instant>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => b.saturating_duration_since(a) < APART,
        (None, None) => true,
        _ => false,
    }
}

/// What `moments`, rates and the spreads of their repetitions, say together where those of one state differ by at most `range`, and
/// which of them stands: the best; where up to so much more is [`unbelieved`], the best one that came out again.
fn judge(moments: &[(f64, Option<f64>)], range: f64, unbelieved: f64) -> Option<(usize, Verdict)> {
    if moments.len() < 2 {
        return None;
    }
    let mut order: Vec<usize> = (0..moments.len()).collect();
    order.sort_by(|a, b| moments[*b].0.total_cmp(&moments[*a].0));
    let apart = |n: usize, from: usize| 1.0 - moments[order[n]].0 / moments[order[from]].0;
    let came_again = (0..order.len() - 1).find(|first| apart(first + 1, *first) <= range);
    // One of them may be an exception.
    let first = came_again.filter(|first| *first <= 1 && apart(*first, 0) <= unbelieved).unwrap_or(0);
    let agreeing = (first..order.len()).filter(|n| apart(*n, first) <= range).count();
    let own = (first..first + agreeing).filter_map(|n| moments[order[n]].1).fold(f64::INFINITY, f64::min);
    // A state that was seen once may be a part of it, or none.
    let spread = match agreeing {
        0 | 1 => another_best_by_gap(moments.len()) * apart(1, 0),
        _ => own.max(another_best(agreeing) * apart(first + agreeing - 1, first)),
    };
    let relative = |n: usize| 1.0 - apart(n, first);
    let (lowest, highest) = (relative(order.len() - 1), relative(0));
    Some((order[first], Verdict { spread, agreeing, moments: moments.len(), lowest, highest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(rate: f64, spread: f64) -> Ceiling {
        Ceiling { spread: Some(spread), ..Ceiling::settled("dram.read", rate, "byte/s", 1) }
    }

    fn moments(values: &[(f64, f64)]) -> Vec<(f64, Option<f64>)> {
        values.iter().map(|(rate, spread)| (*rate, Some(*spread))).collect()
    }

    fn of_memory(values: &[(f64, f64)]) -> Verdict {
        judge(&moments(values), 0.05, 0.0).expect("moments").1
    }

    #[test]
    fn another_run_finds_its_best_within_the_interval_in_nineteen_of_twenty() {
        // Ranks of a range, by a generator of random bits.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as f64 / u64::MAX as f64
        };
        for n in 2..8 {
            let mut run = || {
                let all: Vec<f64> = (0..n).map(|_| random()).collect();
                let of = |pick: fn(f64, f64) -> f64, from| all.iter().copied().fold(from, pick);
                (of(f64::max, 0.0), of(f64::max, 0.0) - of(f64::min, 1.0))
            };
            // The factor is for the range that is seen on average.
            let pairs: Vec<_> = (0..4000).map(|_| (run(), run())).collect();
            let range = pairs.iter().map(|(one, _)| one.1).sum::<f64>() / pairs.len() as f64;
            let inside =
                |&&((best, _), (other, _)): &&((f64, f64), (f64, f64))| (other - best).abs() <= another_best(n) * range;
            let covered = pairs.iter().filter(inside).count() as f64 / pairs.len() as f64;
            assert!((0.92..0.98).contains(&covered), "{n} moments: {covered}");
        }
    }

    #[test]
    fn a_state_that_came_back_is_the_ceiling() {
        let two_states = of_memory(&[(40.0, 0.02), (70.0, 0.03), (41.0, 0.3), (69.3, 0.4)]);
        assert_eq!((two_states.agreeing, two_states.moments), (2, 4));
        assert!(two_states.spread < 0.04 && two_states.lowest < 0.6, "{two_states:?}");
    }

    #[test]
    fn a_state_that_was_seen_once_is_not() {
        let once = of_memory(&[(40.0, 0.02), (70.0, 0.03), (41.0, 0.02)]);
        assert!(once.agreeing == 1 && once.spread > 0.5, "{once:?}");
        // A slope without states: no two agree.
        let slope = of_memory(&[(60.0, 0.02), (65.0, 0.03), (70.0, 0.02)]);
        assert!(slope.spread > 0.1, "{slope:?}");
    }

    #[test]
    fn of_a_core_the_best_that_came_out_again_stands() {
        let of = |values: &[f64]| {
            let all: Vec<_> = values.iter().map(|rate| (*rate, 0.001)).collect();
            judge(&moments(&all), 0.007, CLOCK_ERROR)
                .map(|(at, verdict)| (values[at], verdict.agreeing, verdict.highest))
        };
        assert_eq!(of(&[5.0, 5.12, 4.99, 4.7]), Some((5.0, 2, 5.12 / 5.0)));
        assert_eq!(of(&[4.75, 5.0, 4.74]), Some((5.0, 1, 1.0)), "no error of a clock");
        assert_eq!(of(&[4.0, 4.5, 5.0]), Some((5.0, 1, 1.0)), "none did");
        assert_eq!(of(&[4.99, 5.0]), Some((5.0, 2, 1.0)));
        assert_eq!(of(&[5.0, 4.96, 4.92, 4.88, 4.879]), Some((5.0, 1, 1.0)), "several were better");
    }

    #[test]
    fn what_was_better_once_is_looked_at_some_more_times() {
        let of = |rates: &[f64]| {
            let all: Vec<_> = rates.iter().map(|rate| (*rate, 0.001)).collect();
            judge(&moments(&all), 0.007, CLOCK_ERROR).map(|(at, verdict)| (rates[at], verdict.is_confirmed()))
        };
        assert_eq!(of(&[3.75, 3.69, 3.69]), Some((3.69, false)));
        assert_eq!(of(&[3.75, 3.69, 3.69, 3.75]), Some((3.75, true)));
        assert_eq!(of(&[3.75, 3.69, 3.69, 3.68, 3.69]), Some((3.69, true)), "it did not come out again");
        assert_eq!((of(&[3.75, 3.75]), of(&[3.75, 3.5])), (Some((3.75, true)), Some((3.75, false))));
    }

    #[test]
    fn a_cost_that_was_small_once_is_not_believed() {
        let all = moments(&[(24.0, 0.01), (20.0, 0.01), (19.9, 0.01)]);
        let of = |id| judge(&all, 0.02, unbelieved(id, all.len())).map(|(at, verdict)| (at, verdict.agreeing));
        assert_eq!((of("mispredict"), of("l1.read"), of("dram.read")), (Some((1, 2)), Some((0, 1)), Some((0, 1))));
    }

    #[test]
    fn of_pages_that_the_kernel_had_at_hand_the_mean_stands() {
        let now = Instant::now();
        let with = |others: &[f64], id: &str, rates: &[f64]| {
            let (mut all, key) = (Moments::default(), (id.to_owned(), 1, None));
            for (id, rates) in [("dram.triad.4k", others), (id, rates)] {
                for (n, rate) in (0..).zip(rates) {
                    let at = Some(now + 2 * n * APART);
                    all.note((id.to_owned(), 1, None), at, (*rate, Vec::new()), ceiling(*rate, 0.001));
                }
            }
            let (verdict, stands) = all.verdict(&key).expect("moments");
            let tenths = |of: f64| (10.0 * of).round() / 10.0;
            (tenths(stands.value.expect("measured")), verdict.spread <= 0.1, tenths(verdict.highest))
        };
        let of = |id: &str, rates: &[f64]| with(&[], id, rates);
        assert_eq!(of("dram.read.4k", &[10.0, 12.0]), (11.0, false, 1.1), "nothing is known of either");
        let rates = [10.0, 12.0, 10.1, 11.9, 10.0];
        assert_eq!(of("dram.read.4k", &rates), (11.0, true, 1.1), "each came out again");
        assert_eq!(of("dram.read.4k", &[10.0, 12.0, 14.0, 12.0, 10.0]), (11.7, false, 1.2), "neither did");
        let by_others = |others| with(others, "dram.read.4k", &[10.0, 12.0]).1;
        assert_eq!((by_others(&rates), by_others(&[10.0, 10.0, 12.0, 12.0])), (true, false), "as lucky as others");
        let mut resumed = Moments::default();
        for (at, rate) in [(None, 11.0), (Some(now), 12.2)] {
            resumed.note(("dram.read.4k".to_owned(), 1, None), at, (rate, Vec::new()), ceiling(rate, 0.001));
        }
        let (verdict, stands) = resumed.verdict(&("dram.read.4k".to_owned(), 1, None)).expect("moments");
        assert!(stands.value.is_some_and(|value| (value - 11.2).abs() < 1e-9) && verdict.spread > 0.1, "{verdict:?}");
        assert_eq!(["dram.read", "dram.random.4k", "dram.write.nt.4k"].map(|id| of(id, &rates).0), [12.0; 3]);
    }

    #[test]
    fn an_exception_among_many_moments_is_no_state_of_the_memory() {
        let now = Instant::now();
        let of = |rates: &[f64]| {
            let (mut all, key) = (Moments::default(), ("dram.chase.4".to_owned(), 1, None));
            for (n, rate) in (0..).zip(rates) {
                all.note(key.clone(), Some(now + 2 * n * APART), (*rate, Vec::new()), ceiling(*rate, 0.001));
            }
            let (verdict, stands) = all.verdict(&key).expect("moments");
            (stands.value.expect("measured"), verdict.spread <= 0.1)
        };
        assert_eq!(of(&[2.1, 1.93, 1.95, 1.9, 1.97]), (1.97, true));
        assert_eq!(of(&[2.1, 1.93, 1.95, 1.97]), (2.1, false), "one of few");
        assert_eq!(of(&[2.3, 1.93, 1.95, 1.9, 1.97]), (2.3, false), "too far to be promised");
        assert_eq!(of(&[2.1, 1.93, 1.95, 2.08, 1.97]), (2.1, true), "it came back");
    }

    #[test]
    fn the_memory_is_judged_by_moments_at_the_usual_clock() {
        let now = Instant::now();
        let of = |moments: &[(f64, f64)]| {
            let (mut all, key) = (Moments::default(), ("l3.read".to_owned(), 1, None));
            for id in ["dp.add.scalar", "dp.mul.scalar", "issue"] {
                let other = Ceiling { clock_hz: Some(2.5e9), ..ceiling(1.0, 0.001) };
                all.note((id.to_owned(), 1, None), Some(now), (1.0, Vec::new()), other);
            }
            for (n, (rate, clock)) in (0..).zip(moments) {
                let ceiling = Ceiling { clock_hz: Some(*clock), ..ceiling(*rate, 0.001) };
                all.note(key.clone(), Some(now + 2 * n * APART), (*rate, Vec::new()), ceiling);
            }
            all.verdict(&key).map(|(verdict, stands)| (stands.value.expect("measured"), verdict.moments))
        };
        assert_eq!(of(&[(5.0, 2.5e9), (5.8, 3.0e9), (4.9, 2.55e9)]), Some((5.0, 2)));
        assert_eq!(of(&[(5.0, 2.5e9), (5.8, 3.0e9)]), Some((5.8, 2)), "one is not enough");
        assert_eq!(of(&[(5.0, 2.5e9), (5.8, 3.0e9), (5.0, 2.5e9), (5.8, 3.0e9)]), Some((5.0, 2)));
        assert_eq!(of(&[(5.8, 3.0e9), (5.8, 3.0e9)]), Some((5.8, 2)), "it was never at the usual one");
    }

    #[test]
    fn of_a_core_another_moment_has_to_be_as_good_within_a_few_thousandths() {
        let (mut all, now) = (Moments::default(), Instant::now());
        let of = |id: &str| (id.to_owned(), 1, None);
        for (n, per_cycle) in [5.0, 4.9, 4.99].into_iter().enumerate() {
            for id in ["mix.mov.2", "dram.read"] {
                all.note(of(id), Some(now + 2 * n as u32 * APART), (per_cycle, Vec::new()), ceiling(per_cycle, 0.001));
            }
        }
        let agreeing = |id| all.verdict(&of(id)).map(|(v, _)| (v.agreeing, v.moments));
        assert_eq!((agreeing("mix.mov.2"), agreeing("dram.read")), (Some((2, 3)), Some((3, 3))));
    }

    #[test]
    fn threads_with_nothing_in_common_have_their_best_at_moments_of_their_own() {
        let (mut all, now) = (Moments::default(), Instant::now());
        let key = ("mix.mov.2".to_owned(), 2, None);
        // The one is slow at one moment, the other at another.
        for (n, each) in [[5.0, 4.8], [4.8, 5.0], [5.0, 5.0], [4.8, 5.0]].into_iter().enumerate() {
            let rate: f64 = each.iter().sum();
            let at = Some(now + 2 * n as u32 * APART);
            all.note(key.clone(), at, (rate, each.into()), Ceiling { threads: 2, ..ceiling(1e9 * rate, 0.001) });
        }
        let (verdict, best) = all.verdict(&key).expect("four moments");
        assert!((best.value.expect("measured") - 10e9).abs() < 1.0, "{best:?}");
        assert!(verdict.agreeing == 2 && verdict.spread < 0.002, "{verdict:?}");
    }

    #[test]
    fn one_moment_says_nothing_and_close_ones_are_one() {
        assert_eq!(judge(&moments(&[(1.0, 0.0)]), 0.05, 0.0), None);
        let (mut all, now) = (Moments::default(), Instant::now());
        let of = |threads, placement| ("dram.read".to_owned(), threads, placement);
        all.note(of(2, Some(0)), Some(now), (1.0, Vec::new()), ceiling(1.0, 0.1));
        all.note(of(2, Some(0)), Some(now + APART / 2), (2.0, Vec::new()), ceiling(2.0, 0.2));
        assert!(all.verdict(&of(2, Some(0))).is_none());
        all.note(of(2, Some(0)), Some(now + 2 * APART), (1.98, Vec::new()), ceiling(1.98, 0.05));
        // Where the CPUs are placed otherwise is another figure.
        all.note(of(2, Some(1)), Some(now + 4 * APART), (4.0, Vec::new()), ceiling(4.0, 0.05));
        let (verdict, _) = all.verdict(&of(2, Some(0))).expect("two moments");
        assert!(verdict.agreeing == 2 && verdict.spread == 0.05, "{verdict:?}");
        all.note(of(1, None), None, (1.0, Vec::new()), ceiling(1.0, 0.1));
        all.note(of(1, None), Some(now), (1.0, Vec::new()), ceiling(1.0, 0.01));
        assert_eq!(all.verdict(&of(1, None)).map(|(v, _)| v.agreeing), Some(2));
    }
}
