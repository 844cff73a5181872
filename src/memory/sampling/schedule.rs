//! Which phases a sampled program goes through, and how long each lasts.
//!
//! The program's start is collected as it is: caches are empty, which is their true state. After that windows alternate
//! with pauses, whose length the engine decides; it also ends phases in which little is collected. A window first brings
//! the model's state up to date, then measures. At its beginning the caches hold what they held at the last window's end,
//! of which nobody knows whether it is still there. The warm-up therefore goes on until as many lines came or were used
//! again as the last level holds, while that can be expected to happen. Where so little is used, what was resident then
//! still is, or is as likely to be as at any other time.

use crate::profile::evidence::memory::Phase;

/// Accesses of the program, all threads together, that are collected at its start.
const OPENING: u64 = 4 << 20;
/// Accesses that warm the caches up, at least and at most.
const WARMING: std::ops::RangeInclusive<u64> = 1 << 20..=128 << 20;
/// After so many accesses it is asked again whether a warm-up leads to anything.
const STEP: u64 = 2 << 20;
/// Lines known over lines that the last level holds when practically all of its sets are known: sets are not filled evenly.
const COMPLETE: f64 = 1.25;
/// Accesses that are measured in a window, at least; not fewer than warmed it up.
const MEASURING: u64 = 2 << 20;
/// A phase goes on after the engine found it long enough while this part of its accesses came since.
const WORTH_WAITING: u64 = 8;
/// How often the start goes on in any case: the loading of libraries is not what is to be seen.
const OPENING_LOOKS: u64 = 5;
/// How often a phase goes on at most after the engine found it long enough. A last level of hundreds of MiB that a loop fills from
/// memory takes this long.
const MOST_LOOKS: u64 = 24;

/// Where the program is.
#[derive(Debug)]
pub struct PhaseSchedule {
    phase: Phase,
    /// Since the phase began.
    now: Progress,
    /// When the engine last said that it was long enough, how often it did so, and when the last step ended.
    noted: Progress,
    looks: u64,
    step: Progress,
    /// Lines that a last level holds, and how many are to be known of all.
    lines: u64,
    goal: u64,
    /// What warmed the present window up, in how many looks, and whether all that the last level holds was known then.
    warmed: Progress,
    warm_looks: u64,
    warm: bool,
    /// Accesses and fills of each measured window.
    windows: Vec<(u64, u64)>,
    /// Accesses of the start that were simulated.
    opened: u64,
}

/// What a phase has collected.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Accesses of the program.
    accesses: u64,
    /// Lines of the modelled part that came from memory.
    fills: u64,
    /// Those, and lines that were found where they were before the pause.
    known: u64,
}

