//! The GPU's side of a run: kernels traced in the timed pass, counted in native runs of their own.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::counted;
use crate::device::groups::{self, Group};
use crate::device::injection;
use crate::device::log::Record;
use crate::device::{self, Injection, Log, Purpose, proof};
use crate::machine::gpu::known;
use crate::profile::device::{Devices, Uncounted};
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::symbols::demangle;
use crate::tracee::foreground;
use crate::tracee::launch::Program;

use super::end::ProgramEnd;
use super::input::Input;
use super::output::OutputFolder;
use super::progress::Notices;
use super::{between, doctor, passes, sink};

/// Most native runs that count kernels, with one more for the group on demand: each begins with the groups that the ones before did not
/// reach.
const MOST_RUNS: usize = 3;

/// A counted run that takes longer than this, and than this multiple of the native run, is ended.
const LEAST_LIMIT: Duration = Duration::from_secs(60);
const TIMES_NATIVE: f64 = 10.0;

/// The hidden subcommand that launches a known kernel; how long it may take, and how often that is looked at.
const CHECK: &str = "__gpu_check";
const CHECK_LIMIT: Duration = Duration::from_secs(90);
const CHECK_STEP: Duration = Duration::from_millis(10);

/// The collector in the timed pass; `None` if there is no GPU or another tool has its place.
#[derive(Debug)]
pub struct Tracing(Option<Injection>);

/// The logs of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// Of the timed pass.
    pub timed: Vec<Log>,
    /// Of counted runs.
    pub counted: Vec<Log>,
    /// How many of these are of the first one.
    first_counted: usize,
    /// Why there are none of these.
    pub uncounted: Option<Uncounted>,
    /// The collector's file stays until its own functions have their names.
    _injection: Option<Injection>,
}

/// Programs that set the variable of injection for those that they start.
const PROFILERS: [&str; 5] = ["nsys", "ncu", "nv-nsight-cu-cli", "compute-sanitizer", "cuda-gdb"];

fn profiler(program: &Path) -> Option<&'static str> {
    let name = program.file_name()?;
    PROFILERS.into_iter().find(|profiler| name == *profiler)
}

impl Tracing {
    /// Prepares to trace `program`.
    pub fn prepare(program: &Path, folder: &OutputFolder, warnings: &mut Vec<Warning>) -> Tracing {
        if !injection::is_worthwhile() {
            return Tracing(None);
        }
        if injection::is_taken() {
            warnings.push(Warning::new(
                "gpu-injection-taken",
                "CUDA_INJECTION64_PATH names another library",
                "kernels and copies of the GPU are not measured",
                "unset it",
            ));
            return Tracing(None);
        }
        if let Some(name) = profiler(program) {
            warnings.push(Warning::new(
                "gpu-injection-taken",
                format!("{name} puts a library of its own into CUDA programs"),
                "kernels and copies of the GPU are not measured",
                format!("profile the program without {name}"),
            ));
            return Tracing(None);
        }
        match Injection::new(folder.path(), program, &Purpose::Trace) {
            Ok(injection) => Tracing(Some(injection)),
            Err(error) => {
                warnings.push(Warning::new(
                    "gpu-injection",
                    format!("the collector for the GPU could not be written for programs to load it: {error}"),
                    "kernels and copies of the GPU are not measured",
                    "set TMPDIR to a folder that can be written and whose programs can be executed",
                ));
                Tracing(None)
            }
        }
    }

    /// The variables to set for the program.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        self.0.as_ref().map_or(&[], Injection::variables)
    }

    /// The records seen.
    pub fn finish(self) -> Seen {
        let timed = self.0.as_ref().map(Injection::logs).unwrap_or_default();
        Seen { timed, _injection: self.0, ..Seen::default() }
    }
}

/// Facts of the timed run that a counted one needs.
pub struct First<'a> {
    /// The program.
    pub program: &'a Program,
    /// How it ended.
    pub end: ProgramEnd,
    /// Its input.
    pub input: &'a mut Input,
    /// Its wall time.
    pub wall: Duration,
    /// The command between two runs.
    pub between: Option<&'a OsString>,
    /// Whether the bytes are counted, too, that multiprocessors receive from L2.
    pub l2: bool,
}

impl Seen {
    /// Whether a kernel ran.
    pub fn has_kernels(&self) -> bool {
        self.timed.iter().flat_map(|log| &log.records).any(|record| matches!(record, Record::Kernel { .. }))
    }

    /// Runs the program natively again, to count its kernels.
    pub fn count(&mut self, first: First<'_>, folder: &OutputFolder, machine: &Machine, notices: &Notices) {
        if !self.has_kernels() {
            return;
        }
        self.uncounted = uncountable(machine).or_else(|| disproved(&first.program.path, folder, notices));
        if self.uncounted.is_some() {
            return;
        }
        if let Err(reason) = self.count_all(first, folder, machine, notices) {
            let fix = "see `rprof doctor`".into();
            self.uncounted.get_or_insert(Uncounted { reason, fix });
        }
    }

