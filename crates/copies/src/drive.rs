//! From samples of a running program to trials of its hot loops.

use std::collections::BTreeSet;

use nix::unistd::Pid;

use rprof_profile::code::ModuleInfo;
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::trial::Ratio;
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::memory::Memory;
use rprof_tracee::proc_status::{is_runnable, threads_of};

use crate::candidates;
use crate::error::{CopyError, Refused};
use crate::hot::{self, HotLoop};
use crate::huge::HugePages;
use crate::make;
use crate::pilot;
use crate::plan::Plan;
use crate::refuse;
use crate::rounds::{Cost, Original, Tried};

/// Loops that are tried.
const MOST_LOOPS: usize = 5;

/// The trials of one loop.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopTrials {
    /// The module of its hottest instruction, and the offset there.
    pub at: (ModuleInfo, u64),
    /// The share of the samples in the stretch that was timed.
    pub share: f64,
    /// The ratio of two copies without a change.
    pub unchanged: Option<Ratio>,
    /// The pairs of times of these.
    pub unchanged_pairs: Vec<(f64, f64)>,
    /// The changes.
    pub tried: Vec<Tried>,
    /// Why it was not timed.
    pub reason: Option<String>,
}

/// A program whose hot loops are tried.
#[derive(Debug)]
pub struct Driver {
    original: Original,
    huge: HugePages,
    memory: Memory,
    known: BTreeSet<u64>,
    /// The results so far.
    pub loops: Vec<LoopTrials>,
}

impl Driver {
    /// Makes ready to copy the running process `pid`.
    ///
    /// # Errors
    /// [`CopyError::Refused`] with the reason why no copies are made of it.
    pub fn new(pid: Pid) -> Result<Driver, CopyError> {
        refuse::check(pid)?;
        let untraceable = |e: std::io::Error| CopyError::Refused(Refused::Untraceable(e.to_string()));
        let memory = Memory::open(pid).map_err(untraceable)?;
        let site = make::call_site(pid, &memory)?;
        let huge = HugePages::of(pid);
        let original = Original { pid, site, held: false, cost: Cost::default() };
        Ok(Driver { original, huge, memory, known: BTreeSet::new(), loops: Vec::new() })
    }

    /// The costs so far.
    pub fn cost(&self) -> &Cost {
        &self.original.cost
    }

    /// Tries the hot loops in `timed` that were not tried before, while `may_spend` allows. Whether there was any.
    ///
    /// # Errors
    /// The program has ended, or no copies can be made of it any more.
    pub fn try_loops(
        &mut self,
        timed: &TimedEvidence,
        may_spend: &dyn Fn(&Cost) -> bool,
        chosen: Option<&[rprof_profile::trial::Change]>,
    ) -> Result<bool, CopyError> {
        let pid = self.original.pid;
        let hot = hot::hot_loops(timed, pid, &self.memory);
        let mut any = false;
        for hot in hot.into_iter().take(MOST_LOOPS) {
            if !may_spend(&self.original.cost) {
                break;
            }
            let identity = hot.code.as_ref().map_or(hot.place.at.offset, |code| code.header);
            if !self.known.insert(identity) {
                continue;
            }
            any = true;
            let trials = self.try_loop(timed, &hot, may_spend, chosen)?;
            self.loops.push(trials);
            self.huge.restore();
        }
        Ok(any)
    }

    fn try_loop(
        &mut self,
        timed: &TimedEvidence,
        hot: &HotLoop,
        may_spend: &dyn Fn(&Cost) -> bool,
        chosen: Option<&[rprof_profile::trial::Change]>,
    ) -> Result<LoopTrials, CopyError> {
        let pid = self.original.pid;
        let module = timed.modules[hot.place.at.module as usize].clone();
        let mut trials = LoopTrials {
            at: (module, hot.place.at.offset),
            share: hot.share,
            unchanged: None,
            unchanged_pairs: Vec::new(),
            tried: Vec::new(),
            reason: None,
        };
        let begun = monotonic_ns();
        let copy = match self.original.copy() {
            Ok(copy) => copy,
            Err(CopyError::Ended(ended)) => {
                trials.reason = Some(format!("its copies end too early: {ended}"));
                return Ok(trials);
            }
            Err(error) => return Err(error),
        };
        let explored = pilot::explore(copy, hot);
        self.original.cost.spans.push((begun, monotonic_ns()));
        let findings = match explored? {
            Ok(findings) => findings,
            Err(why) => {
                trials.reason = Some(why.to_string());
                return Ok(trials);
            }
        };
        trials.share = hot::share_within(timed, pid, findings.progress.code()).max(hot.share);
        let changes = candidates::of(hot, &self.memory, findings.private_bytes, self.huge.bytes());
        let changes = chosen.map_or(changes, <[_]>::to_vec);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = threads_of(pid).into_iter().filter(|tid| is_runnable(*tid)).count().max(hot.threads);
        self.original.held = 2 * busy > cpus;
        let plan = Plan { findings, tid: hot.tid, code: hot.code.clone(), huge: self.huge.ranges.clone() };
        let rounds = self.original.rounds(&plan, &changes, may_spend)?;
        trials.unchanged = rounds.unchanged();
        trials.reason = if trials.unchanged.is_none() {
            Some(rounds.failure.unwrap_or_else(|| "too few pairs within the budget".into()))
        } else {
            None
        };
        trials.unchanged_pairs = rounds.unchanged;
        trials.tried = rounds.tried;
        Ok(trials)
    }
}