impl PhaseSchedule {
    /// At the start of a program, for a model whose last level holds `lines` lines.
    pub fn new(lines: u64) -> Self {
        PhaseSchedule {
            lines,
            phase: Phase::Opening,
            now: Progress::default(),
            noted: Progress::default(),
            looks: 0,
            step: Progress::default(),
            goal: goal(lines),
            warmed: Progress::default(),
            warm_looks: 0,
            warm: false,
            windows: Vec::new(),
            opened: 0,
        }
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// So many last levels are in use now.
    pub fn fill(&mut self, last_levels: usize) {
        self.goal = goal(self.lines * last_levels.max(1) as u64);
    }

    /// The program is over: the present window, if there is one of some length, is as long as it was.
    pub fn finish(&mut self) {
        if self.phase == Phase::Measuring && self.now.accesses >= MEASURING / WORTH_WAITING {
            self.begin(Phase::Pause);
        }
    }

    /// Accesses and lines from memory of each window that was measured.
    pub fn windows(&self) -> &[(u64, u64)] {
        &self.windows
    }

    /// Whether a pause of so many accesses brought less from memory than all last levels hold, if it did as the window that was measured
    /// before it and as the warm-up behind it. Short strings, which count as a line in windows and by their bytes here, make pauses look
    /// shorter than they were.
    pub fn outlasts(&self, accesses: u64) -> bool {
        let (of_warm_up, before) = ((self.warmed.accesses, self.warmed.fills), self.windows.last().copied());
        let mut both = std::iter::once(of_warm_up).chain(before);
        both.all(|(seen, fills)| seen > 0 && (fills as f64 * accesses as f64) < self.goal as f64 * seen as f64)
    }

    /// When the latest window began to measure, all that the last level holds was known.
    pub fn is_warm(&self) -> bool {
        self.warm
    }

    /// `accesses` of the start were simulated: the second half of it begins behind them.
    pub fn begins_second_half(&mut self, accesses: u64) -> bool {
        let before = self.opened;
        self.opened += accesses;
        before < OPENING / 2 && self.opened >= OPENING / 2
    }

    /// `accesses` of the program were received that were collected in `phase`: whether that is over now. A warm-up is not before it is
    /// known what they [brought](Self::simulated).
    pub fn received(&mut self, phase: Phase, accesses: u64) -> bool {
        let most = match phase {
            Phase::Opening => OPENING,
            Phase::Measuring => self.to_measure(),
            Phase::Warming | Phase::Pause => return false,
        };
        if self.phase != phase {
            return false;
        }
        self.now.accesses += accesses;
        let over = self.now.accesses >= most;
        if over {
            self.begin(Phase::Pause);
        }
        over
    }

    /// `accesses` of the program that were collected in `phase` brought `fills` lines of the modelled part from memory, and found
    /// `stale` ones where they were before a pause.
    pub fn simulated(&mut self, phase: Phase, accesses: u64, fills: u64, stale: u64) {
        match (phase, self.phase) {
            (Phase::Warming, Phase::Warming) => {
                self.now.accesses += accesses;
                self.now.fills += fills;
                self.now.known += fills + stale;
                if self.warms_no_more() {
                    self.begin(Phase::Measuring);
                }
            }
            (Phase::Measuring, Phase::Measuring) => self.now.fills += fills,
            // The model catches up.
            (Phase::Measuring, Phase::Pause) => self.windows.last_mut().into_iter().for_each(|(_, all)| *all += fills),
            _ => {}
        }
    }

    /// The phase was long enough, unless what came since this was said last promises that it reaches its goal.
    pub fn end_phase(&mut self) {
        self.looks += 1;
        let accesses = self.now.accesses - self.noted.accesses;
        let goes_on = match self.phase {
            Phase::Pause => false,
            Phase::Opening => accesses >= OPENING / WORTH_WAITING || self.looks < OPENING_LOOKS,
            Phase::Warming => {
                let looks_left = MOST_LOOKS.saturating_sub(self.looks);
                let missing = self.goal.saturating_sub(self.now.known);
                missing > 0 && (self.now.known - self.noted.known) * looks_left >= missing
            }
            Phase::Measuring => accesses >= self.to_measure() / WORTH_WAITING || self.looks < self.warm_looks,
        };
        if goes_on && self.looks < MOST_LOOKS {
            self.noted = self.now;
            return;
        }
        self.begin(match self.phase {
            Phase::Pause => Phase::Warming,
            Phase::Warming => Phase::Measuring,
            Phase::Opening | Phase::Measuring => Phase::Pause,
        });
    }

    fn begin(&mut self, phase: Phase) {
        match self.phase {
            Phase::Warming => {
                (self.warmed, self.warm_looks) = (self.now, self.looks);
                self.warm = self.now.known >= self.goal;
            }
            Phase::Measuring => self.windows.push((self.now.accesses, self.now.fills)),
            Phase::Opening => {}
            // What the caches hold is not known any more.
            Phase::Pause => self.warm = false,
        }
        (self.phase, self.looks) = (phase, 0);
        (self.now, self.noted, self.step) = Default::default();
    }

    fn to_measure(&self) -> u64 {
        self.warmed.accesses.max(MEASURING)
    }

    /// All that the last level holds is known, or will not be for a long time.
    fn warms_no_more(&mut self) -> bool {
        let Progress { accesses, known, .. } = self.now;
        if accesses < *WARMING.start() {
            return false;
        }
        let since = accesses - self.step.accesses;
        let hopeless = since >= STEP && {
            let rate = (known - self.step.known) as f64 / since as f64;
            self.step = self.now;
            (known as f64 + rate * WARMING.end().saturating_sub(accesses) as f64) < self.goal as f64
        };
        known >= self.goal || hopeless || accesses >= *WARMING.end()
    }
}

/// Lines that are to be known where all last levels hold so many.
fn goal(lines: u64) -> u64 {
    (lines as f64 * COMPLETE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came in the present phase is simulated at once.
    fn note(pace: &mut PhaseSchedule, accesses: u64, fills: u64, stale: u64) {
        let phase = pace.phase();
        pace.received(phase, accesses);
        pace.simulated(phase, accesses, fills, stale);
    }

    /// A pace that warms the first window up.
    fn warming(lines: u64) -> PhaseSchedule {
        let mut pace = PhaseSchedule::new(lines);
        note(&mut pace, OPENING, 0, 0);
        assert_eq!(pace.phase(), Phase::Pause);
        note(&mut pace, 1 << 30, 1 << 30, 0);
        assert_eq!(pace.phase(), Phase::Pause, "a pause is ended by the engine");
        assert!(pace.windows().is_empty());
        pace.end_phase();
        assert_eq!(pace.phase(), Phase::Warming);
        pace
    }

    /// Accesses until the warm-up ends, when one in `every` brings a line or finds a stale one.
    fn warm_up(every: u64, lines: u64) -> u64 {
        let mut pace = warming(lines);
        let mut accesses = 0;
        while pace.phase() == Phase::Warming {
            note(&mut pace, every, accesses / every % 2, 1 - accesses / every % 2);
            accesses += every;
        }
        assert_eq!(pace.phase(), Phase::Measuring);
        assert_eq!(pace.is_warm(), accesses >= every * pace.goal, "{accesses} accesses");
        let measured = accesses.max(MEASURING);
        note(&mut pace, measured, 0, 0);
        assert_eq!(pace.phase(), Phase::Pause);
        assert_eq!(pace.windows(), [(measured, 0)]);
        accesses
    }

    #[test]
    fn a_phase_in_which_little_is_collected_ends_when_the_engine_says_so() {
        let mut pace = PhaseSchedule::new(1 << 18);
        (1..OPENING_LOOKS).for_each(|_| pace.end_phase());
        assert_eq!(pace.phase(), Phase::Opening, "it is short");
        note(&mut pace, OPENING / 2, 0, 0);
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
    fn what_the_cache_holds_is_known_before_it_is_measured() {
        assert_eq!(warm_up(8, 1 << 18), 10 << 18);
        assert_eq!(warm_up(64, 1 << 18), 80 << 18);
        // Too slow to know it all: the state is taken as it is.
        assert_eq!(warm_up(1 << 10, 1 << 18), STEP);
        // Small caches are full long before.
        assert_eq!(warm_up(8, 1 << 10), 1 << 20);
    }

    #[test]
    fn every_last_level_that_is_used_is_filled() {
        let mut pace = warming(1 << 18);
        pace.fill(2);
        note(&mut pace, 2 << 20, (1 << 18) * 2, 0);
        assert_eq!(pace.phase(), Phase::Warming);
        note(&mut pace, 1 << 20, 1 << 18, 0);
        assert_eq!((pace.phase(), pace.is_warm()), (Phase::Measuring, true));
        pace.end_phase();
        assert_eq!((pace.phase(), pace.is_warm()), (Phase::Pause, true));
        pace.end_phase();
        assert_eq!((pace.phase(), pace.is_warm()), (Phase::Warming, false), "what it holds is not known any more");
    }

    #[test]
    fn the_last_window_counts_where_it_was_a_window() {
        for (accesses, windows) in [(MEASURING / 2, 1), (10, 0)] {
            let mut pace = warming(0);
            note(&mut pace, 1 << 20, 0, 0);
            note(&mut pace, accesses, 3, 0);
            pace.finish();
            assert_eq!(pace.windows().len(), windows);
        }
    }

    #[test]
    fn what_a_window_brought_is_known_later() {
        let mut pace = warming(0);
        assert!(!pace.received(Phase::Warming, 1 << 20), "it is not known what that brought");
        pace.simulated(Phase::Warming, 1 << 20, 0, 0);
        assert_eq!(pace.phase(), Phase::Measuring);
        assert!(!pace.received(Phase::Measuring, MEASURING / 2));
        assert!(!pace.received(Phase::Warming, MEASURING), "of a thread that is late");
        assert!(pace.received(Phase::Measuring, MEASURING / 2));
        [3, 4].into_iter().for_each(|fills| pace.simulated(Phase::Measuring, MEASURING / 2, fills, 0));
        assert_eq!((pace.phase(), pace.windows()), (Phase::Pause, [(MEASURING, 7)].as_slice()));
    }

    #[test]
    fn the_start_has_one_half_time() {
        let mut pace = PhaseSchedule::new(0);
        let step = OPENING / 8;
        let halves = [(); 10].map(|()| {
            let half = pace.begins_second_half(step);
            note(&mut pace, step, 0, 0);
            half
        });
        assert_eq!(halves.iter().position(|half| *half), Some(3));
        assert_eq!(halves.iter().filter(|half| **half).count(), 1);
    }

    #[test]
    fn lines_outlast_a_pause_that_brings_fewer_than_the_last_level_holds() {
        let mut pace = warming(1 << 18);
        assert!(!pace.outlasts(0), "nothing is known of it");
        note(&mut pace, 4 << 20, 5 << 16, 0);
        assert_eq!(pace.phase(), Phase::Measuring);
        assert_eq!([(4 << 20) - 13, 4 << 20].map(|accesses| pace.outlasts(accesses)), [true, false]);
        note(&mut pace, 4 << 20, 1 << 19, 0);
        // A line in eight accesses, and 5 << 16 that are to come.
        assert_eq!([(5 << 19) - 8, 5 << 19].map(|accesses| pace.outlasts(accesses)), [true, false]);
    }

    #[test]
    fn a_slow_warm_up_goes_on_while_it_leads_to_its_goal() {
        // (lines known a look, looks until it ends)
        for (lines, looks) in [(1 << 17, 3), (13_700, MOST_LOOKS), (1000, 1)] {
            let mut pace = warming(1 << 18);
            let mut count = 0;
            while pace.phase() == Phase::Warming {
                note(&mut pace, 1 << 15, lines, 0);
                pace.end_phase();
                count += 1;
            }
            assert_eq!(count, looks, "{lines} lines a look");
            // As many looks are measured.
            let mut measured = 0;
            while pace.phase() == Phase::Measuring {
                note(&mut pace, 1, 0, 0);
                pace.end_phase();
                measured += 1;
            }
            assert_eq!(measured, looks);
        }
    }
}
