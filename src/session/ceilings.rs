//! This host's ceilings: from the cache, or measured now with progress on standard error.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::gettid;
use serde::{Deserialize, Serialize};

use crate::machine::gpu::{self, GpuRequest};
use crate::machine::store;
use crate::machine::{self, Effort, Progress, Request};
use crate::profile::gpu::Gpu;
use crate::profile::machine::{Cache, Machine};
use crate::profile::run::Warning;
use crate::tracee::affinity::{Kept, cpus_of};
use crate::tracee::boot::boot_id;
use crate::tracee::own_limits;

use super::output::OutputFolder;
use super::progress::{Notices, Spinner};
use super::{SessionError, recheck_ceilings};

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
    let mut progress = ProgressReporter::new(notices, FOR_LATER_RUNS);
    for _ in 0..ROUNDS_AHEAD {
        let _ = machine::load_or_measure(&Request::new(Effort::Quick), &mut progress);
    }
}

/// The ceilings for a run. A host that cannot be measured gets none, and a warning: rprof profiles the program all the same.
pub fn for_a_run(notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    if let Some(limit) = own_limits::own_cpu_limit() {
        return measured_apart(limit, notices, warnings);
    }
    let mut progress = ProgressReporter::new(notices, FOR_LATER_RUNS);
    let measured = machine::load_or_measure(&Request::new(Effort::Quick), &mut progress);
    warnings.append(&mut progress.warnings);
    measured.unwrap_or_else(|error| {
        warnings.push(Warning::new(
            "no-ceilings",
            format!("the ceilings of this host could not be measured: {error}"),
            NO_CEILINGS,
            "rprof machine --refresh shows the obstacle",
        ));
        unmeasured()
    })
}

const NO_CEILINGS: &str = "functions have time and counts, but no class, bound or savings";

/// The same if the kernel ends each process of rprof's after `limit` of CPU time: another process measures them.
fn measured_apart(limit: Duration, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    notices.say(&format!(
        "the limit on CPU time (ulimit -t, {} s) holds for rprof's own work, too, which ends without a report if it takes longer",
        limit.as_secs()
    ));
    let mut command = Command::new("/proc/self/exe");
    command.args(["machine", "--quick", "--json"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output();
    let measured = output.ok().filter(|o| o.status.success()).and_then(|o| serde_json::from_slice(&o.stdout).ok());
    measured.unwrap_or_else(|| {
        warnings.push(Warning::new(
            "no-ceilings",
            format!(
                "the ceilings of this host could not be measured within {} s of CPU time (ulimit -t), a limit that rprof may not raise",
                limit.as_secs()
            ),
            NO_CEILINGS,
            "run `rprof machine` once without the limit",
        ));
        unmeasured()
    })
}

/// The ceilings for a rank of a job: those of its whole host, measured by the first of the host's ranks while the others wait, and kept
/// in the job's folder. Containers on one kernel with the same CPUs are one host here: they would disturb one another. A rank's part of the
/// host is the number of its CPUs.
pub fn of_a_rank(folder: &OutputFolder, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    // If the kernel refuses, the ceilings are those of the rank's own CPUs.
    let _all = Kept::on_all();
    let shared = folder.path().parent().map(|base| base.join(format!("machine-{}.json", kernel_and_cpus())));
    let file =
        shared.and_then(|path| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).ok());
    // If files cannot be locked, each rank measures.
    let Some(mut file) = file.and_then(|file| Flock::lock(file, FlockArg::LockExclusive).ok()) else {
        return for_a_run(notices, warnings);
    };
    let mut text = String::new();
    let known = file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str::<OfHost>(&text).ok());
    if let Some(known) = known {
        warnings.extend(known.warnings);
        return known.machine;
    }
    let mut of_host = OfHost::default();
    of_host.machine = for_a_run(notices, &mut of_host.warnings);
    warnings.extend(of_host.warnings.iter().cloned());
    if let Ok(text) = serde_json::to_vec(&of_host)
        && file.set_len(0).is_ok()
    {
        // A rank that cannot read it measures itself.
        let _ = file.write_all_at(&text, 0);
    }
    of_host.machine
}

