//! Rounds: at one moment of the program copies for all changes and two without any; each is timed, in turn.
//!
//! ```text
//!  round 1   unchanged  change 1  change 2  …  unchanged
//!  round 2   unchanged  …  change 2  change 1  unchanged      (the other way round)
//! ```
//!
//! The two without a change are the pair of the time that the others are compared with, and tell how well two copies agree.

use std::time::Duration;

use nix::unistd::Pid;

use rprof_profile::trial::{Change, Ratio};
use rprof_tracee::address::Address;
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::proc_status::read_page_counts;

use crate::copy::{Copy, Draft};
use crate::error::{CopyError, Ended};
use crate::halt::Halted;
use crate::measure::measure;
use crate::plan::{Failed, Plan};
use crate::ratio::ratio;

/// Rounds that are made at least, and at most.
const LEAST: usize = 5;
const MOST: usize = 10;
/// An interval of this half width is narrow enough.
const NARROW: f64 = 0.05;
/// Rounds that may fail.
const FAILURES: usize = 4;
/// CPU seconds of the program for each page that it has to copy, and for each that it has to make its own again afterwards.
const PAGE_S: f64 = 2.8e-6;

/// What copies have cost the program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    /// Copies made.
    pub copies: Vec<Pid>,
    /// Seconds that it stood still.
    pub stopped_s: f64,
    /// Seconds that it took for page faults while there were copies, at most.
    pub faults_s: f64,
    /// When there were copies, in nanoseconds of CLOCK_MONOTONIC.
    pub spans: Vec<(u64, u64)>,
}

impl Cost {
    /// All of it.
    pub fn seconds(&self) -> f64 {
        self.stopped_s + self.faults_s
    }
}

/// A program that copies are made of.
#[derive(Debug)]
pub struct Original {
    /// Its process.
    pub pid: Pid,
    /// A system-call instruction in it.
    pub site: Address,
    /// It stands still while its copies are timed: they need its CPUs.
    pub held: bool,
    /// What they cost it.
    pub cost: Cost,
}

/// What was found out about one change.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The change.
    pub change: Change,
    /// The times of a passing without it and with it.
    pub pairs: Vec<(f64, f64)>,
    /// Their ratio, or why there is none.
    pub result: Result<Ratio, String>,
}

/// What was found out about a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// By change.
    pub tried: Vec<Tried>,
    /// The times of two copies without a change.
    pub unchanged: Vec<(f64, f64)>,
    /// The error of the last round that failed.
    pub failure: Option<String>,
}

impl Rounds {
    /// The ratio of the times of two copies without a change.
    pub fn unchanged(&self) -> Option<Ratio> {
        ratio(&self.unchanged)
    }
}

impl Original {
    /// One copy, ready to run.
    ///
    /// # Errors
    /// See [`CopyError`].
    pub fn copy(&mut self) -> Result<Copy, CopyError> {
        let mut drafts = self.drafts(1)?.0;
        drafts.pop().ok_or(CopyError::Gone(None))?.prepare()
    }

