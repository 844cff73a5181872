//! A cause that may be the one, with its evidence.

use rprof_profile::confidence::Level;
use rprof_profile::vocabulary::Class;

use super::place::Place;

/// What a candidate without a known saving is worth, as a share of the time that it holds.
const WITHOUT_SAVING: f64 = 0.25;

/// The same of time that nothing explains.
const UNKNOWN: f64 = 0.1;
/// The widest interval, as a share of the elapsed time; where the truth may lie further below, confidence falls.
const WIDEST: f64 = 0.29;

/// Seconds, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub least: f64,
    pub most: f64,
}

impl Interval {
    /// From `least` to `most`, which are put in order.
    pub fn new(least: f64, most: f64) -> Interval {
        Interval { least: least.min(most).max(0.0), most: most.max(least) }
    }

    /// From `least` to `most`, no wider than is useful in a run of `wall_s` seconds: the most holds.
    pub fn narrow(least: f64, most: f64, wall_s: f64) -> Interval {
        Interval::new(least.max(most - WIDEST * wall_s), most)
    }

    /// Its middle.
    pub fn middle(self) -> f64 {
        (self.least + self.most) / 2.0
    }
}

/// A cause, where it is, what it costs and what removing it saves.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub class: Class,
    pub place: Option<Place>,
    /// Elapsed seconds in which the cause holds the program.
    pub held_s: f64,
    /// Elapsed seconds that removing it saves; `None` where no change is known.
    pub saves_s: Option<Interval>,
    /// The change, in one sentence of at most 200 characters.
    pub advice: Option<String>,
    pub confidence: Level,
    /// The figures that it rests on.
    pub because: Vec<String>,
}

impl Candidate {
    /// Nothing is known of the time, most of which is at `place`.
    pub fn unknown(place: Option<Place>) -> Candidate {
        Candidate {
            class: Class::Unknown,
            place,
            held_s: 0.0,
            saves_s: None,
            advice: None,
            confidence: Level::Low,
            because: Vec::new(),
        }
    }

    /// The candidate with nothing beyond `wall_s` seconds.
    pub fn within(mut self, wall_s: f64) -> Candidate {
        self.held_s = self.held_s.min(wall_s);
        self.saves_s = self.saves_s.map(|saves| Interval::new(saves.least.min(wall_s), saves.most.min(wall_s)));
        self
    }

    /// Seconds by which candidates are ordered: what the change saves, less where the cause is in doubt.
    pub fn worth(&self) -> f64 {
        let without = if self.class == Class::Unknown { UNKNOWN } else { WITHOUT_SAVING };
        let saved = self.saves_s.map_or(without * self.held_s, Interval::middle);
        saved
            * match self.confidence {
                Level::High => 1.0,
                Level::Medium => 0.9,
                Level::Low => 0.75,
            }
    }
}
