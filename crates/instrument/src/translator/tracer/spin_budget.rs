//! How long rprof polls mailboxes after the last request: long while a program asks often, short when it does not.
//!
//! A thread that asks while rprof does not poll has to stop, which costs it as much as some fifty answers; polling occupies a
//! processor that the program might need.

use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(4);

/// See above.
#[derive(Debug)]
pub struct SpinBudget {
    now: Duration,
    /// There were requests since polling began.
    paid: bool,
    /// When polling ended last.
    ended: Option<Instant>,
}

impl Default for SpinBudget {
    /// A program that begins asks often.
    fn default() -> Self {
        SpinBudget { now: LONGEST, paid: false, ended: None }
    }
}

impl SpinBudget {
    /// How long polling continues without a request.
    pub fn get(&self) -> Duration {
        self.now
    }

    /// A request was answered without a stop.
    pub fn paid(&mut self) {
        self.paid = true;
    }

    /// Polling ends: if it served no request, the next polling is shorter.
    pub fn ended(&mut self, now: Instant) {
        if !self.paid {
            self.now = (self.now / 2).max(SHORTEST);
        }
        self.paid = false;
        self.ended = Some(now);
    }

    /// A thread stopped for an answer: lengthens polling if a little more of it would have sufficed.
    pub fn missed(&mut self, now: Instant) {
        if self.ended.take().is_some_and(|at| now.duration_since(at) < LONGEST) {
            self.now = (self.now * 2).min(LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_in_vain_is_shortened_and_what_it_missed_lengthens_it() {
        let at = Instant::now();
        let mut patience = SpinBudget::default();
        assert_eq!(patience.get(), LONGEST);
        (0..10).for_each(|_| patience.ended(at));
        assert_eq!(patience.get(), SHORTEST);
        patience.missed(at + SHORTEST);
        assert_eq!(patience.get(), 2 * SHORTEST);
        patience.ended(at);
        patience.missed(at + LONGEST);
        assert_eq!(patience.get(), SHORTEST);
        patience.ended(at);
        patience.missed(at);
        // Only the first stop after the end is informative.
        patience.missed(at + SHORTEST);
        assert_eq!(patience.get(), 2 * SHORTEST);
        patience.paid();
        patience.ended(at);
        assert_eq!(patience.get(), 2 * SHORTEST);
    }
}
