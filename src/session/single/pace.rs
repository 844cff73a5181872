//! When the program is visited, and for how long: at random, so that no period of the program's is met at one place only, and no
//! more than the budget allows.
//!
//! Ranks of a job wait for each other, so that each would pay for the visits of all. They are visited together, at instants that all of
//! them know ([`meeting`](crate::session::single::meeting)).

use std::time::Duration;

use crate::instrument::translator::visits::Visit;
use crate::random::SplitMix;
use crate::session::options::Budget;
use crate::session::single::meeting::meeting_s;

/// The first windows are short, so that a short program has many.
const SHORTEST_S: f64 = 0.002;
const LONGEST_S: f64 = 0.050;
/// The run time at which windows begin to grow.
const GROWS_FROM_S: f64 = 0.1;
/// Least mean distance of two windows.
const LEAST_GAP_S: f64 = 0.025;
/// The budget of this much run time may be spent in advance, so that short programs are seen at all.
const ADVANCE_S: f64 = 0.6;
/// Part of the budget that is not spent: prices are estimates, and caches are cold after a visit, too.
const KEPT_BACK: f64 = 0.15;
/// In the course of these seconds the advance is paid back.
const PAID_BACK_S: f64 = 5.0;
/// The least seconds of a budget are spent in the course of these: it is not known how long a program will run.
const SPREAD_S: f64 = 3.0;
/// Windows with addresses begin this number of seconds after the first window of a program that has just begun: its start-up executes
/// much code once, which costs translations and says nothing of later hot code.
const STARTS_UP_S: f64 = 1.0;
/// Part of a window's work that its caches cost: they are cold after a stop, and hold rprof's counters, too.
const COLD_CACHES: f64 = 0.1;
/// Cycles a second that turn the price of counting into seconds: the clock is not known here, and few hosts are slower.
const CLOCK_HZ: f64 = 3e9;
/// Part of a window with addresses in which the program gets nowhere: it does a half to a thirtieth of its native work (ten programs
/// on one Zen 5 host).
const LOST_TO_ADDRESSES: f64 = 0.9;
/// Assumed cost of the first visits, without addresses and with them.
const FIRST_COST_S: [f64; 2] = [0.002, 0.015];
/// Mean distances of visits by which a rank's payments may exceed the budget before it keeps away from a meeting.
const MOST_BEHIND: f64 = 2.0;
/// Of visits at most one in this number records addresses.
const WITH_ADDRESSES: u32 = 4;

/// The schedule. All times are seconds since the program began.
#[derive(Debug, Clone)]
pub struct Pace {
    budget: f64,
    /// Seconds that may be spent whatever part of the time they are.
    least_s: f64,
    /// When the first window may come.
    from_s: f64,
    /// When the first window with addresses may come.
    addresses_from_s: f64,
    /// Seconds that may be spent in advance.
    advance_s: f64,
    paid_s: f64,
    /// The part of it for windows with addresses.
    paid_for_addresses_s: f64,
    /// Cost of the last visit without addresses, and of the last one with them.
    last_cost_s: [f64; 2],
    next_s: f64,
    /// Visits since the last one with addresses.
    since_addresses: u32,
    random: SplitMix,
    /// Number of visits.
    visits: f64,
    /// The time of day at which the program began, in seconds, if its visits are to be at the same time as those of other ranks.
    met_since_s: Option<f64>,
}

impl Pace {
    /// For a program that may be slowed down by the part `whole`, and by visits within `budget`: a sampler takes the rest. `seed` makes
    /// the schedule.
    pub fn new(budget: Budget, whole: f64, seed: u64) -> Self {
        let mut pace = Pace {
            budget: (1.0 - KEPT_BACK) * budget.share,
            least_s: (1.0 - KEPT_BACK) * budget.least_s,
            from_s: 0.0,
            addresses_from_s: 0.0,
            advance_s: ADVANCE_S * whole,
            paid_s: 0.0,
            paid_for_addresses_s: 0.0,
            last_cost_s: FIRST_COST_S,
            next_s: 0.0,
            // The second one has addresses.
            since_addresses: WITH_ADDRESSES - 2,
            random: SplitMix::new(seed),
            visits: 0.0,
            met_since_s: None,
        };
        pace.next_s = LEAST_GAP_S * pace.random.unit();
        pace
    }

