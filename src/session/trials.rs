//! `--try`: a native, sampled run, and beside it trials of its hot loops in copies.
//!
//! ```text
//!  main thread    release ─▶ samples of the whole run ································▶ reaped ─▶ without the copies' samples
//!  trial thread     wait ─▶ samples of a moment ─▶ hot loops ─▶ copies, timed ─▶ again …  └▶ named
//! ```

use std::ffi::OsString;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::copies::drive::{Driver, LoopTrials};
use crate::copies::error::{CopyError, ProcessEnd};
use crate::copies::rounds::Cost;
use crate::join::Resolver;
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::run::Warning;
use crate::profile::trial::{Change, Trial, Trials};
use crate::sample::{self, Gate, SampleOptions};
use crate::symbols::Symbols;
use crate::tracee::foreground;

use super::options::{Budget, RunOptions};

/// How long the program runs before it is looked at.
const UNTOUCHED: Duration = Duration::from_millis(300);
/// How long its samples are taken for each look at its hot loops.
const LOOKED_FOR: Duration = Duration::from_millis(500);
/// Seconds after the end of copies in which the program still makes pages its own again.
const AFTERWARDS_S: f64 = 0.2;
/// Between two looks that found nothing new.
const PAUSE: Duration = Duration::from_secs(2);
/// Interval between two looks whether the program has ended.
const LOOK: Duration = Duration::from_millis(5);
/// In the environment: names of the changes to try, by commas, in the place of those that the code suggests. For tests.
const CHOSEN: &str = "RPROF_TRY";

/// What trials may cost where the user gives no `--budget`.
pub const USUAL: Budget = Budget { share: 0.2, least_s: 3.0 };

/// The result of the trial thread.
#[derive(Debug, Default)]
pub struct Tried {
    loops: Vec<LoopTrials>,
    cost: Cost,
    reasons: Vec<String>,
}

/// The budget of the trials.
pub fn budget(options: &RunOptions) -> Budget {
    options.budget.map_or(USUAL, |share| Budget { share, least_s: 0.0 })
}

/// What the user is told before the program starts.
pub fn announcement(options: &RunOptions) -> String {
    format!(
        "runs the program once, natively, and tries changes of its hot loops in copies of it, which may delay it by {}",
        budget(options)
    )
}

/// Ranks wait for one another: none of them is copied.
pub fn not_in_a_rank() -> Warning {
    Warning::new(
        "no-trials",
        "--try: no copies are made of a rank of a job",
        "nothing was tried",
        "run the program alone, on one rank, to try changes of its loops",
    )
}

/// Tries the hot loops of the process `pid` on a thread of its own, until `gate` says that it is over or the budget is spent.
pub fn start(pid: Pid, gate: Gate, budget: Budget) -> JoinHandle<Tried> {
    thread::spawn(move || try_until_the_end(pid, &gate, budget))
}

fn try_until_the_end(pid: Pid, gate: &Gate, budget: Budget) -> Tried {
    while !gate.has_begun() && !gate.is_over() {
        thread::sleep(LOOK);
    }
    let begun = Instant::now();
    let mut tried = Tried::default();
    if !pause(gate, UNTOUCHED) {
        tried.reasons.push("the program ended before the first look at it".into());
        return tried;
    }
    if gate.is_sampler_tracing() {
        tried.reasons.push("trials need samples by perf_event_open, which is refused here".into());
        return tried;
    }
    let mut driver = match Driver::new(pid) {
        Ok(driver) => driver,
        Err(error) => {
            tried.reasons.push(error.to_string());
            return tried;
        }
    };
    let chosen = chosen();
    let may_spend = |cost: &Cost| {
        let elapsed_s = begun.elapsed().as_secs_f64();
        !gate.is_over()
            && foreground::interruptions() == 0
            && foreground::leaves().is_none()
            && cost.seconds() < (budget.share * elapsed_s).max(budget.least_s)
    };
    let mut looks = 0;
    while !gate.is_over() && may_spend(driver.cost()) {
        looks += 1;
        let timed = match look(pid, gate) {
            Ok(timed) => timed,
            Err(reason) => {
                tried.reasons.push(reason);
                break;
            }
        };
        if gate.is_over() {
            break;
        }
        match driver.try_loops(&timed, &may_spend, chosen.as_deref()) {
            Ok(true) => {}
            Ok(false) => {
                pause(gate, PAUSE);
            }
            Err(CopyError::Gone(end)) => {
                hand_over(gate, end, pid);
                break;
            }
            Err(error) => {
                tried.reasons.push(error.to_string());
                break;
            }
        }
    }
    if looks == 0 || driver.loops.is_empty() && tried.reasons.is_empty() {
        tried.reasons.push("no hot loop was seen before the program ended".into());
    }
    tried.cost = driver.cost().clone();
    tried.loops = std::mem::take(&mut driver.loops);
    tried
}

/// Waits, unless the program ends. Whether it still runs.
fn pause(gate: &Gate, time: Duration) -> bool {
    let since = Instant::now();
    while since.elapsed() < time && !gate.is_over() {
        thread::sleep(LOOK);
    }
    !gate.is_over()
}

/// Samples the program for a moment.
fn look(pid: Pid, gate: &Gate) -> Result<TimedEvidence, String> {
    let own = Gate::default();
    let ender = {
        let (own, gate) = (own.clone(), gate.clone());
        thread::spawn(move || {
            pause(&gate, LOOKED_FOR);
            own.end();
        })
    };
    let sampled = sample::attach(pid, &SampleOptions::default(), &own);
    own.end();
    // It only sleeps.
    let _ = ender.join();
    match sampled {
        Ok(sampled) => Ok(sampled.evidence),
        Err(_) if gate.is_over() => Ok(TimedEvidence::default()),
        Err(error) => Err(error.to_string()),
    }
}

