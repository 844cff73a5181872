//! The phases that a sampled program goes through, and how long each lasts.
//!
//! The program's start is collected completely: caches are empty, which is their true state. After that windows alternate with pauses of a
//! length that the engine decides; the engine also ends phases in which little is collected. A window first warms the model's state up,
//! then measures. At its beginning the caches hold the lines of the last window's end, which may or may not be there any more. The warm-up
//! therefore goes on until as many lines came or were used again as the last level holds, while that can be expected to happen. If the
//! program touches less than that, the lines resident at the last window's end most likely still are, or are as likely to be as at any
//! other time.

use rprof_profile::evidence::memory::Phase;

/// Accesses of the program, all threads together, in its start.
const OPENING: u64 = 4 << 20;
/// Minimum and maximum accesses of a warm-up.
const WARMING: std::ops::RangeInclusive<u64> = 1 << 20..=128 << 20;
/// After this many accesses the model checks again whether a warm-up makes progress.
const STEP: u64 = 2 << 20;
/// Lines known over lines that the last level holds when practically all of its sets are known: sets are not filled evenly.
const COMPLETE: f64 = 1.25;
/// Minimum accesses of a measured window; not fewer than its warm-up had.
const MEASURING: u64 = 2 << 20;
/// Factor by which these minima are smaller in visits: a window of 30 ms has some 2 million accesses.
const SHORTER: u64 = 4;
/// A phase continues after the engine found it long enough while at least this part of its accesses came since.
const WORTH_WAITING: u64 = 8;
/// How often the start continues in any case: the loading of libraries is not the program's work.
const OPENING_LOOKS: u64 = 5;
/// How often a phase continues at most after the engine found it long enough. A last level of hundreds of MiB that a loop fills from
/// memory takes this long.
const MOST_LOOKS: u64 = 24;

/// State of the sampling phases.
#[derive(Debug)]
pub struct PhaseSchedule {
    phase: Phase,
    /// Progress since the phase began.
    now: Progress,
    /// Progress when the engine last found the phase long enough, how often it did so, and progress at the end of the last step.
    noted: Progress,
    looks: u64,
    step: Progress,
    /// Lines that a last level holds, and the number of known lines that completes a warm-up.
    lines: u64,
    goal: u64,
    /// The present window's warm-up, its number of looks, and whether all lines of the last level were known at its end.
    warmed: Progress,
    warm_looks: u64,
    warm: bool,
    /// Accesses and fills of each measured window.
    windows: Vec<(u64, u64)>,
    /// Accesses of the start that were simulated.
    opened: u64,
    /// Warm-ups and measured windows may have this many times fewer accesses.
    shorter: u64,
}

/// Progress of a phase.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Accesses of the program.
    accesses: u64,
    /// Lines of the modelled part that came from memory.
    fills: u64,
    /// Fills, and lines found in their place from before the pause.
    known: u64,
}

impl PhaseSchedule {
    /// At the start of a program, for a model with a last level of `lines` lines.
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
            shorter: 1,
        }
    }

    /// From now on the program is looked at for some milliseconds at a time.
    pub fn shorten(&mut self) {
        self.shorter = SHORTER;
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Sets the number of last levels in use.
    pub fn fill(&mut self, last_levels: usize) {
        self.goal = goal(self.lines * last_levels.max(1) as u64);
    }

    /// The program is over: the present window ends here, if it has some length.
    pub fn finish(&mut self) {
        if self.phase == Phase::Measuring && self.now.accesses >= MEASURING / self.shorter / WORTH_WAITING {
            self.begin(Phase::Pause);
        }
    }

    /// Accesses and lines from memory of each window that was measured.
    pub fn windows(&self) -> &[(u64, u64)] {
        &self.windows
    }

    /// Whether a pause of `accesses` brought fewer lines from memory than all last levels hold, assuming the rates of the window measured
    /// before it and of the warm-up after it. Short strings, which count as a line in windows and by their bytes here, make pauses look
    /// shorter than they were.
    pub fn outlasts(&self, accesses: u64) -> bool {
        let (of_warm_up, before) = ((self.warmed.accesses, self.warmed.fills), self.windows.last().copied());
        let mut both = std::iter::once(of_warm_up).chain(before);
        both.all(|(seen, fills)| seen > 0 && (fills as f64 * accesses as f64) < self.goal as f64 * seen as f64)
    }

    /// Whether all lines of the last level were known when the latest window began to measure.
    pub fn is_warm(&self) -> bool {
        self.warm
    }

    /// Notes that `accesses` of the start were simulated; returns whether its second half begins after them.
    pub fn begins_second_half(&mut self, accesses: u64) -> bool {
        let before = self.opened;
        self.opened += accesses;
        before < OPENING / 2 && self.opened >= OPENING / 2
    }

    /// Notes that `accesses` of the program, collected in `phase`, were received; returns whether the phase is over. A warm-up is not over
    /// before the lines that they [brought](Self::simulated) are known.
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

    /// Notes that `accesses` of the program, collected in `phase`, brought `fills` lines of the modelled part from memory, and found
    /// `stale` ones in their place from before a pause.
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

    /// Ends the phase, which was long enough, unless the progress since the last such call promises that it reaches its goal.
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
            // The state of the caches is not known any more.
            Phase::Pause => self.warm = false,
        }
        (self.phase, self.looks) = (phase, 0);
        (self.now, self.noted, self.step) = Default::default();
    }

    fn to_measure(&self) -> u64 {
        self.warmed.accesses.max(MEASURING / self.shorter)
    }

    /// Whether all lines of the last level are known, or will not be for a long time.
    fn warms_no_more(&mut self) -> bool {
        let Progress { accesses, known, .. } = self.now;
        if accesses < *WARMING.start() / self.shorter {
            return false;
        }
        let since = accesses - self.step.accesses;
        let hopeless = since >= STEP / self.shorter && {
            let rate = (known - self.step.known) as f64 / since as f64;
            self.step = self.now;
            (known as f64 + rate * WARMING.end().saturating_sub(accesses) as f64) < self.goal as f64
        };
        known >= self.goal || hopeless || accesses >= *WARMING.end()
    }
}

/// Number of known lines that completes a warm-up if all last levels hold `lines`.
fn goal(lines: u64) -> u64 {
    (lines as f64 * COMPLETE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses of the present phase are simulated at once.
    fn note(pace: &mut PhaseSchedule, accesses: u64, fills: u64, stale: u64) {
        let phase = pace.phase();
        pace.received(phase, accesses);
        pace.simulated(phase, accesses, fills, stale);
    }

    /// A schedule that warms the first window up.
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
        // Too slow to know all lines: the state is used as it is.
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
        // One line in eight accesses, and 5 << 16 accesses to come.
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