    /// For a program that has just begun, with visits after `from_s` seconds.
    pub fn of_new_program(mut self, from_s: f64) -> Self {
        self.from_s = from_s;
        self.addresses_from_s = from_s + STARTS_UP_S;
        self.next_s += from_s;
        self
    }

    /// For a rank of a job, which began at `began_s`, the time of day in seconds.
    pub fn of_rank(mut self, began_s: f64) -> Self {
        self.met_since_s = Some(began_s);
        self
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

    /// Whether the next visit records addresses: these cost at most about half of all.
    pub fn records_addresses(&self) -> bool {
        self.next_s >= self.addresses_from_s
            && self.since_addresses + 1 >= WITH_ADDRESSES
            && 2.0 * self.paid_for_addresses_s <= self.paid_s
    }

    /// A `visit` ended at `now_s`.
    pub fn paid(&mut self, now_s: f64, visit: &Visit) {
        let cost_s = cost_s(visit);
        self.paid_s += cost_s;
        self.last_cost_s[usize::from(visit.with_addresses)] = cost_s;
        if visit.with_addresses {
            self.paid_for_addresses_s += cost_s;
            self.since_addresses = 0;
        } else {
            self.since_addresses += 1;
        }
        // The next one may cost as much as the last of its kind.
        let next_cost_s = self.last_cost_s[usize::from(self.records_addresses())];
        let gap_s = LEAST_GAP_S.max(self.affords_s(self.paid_s + next_cost_s) - now_s);
        self.visits += 1.0;
        self.next_s = match self.met_since_s {
            None => now_s + gap_s * (0.5 + self.random.unit()),
            Some(began_s) => {
                // Means differ less between ranks than their last payments.
                let is_first = self.paid_s + next_cost_s <= self.least_s;
                let per_s = if is_first { self.budget.max(self.least_s / SPREAD_S) } else { self.budget };
                let mean_s = if gap_s > LEAST_GAP_S { self.paid_s / self.visits / per_s } else { LEAST_GAP_S };
                let late_s = (gap_s - MOST_BEHIND * mean_s).max(0.0);
                meeting_s(began_s + now_s + 0.5 * LEAST_GAP_S + late_s, mean_s.max(LEAST_GAP_S)) - began_s
            }
        };
    }

    /// When `cost_s` in all is what the budget allows.
    fn affords_s(&self, cost_s: f64) -> f64 {
        let during_advance = (cost_s - self.advance_s) / (self.budget - self.advance_s / PAID_BACK_S);
        let by_share = if (..PAID_BACK_S).contains(&during_advance) { during_advance } else { cost_s / self.budget };
        // The least seconds, spent evenly after the first window.
        let by_seconds = self.from_s + SPREAD_S * cost_s / self.least_s;
        if cost_s <= self.least_s { by_share.min(by_seconds) } else { by_share }
    }

    /// Nothing was to be visited at `now_s`, or in vain: the next visit comes no earlier than usual, and not before `least_s` have passed.
    pub fn put_off(&mut self, now_s: f64, least_s: f64) {
        self.next_s = self.next_s.max(now_s + LEAST_GAP_S.max(least_s) * (0.5 + self.random.unit()));
    }
}

/// Seconds by which a visit delays the program.
fn cost_s(visit: &Visit) -> f64 {
    let lost_s = if visit.with_addresses {
        LOST_TO_ADDRESSES * visit.lasted_s
    } else {
        (visit.waited_s + visit.extra_cycles / CLOCK_HZ + COLD_CACHES * visit.busy_s).min(visit.busy_s)
    };
    // While rprof works on addresses, the program waits anyway.
    let taken_s = if visit.with_addresses { (visit.taken_s - lost_s).max(0.0) } else { visit.taken_s };
    visit.stopped_s + lost_s + taken_s
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The visits of a run of `seconds` seconds that stop the program for a millisecond each; those with addresses are
    /// long.
    fn run(budget: f64, seconds: f64) -> (Vec<Visit>, f64) {
        run_with(Pace::new(Budget { share: budget, least_s: 0.0 }, budget, 7), seconds)
    }

    fn run_with(mut pace: Pace, seconds: f64) -> (Vec<Visit>, f64) {
        let (mut now_s, mut visits) = (0.0, Vec::new());
        while pace.next_s() < seconds {
            now_s = f64::max(now_s, pace.next_s());
            let with_addresses = pace.records_addresses();
            let lasted_s = if with_addresses { 0.02 } else { pace.length(now_s).as_secs_f64() };
            let (busy_s, extra_cycles) = (lasted_s, 0.3 * lasted_s * CLOCK_HZ);
            let visit = Visit { stopped_s: 0.001, lasted_s, busy_s, extra_cycles, with_addresses, ..Visit::default() };
            now_s += lasted_s + visit.stopped_s;
            pace.paid(now_s, &visit);
            visits.push(visit);
        }
        (visits, pace.paid_s)
    }

    #[test]
    fn a_second_has_many_windows_and_a_long_run_keeps_the_budget() {
        let (visits, paid_s) = run(0.05, 1.0);
        assert!(visits.len() >= 10, "{}", visits.len());
        assert!(paid_s <= 0.05 * (1.0 + ADVANCE_S) + 0.01, "{paid_s}");
        for seconds in [5.0, 100.0] {
            let (visits, paid_s) = run(0.05, seconds);
            assert!(visits.len() as f64 > 1.5 * seconds, "{}", visits.len());
            assert!((0.78..=0.9).contains(&(paid_s / (0.05 * seconds))), "{paid_s} of {seconds}");
        }
    }

    #[test]
    fn addresses_take_half_of_the_budget_at_most() {
        let (visits, paid_s) = run(0.05, 100.0);
        let with = visits.iter().filter(|v| v.with_addresses);
        let share = with.map(cost_s).sum::<f64>() / paid_s;
        assert!((0.1..0.55).contains(&share), "{share}");
        assert!(visits[1].with_addresses && !visits[0].with_addresses);
    }

    #[test]
    fn ranks_are_visited_together() {
        let visits_of = |seed: u64, cost: f64| {
            let mut pace = Pace::new(Budget { share: 0.05, least_s: 0.0 }, 0.05, seed).of_rank(1.7e9);
            let mut at = Vec::new();
            while pace.next_s() < 60.0 {
                let now_s = pace.next_s();
                at.push(now_s);
                let visit = Visit {
                    stopped_s: cost,
                    lasted_s: 0.01,
                    with_addresses: pace.records_addresses(),
                    ..Visit::default()
                };
                pace.paid(now_s + 0.01, &visit);
            }
            at
        };
        let (one, other) = (visits_of(1, 0.004), visits_of(2, 0.005));
        let met = one.iter().filter(|at| other.iter().any(|other| (*other - **at).abs() < 1e-6)).count();
        assert!(4 * met > 3 * other.len(), "{met} of {} and {}", one.len(), other.len());
        assert!(one.len() > other.len() && other.len() > 200, "the budget is used: {} and {}", one.len(), other.len());
    }

    #[test]
    fn ranks_of_a_short_job_are_visited_often() {
        let pace = Pace::new(Budget::USUAL, 0.05, 7).of_new_program(0.0).of_rank(1.7e9);
        let (visits, paid_s) = run_with(pace, 4.0);
        assert!(visits.len() >= 40 && (0.5..=1.2).contains(&paid_s), "{} visits, {paid_s}", visits.len());
        let pace = Pace::new(Budget::USUAL, 0.05, 7).of_new_program(0.0).of_rank(1.7e9);
        let (_, paid_s) = run_with(pace, 100.0);
        assert!((3.5..=5.0).contains(&paid_s), "{paid_s}");
    }

    #[test]
    fn a_short_program_may_be_delayed_by_seconds_and_a_long_one_by_its_share() {
        let of = |from_s: f64, seconds| run_with(Pace::new(Budget::USUAL, 0.05, 7).of_new_program(from_s), seconds);
        let (visits, paid_s) = of(0.0, 4.0);
        assert!((0.7..=1.0).contains(&paid_s), "{paid_s}");
        assert!(!visits[..10].iter().any(|visit| visit.with_addresses), "not in its first second");
        let (_, paid_s) = of(0.0, 0.6);
        assert!(paid_s <= 0.25, "spread over seconds: {paid_s}");
        let (_, paid_s) = of(10.0, 14.0);
        assert!((0.7..=1.0).contains(&paid_s), "{paid_s}");
        assert_eq!(of(10.0, 9.9).0.len(), 0);
        let (_, paid_s) = of(0.0, 100.0);
        assert!((3.9..=4.5).contains(&paid_s), "{paid_s}");
    }

    #[test]
    fn a_budget_of_nothing_visits_nobody() {
        assert_eq!(run(0.0, 10.0).0.len(), 0);
    }
}