    /// Says why kernels of a single run are not counted.
    pub fn leave_uncounted(&mut self, machine: &Machine) {
        let further_runs = || Uncounted {
            reason: "kernels are counted in runs of their own, and the program ran once".into(),
            fix: "rprof --gpu-counts on -- …".into(),
        };
        self.uncounted = Some(uncountable(machine).unwrap_or_else(further_runs));
    }

    fn count_all(
        &mut self,
        first: First<'_>,
        folder: &OutputFolder,
        machine: &Machine,
        notices: &Notices,
    ) -> Result<(), String> {
        let First { program, end, input, wall, between, l2 } = first;
        let limit = LEAST_LIMIT.max(wall.mul_f64(TIMES_NATIVE));
        let (major, minor) = machine.gpus.first().map_or((9, 0), |gpu| gpu.capability);
        let mut all = groups::groups(major, minor);
        all.extend(l2.then(groups::received));
        let most = MOST_RUNS + usize::from(l2);
        let mut wanted = all.clone();
        for run in 0..most {
            if foreground::interruptions() > 0 {
                return Err("the run was interrupted, so the program was not run again to count its kernels".into());
            }
            sink::refuse_if_cut_short(end)?;
            if let Some(command) = between {
                between::restore(command).map_err(|error| error.to_string())?;
            }
            notices.say(&if run == 0 {
                format!("runs the program again to count the work of its kernels on the GPU (up to {most} times; --gpu-counts off leaves that out)")
            } else {
                "runs the program once more: not every kernel was launched often enough to be counted in one run".into()
            });
            let injection = Injection::new(folder.path(), &program.path, &Purpose::Count(wanted.clone()))
                .map_err(|e| e.to_string())?;
            let _spinner = notices.spinner("counting the work of the GPU's kernels");
            let status = passes::native(program, &injection, input, limit).map_err(|e| e.to_string())?;
            self.counted.extend(injection.logs());
            if run == 0 {
                self.first_counted = self.counted.len();
            }
            let second = ProgramEnd::from_wait_status(status);
            if second != end {
                return Err(format!("the run that counts kernels ended differently: {second} instead of {end}"));
            }
            let before = std::mem::replace(&mut wanted, lacking(&all, &self.counted));
            if wanted.is_empty() || run > 0 && wanted == before {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Why counts cannot be trusted here, seen by those of a known kernel in a process of its own.
fn disproved(program: &Path, folder: &OutputFolder, notices: &Notices) -> Option<Uncounted> {
    let _spinner = notices.spinner("checking the counts of a known kernel");
    let injection = Injection::new(folder.path(), program, &Purpose::Count(vec![proof::group()])).ok()?;
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg(CHECK).envs(injection.variables().iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let begin = Instant::now();
    // Its driver calls have limits of their own; the end of CUPTI has none.
    while child.try_wait().ok()?.is_none() {
        if begin.elapsed() > CHECK_LIMIT {
            child.kill().and_then(|()| child.wait()).ok()?;
            return None;
        }
        thread::sleep(CHECK_STEP);
    }
    let (symbol, expected) = known::mix_expected();
    proof::verdict(&injection.logs(), symbol, &expected).err()
}

/// The groups that some counted kernel lacks, for a further run. Whether a kernel needs one of them is known by then.
fn lacking(groups: &[Group], logs: &[Log]) -> Vec<Group> {
    let kernels = counted::means_by_kernel(logs);
    let is_needed = |group: &&Group| {
        kernels.iter().any(|metrics| {
            let applies = group.condition.is_none_or(|metric| metrics.get(metric).is_some_and(|value| *value > 0.0));
            applies && group.metrics.first().is_some_and(|metric| !metrics.contains_key(*metric))
        })
    };
    groups.iter().filter(is_needed).map(|group| Group { condition: None, ..group.clone() }).collect()
}

/// Why kernels cannot be counted on this host.
fn uncountable(machine: &Machine) -> Option<Uncounted> {
    doctor::uncountable(machine.gpus.first().map_or(0, |gpu| gpu.driver))
}

/// The GPUs' part of the profile.
pub fn devices(seen: &Seen) -> Option<Devices> {
    let demangled = |symbol: &str| demangle::demangle(symbol, demangle::Dialect::default());
    let mut devices = device::devices(&seen.timed, &seen.counted, &demangled)?;
    devices.graphs = counted::graphs(&seen.counted[..seen.first_counted]);
    let has_counts = devices.kernels.iter().any(|kernel| kernel.counts.is_some());
    if let Some(why) = seen.uncounted.as_ref().filter(|_| has_counts) {
        devices.warnings.push(Warning::new(
            "gpu-counted-run",
            why.reason.clone(),
            "the counts are of the launches that it made until then",
            why.fix.clone(),
        ));
    }
    if devices.kernels.iter().all(|kernel| kernel.counts.is_none()) {
        devices.uncounted = devices.uncounted.or_else(|| seen.uncounted.clone());
    }
    Some(devices)
}
