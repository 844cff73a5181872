//! Repetitions of one kernel and the rate that they show together.

use std::time::{Duration, Instant};

/// One repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repetition {
    /// From the first thread's start to the last one's end, in seconds. For one thread, interruptions are left out if its pieces show
    /// them.
    pub seconds: f64,
    /// Mean clock of the threads, in hertz.
    pub clock_hz: f64,
    /// The clock before the kernel began, some fifty microseconds after its last repetition.
    pub idle_clock_hz: f64,
    /// A thread lost its CPU during the repetition.
    pub disturbed: bool,
    /// A thread shared its core before or after.
    pub shared: bool,
}

/// One thread's view of one repetition.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// When its kernel started.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Seconds that it took, without interruptions if its pieces show them.
    pub seconds: f64,
    /// The clock, in hertz.
    pub clock_hz: f64,
    /// The clock before it.
    pub idle_clock_hz: f64,
    /// The thread lost its CPU during the repetition.
    pub disturbed: bool,
    /// The thread shared its core before or after.
    pub shared: bool,
}

impl Repetition {
    /// The repetition of the thread at `rank` alone. It counts as disturbed or shared if the whole repetition does.
    fn of_thread(stamps: &[Stamp], rank: usize) -> Option<Self> {
        let all = Repetition::from_stamps(stamps)?;
        let own = Repetition::from_stamps(stamps.get(rank..=rank)?)?;
        Some(Repetition { disturbed: all.disturbed, shared: all.shared, ..own })
    }

    /// The repetition with these stamps of its threads; `None` without any.
    pub fn from_stamps(stamps: &[Stamp]) -> Option<Self> {
        let start = stamps.iter().map(|s| s.start).min()?;
        let end = stamps.iter().map(|s| s.end).max()?;
        let seconds = if let [own] = stamps { own.seconds } else { (end - start).as_secs_f64() }.max(1e-9);
        let mean = |of: fn(&Stamp) -> f64| stamps.iter().map(of).sum::<f64>() / stamps.len() as f64;
        let (clock_hz, idle_clock_hz) = (mean(|s| s.clock_hz), mean(|s| s.idle_clock_hz));
        let disturbed = stamps.iter().any(|s| s.disturbed);
        let shared = stamps.iter().any(|s| s.shared);
        Some(Repetition { seconds, clock_hz, idle_clock_hz, disturbed, shared })
    }
}

/// How long and how often a kernel is timed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Seconds that one repetition should take, at least.
    pub seconds: f64,
    /// Pieces in which each thread times its own repetition; 1: as a whole. The faster pieces count, so pieces are only for kernels with
    /// identical pieces.
    pub pieces: u64,
    /// Repetitions.
    pub repetitions: usize,
    /// One repetition in this number counts towards the rate (at least three do): 8 if only outside causes disturb the kernel
    /// (registers, near caches), 2 if neighbours are part of the figure.
    pub fastest: usize,
}

impl Plan {
    /// The plan with repetitions that are timed as a whole.
    pub fn whole(self) -> Self {
        Plan { pieces: 1, ..self }
    }

    /// About how long this plan takes, in seconds. `wide`: the vectors need a warm-up; `is_first`: with a calibration.
    pub fn planned_s(&self, wide: bool, is_first: bool) -> f64 {
        let beside = PLANNED_BESIDE + if wide { WARM_UP.as_secs_f64() } else { 0.0 };
        let calibration = if is_first { 2.0 * (FIRST + beside) } else { 0.0 };
        self.repetitions as f64 * (self.seconds + beside) + calibration
    }

    /// Whether the figure depends on the neighbours and on the placement of the CPUs.
    pub fn is_shared(&self) -> bool {
        self.fastest <= 2
    }
}

