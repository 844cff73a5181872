//! One profiling run from the command line to the written report.

use std::time::Duration;

use nix::unistd::Pid;

use crate::instrument::Counted;
use crate::instrument::translator::crash;
use crate::join;
use crate::profile::evidence::timed::{PlacementSeen, TimedEvidence};
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::profile::{Function, Profile};
use crate::tracee::foreground::{self, Foreground};

use super::end::ProgramEnd;
use super::error::stream;
use super::evidence::Evidence;
use super::gpu::{First, Tracing};
use super::hardware::Hardware;
use super::input::Input;
use super::job::{self, Launching};
use super::launcher::LaunchedRank;
use super::options::{Budget, GpuCounts, Passes, RunOptions};
use super::outcome::Outcome;
use super::output::OutputFolder;
use super::passes::{Repeated, Windows};
use super::preflight::{self, Checked};
use super::progress::Notices;
use super::single::{Span, Visited};
use super::usual_passes::WhyTwice;
use super::{
    SessionError, assemble, attach, auto, between, ceilings, launch_parts, launcher, launches, one_run, passes, sink,
    usual_passes,
};

/// A program that used less CPU time than this says too little for a second look at the ceilings.
const WORTH_A_SECOND_LOOK_S: f64 = 0.2;

/// Why there is no counted pass if the counters are enough.
const ONE_RUN: &str = "certified hardware counters told what the report needs of the one native run; --passes both counts \
                       every instruction, for loops, chains and advice by line";

/// No program is there to pass signals on to.
const NOBODY: Pid = Pid::from_raw(0);

/// Profiles a program.
///
/// # Errors
/// Before the program runs: it cannot be executed, the output folder cannot be written. Afterwards only failures that make any
/// report impossible.
pub fn profile(options: &RunOptions) -> Result<Outcome, SessionError> {
    if let Some(pid) = options.pid {
        return attach::profile(options, pid);
    }
    if launches::is_asked(options) && launcher::of_this_process(&mut Vec::new()).is_none() {
        return launches::profile(options);
    }
    let notices = Notices::new(options.quiet);
    preflight::own_proc()?;
    preflight::own_room()?;
    let checked = preflight::check(&options.program)?;
    let mut evidence = Evidence::default();
    let rank = launcher::of_this_process(&mut evidence.warnings);
    let (which, why_twice) = match (&rank, options.passes) {
        (Some(rank), Some(Passes::Both)) if !rank.starts_twice => return Err(SessionError::TwiceInARank),
        (Some(_), None) => (Passes::Single, None),
        (_, Some(passes)) => (passes, None),
        (None, None) => usual_passes::of(options, &checked),
    };
    let needed = [checked.program.path.as_path()];
    let folder = match &rank {
        Some(rank) => {
            let launching = Launching { rank, passes: which, command: &options.program };
            job::rank_folder(options.output.as_deref(), &launching, &needed)?
        }
        None => OutputFolder::create(options.output.as_deref(), &needed)?,
    };
    let mut machine = match &rank {
        Some(_) => ceilings::of_a_rank(&folder, &notices, &mut evidence.warnings),
        None => ceilings::for_a_run(&notices, &mut evidence.warnings),
    };
    let held = Foreground::hold(NOBODY).map_err(stream("signals"))?;
    if matches!(which, Passes::Auto | Passes::Single) && rank.is_none() {
        Foreground::hold_beside();
    }
    let hardware = match which {
        Passes::Counted => None,
        _ => Some(Hardware::prepare(options.counters_from.as_deref(), &mut evidence.warnings)?),
    };
    let setting =
        Setting { options, notices: &notices, hardware: hardware.as_ref(), folder: &folder, rank: rank.as_ref() };
    let end = match which {
        Passes::Both if options.collected.is_part() => {
            let reason =
                "with --from or --to the time is that of a part of the run, the counts would be those of all of it";
            evidence.no_counts = Some(reason.into());
            timed_pass(&checked, None, setting, &mut machine, &mut evidence)?.0
        }
        Passes::Timed => {
            let not_countable = checked.not_countable.clone().filter(|_| options.passes.is_none());
            let off = || "the counted pass was switched off with --passes timed".into();
            evidence.no_counts = Some(not_countable.unwrap_or_else(off));
            let again = options.gpu_counts.is_asked_for();
            let keep = again.then_some(u64::MAX);
            let (end, mut input) = timed_pass(&checked, keep, setting, &mut machine, &mut evidence)?;
            if again {
                count_kernels(&checked, setting, &machine, (end, &mut input.input), &mut evidence);
            }
            end
        }
        Passes::Single if setting.counters_suffice() => {
            counters_pass(&checked, setting, None, &mut machine, &mut evidence)?.0
        }
        Passes::Auto => auto::run(&checked, setting, &mut machine, &mut evidence)?,
        Passes::Single => one_pass(&checked, setting, &mut machine, &mut evidence)?,
        Passes::Counted => counted_alone(&checked, setting, &machine, &mut evidence)?,
        Passes::Both => both(&checked, setting, why_twice, &mut machine, &mut evidence)?,
    };
    let folder = match &rank {
        Some(rank) => job::rank_folder_now(folder, &Launching { rank, passes: which, command: &options.program }),
        None => folder,
    };
    if rank.is_some() {
        launch_parts::complete(&mut evidence, which, &folder, &checked.program.path);
    }
    let of_job = rank.as_ref().map(|rank| (rank, job::name(folder.path()).or(rank.job.clone())));
    let known_end = foreground::leaves().is_none().then_some(end);
    let mut profile = assemble::profile(options, known_end, of_job, machine, evidence);
    if profile.run.warnings.iter().any(|w| w.code == join::COUNTERS_DISAGREE) {
        hardware.iter().for_each(Hardware::distrust);
    }
    // Other ranks may still run: this is no time to measure.
    if rank.is_none() && is_a_ceiling_refuted(&profile) && foreground::interruptions() == 0 {
        let Profile { machine, run, .. } = &mut profile;
        *machine = ceilings::after_a_refutation(std::mem::take(machine), &notices, &mut run.warnings);
        assemble::analyse(&mut profile, options);
    }
    Ok(Outcome { end, profile, folder, rank, held })
}

