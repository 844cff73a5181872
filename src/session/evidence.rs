//! The results of the passes, on their way to the profile.

use std::collections::BTreeSet;

use crate::instrument::Counted;
use crate::join;
use crate::profile::evidence::counted::CountedEvidence;
use crate::profile::evidence::counters::CounterEvidence;
use crate::profile::evidence::memory::MemoryEvidence;
use crate::profile::evidence::replayed::ReplayedEvidence;
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::profile::trial::Trials;
use crate::replay;
use crate::symbols::Symbols;

use super::gpu::Seen;
use super::single::Visited;

/// The remedy if windows counted too little.
const COUNT_AGAIN: &str =
    "a start with --passes both counts more, in a second run; for ranks a second launch with --passes counted";

/// Seconds that the replay of bursts may take, as a part of the native run, at least, and at most.
const REPLAYED: f64 = 0.5;
const LEAST_REPLAY_S: f64 = 1.0;
const MOST_REPLAY_S: f64 = 3.0;

/// The clock of a core that rprof knows no ceiling of.
const USUAL_HZ: f64 = 3e9;

/// The results of the passes, and the failures on the way.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Timed pass.
    pub timed: Option<TimedEvidence>,
    /// Counted pass.
    pub counted: Option<CountedEvidence>,
    /// Memory model of the counted pass.
    pub memory: Option<MemoryEvidence>,
    /// The result of replaying the counted pass's bursts.
    pub replayed: Option<ReplayedEvidence>,
    /// Hardware counters of the timed pass.
    pub counters: Option<CounterEvidence>,
    /// Changes tried in copies.
    pub trials: Option<Trials>,
    /// The activity of GPUs.
    pub gpu: Seen,
    /// The program was not ended with its collection: rprof was attached to it.
    pub runs_on: bool,
    /// Why there is no counted pass.
    pub no_counts: Option<String>,
    /// Doubts that concern the run as a whole.
    pub warnings: Vec<Warning>,
}

impl Evidence {
    /// Takes the samples of a single pass without windows.
    pub fn without_windows(&mut self, timed: TimedEvidence, reason: String) {
        self.timed = Some(timed);
        self.warnings.push(Warning::new(
            "no-windows",
            format!("nothing was counted: {reason}"),
            "times are known, counts are not",
            COUNT_AGAIN,
        ));
        self.no_counts = Some(reason);
    }

    /// Takes the result of a single pass: samples of all of it, and the counts of its windows, extended to the whole run. `processes`: as
    /// in [`take_counted`](Self::take_counted).
    pub fn take_visited(&mut self, timed: TimedEvidence, visited: Visited, machine: &Machine, processes: u32) {
        let Visited { counted, windows, refused, off, delay_s } = visited;
        self.warnings.extend(refused.iter().map(|refused| {
            Warning::new(
                "process-not-counted",
                format!("process {} could not be counted at times: {}", refused.pid, refused.why),
                "work done in such times is not in the counts",
                COUNT_AGAIN,
            )
        }));
        if windows.iter().all(|w| w.blocks.is_empty()) {
            let reason = match refused.first() {
                Some(refused) => refused.why.clone(),
                None if windows.iter().any(|w| !w.threads.is_empty()) => {
                    "the windows met nothing but code in memory that can be written, which they leave alone".into()
                }
                None if self.runs_on => "the collection ended before the first window".into(),
                None => "the program, or the collection, ended before the first window".into(),
            };
            return self.without_windows(timed, reason);
        }
        self.take_counted(counted, machine, processes);
        if let Some(counted) = self.counted.take() {
            let mut symbols = Symbols::default();
            let clock_hz = join::usual_clock(machine).unwrap_or(USUAL_HZ);
            let met = (&windows[..], &off[..], delay_s);
            let extended = join::windows::extend(timed, counted, self.memory.take(), met, clock_hz, &mut symbols);
            self.timed = Some(extended.timed);
            self.counted = Some(extended.counted);
            self.memory = extended.memory;
        }
    }

    /// Takes the result of the counted pass, and replays its bursts on the core of `machine`; `processes` like this one share its memory.
    pub fn take_counted(&mut self, counted: Counted, machine: &Machine, processes: u32) {
        let bursts = counted.bursts.filter(|evidence| !evidence.bursts.is_empty());
        self.replayed = bursts.map(|bursts| {
            let threads: BTreeSet<u32> = bursts.bursts.iter().map(|burst| burst.thread).collect();
            let threads = (threads.len() as u32 * processes).clamp(1, machine.cores.max(1));
            let native_s = self.timed.as_ref().map_or(f64::INFINITY, |timed| timed.wall_s);
            let seconds = (REPLAYED * native_s).clamp(LEAST_REPLAY_S, MOST_REPLAY_S);
            let options = replay::Options { threads, seconds, ..Default::default() };
            replay::replay(&bursts, counted.memory.as_ref(), machine, options)
        });
        self.counted = Some(counted.evidence);
        self.memory = counted.memory;
    }
}