/// Tells the sampler of an end that a trial has seen.
fn hand_over(gate: &Gate, end: Option<ProcessEnd>, pid: Pid) {
    if let Some(end) = end.filter(|end| end.pid == pid) {
        gate.reaping().ended(end.status, end.cpu_s);
    }
}

fn chosen() -> Option<Vec<Change>> {
    let names: OsString = std::env::var_os(CHOSEN)?;
    let names = names.to_string_lossy().into_owned();
    let of_name = |name: &str| Change::ALL.iter().copied().find(|change| change.name() == name);
    Some(names.split(',').filter_map(of_name).collect())
}

impl Tried {
    /// Of a trial thread that a defect has ended.
    pub fn failed() -> Tried {
        Tried { reasons: vec!["a defect of rprof ended the trials".into()], ..Tried::default() }
    }

    /// Leaves out of `timed` what its sampler saw of copies.
    pub fn take_out(&self, timed: &mut TimedEvidence) {
        let is_copy = |pid: u32| self.cost.copies.iter().any(|copy| copy.as_raw() as u32 == pid);
        let kept: Vec<bool> = timed.threads.iter().map(|thread| !is_copy(thread.pid)).collect();
        let mut next = 0;
        let places: Vec<u32> = kept
            .iter()
            .map(|keep| {
                next += u32::from(*keep);
                next.saturating_sub(1)
            })
            .collect();
        let is_kept = |thread: u32| kept.get(thread as usize).copied().unwrap_or(false);
        let gone_s: f64 = timed.threads.iter().filter(|thread| is_copy(thread.pid)).map(|thread| thread.cpu_s).sum();
        timed.cpu_s = (timed.cpu_s - gone_s).max(0.0);
        timed.samples.retain(|sample| is_kept(sample.thread));
        timed.on_cpu.retain(|interval| is_kept(interval.thread));
        timed.samples.iter_mut().for_each(|sample| sample.thread = places[sample.thread as usize]);
        timed.on_cpu.iter_mut().for_each(|interval| interval.thread = places[interval.thread as usize]);
        timed.mappings.retain(|event| !is_copy(event.pid));
        let mut keep = kept.iter();
        timed.threads.retain(|_| *keep.next().unwrap_or(&true));
        self.take_out_faults(timed);
    }

    /// Leaves out the program's time in the kernel while there were copies, and shortly after: it copies pages that it shares with them.
    fn take_out_faults(&self, timed: &mut TimedEvidence) {
        let seconds = |ns: u64| ns.saturating_sub(timed.start_ns) as f64 * 1e-9;
        let spans: Vec<(f64, f64)> =
            self.cost.spans.iter().map(|(from, to)| (seconds(*from), seconds(*to) + AFTERWARDS_S)).collect();
        let mut gone = vec![0.0; timed.threads.len()];
        timed.samples.retain(|sample| {
            let is_in_span = spans.iter().any(|(from, to)| (*from..*to).contains(&sample.t_s));
            // Threads that were stopped for copies seem to wait.
            let is_left_out = (sample.kernel || sample.off_cpu) && is_in_span;
            if is_left_out
                && !sample.off_cpu
                && let Some(gone) = gone.get_mut(sample.thread as usize)
            {
                *gone += sample.weight_s;
            }
            !is_left_out
        });
        for (thread, gone_s) in timed.threads.iter_mut().zip(&gone) {
            thread.cpu_s = (thread.cpu_s - gone_s).max(0.0);
        }
        timed.cpu_s = (timed.cpu_s - gone.iter().sum::<f64>()).max(0.0);
        timed.wall_s = (timed.wall_s - self.cost.stopped_s).max(0.0);
        timed.page_faults = timed.page_faults.filter(|_| self.cost.copies.is_empty());
    }

    /// The trials with the names of their places. `cpu_s`: CPU seconds of the program.
    pub fn named(self, cpu_s: f64) -> Trials {
        let mut symbols = Symbols::default();
        let mut made = Vec::new();
        for tried in &self.loops {
            made.extend(trials_of(tried, cpu_s, &mut symbols));
        }
        Trials {
            made,
            copies: self.cost.copies.len() as u64,
            stopped_s: self.cost.stopped_s,
            delayed_s: self.cost.seconds(),
            reasons: self.reasons,
        }
    }
}

fn trials_of(tried: &LoopTrials, cpu_s: f64, symbols: &mut Symbols) -> Vec<Trial> {
    let (module, offset) = &tried.at;
    let function = symbols.function(module, *offset);
    let line = symbols.line(module, *offset);
    let trial = |change, ratio: Option<_>, pairs: &[(f64, f64)], reason: Option<String>| Trial {
        function: function.name.to_string(),
        module: function.module.to_string(),
        file: line.as_ref().map(|line| line.file.to_string()),
        line: line.as_ref().map(|line| line.line),
        change,
        share: tried.share,
        ratio,
        unchanged: tried.unchanged,
        pairs: pairs.to_vec(),
        saves_s: ratio.map(|ratio: crate::profile::trial::Ratio| {
            let saved = |ratio: f64| (1.0 - ratio) * tried.share * cpu_s;
            (saved(ratio.most), saved(ratio.least))
        }),
        reason,
    };
    if tried.tried.is_empty() {
        return vec![trial(None, tried.unchanged, &tried.unchanged_pairs, tried.reason.clone())];
    }
    let of_change = |of: &crate::copies::rounds::Tried| {
        trial(Some(of.change), of.result.as_ref().ok().copied(), &of.pairs, of.result.as_ref().err().cloned())
    };
    tried.tried.iter().map(of_change).collect()
}