/// The rate that the repetitions of one kernel show.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The rate that was reached repeatedly, per second: the median of the fastest repetitions. The fastest one alone is a matter of
    /// chance, also if neighbours are part of the figure: on a shared host, streams in L3 ran up to a fifth faster for a millisecond,
    /// once in some hundred.
    pub best: f64,
    /// The median rate of the faster half, each at `clock_hz`. The median leaves out repetitions at another clock than the one measured
    /// before and after them.
    pub typical: f64,
    /// Median clock of the fastest repetitions, in hertz.
    pub clock_hz: f64,
    /// The median clock before each of them.
    pub idle_clock_hz: f64,
    /// How far the median may be off by chance: the spread of the clocks of the middle half of these, relative to `clock_hz`, over the root
    /// of their number. Only this value shows a hypervisor that takes a core for microseconds at a time.
    pub clock_doubt: f64,
    /// Fewer than [`FEWEST`] repetitions had the CPUs to themselves, so disturbed ones count, too.
    pub disturbed: bool,
    /// Fewer than that had a core for each thread, so repetitions on shared cores count, too.
    pub shared: bool,
    /// The work stays inside the cores: the rate is proportional to the clock.
    pub by_itself: bool,
}

/// Seconds that the first run of a calibration aims at.
pub const FIRST: f64 = 40e-6;

/// How long a kernel of vectors of at least 256 bits runs before it is timed. Observed: 20 to 100 microseconds until the clock was steady.
pub const WARM_UP: Duration = Duration::from_micros(150);

/// Planned seconds of a repetition beside its own time: barriers, the probe of the core, chains that measure the clock.
const PLANNED_BESIDE: f64 = 130e-6;

/// Undisturbed repetitions that a figure needs.
const FEWEST: usize = 2;

/// Clocks that differ by no more than this are the same.
pub const SAME_CLOCK: f64 = 0.01;

/// Clocks that differ by more than this belong to different states of the core. Smaller differences may be measurement errors.
pub const OTHER_CLOCK: f64 = 0.05;

/// A repetition with at least this share of the fastest repetition's rate ran at the same clock.
const AS_FAST: f64 = 0.99;

impl Rate {
    /// Judges `runs`, each of which did `amount`, by the fastest one in `fastest` of them. Runs on shared cores count only if there are
    /// not enough others. Disturbed runs count only if even these are too few.
    pub fn judge(runs: &[Repetition], amount: f64, fastest: usize) -> Rate {
        let disturbed = runs.iter().filter(|r| !r.disturbed).count() < FEWEST;
        let shared = runs.iter().filter(|r| (disturbed || !r.disturbed) && !r.shared).count() < FEWEST;
        let counted = runs.iter().filter(|r| (disturbed || !r.disturbed) && (shared || !r.shared));
        let mut order: Vec<(f64, &Repetition)> = counted.map(|r| (amount / r.seconds, r)).collect();
        keep_steady(&mut order);
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some(&(first, _)) = order.first() else {
            return Rate {
                best: 0.0,
                typical: 0.0,
                clock_hz: 0.0,
                idle_clock_hz: 0.0,
                clock_doubt: 1.0,
                disturbed: true,
                shared: true,
                by_itself: false,
            };
        };
        let faster = &order[..order.len().div_ceil(fastest.max(1)).max(3).min(order.len())];
        let best = faster[faster.len() / 2].0;
        // Occasionally an interruption hits the chains on both sides: take the median of all runs that were as fast as the fastest.
        let as_fast = order.iter().take_while(|r| r.0 >= AS_FAST * first).count().max(faster.len());
        let sorted = |of: fn(&Repetition) -> f64| {
            let mut all: Vec<f64> = order[..as_fast].iter().map(|r| of(r.1)).collect();
            all.sort_unstable_by(f64::total_cmp);
            all
        };
        let (clocks, resting) = (sorted(|r| r.clock_hz), sorted(|r| r.idle_clock_hz));
        let (clock_hz, idle_clock_hz) = (clocks[clocks.len() / 2], resting[resting.len() / 2]);
        let middle_half = (clocks[clocks.len() * 3 / 4] - clocks[clocks.len() / 4]) / clock_hz;
        let clock_doubt = middle_half / (clocks.len() as f64).sqrt();
        let mut per_cycle: Vec<f64> = order.iter().map(|(rate, r)| rate / r.clock_hz).collect();
        per_cycle.sort_unstable_by(|a, b| b.total_cmp(a));
        let typical = per_cycle[per_cycle.len() / 4] * clock_hz;
        Rate { best, typical, clock_hz, idle_clock_hz, clock_doubt, disturbed, shared, by_itself: false }
    }

