//! One profiling run from the command line to the written report.

use std::time::Duration;

use nix::unistd::Pid;

use crate::join;
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::profile::{Function, Profile};
use crate::tracee::foreground::{self, Foreground};

use super::end::ProgramEnd;
use super::error::stream;
use super::evidence::Evidence;
use super::first_run::{Setting, counters_pass, one_pass, timed_pass};
use super::gpu::First;
use super::hardware::Hardware;
use super::input::Input;
use super::job::{self, Launching};
use super::options::{GpuCounts, Passes, RunOptions};
use super::outcome::Outcome;
use super::output::OutputFolder;
use super::preflight::{self, Checked};
use super::progress::Notices;
use super::second_run::second_run;
use super::usual_passes::WhyTwice;
use super::{
    SessionError, assemble, attach, auto, by_time, ceilings, launch_parts, launcher, launches, passes, trials,
    usual_passes,
};

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
    if options.tries && rank.is_some() {
        evidence.warnings.push(trials::not_in_a_rank());
    }
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
    if (options.tries || matches!(which, Passes::Auto | Passes::Single)) && rank.is_none() {
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
            let off = || match options.tries {
                true => "--try runs the program natively; --passes both counts it as well, in a second run".into(),
                false => "the counted pass was switched off with --passes timed".into(),
            };
            evidence.no_counts = Some(not_countable.unwrap_or_else(off));
            if options.tries {
                notices.say(&trials::announcement(options));
            }
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

/// Whether a function that matters was faster than a ceiling allows. The neighbours of a shared host may leave another share of
/// the memory than when the ceilings were measured, or one of the core was measured too low.
fn is_a_ceiling_refuted(profile: &Profile) -> bool {
    let refuted = |f: &Function| f.analysis.ceilings.iter().any(|c| c.refuted);
    profile.functions.iter().any(|f| f.share.unwrap_or(0.0) >= 0.02 && refuted(f))
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
            if let Some(why) = by_time::doubt(false, options, machine, evidence) {
                by_time::are_lower_bounds(evidence, &why);
            }
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