/// The inputs that stay the same for all passes of a run.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub options: &'a RunOptions,
    pub notices: &'a Notices,
    /// `None` if no native pass is made.
    pub hardware: Option<&'a Hardware>,
    pub folder: &'a OutputFolder,
    /// A launcher started this process beside others, as this rank.
    pub rank: Option<&'a LaunchedRank>,
}

impl Setting<'_> {
    /// Whether the ceilings are looked at again after a run of `cpu_s` seconds.
    pub fn looks_again(&self, cpu_s: f64) -> bool {
        self.rank.is_none() && cpu_s >= WORTH_A_SECOND_LOOK_S && foreground::interruptions() == 0
    }

    /// The ranks on this host, whose memory they share; 1 without a launcher.
    pub fn processes(&self) -> u32 {
        self.rank.map_or(1, |rank| job::ranks_here(self.folder.path(), rank))
    }

    /// Whether the user leaves the choice to the host, and certified counters promise all that the report needs.
    pub fn counters_suffice(&self) -> bool {
        let promised = |hardware: &Hardware| one_run::promised(&hardware.outlook(), self.options.memory).is_ok();
        self.options.passes.is_none() && !self.options.collected.is_part() && self.hardware.is_some_and(promised)
    }
}

/// Whether a function that matters was faster than a ceiling allows. The neighbours of a shared host may leave another share of
/// the memory than when the ceilings were measured, or one of the core was measured too low.
fn is_a_ceiling_refuted(profile: &Profile) -> bool {
    let refuted = |f: &Function| f.analysis.ceilings.iter().any(|c| c.refuted);
    profile.functions.iter().any(|f| f.share.unwrap_or(0.0) >= 0.02 && refuted(f))
}

/// Runs the program natively and sampled. So many bytes of its input are kept for another run; `None`: there will be none.
fn timed_pass(
    checked: &Checked,
    keep: Option<u64>,
    setting: Setting<'_>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<(ProgramEnd, FirstInput), SessionError> {
    let Setting { options, notices, hardware, folder, .. } = setting;
    let mut input = Input::classify().map_err(stream("standard input"))?;
    let tracing = Tracing::prepare(&checked.program.path, folder, &mut evidence.warnings);
    let pass = passes::timed(&checked.program, tracing.variables(), &mut input, keep, options, hardware)?;
    evidence.gpu = tracing.finish();
    let mut timed = pass.timed.evidence;
    evidence.warnings.extend(options.collected.never_began(timed.wall_s));
    options.collected.cut(&mut timed);
    if setting.looks_again(timed.cpu_s) {
        *machine = ceilings::after_a_run(std::mem::take(machine), notices, &mut evidence.warnings);
    }
    if evidence.gpu.has_kernels() {
        machine.gpus = ceilings::of_gpus(notices, &mut evidence.warnings);
    }
    evidence.timed = Some(timed);
    let mut counters = pass.counters;
    if options.collected.is_part() {
        counters.withdraw(
            "with --from or --to the time is that of a part of the run, the counts would be those of all of it",
        );
    }
    evidence.counters = Some(counters);
    let input = FirstInput { input, read_terminal: pass.read_terminal };
    Ok((ProgramEnd::of(pass.timed.status), input))
}

