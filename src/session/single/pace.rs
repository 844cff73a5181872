//! When the program is visited, and for how long: at random, so that no period of the program's is met at one place only, and no
//! more than the budget allows.

use std::time::Duration;

/// The first windows are short, so that a short program has many.
const SHORTEST_S: f64 = 0.002;
const LONGEST_S: f64 = 0.010;
/// The run time at which windows begin to grow.
const GROWS_FROM_S: f64 = 0.1;
/// Least mean distance of two windows.
const LEAST_GAP_S: f64 = 0.025;
/// The budget of this much run time may be spent in advance, so that short programs are seen at all.
const ADVANCE_S: f64 = 0.6;
/// Part of a window's time that the program is behind after it: translated code is slower, and has to be made.
const SLOWDOWN: f64 = 0.35;
/// One visit in so many records addresses.
const WITH_ADDRESSES: u32 = 4;

/// The schedule. All times are seconds since the program began.
#[derive(Debug, Clone)]
pub struct Pace {
    budget: f64,
    /// Seconds that may be spent in advance.
    advance_s: f64,
    paid_s: f64,
    last_cost_s: f64,
    next_s: f64,
    visits: u32,
    seed: u64,
}

impl Pace {
    /// For a program that may be slowed down by the part `whole`, and by visits by the part `budget` of its time in the long run: a
    /// sampler takes the rest. `seed` makes the schedule.
    pub fn new(budget: f64, whole: f64, seed: u64) -> Self {
        let mut pace =
            Pace { budget, advance_s: ADVANCE_S * whole, paid_s: 0.0, last_cost_s: 0.0, next_s: 0.0, visits: 0, seed };
        pace.next_s = LEAST_GAP_S * pace.random();
        pace
    }

    /// When the next visit is due; never, for a budget of 0.
    pub fn next_s(&self) -> f64 {
        if self.budget > 0.0 { self.next_s } else { f64::INFINITY }
    }

    /// Seconds by which all visits so far have delayed the program: stops as measured, and slower code at its usual price.
    pub fn paid_s(&self) -> f64 {
        self.paid_s
    }

    /// The length of a window that begins at `now_s`.
    pub fn length(&self, now_s: f64) -> Duration {
        let grown = SHORTEST_S * (1.0 + now_s / GROWS_FROM_S).sqrt();
        Duration::from_secs_f64(grown.clamp(SHORTEST_S, LONGEST_S))
    }

    /// Whether the next visit records addresses.
    pub fn records_addresses(&self) -> bool {
        self.visits % WITH_ADDRESSES == 1
    }

    /// A visit that ended at `now_s` stopped the program for `stopped_s`, and its busiest thread worked in it for `busy_s`.
    pub fn paid(&mut self, now_s: f64, busy_s: f64, stopped_s: f64) {
        self.visits += 1;
        self.last_cost_s = stopped_s + SLOWDOWN * busy_s;
        self.paid_s += self.last_cost_s;
        // The next one may cost as much as the last.
        let affordable_s = (self.paid_s + self.last_cost_s - self.advance_s) / self.budget;
        let gap_s = LEAST_GAP_S.max(affordable_s - now_s);
        self.next_s = now_s + gap_s * (0.5 + self.random());
    }

    /// Nothing was to be visited at `now_s`, or in vain: the next visit comes no earlier than usual, and not before `least_s` have passed.
    pub fn put_off(&mut self, now_s: f64, least_s: f64) {
        self.next_s = self.next_s.max(now_s + LEAST_GAP_S.max(least_s) * (0.5 + self.random()));
    }

    /// Uniform in 0..1 (splitmix64).
    fn random(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (visits, seconds paid) in a run of so many seconds whose visits stop the program for a millisecond each.
    fn run(budget: f64, seconds: f64) -> (u32, f64) {
        let mut pace = Pace::new(budget, budget, 7);
        let (mut now_s, mut visits) = (0.0, 0);
        while pace.next_s() < seconds {
            now_s = f64::max(now_s, pace.next_s());
            let length_s = pace.length(now_s).as_secs_f64();
            now_s += length_s + 0.001;
            pace.paid(now_s, length_s, 0.001);
            visits += 1;
        }
        (visits, pace.paid_s)
    }

    #[test]
    fn a_second_has_thirty_windows_and_a_long_run_keeps_the_budget() {
        let (visits, paid_s) = run(0.05, 1.0);
        assert!(visits >= 20, "{visits}");
        assert!(paid_s <= 0.05 * (1.0 + ADVANCE_S) + 0.01, "{paid_s}");
        let (visits, paid_s) = run(0.05, 100.0);
        assert!(visits > 500 && (4.0..=5.2).contains(&paid_s), "{visits} {paid_s}");
    }

    #[test]
    fn a_budget_of_nothing_visits_nobody() {
        assert_eq!(run(0.0, 10.0).0, 0);
    }
}
