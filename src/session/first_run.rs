//! The first run of a program, which is the user's own: natively and sampled, and counted in windows.

use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::tracee::foreground;

use std::process::ExitStatus;

use super::end::ProgramEnd;
use super::error::stream;
use super::evidence::Evidence;
use super::gpu::Tracing;
use super::hardware::Hardware;
use super::inherited::Inherited;
use super::input::Input;
use super::job;
use super::launcher::LaunchedRank;
use super::options::RunOptions;
use super::output::OutputFolder;
use super::passes::{Further, Windows};
use super::preflight::Checked;
use super::progress::Notices;
use super::single::{Span, Visited};
use super::{SessionError, ceilings, one_run, passes};

/// A program that used less CPU time than this says too little for a second look at the ceilings.
const WORTH_A_SECOND_LOOK_S: f64 = 0.2;

/// Why there is no counted pass if the counters are enough.
const ONE_RUN: &str = "certified hardware counters told what the report needs of the one native run; --passes both counts \
                       every instruction, for loops, chains and advice by line";

/// The inputs that stay the same for all passes of a run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
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

/// Runs the program natively and sampled. So many bytes of its input are kept for another run; `None`: there will be none.
pub fn timed_pass(
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
    evidence.trials = pass.trials;
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
pub fn one_pass(
    checked: &Checked,
    setting: Setting<'_>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<ProgramEnd, SessionError> {
    let Setting { options, notices, rank, .. } = setting;
    let budget = options.budget();
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
pub type Met = (TimedEvidence, Result<Visited, String>);

/// Runs the program natively and sampled, and counted in `windows`. Its end, its input, and what the windows met.
pub fn windows_pass(
    checked: &Checked,
    setting: Setting<'_>,
    windows: Windows,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<(ProgramEnd, FirstInput, Met), SessionError> {
    let mut input = Input::classify().map_err(stream("standard input"))?;
    let pass = windows_over(checked, setting, (windows, None), &mut input, machine, evidence)?;
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
        None => ProgramEnd::of(pass.status),
    };
    Ok((end, FirstInput { input, read_terminal: pass.read_terminal }, pass.met))
}

/// A run that repeats one: the input of that, and the descriptors that the program inherited.
pub struct Again<'a> {
    pub input: &'a mut Input,
    pub inherited: &'a Inherited,
}

/// The same again, with replayed input and its output sunk.
pub fn windows_again(
    checked: &Checked,
    setting: Setting<'_>,
    windows: Windows,
    Again { input, inherited }: Again<'_>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<Met, SessionError> {
    let further = inherited.for_second_run().map_err(stream("a descriptor"))?;
    windows_over(checked, setting, (windows, Some(further)), input, machine, evidence).map(|pass| pass.met)
}

/// What is left of a pass with windows, beside its evidence.
struct WindowsPass {
    status: ExitStatus,
    read_terminal: bool,
    met: Met,
}

fn windows_over(
    checked: &Checked,
    setting: Setting<'_>,
    windows: (Windows, Option<Further>),
    input: &mut Input,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<WindowsPass, SessionError> {
    let Setting { options, notices, hardware, folder, .. } = setting;
    let tracing = Tracing::prepare(&checked.program.path, folder, &mut evidence.warnings);
    let pass = passes::single(&checked.program, tracing.variables(), input, options, hardware, machine, windows)?;
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
    let (status, read_terminal) = (pass.native.timed.status, pass.native.read_terminal);
    Ok(WindowsPass { status, read_terminal, met: (timed, pass.visited) })
}

/// The input of a first run.
pub struct FirstInput {
    /// For another run.
    pub input: Input,
    /// It was typed at a terminal.
    pub read_terminal: bool,
}

/// Runs the program natively: this host's hardware counters are to measure what the report needs.
pub fn counters_pass(
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