/// Runs the program once, counted in windows.
pub(super) fn one_pass(
    checked: &Checked,
    setting: Setting<'_>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<ProgramEnd, SessionError> {
    let Setting { options, notices, rank, .. } = setting;
    let budget = match rank {
        Some(_) => Budget { share: options.budget_share(), least_s: 0.0 },
        None => options.budget(),
    };
    notices.say(&format!(
        "runs the program once: natively and sampled, and counted in short windows that may slow it down by {budget}"
    ));
    let launched = rank.and_then(|rank| Some((rank.rank, rank.ranks?)));
    let windows = Windows { budget, span: Span::of(options), launched, keep: None };
    let (end, _, visited) = windows_pass(checked, setting, windows, machine, evidence)?;
    match visited {
        (timed, Ok(visited)) => {
            let _spinner = notices.spinner("replaying bursts of its instructions");
            evidence.take_visited(timed, visited, machine, setting.processes());
        }
        (timed, Err(reason)) => evidence.without_windows(timed, reason),
    }
    Ok(end)
}

/// What windows met: the samples, and the counts or why there are none.
pub(super) type Met = (TimedEvidence, Result<Visited, String>);

/// Runs the program natively and sampled, and counted in `windows`. Its end, its input, and what the windows met.
pub(super) fn windows_pass(
    checked: &Checked,
    setting: Setting<'_>,
    windows: Windows,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<(ProgramEnd, FirstInput, Met), SessionError> {
    let Setting { options, notices, hardware, folder, .. } = setting;
    let mut input = Input::classify().map_err(stream("standard input"))?;
    let tracing = Tracing::prepare(&checked.program.path, folder, &mut evidence.warnings);
    let pass = passes::single(&checked.program, tracing.variables(), &mut input, options, hardware, machine, windows)?;
    evidence.gpu = tracing.finish();
    let mut timed = pass.native.timed.evidence;
    evidence.warnings.extend(options.collected.never_began(timed.wall_s));
    options.collected.cut(&mut timed);
    if setting.looks_again(timed.cpu_s) {
        *machine = ceilings::after_a_run(std::mem::take(machine), notices, &mut evidence.warnings);
    }
    if evidence.gpu.has_kernels() {
        machine.gpus = ceilings::of_gpus(notices, &mut evidence.warnings);
        evidence.gpu.leave_uncounted(machine);
    }
    evidence.counters = Some(pass.native.counters);
    let end = match foreground::leaves() {
        Some(signal) => {
            evidence.warnings.push(Warning::new(
                "left-running",
                format!("rprof was asked to end by signal {signal}, and left the program running"),
                "what the program did afterwards is not in the figures",
                "Ctrl-C ends both",
            ));
            ProgramEnd::Signalled(signal)
        }
        None => ProgramEnd::of(pass.native.timed.status),
    };
    Ok((end, FirstInput { input, read_terminal: pass.native.read_terminal }, (timed, pass.visited)))
}

/// The input of a first run.
pub(super) struct FirstInput {
    /// For another run.
    pub input: Input,
    /// It was typed at a terminal.
    pub read_terminal: bool,
}

/// Runs the program natively: this host's hardware counters are to measure what the report needs.
pub(super) fn counters_pass(
    checked: &Checked,
    setting: Setting<'_>,
    keep: Option<u64>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<(ProgramEnd, FirstInput), SessionError> {
    setting.notices.say("runs the program natively: this host's hardware counters are certified, and count its work");
    let (end, input) = timed_pass(checked, keep, setting, machine, evidence)?;
    let kept = evidence.counters.as_ref().map_or(Ok(()), |counters| one_run::kept(counters, setting.options.memory));
    evidence.no_counts = Some(match kept {
        Ok(()) => ONE_RUN.into(),
        Err(why) => format!("{why}; --passes both counts every instruction in a second run"),
    });
    Ok((end, input))
}

/// Says that the program will run twice, before it does, and why if the user did not ask for it.
fn announce(notices: &Notices, why_twice: Option<WhyTwice>) {
    const TWICE: &str = "effects on files and network happen twice (--passes timed runs it once)";
    notices.say(&match why_twice {
        Some(why) => format!("runs the program twice, because {why}; {TWICE}"),
        None => format!("runs the program twice, so {TWICE}"),
    });
}

fn counted_alone(
    checked: &Checked,
    setting: Setting<'_>,
    machine: &Machine,
    evidence: &mut Evidence,
) -> Result<ProgramEnd, SessionError> {
    if let Some(reason) = &checked.not_countable {
        return Err(SessionError::CannotExecute { path: checked.program.path.clone(), reason: reason.clone() });
    }
    let counted = passes::counted(&checked.program, setting.options, machine)?;
    let end = ProgramEnd::from_wait_status(counted.status);
    evidence.take_counted(counted, machine, setting.processes());
    Ok(end)
}

fn both(
    checked: &Checked,
    setting: Setting<'_>,
    why_twice: Option<WhyTwice>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<ProgramEnd, SessionError> {
    let Setting { options, notices, .. } = setting;
    if checked.not_countable.is_none() {
        announce(notices, why_twice);
    }
    let replay = checked.not_countable.is_none();
    let (end, mut input) = timed_pass(checked, replay.then_some(u64::MAX), setting, machine, evidence)?;
    if replay && input.read_terminal {
        evidence.warnings.push(Warning::new(
            "terminal-input",
            "the program read from the terminal, which is not replayed",
            "the counted pass saw the end of its input instead and may have done something else",
            "give the input by a file or a pipe",
        ));
    }
    let input = &mut input.input;
    if options.gpu_counts != GpuCounts::Off && replay {
        count_kernels(checked, setting, machine, (end, input), evidence);
    }
    let seen = evidence.timed.as_ref().map_or(&[][..], |timed| &timed.placements);
    match second_run(checked, None, options, notices, (machine, seen), (end, input)) {
        Ok(counted) => {
            let _spinner = notices.spinner("replaying bursts of its instructions");
            evidence.take_counted(counted, machine, setting.processes());
        }
        Err(reason) => {
            evidence.warnings.push(Warning::new(
                "no-counted-pass",
                format!("there is no counted pass: {reason}"),
                "times are known, counts are not",
                "docs/trust.md lists the limits of the counting engine",
            ));
            evidence.no_counts = Some(reason);
        }
    }
    Ok(end)
}

/// Runs the program natively again to count the work of its kernels on the GPU, if it launched any.
fn count_kernels(
    checked: &Checked,
    Setting { options, notices, folder, .. }: Setting<'_>,
    machine: &Machine,
    (end, input): (ProgramEnd, &mut Input),
    evidence: &mut Evidence,
) {
    let wall = Duration::from_secs_f64(evidence.timed.as_ref().map_or(0.0, |timed| timed.wall_s));
    let l2 = options.gpu_counts == GpuCounts::L2;
    let first = First { program: &checked.program, end, input, wall, between: options.between.as_ref(), l2 };
    evidence.gpu.count(first, folder, machine, notices);
}

/// Crashes of the counted run are the program's own: the native run ended by the same signal.
fn blame_the_program(warnings: &mut [Warning]) {
    for warning in warnings.iter_mut().filter(|w| w.code == crash::CODE) {
        warning.hint = "the native run ended by the same signal: the cause is in the program".into();
    }
}

/// Runs the program again under the counting engine. The first run ended with the status `end`, had this `input`, and had the CPUs
/// at the placement `seen`. `repeated`: the run may have no effect twice. The error is why there are no counts.
pub(super) fn second_run(
    checked: &Checked,
    repeated: Option<Repeated>,
    options: &RunOptions,
    notices: &Notices,
    (machine, seen): (&Machine, &[PlacementSeen]),
    (end, input): (ProgramEnd, &mut Input),
) -> Result<Counted, String> {
    if let Some(reason) = &checked.not_countable {
        return Err(reason.clone());
    }
    if foreground::interruptions() > 0 {
        return Err("the run was interrupted, so the program was not run again to count it".into());
    }
    sink::refuse_if_cut_short(end)?;
    if let Some(command) = &options.between {
        between::restore(command).map_err(|error| error.to_string())?;
    }
    let spinner = notices.spinner("counting the program's instructions");
    let counted = passes::counted_again(&checked.program, input, repeated, options, (machine, seen));
    drop(spinner);
    let mut counted = counted.map_err(|error| error.to_string())?;
    if foreground::interruptions() > 0 {
        return Err("the counted pass was interrupted".into());
    }
    match ProgramEnd::from_wait_status(counted.status) {
        _ if counted.ended_before.is_some() => Ok(counted),
        second if second == end => {
            if let ProgramEnd::Signalled(_) = end {
                blame_the_program(&mut counted.evidence.warnings);
            }
            Ok(counted)
        }
        second => Err(format!("the second run ended differently: {second} instead of {end}")),
    }
}
