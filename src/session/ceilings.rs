//! This host's ceilings: from the cache, or measured now with progress on standard error.

use std::path::PathBuf;

use crate::machine::gpu::{self, GpuRequest};
use crate::machine::{self, Effort, Progress, Request};
use crate::profile::gpu::Gpu;
use crate::profile::machine::{Cache, Machine};
use crate::profile::run::Warning;

use super::progress::{Notices, Spinner};
use super::{SessionError, bracket};

/// The options of `rprof machine`.
#[derive(Debug, Clone, Copy)]
pub struct MachineOptions {
    /// Only the ceilings that a first run needs.
    pub quick: bool,
    /// Measure again even if cached.
    pub refresh: bool,
    /// Leave the CPU's ceilings out.
    pub gpus_only: bool,
    /// No progress.
    pub quiet: bool,
}

/// Number of looks at the ceilings ahead of a demo: each look measures the ceilings that the ones before did not reach.
const ROUNDS_AHEAD: usize = 3;

/// Measures all missing ceilings; the run that follows reports failures.
pub fn ahead_of_a_demo(notices: &Notices) {
    let mut teller = Teller::new(notices, FOR_LATER_RUNS);
    for _ in 0..ROUNDS_AHEAD {
        let _ = machine::load_or_measure(&Request::new(Effort::Quick), &mut teller);
    }
}

/// The ceilings for a run. A host that cannot be measured gets none, and a warning: rprof profiles the program all the same.
pub fn for_a_run(notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    let mut teller = Teller::new(notices, FOR_LATER_RUNS);
    let measured = machine::load_or_measure(&Request::new(Effort::Quick), &mut teller);
    warnings.append(&mut teller.warnings);
    measured.unwrap_or_else(|error| {
        warnings.push(Warning::new(
            "no-ceilings",
            format!("the ceilings of this host could not be measured: {error}"),
            "functions have time and counts, but no class, bound or savings",
            "rprof machine --refresh shows the obstacle",
        ));
        unmeasured()
    })
}

/// The ceilings looked at again after the program has run: see [`bracket`].
pub fn after_a_run(before: Machine, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    again(&Request::new(Effort::Quick), before, notices, warnings)
}

/// All ceilings measured again, because a function was faster than one of them allows. The ceilings kept for later runs stay
/// unchanged: they may come from a longer measurement.
pub fn after_a_refutation(before: Machine, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    let aside = std::env::temp_dir().join(format!("rprof-ceilings-{}", std::process::id()));
    let request = Request { refresh: true, cache: Some(aside.clone()), ..Request::new(Effort::Quick) };
    let machine = again(&request, before, notices, warnings);
    // Nothing is lost with it.
    let _ = std::fs::remove_dir_all(aside);
    machine
}

/// `before` combined with the present result of `request`; of the warnings that ceilings moved it keeps the last one.
fn again(request: &Request, before: Machine, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    let mut teller = Teller::new(notices, if request.refresh { AGAIN } else { FOR_LATER_RUNS });
    // The user was warned of failed measurements before the run.
    let Ok(after) = machine::load_or_measure(request, &mut teller) else { return before };
    let (machine, moved) = bracket::around(before, &after);
    if moved.is_some() {
        warnings.retain(|w| w.code != bracket::MOVED_CODE);
    }
    warnings.extend(moved);
    machine
}

/// The ceilings of the GPUs, for a program that used one.
pub fn of_gpus(notices: &Notices, warnings: &mut Vec<Warning>) -> Vec<Gpu> {
    let mut teller = Teller::new(notices, FOR_LATER_RUNS);
    let gpus = gpu::for_a_run(&mut teller);
    warnings.append(&mut teller.warnings);
    gpus
}

/// The ceilings for `rprof machine`, and the doubts about them.
///
/// # Errors
/// The host cannot be measured.
pub fn measure(options: MachineOptions) -> Result<(Machine, Vec<Warning>), SessionError> {
    let mut teller = Teller::new(&Notices::new(options.quiet), FOR_LATER_RUNS);
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let mut machine = if options.gpus_only {
        unmeasured()
    } else {
        let request = Request { refresh: options.refresh, ..Request::new(effort) };
        let measured = machine::load_or_measure(&request, &mut teller);
        measured.map_err(|e| SessionError::Report(format!("cannot measure this host: {e}")))?
    };
    let of_gpus = GpuRequest { refresh: options.refresh, ..GpuRequest::new(effort) };
    machine.gpus = gpu::load_or_measure(&of_gpus, &mut teller);
    if options.gpus_only && machine.gpus.is_empty() && teller.warnings.is_empty() {
        return Err(SessionError::Report(
            "--gpu: this host has no GPU with an NVIDIA driver (libcuda.so.1); install the driver".into(),
        ));
    }
    Ok((machine, teller.warnings))
}

/// The facts about the host that need no measurement.
fn unmeasured() -> Machine {
    let topology = machine::topology(&PathBuf::from("/sys"));
    let caches: Vec<Cache> = topology.caches.clone();
    Machine { cpu: topology.cpu.clone(), cores: topology.cpus.len() as u32, caches, ..Machine::default() }
}

const FOR_LATER_RUNS: &str = "measuring this machine's ceilings, for later runs, too";
const AGAIN: &str = "measuring this machine's ceilings again: a function was faster than one of them allows";

/// Draws progress, keeps doubts.
struct Teller {
    notices: Notices,
    /// The notice before a full measurement. A mere second look has no notice.
    announcement: &'static str,
    spinner: Option<Spinner>,
    warnings: Vec<Warning>,
}

impl Teller {
    fn new(notices: &Notices, announcement: &'static str) -> Teller {
        Teller { notices: notices.clone(), announcement, spinner: None, warnings: Vec::new() }
    }
}

impl Progress for Teller {
    fn group(&mut self, group: &str, done: usize, total: usize) {
        let text = format!("measuring this machine's ceilings: {group} ({done}/{total})");
        match &self.spinner {
            Some(spinner) => spinner.set(&text),
            None => {
                if done == 0 {
                    self.notices.say(self.announcement);
                }
                self.spinner = Some(self.notices.spinner(&text));
            }
        }
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}