/// Data that the ranks of a host share.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OfHost {
    machine: Machine,
    warnings: Vec<Warning>,
}

/// The boot of the running kernel, which no other host has, and the CPUs that this thread may use.
fn kernel_and_cpus() -> String {
    let cpus = store::hash(&format!("{:?}", cpus_of(gettid())));
    format!("{}-{cpus:016x}", boot_id().unwrap_or_default())
}

/// The ceilings looked at again after the program has run: see [`bracket`].
pub fn after_a_run(before: Machine, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    if own_limits::own_cpu_limit().is_some() {
        return before;
    }
    again(&Request::new(Effort::Quick), before, notices, warnings)
}

/// All ceilings measured again, because a function was faster than one of them allows. The ceilings kept for later runs stay
/// unchanged: they may come from a longer measurement.
pub fn after_a_refutation(before: Machine, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    if own_limits::own_cpu_limit().is_some() {
        return before;
    }
    let aside = std::env::temp_dir().join(format!("rprof-ceilings-{}", std::process::id()));
    let request = Request { refresh: true, cache: Some(aside.clone()), ..Request::new(Effort::Quick) };
    let machine = again(&request, before, notices, warnings);
    // Nothing is lost with it.
    let _ = std::fs::remove_dir_all(aside);
    machine
}

/// `before` combined with the present result of `request`; of the warnings that ceilings moved it keeps the last one.
fn again(request: &Request, before: Machine, notices: &Notices, warnings: &mut Vec<Warning>) -> Machine {
    let mut progress = ProgressReporter::new(notices, if request.refresh { AGAIN } else { FOR_LATER_RUNS });
    // The user was warned of failed measurements before the run.
    let Ok(after) = machine::load_or_measure(request, &mut progress) else { return before };
    let (machine, moved) = recheck_ceilings::around(before, &after);
    if moved.is_some() {
        warnings.retain(|w| w.code != recheck_ceilings::MOVED_CODE);
    }
    warnings.extend(moved);
    machine
}

/// The ceilings of the GPUs, for a program that used one.
pub fn of_gpus(notices: &Notices, warnings: &mut Vec<Warning>) -> Vec<Gpu> {
    let mut progress = ProgressReporter::new(notices, FOR_LATER_RUNS);
    let gpus = gpu::for_a_run(&mut progress);
    warnings.append(&mut progress.warnings);
    gpus
}

/// The ceilings for `rprof machine`, and the doubts about them.
///
/// # Errors
/// The host cannot be measured.
pub fn measure(options: MachineOptions) -> Result<(Machine, Vec<Warning>), SessionError> {
    let mut progress = ProgressReporter::new(&Notices::new(options.quiet), FOR_LATER_RUNS);
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let mut machine = if options.gpus_only {
        unmeasured()
    } else {
        let request = Request { refresh: options.refresh, ..Request::new(effort) };
        let measured = machine::load_or_measure(&request, &mut progress);
        measured.map_err(|e| SessionError::Report(format!("cannot measure this host: {e}")))?
    };
    let of_gpus = GpuRequest { refresh: options.refresh, ..GpuRequest::new(effort) };
    machine.gpus = gpu::load_or_measure(&of_gpus, &mut progress);
    if options.gpus_only && machine.gpus.is_empty() && progress.warnings.is_empty() {
        return Err(SessionError::Report(
            "--gpu: this host has no GPU with an NVIDIA driver (libcuda.so.1); install the driver".into(),
        ));
    }
    Ok((machine, progress.warnings))
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
pub struct ProgressReporter {
    notices: Notices,
    /// The notice before a full measurement. A mere second look has no notice.
    announcement: &'static str,
    spinner: Option<Spinner>,
    warnings: Vec<Warning>,
}

impl ProgressReporter {
    /// `announcement` comes before the first progress.
    pub fn new(notices: &Notices, announcement: &'static str) -> ProgressReporter {
        ProgressReporter { notices: notices.clone(), announcement, spinner: None, warnings: Vec::new() }
    }

    /// The doubts.
    pub fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }
}

impl Progress for ProgressReporter {
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