    /// So many copies of one moment; the program as well, if it is to stand still.
    fn drafts(&mut self, number: usize) -> Result<(Vec<Draft>, Option<Halted>), CopyError> {
        /// Moments that are tried.
        const MOMENTS: usize = 3;
        let mut halted = Halted::stop(self.pid);
        for _ in 1..MOMENTS {
            if !matches!(halted, Err(CopyError::Moment(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(7));
            halted = Halted::stop(self.pid);
        }
        let halted = halted?;
        let offsets = halted.file_offsets();
        let drafts: Result<Vec<Draft>, CopyError> =
            (0..number).map(|_| Draft::make(&halted, self.site, &offsets)).collect();
        if let Ok(drafts) = &drafts {
            self.cost.copies.extend(drafts.iter().map(Draft::pid));
        }
        let held = self.held && number > 1 && drafts.is_ok();
        if held {
            return Ok((drafts?, Some(halted)));
        }
        self.cost.stopped_s += halted.release().as_secs_f64();
        Ok((drafts?, None))
    }

    fn faults(&self) -> u64 {
        read_page_counts(self.pid).map_or(0, |pages| pages.faults)
    }

    /// Times `changes` of the loop that `plan` is about, while `may_spend` says that the program may be delayed further.
    ///
    /// # Errors
    /// No copies can be made any more: the program has ended, or the kernel refuses.
    pub fn rounds(
        &mut self,
        plan: &Plan,
        changes: &[Change],
        may_spend: &dyn Fn(&Cost) -> bool,
    ) -> Result<Rounds, CopyError> {
        let mut tried: Vec<Tried> =
            changes.iter().map(|c| Tried { change: *c, pairs: Vec::new(), result: Err(String::new()) }).collect();
        let mut given_up: Vec<(Change, String)> = Vec::new();
        let mut unchanged: Vec<(f64, f64)> = Vec::new();
        let (mut failures, mut failure) = (0, None);
        for number in 0..MOST + FAILURES {
            if unchanged.len() >= MOST || failures > FAILURES || !may_spend(&self.cost) {
                break;
            }
            let open: Vec<Change> =
                changes.iter().copied().filter(|c| given_up.iter().all(|(known, _)| known != c)).collect();
            if !changes.is_empty() && open.is_empty() || unchanged.len() >= LEAST && is_settled(&tried, &unchanged) {
                break;
            }
            match self.round(plan, &open, number % 2 == 1, &mut given_up)? {
                Ok((pair, times)) => {
                    unchanged.push(pair);
                    let without = (pair.0 * pair.1).sqrt();
                    for (change, with) in times {
                        if let Some(of) = tried.iter_mut().find(|t| t.change == change) {
                            of.pairs.push((without, with));
                        }
                    }
                }
                Err(why) => {
                    failures += 1;
                    failure = Some(why);
                }
            }
        }
        for of in &mut tried {
            let given_up = given_up.iter().find(|(change, _)| *change == of.change).map(|(_, why)| why.clone());
            let why = || given_up.or(failure.clone()).unwrap_or_else(|| "too few pairs within the budget".into());
            of.result = ratio(&of.pairs).ok_or_else(why);
        }
        Ok(Rounds { tried, unchanged, failure })
    }

    /// One round. The inner error: the copies without a change could not be timed.
    #[allow(clippy::type_complexity)]
    fn round(
        &mut self,
        plan: &Plan,
        changes: &[Change],
        backwards: bool,
        given_up: &mut Vec<(Change, String)>,
    ) -> Result<Result<((f64, f64), Vec<(Change, f64)>), String>, CopyError> {
        let mut order: Vec<Option<Change>> = vec![None];
        order.extend(changes.iter().copied().map(Some));
        order.push(None);
        if backwards {
            order.reverse();
        }
        let (faults, begun) = (self.faults(), monotonic_ns());
        let (drafts, halted) = self.drafts(order.len())?;
        let mut without: Vec<f64> = Vec::new();
        let mut with: Vec<(Change, f64)> = Vec::new();
        let mut failed = None;
        for (draft, change) in drafts.into_iter().zip(order) {
            let timed = draft.prepare().map_err(Failed::from).and_then(|copy| measure(copy, plan, change));
            match (timed, change) {
                (Ok(seconds), None) => without.push(seconds),
                (Ok(seconds), Some(change)) => with.push((change, seconds)),
                (Err(Failed::Copy(CopyError::Gone(end))), _) => return Err(CopyError::Gone(end)),
                (Err(Failed::Change(why)), Some(change)) => given_up.push((change, why)),
                (Err(error), Some(change)) => {
                    // Once may be chance, as where another thread held a lock.
                    let why = error.to_string();
                    let is_known = given_up.iter().any(|(known, _)| *known == change);
                    if !is_known && matches!(error, Failed::Copy(CopyError::Ended(Ended::Signal(_)))) {
                        given_up.push((change, why));
                    }
                }
                (Err(error), None) => {
                    failed = Some(error.to_string());
                    break;
                }
            }
        }
        if let Some(halted) = halted {
            self.cost.stopped_s += halted.release().as_secs_f64();
        }
        self.cost.spans.push((begun, monotonic_ns()));
        self.cost.faults_s += self.faults().saturating_sub(faults) as f64 * PAGE_S;
        if backwards {
            without.reverse();
        }
        match (&without[..], failed) {
            (&[first, second], None) => Ok(Ok(((first, second), with))),
            (_, failed) => Ok(Err(failed.unwrap_or_default())),
        }
    }
}

/// Whether all intervals are narrow enough, or far from 1.
fn is_settled(tried: &[Tried], unchanged: &[(f64, f64)]) -> bool {
    let is_narrow = |pairs: &[(f64, f64)]| {
        ratio(pairs).is_some_and(|r| r.half_width() < NARROW || r.most < 1.0 - 2.0 * NARROW && r.half_width() < 0.2)
    };
    if tried.is_empty() { is_narrow(unchanged) } else { tried.iter().all(|of| is_narrow(&of.pairs)) }
}