    /// A rate that was planned, not timed.
    pub fn planned(best: f64) -> Rate {
        let nothing = Rate::judge(&[], 1.0, 1);
        let (typical, clock_hz, idle_clock_hz) = (best, 1e9, 1e9);
        Rate { best, typical, clock_hz, idle_clock_hz, clock_doubt: 0.0, disturbed: false, shared: false, ..nothing }
    }

    /// Judges each thread by itself, if the threads share nothing; `runs` has the stamps of each repetition. The result is the sum of
    /// each thread's best, which the threads need not reach at the same time.
    pub fn judge_threads(runs: &[Vec<Stamp>], amount: f64, fastest: usize) -> Rate {
        let threads = runs.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let of_thread = |rank: usize| {
            let own: Vec<Repetition> = runs.iter().filter_map(|s| Repetition::of_thread(s, rank)).collect();
            Rate::judge(&own, amount / threads as f64, fastest)
        };
        let rates: Vec<Rate> = (0..threads).map(of_thread).collect();
        let sum = |of: fn(&Rate) -> f64| rates.iter().map(of).sum::<f64>();
        let (best, mean) = (sum(|r| r.best), |of: fn(&Rate) -> f64| sum(of) / threads as f64);
        Rate {
            best,
            typical: sum(|r| r.typical),
            clock_hz: mean(|r| r.clock_hz),
            idle_clock_hz: mean(|r| r.idle_clock_hz),
            clock_doubt: mean(|r| r.clock_doubt),
            disturbed: rates.iter().any(|r| r.disturbed),
            shared: rates.iter().any(|r| r.shared),
            by_itself: true,
        }
    }

    /// The best of several copies of a kernel, or ways to do the same.
    pub fn of_copies(mut rates: Vec<Rate>) -> Option<Rate> {
        keep_at_usual_clock(&mut rates);
        rates.sort_by(|a, b| b.best.total_cmp(&a.best));
        rates.into_iter().next()
    }

    /// The rate in another unit: `factor` of it for one of this.
    pub fn scaled(self, factor: f64) -> Rate {
        Rate { best: self.best * factor, typical: self.typical * factor, ..self }
    }
}

/// Leaves out the repetitions with an unusual change of clock, or with a clock measured wrongly on one side, if there are enough others.
/// The clocks of some hosts jump by 18 % for milliseconds at a time.
fn keep_steady(runs: &mut Vec<(f64, &Repetition)>) {
    let step = |r: &Repetition| r.clock_hz / r.idle_clock_hz;
    let mut steps: Vec<f64> = runs.iter().map(|(_, r)| step(r)).collect();
    steps.sort_unstable_by(f64::total_cmp);
    let Some(&usual) = steps.get(steps.len() / 2) else { return };
    let is_steady = |r: &Repetition| (step(r) / usual - 1.0).abs() <= SAME_CLOCK;
    if runs.iter().filter(|(_, r)| is_steady(r)).count() >= FEWEST {
        runs.retain(|(_, r)| is_steady(r));
    }
}

/// The upper median of the clocks that are known.
pub fn usual_clock(clocks: impl Iterator<Item = f64>) -> Option<f64> {
    let mut clocks: Vec<f64> = clocks.filter(|hz| *hz > 0.0).collect();
    clocks.sort_unstable_by(f64::total_cmp);
    clocks.get(clocks.len() / 2).copied()
}

/// Whether `hz` and the clock `usual` belong to the same state of the core.
fn is_at_clock(hz: f64, usual: f64) -> bool {
    (hz - usual).abs() <= OTHER_CLOCK * usual
}

