//! Schedules bursts: at random distances in the pauses, far enough apart that they cost at most a twelfth of the run.
//!
//! ```text
//!  Resting ── the distance is over, and so much may be spent ──▶ Tracing ── long enough, or one waits ──▶ Ending
//!     ▲                                                                                                     │
//!     └────────────────────────────────── all threads are back ◀────────────────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

use rprof_basics::random::SplitMix;
use rprof_tracee::clock::own_cpu_time;

/// Part of the run that bursts may take.
const SHARE: f64 = 0.08;
/// Part of the run that bursts aim for.
const AIM: f64 = 0.07;
/// Duration of a burst relative to the processor time of the busier side.
const ALTERNATELY: f64 = 1.25;
/// Seconds that bursts may take in addition, so that short programs have some.
const CREDIT_S: f64 = 0.005;
/// Assumed cost of a burst before the first one, in seconds.
const FIRST_GUESS_S: f64 = 0.002;
/// Processor seconds of the first pause before the first burst.
const FIRST_S: f64 = 0.002;
/// The shortest distance, on average.
const SHORTEST_S: f64 = 0.002;
/// Weight of the last burst's cost in the expected cost.
const NEWEST: f64 = 0.25;
/// The cost of one burst counts as at most this multiple of the expected cost.
const OUTLIER: f64 = 3.0;
/// If nothing is recorded for this long, the missing threads wait for something.
const QUIET: Duration = Duration::from_millis(20);
/// The same if no thread with a continuing burst is runnable.
const IDLE: Duration = Duration::from_millis(3);
/// The tracer spends at most this part of the longest burst on one: if much code needs translation first, later bursts will find
/// it translated.
const BUSY: f64 = 0.6;
/// Longest burst of one thread; each further thread adds [`LONGEST_OF_MORE`].
const LONGEST: Duration = Duration::from_millis(50);
const LONGEST_OF_MORE: Duration = Duration::from_millis(5);

/// Whether there is a burst.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Stage {
    /// None.
    #[default]
    Resting,
    /// Threads are moved to the version that traces, or are in it.
    Tracing(Traced),
    /// They are moved back; the duration is the time that they spent waiting.
    Ending(Traced, Duration),
}

/// A burst of all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traced {
    /// When it began.
    pub since: Instant,
    /// The tracer's own processor seconds then.
    pub own_s: f64,
    /// When rprof last recorded or answered something, or a thread arrived.
    pub moved: Instant,
    /// A thread has begun.
    pub begun: bool,
}

impl Traced {
    /// A burst that begins.
    pub fn now() -> Self {
        let now = Instant::now();
        Traced { since: now, own_s: own_seconds(), moved: now, begun: false }
    }

    /// Its cost until now, without the time `waited`: elapsed seconds, or processor seconds on a host that is busy with other
    /// work. `used_s` are the processor seconds of its threads. While one side works, the other usually polls.
    pub fn cost_s(&self, used_s: f64, waited: Duration) -> f64 {
        let elapsed = self.since.elapsed().saturating_sub(waited);
        elapsed.as_secs_f64().min(ALTERNATELY * used_s.max(own_seconds() - self.own_s))
    }

    /// Whether nothing has been recorded for long.
    pub fn is_quiet(&self, now: Instant) -> bool {
        now - self.moved >= QUIET
    }

    /// Whether nothing has been recorded for the longest time that a burst waits for a blocked thread.
    pub fn is_idle(&self, now: Instant) -> bool {
        now - self.moved >= IDLE
    }

    /// Whether a burst of this many threads has used up its time at `now`; `goes_on`: it is not complete yet.
    pub fn is_over(&self, goes_on: bool, threads: usize, now: Instant) -> bool {
        let longest = LONGEST + LONGEST_OF_MORE * threads.saturating_sub(1) as u32;
        let is_long = now - self.since >= longest || own_seconds() - self.own_s >= longest.as_secs_f64() * BUSY;
        self.begun && !goes_on || self.is_quiet(now) || is_long
    }
}

/// Processor seconds of the calling thread.
fn own_seconds() -> f64 {
    own_cpu_time().as_secs_f64()
}

/// The distances of bursts, and their cost.
#[derive(Debug)]
pub struct Pace {
    /// Seconds that bursts took.
    spent_s: f64,
    /// Expected seconds of one burst.
    typical_s: f64,
    /// Processor seconds of pauses in which there was no burst.
    paused_s: f64,
    /// When the next one is due, on that clock.
    due_s: f64,
    /// The program's processor seconds at the last look.
    looked_s: f64,
    /// The tracer's own when the run began.
    own_s: f64,
    random: SplitMix,
}

