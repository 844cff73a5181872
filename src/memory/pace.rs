//! Which phases a sampled program goes through, and how long each lasts.
//!
//! The program's start is collected as it is: caches are empty, which is their true state. After that windows alternate
//! with pauses, whose length the engine decides; it also ends phases in which little is collected. A window first brings the model's state up to date, then measures. The
//! state at its beginning is that of the last window's end. Streams make it the present one by replacing all that the
//! last level holds, which is waited for; where little is replaced, what was resident then still is, or is as likely to
//! be as at any other time.

use crate::profile::evidence::memory::Phase;

/// Accesses of the program, all threads together, that are collected at its start.
const OPENING: u64 = 4 << 20;
/// Accesses that warm the caches up, at least and at most.
const WARMING: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 20;
/// Accesses that are measured in a window.
const MEASURING: u64 = 4 << 20;
/// A phase goes on after the engine found it long enough while this part of its accesses came since.
const WORTH_WAITING: u64 = 8;

/// Where the program is.
#[derive(Debug)]
pub struct Pace {
    phase: Phase,
    /// Accesses since the phase began.
    accesses: u64,
    /// How many of them there were when the engine last said that it was long enough.
    noted: u64,
    /// Lines that came from memory since then.
    fills: u64,
    /// Lines that the last level holds.
    lines: u64,
    /// Accesses and fills of each measured window.
    windows: Vec<(u64, u64)>,
}

impl Pace {
    /// At the start of a program, for a model whose last level holds `lines` lines.
    pub fn new(lines: u64) -> Self {
        Pace { phase: Phase::Opening, accesses: 0, noted: 0, fills: 0, lines, windows: Vec::new() }
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Accesses and lines from memory of each window that was measured.
    pub fn windows(&self) -> &[(u64, u64)] {
        &self.windows
    }

    /// Notes `accesses` of the program that brought `fills` lines of the modelled part from memory.
    pub fn note(&mut self, accesses: u64, fills: u64) {
        self.accesses += accesses;
        self.fills += fills;
        match self.phase {
            Phase::Opening if self.accesses >= OPENING => self.begin(Phase::Pause),
            Phase::Warming if self.is_warm() => self.begin(Phase::Measuring),
            Phase::Measuring if self.accesses >= MEASURING => self.begin(Phase::Pause),
            _ => {}
        }
    }

    /// The phase was long enough, unless a good part of what it is to collect has come since this was said last.
    pub fn end_phase(&mut self) {
        let goal = match self.phase {
            Phase::Opening => OPENING,
            Phase::Warming => *WARMING.end(),
            Phase::Measuring => MEASURING,
            Phase::Pause => u64::MAX,
        };
        if self.accesses - self.noted >= goal / WORTH_WAITING {
            self.noted = self.accesses;
            return;
        }
        self.begin(match self.phase {
            Phase::Pause => Phase::Warming,
            Phase::Warming => Phase::Measuring,
            Phase::Opening | Phase::Measuring => Phase::Pause,
        });
    }

    fn begin(&mut self, phase: Phase) {
        if self.phase == Phase::Measuring {
            self.windows.push((self.accesses, self.fills));
        }
        (self.phase, self.accesses, self.noted, self.fills) = (phase, 0, 0, 0);
    }

    /// All that the last level held was replaced, or will not be for a long time.
    fn is_warm(&self) -> bool {
        if self.accesses < *WARMING.start() {
            return false;
        }
        let expected = self.fills as f64 * *WARMING.end() as f64 / self.accesses as f64;
        self.fills >= self.lines || expected < self.lines as f64 || self.accesses >= *WARMING.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses until the warm-up ends, when one in `every` brings a line.
    fn warm_up(every: u64, lines: u64) -> u64 {
        let mut pace = Pace::new(lines);
        pace.note(OPENING, 0);
        assert_eq!(pace.phase(), Phase::Pause);
        pace.note(1 << 30, 1 << 30);
        assert_eq!(pace.phase(), Phase::Pause, "a pause is ended by the engine");
        assert!(pace.windows().is_empty());
        pace.end_phase();
        let mut accesses = 0;
        while pace.phase() == Phase::Warming {
            pace.note(every, 1);
            accesses += every;
        }
        assert_eq!(pace.phase(), Phase::Measuring);
        pace.note(MEASURING, 0);
        assert_eq!(pace.phase(), Phase::Pause);
        assert_eq!(pace.windows(), [(MEASURING, 0)]);
        accesses
    }

    #[test]
    fn a_phase_in_which_little_is_collected_ends_when_the_engine_says_so() {
        let mut pace = Pace::new(1 << 18);
        pace.note(OPENING / 2, 0);
        pace.end_phase();
        assert_eq!(pace.phase(), Phase::Opening, "much has come");
        pace.end_phase();
        assert_eq!(pace.phase(), Phase::Pause, "nothing has come since");
        let phases = [(); 3].map(|()| {
            pace.end_phase();
            pace.phase()
        });
        assert_eq!(phases, [Phase::Warming, Phase::Measuring, Phase::Pause]);
    }

    #[test]
    fn streams_replace_what_the_cache_holds_before_they_are_measured() {
        assert_eq!(warm_up(8, 1 << 18), 8 << 18);
        // Too slow to replace it all: the state is taken as it is.
        assert_eq!(warm_up(1 << 10, 1 << 18), 1 << 20);
        // Small caches are full long before.
        assert_eq!(warm_up(8, 1 << 10), 1 << 20);
    }
}
