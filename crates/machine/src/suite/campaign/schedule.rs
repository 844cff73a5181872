//! The number of rounds and the time at which they end.
//!
//! ```text
//! 0 ─ first round ─ what is measured once ─┬─ round ─┬─ round ─┬─ … ─▶ budget
//!     essential ceilings may overrun it     as long as one more fits
//! ```

use std::time::{Duration, Instant};

use super::Effort;

/// The time of one measurement.
#[derive(Debug)]
pub struct Schedule {
    /// When it began.
    pub began: Instant,
    /// The current round.
    pub round: usize,
    /// The first round over everything; a quick measurement has one over the core alone before it.
    pub first: usize,
    /// The current measurement may overrun the time of a quiet host in the first round.
    pub essential: bool,
    /// Time from the start after which no measurement begins; the second one applies to essential ceilings.
    end: Duration,
    last_end: Duration,
    /// When this round began.
    round_began: Duration,
}

impl Schedule {
    /// The schedule for `effort`.
    pub fn of(effort: Effort) -> Self {
        let (end, last_end) = (effort.budget(), effort.overrun());
        let first = usize::from(effort == Effort::Quick);
        Schedule {
            began: Instant::now(),
            round: 0,
            first,
            essential: false,
            end,
            last_end,
            round_began: Duration::ZERO,
        }
    }

    /// Sets the time after which nothing begins.
    pub fn set_end(&mut self, end: Duration) {
        (self.end, self.last_end) = (end, end);
    }

    /// The time at which the current measurement has to begin at the latest.
    pub fn end(&self) -> Duration {
        if self.essential && self.round <= self.first { self.last_end } else { self.end }
    }

    /// Round number `round` begins `now`.
    pub fn begin(&mut self, round: usize, now: Duration) {
        (self.round, self.round_began) = (round, now);
    }

    /// Whether one more round fits, if it takes as long as this one.
    pub fn has_time(&self, now: Duration) -> bool {
        now + now.saturating_sub(self.round_began) < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_on_as_long_as_one_more_fits() {
        let s = Duration::from_secs;
        let mut schedule = Schedule::of(Effort::Full);
        schedule.set_end(s(20));
        schedule.begin(1, s(12));
        assert!(schedule.has_time(s(15)), "three seconds each");
        schedule.begin(2, s(15));
        assert!(!schedule.has_time(s(18)));
    }

    #[test]
    fn what_is_essential_may_overrun_in_the_first_round_alone() {
        let mut schedule = Schedule::of(Effort::Full);
        let end = schedule.end();
        schedule.essential = true;
        assert!(schedule.end() > end);
        schedule.begin(1, end);
        assert_eq!(schedule.end(), end);
    }
}