impl Pace {
    /// Nothing has run yet.
    pub fn new() -> Self {
        Pace {
            spent_s: 0.0,
            typical_s: FIRST_GUESS_S,
            paused_s: 0.0,
            due_s: FIRST_S,
            looked_s: 0.0,
            own_s: own_seconds(),
            random: SplitMix::default(),
        }
    }

    /// How long the run has been until now, `elapsed_s` after its start: measured as bursts are ([`Traced::cost_s`]), so
    /// that both grow alike on a busy host.
    pub fn run_s(&self, elapsed_s: f64) -> f64 {
        elapsed_s.min(self.looked_s + own_seconds() - self.own_s)
    }

    /// The program has used `now_s` processor seconds so far, those since the last look in a pause without a burst or not.
    pub fn look(&mut self, now_s: f64, paused: bool) {
        if paused {
            self.paused_s += (now_s - self.looked_s).max(0.0);
        }
        self.looked_s = now_s;
    }

    /// Whether a burst is due, `run_s` seconds after the start.
    pub fn is_due(&self, run_s: f64) -> bool {
        self.paused_s >= self.due_s && self.spent_s + self.typical_s <= CREDIT_S + SHARE * run_s
    }

    /// A burst that took `cost_s` is over `run_s` seconds after the start.
    pub fn ended(&mut self, cost_s: f64, run_s: f64) {
        self.spent_s += cost_s;
        // Code translated during a burst is not translated again.
        self.typical_s += NEWEST * (cost_s.min(OUTLIER * self.typical_s) - self.typical_s);
        // Pauses are a part of the run, and threads run side by side in them.
        let of_run = self.paused_s / run_s.max(1e-3);
        let is_behind = self.spent_s < 0.5 * AIM * run_s;
        let mean_s = self.typical_s / AIM * of_run * if is_behind { 0.5 } else { 1.0 };
        self.due_s = self.paused_s + mean_s.max(SHORTEST_S) * (0.5 + self.random.unit());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts that cost `cost_s` each in `run_s` seconds, of which pauses are this part: how many, and when.
    fn bursts(cost_s: f64, run_s: f64, of_run: f64) -> Vec<f64> {
        let (mut pace, mut now_s, mut at) = (Pace::new(), 0.0, Vec::new());
        while now_s < run_s {
            now_s += 0.001;
            pace.look(now_s, now_s % 0.1 < 0.1 * of_run);
            if now_s % 0.1 < 0.1 * of_run && pace.is_due(now_s) {
                at.push(now_s);
                now_s += cost_s;
                pace.look(now_s, false);
                pace.ended(cost_s, now_s);
            }
        }
        at
    }

    #[test]
    fn bursts_cost_a_tenth_of_the_run_at_most() {
        for (cost_s, of_run) in [(0.001, 1.0), (0.003, 0.5), (0.02, 1.0), (0.2, 0.5)] {
            let at = bursts(cost_s, 10.0, of_run);
            let share = at.len() as f64 * cost_s / 10.0;
            assert!((0.05..=0.105).contains(&share), "{cost_s} s each: {share}");
        }
    }

    #[test]
    fn a_short_program_has_some_and_their_distances_differ() {
        let at = bursts(0.0015, 0.3, 1.0);
        assert!(at.len() >= 12, "{}", at.len());
        let long = bursts(0.001, 10.0, 1.0);
        let distances: Vec<f64> = long.windows(2).map(|pair| pair[1] - pair[0]).skip(100).collect();
        let (least, most) = distances.iter().fold((f64::MAX, 0f64), |(l, m), &d| (l.min(d), m.max(d)));
        assert!(most > 2.0 * least, "{least} to {most}");
    }

    #[test]
    fn who_waits_does_not_hold_the_others() {
        let burst = Traced { begun: true, ..Traced::now() };
        assert!(burst.is_over(false, 1, burst.since));
        assert!(!burst.is_over(true, 1, burst.since));
        assert!(burst.is_over(true, 1, burst.since + QUIET));
        let moves = Traced { moved: burst.since + LONGEST, ..burst };
        assert!(moves.is_over(true, 1, burst.since + LONGEST));
        assert!(!moves.is_over(true, 2, burst.since + LONGEST));
        assert!(!burst.is_over(true, 1, burst.since + QUIET / 2));
    }
}