/// Leaves out rates of in-core work with another clock at rest than most `rates`.
fn keep_at_usual_clock(rates: &mut Vec<Rate>) {
    let Some(usual) = usual_clock(rates.iter().map(|r| r.idle_clock_hz)) else { return };
    rates.retain(|r| !r.by_itself || is_at_clock(r.idle_clock_hz, usual));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64) -> Repetition {
        Repetition { seconds, clock_hz: 1e9, idle_clock_hz: 1.1e9, disturbed: false, shared: false }
    }

    #[test]
    fn an_interrupted_repetition_does_not_count() {
        let rate = Rate::judge(&[run(1.0), run(1.01), run(5.0), run(1.02), run(9.0), run(1.0)], 100.0, 2);
        assert_eq!(rate.best, 100.0);
    }

    #[test]
    fn an_interrupted_chain_does_not_tell_the_clock() {
        let slow = |seconds| Repetition { clock_hz: 0.98e9, ..run(seconds) };
        let rate = Rate::judge(&[slow(1.0), slow(1.0), run(1.001), run(1.001), run(1.002), run(2.0)], 100.0, 8);
        assert_eq!(rate.clock_hz, 1e9, "as fast, so at the same clock");
        // Runs that were slower by more than the error of a chain ran at another clock.
        let later = |seconds| Repetition { idle_clock_hz: 0.98 * 1.1e9, ..slow(seconds) };
        let slower = [run(1.0), run(1.0), run(1.0), later(1.02), later(1.02), later(1.02), later(1.02)];
        assert_eq!(Rate::judge(&slower, 100.0, 8).clock_hz, 1e9);
    }

    #[test]
    fn a_clock_that_moved_within_a_repetition_tells_nothing_of_it() {
        // The clock jumps by 18 % before the chain after one repetition, and back in the next.
        let up = Repetition { clock_hz: 1.18e9, ..run(0.99) };
        let down = Repetition { idle_clock_hz: 1.18 * 1.1e9, ..run(0.86) };
        let rate = Rate::judge(&[run(1.0), up, down, run(1.0), run(1.0)], 100.0, 8);
        assert_eq!((rate.best, rate.typical, rate.clock_hz), (100.0, 100.0, 1e9));
        // At either clock the core does as much in a cycle.
        let fast = |seconds| Repetition { clock_hz: 1.18e9, idle_clock_hz: 1.18 * 1.1e9, ..run(seconds / 1.18) };
        let rate = Rate::judge(&[fast(1.0), fast(1.0), fast(1.0), run(1.0), run(1.0), run(1.0), run(1.0)], 100.0, 8);
        assert!((rate.typical / rate.clock_hz * 1e9 - 100.0).abs() < 1e-9 && rate.clock_hz == 1.18e9, "{rate:?}");
        // One ran at a higher clock than the chains on both sides of it measured, another at a lower one.
        let (lucky, unlucky) = (run(0.85), run(1.18));
        let rate = Rate::judge(&[run(1.0), lucky, run(1.0), unlucky, run(1.0), run(1.0)], 100.0, 8);
        assert_eq!((rate.typical, rate.clock_hz), (100.0, 1e9));
        // If all differ, all count.
        let each = [1.0, 1.1, 1.2].map(|clock| Repetition { clock_hz: clock * 1e9, ..run(1.0) });
        assert_eq!(Rate::judge(&each, 100.0, 8).best, 100.0);
    }

    #[test]
    fn one_lucky_repetition_is_no_ceiling_of_the_core() {
        let runs = [run(0.8), run(1.0), run(1.001), run(1.002), run(1.3), run(1.3), run(1.3)];
        let rate = Rate::judge(&runs, 100.0, 8);
        assert_eq!(rate.best, 100.0, "the median of the three fastest");
        assert_eq!(Rate::judge(&runs, 100.0, 2).best, 100.0 / 1.001, "nor one of the memory: the upper quartile");
    }

    #[test]
    fn threads_with_nothing_in_common_are_at_their_best_one_by_one() {
        let zero = Instant::now();
        let stamp = |seconds: f64, clock_hz: f64| {
            let (start, end) = (zero, zero + Duration::from_secs_f64(seconds));
            Stamp { start, end, seconds, clock_hz, idle_clock_hz: clock_hz, disturbed: false, shared: false }
        };
        // One of the two is always slow.
        let mut runs: Vec<Vec<Stamp>> = Vec::new();
        for i in 0..16 {
            let slow = |is: bool| stamp(if is { 1.25 } else { 1.0 }, 1e9);
            runs.push(vec![slow(i % 2 == 0), slow(i % 2 == 1)]);
        }
        let together: Vec<Repetition> = runs.iter().filter_map(|s| Repetition::from_stamps(s)).collect();
        assert!((Rate::judge(&together, 100.0, 8).best - 80.0).abs() < 1e-6);
        let each = Rate::judge_threads(&runs, 100.0, 8);
        assert!((each.best - 100.0).abs() < 1e-6 && each.clock_hz == 1e9, "{each:?}");
        // A disturbed thread does not affect the other one's result.
        runs.iter_mut().step_by(2).for_each(|stamps| stamps[0].disturbed = true);
        let each = Rate::judge_threads(&runs, 100.0, 8);
        assert!((each.best - 90.0).abs() < 1e-6 && !each.disturbed, "{each:?}");
        assert!(Rate::judge_threads(&[], 1.0, 8).disturbed);
    }

    #[test]
    fn of_copies_the_best_counts() {
        let of = |best| Rate { best, ..Rate::judge(&[run(1.0), run(1.0), run(1.0)], 100.0, 8) };
        assert_eq!(Rate::of_copies(vec![of(90.0), of(100.0), of(99.0)]).map(|rate| rate.best), Some(100.0));
        assert_eq!(Rate::of_copies(Vec::new()), None);
    }

    #[test]
    fn a_copy_is_no_better_for_being_timed_at_a_higher_clock() {
        let of = |best: f64, idle_clock_hz: f64, by_itself| {
            let all = Rate::judge(&[run(1.0), run(1.0), run(1.0)], 100.0, 8);
            Rate { best, idle_clock_hz, by_itself, ..all }
        };
        let best = |by_itself| {
            let copies = vec![of(110.0, 1.18e9, by_itself), of(98.0, 1e9, by_itself), of(100.0, 1.01e9, by_itself)];
            Rate::of_copies(copies).map(|rate| rate.best)
        };
        assert_eq!((best(true), best(false)), (Some(100.0), Some(110.0)));
    }

    #[test]
    fn disturbed_repetitions_count_only_where_there_are_no_others() {
        let lost = |seconds| Repetition { disturbed: true, ..run(seconds) };
        let few = Rate::judge(&[lost(1.0), run(2.0), lost(1.5)], 100.0, 2);
        assert!(few.disturbed && few.best == 100.0 / 1.5, "{few:?}");
        let enough = Rate::judge(&[lost(1.0), run(2.0), run(2.1), run(2.0)], 100.0, 2);
        assert!(!enough.disturbed && enough.best == 50.0, "{enough:?}");
    }

    #[test]
    fn repetitions_on_shared_cores_count_only_where_there_are_no_others() {
        let shared = |seconds| Repetition { shared: true, ..run(seconds) };
        let apart = Rate::judge(&[shared(2.0), shared(2.0), run(1.0), run(1.0), run(1.1)], 100.0, 2);
        assert!(!apart.shared && apart.best == 100.0, "{apart:?}");
        let never = Rate::judge(&[shared(2.0), shared(2.0), shared(2.0)], 100.0, 2);
        assert!(never.shared && !never.disturbed && never.best == 50.0, "{never:?}");
    }

    #[test]
    fn no_repetition_is_no_rate() {
        let none = Rate::judge(&[], 1.0, 2);
        assert!(none.best == 0.0 && none.disturbed);
    }
}
