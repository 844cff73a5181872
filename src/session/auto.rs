//! The default: a first run that is the user's own, and a second one that counts, if that is needed and has no effect twice.
//!
//! ```text
//!  first run   native and sampled ······ 10 s ······ and counted in windows ─▶ end
//!                                                                               │ explained, too long, not repeatable? ─▶ report
//!  second run  counted: every instruction, output sunk, input replayed ◀────────┘
//!              ends before its first call whose effect would come twice
//!                                                │ its work depends on the time?
//!  third run   native, sampled and counted in windows; output sunk
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::instrument::Counted;
use crate::profile::evidence::ThreadInfo;
use crate::profile::evidence::counted::Missing;
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::tracee::foreground;

use super::SessionError;
use super::end::ProgramEnd;
use super::evidence::Evidence;
use super::first_run::{FirstInput, Setting, counters_pass, one_pass, windows_pass};
use super::inherited::Inherited;
use super::passes::{Repeated, Windows};
use super::preflight::Checked;
use super::second_run::second_run;
use super::single::Span;
use super::sink;
use super::{assemble, by_time};

/// So many seconds of a program are left alone: a shorter one is counted in a run of its own.
const UNTOUCHED_S: f64 = 10.0;
/// A first run with at least this share of its CPU time explained needs no second one.
pub const EXPLAINED: f64 = 0.8;
/// Most bytes of input that are kept for a second run.
const KEPT_INPUT: u64 = 64 << 20;
/// A second run takes about this many times the first one, and some seconds.
const USUAL_TIMES: f64 = 2.0;
const USUAL_S: f64 = 1.0;
/// One that takes longer than so many times the first one, and so many seconds, is ended: it waits for what will not come again.
const MOST_TIMES: f64 = 20.0;
const MOST_S: f64 = 60.0;

/// A second run that was ended before it had this part of the first one's CPU time tells nothing of the program.
const LEAST_PART: f64 = 0.1;

/// A program with more threads at a time is not run again: each has counters of its own, and takes some milliseconds.
const MOST_THREADS: usize = 2000;
/// A process takes about this long to be counted, however short it is: the code that starts it is translated anew.
const PROCESS_S: f64 = 0.05;
/// If that makes the second run longer than so many times the first one, and so many seconds, the program is not run again.
const PROCESSES_TIMES: f64 = 5.0;
const PROCESSES_S: f64 = 10.0;

/// Why a program is not run again, though its first run does not explain it.
#[derive(Debug, PartialEq)]
enum WhyOnce {
    /// It took too long: seconds, and the limit.
    Long(f64, f64),
    /// A signal ended it.
    Signalled(i32),
    /// It had so many threads at a time.
    Threads(usize),
    /// It started so many processes.
    Processes(usize),
    /// It read from the terminal.
    Terminal,
    /// Its input was not kept.
    Input(String),
    /// The reader of its output left.
    Output(String),
    /// The user interrupted it, or rprof was asked to leave.
    Interrupted,
}

impl fmt::Display for WhyOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyOnce::Long(wall_s, most_s) => {
                write!(f, "it took {wall_s:.0} s, and only programs below {most_s} s are run again (--repeat-below)")
            }
            WhyOnce::Signalled(signal) => write!(f, "signal {signal} ended it"),
            WhyOnce::Threads(n) => write!(f, "it had {n} threads at a time, and each would take milliseconds to count"),
            WhyOnce::Processes(n) => {
                write!(f, "it started {n} processes, and each would take tens of milliseconds to count")
            }
            WhyOnce::Terminal => {
                f.write_str("it read from the terminal, which cannot be replayed; give its input by a file")
            }
            WhyOnce::Input(why) => write!(f, "its input cannot be replayed: {why}; give it by a file"),
            WhyOnce::Output(why) => f.write_str(why),
            WhyOnce::Interrupted => f.write_str("the run was interrupted"),
        }
    }
}

/// Runs the program, and once more if that is needed and possible. How the user's own run ended.
pub fn run(
    checked: &Checked,
    setting: Setting<'_>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<ProgramEnd, SessionError> {
    let Setting { options, notices, .. } = setting;
    let inherited = Inherited::look();
    if let Some(number) = inherited.read_once(&options.program) {
        notices.say(&format!("descriptor {number} can be read only once, so the program is not run again"));
        return one_pass(checked, setting, machine, evidence);
    }
    let since = SystemTime::now();
    let (end, mut first) = if setting.counters_suffice() {
        counters_pass(checked, setting, Some(KEPT_INPUT), machine, evidence)?
    } else {
        windows_later(checked, setting, machine, evidence)?
    };
    let wall_s = evidence.timed.as_ref().map_or(0.0, |timed| timed.wall_s);
    let has_windows = evidence.counted.is_some();
    let may_explain = has_windows || evidence.no_counts.is_some();
    if may_explain && assemble::explained_share(options, machine, evidence) >= EXPLAINED {
        return Ok(end);
    }
    let tasks = evidence.timed.as_ref().map_or(Tasks::default(), |timed| Tasks::of(&timed.threads));
    if let Some(why) = why_once(end, &first, (wall_s, tasks), options.repeat_below_s) {
        note_once(evidence, has_windows, &why);
        return Ok(end);
    }
    let about_s = (USUAL_TIMES * wall_s + USUAL_S).round();
    notices.say(&format!("runs once more to count, about {about_s} s; --once for one run"));
    let limit = Duration::from_secs_f64(MOST_TIMES * wall_s + MOST_S);
    let repeated = inherited.for_second_run().map(|inherited| Repeated { since, limit, inherited });
    let counted = match repeated {
        Ok(repeated) => {
            let seen = evidence.timed.as_ref().map_or(&[][..], |timed| &timed.placements);
            second_run(checked, Some(repeated), options, notices, (machine, seen), (end, &mut first.input))
        }
        Err(error) => Err(format!("a descriptor that it inherits could not be replaced: {error}")),
    };
    let ended = counted.as_ref().ok().and_then(|counted| counted.ended_before.as_ref()).map(ToString::to_string);
    if let Some(reason) = &ended {
        notices.say(&format!("ended the second run before {reason}: it would come twice"));
    }
    match (counted, ended) {
        (Ok(counted), Some(reason)) if is_beginning_only(&counted, evidence) => {
            evidence
                .warnings
                .push(ended_early(&reason, "that was so early that its counts say nothing of the program"));
            if !has_windows {
                evidence.no_counts = Some(format!("the second run was ended before {reason}"));
            }
        }
        (Ok(counted), _) => {
            evidence.no_counts = None;
            let spinner = notices.spinner("replaying bursts of its instructions");
            let (is_whole, may_repeat) = (counted.ended_before.is_none(), by_time::is_without_effect(&counted));
            take_second(counted, setting, machine, evidence);
            drop(spinner);
            match by_time::doubt(may_repeat, options, machine, evidence).filter(|_| is_whole) {
                Some(why) if may_repeat => {
                    by_time::third_run(checked, setting, (machine, &inherited), &mut first.input, (evidence, &why))?;
                }
                Some(why) => by_time::are_lower_bounds(evidence, &why),
                None => {}
            }
        }
        (Err(reason), _) => {
            evidence.warnings.push(Warning::new(
                "no-counted-pass",
                format!("the program was run again, but not counted: {reason}"),
                if has_windows { "counts are estimated from windows" } else { "times are known, counts are not" },
                "--once counts in windows of one run; docs/trust.md lists the limits of the counting engine",
            ));
            if !has_windows {
                evidence.no_counts = Some(reason);
            }
        }
    }
    Ok(end)
}

/// The first run, with windows only after some seconds.
fn windows_later(
    checked: &Checked,
    setting: Setting<'_>,
    machine: &mut Machine,
    evidence: &mut Evidence,
) -> Result<(ProgramEnd, FirstInput), SessionError> {
    let Setting { options, notices, .. } = setting;
    let budget = options.budget();
    notices.say(&format!(
        "runs the program natively and sampled; after {UNTOUCHED_S} s also counted in short windows that may slow it down by {budget}"
    ));
    let span = Span::of(options).from(UNTOUCHED_S);
    let windows = Windows { budget, span, launched: None, keep: Some(KEPT_INPUT) };
    let (end, first, (timed, visited)) = windows_pass(checked, setting, windows, machine, evidence)?;
    match visited {
        Ok(visited) if !visited.windows.is_empty() => {
            let _spinner = notices.spinner("replaying bursts of its instructions");
            evidence.take_visited(timed, visited, machine, setting.processes());
        }
        _ => evidence.timed = Some(timed),
    }
    Ok((end, first))
}

/// Why the program is not run again.
fn why_once(end: ProgramEnd, first: &FirstInput, (wall_s, tasks): (f64, Tasks), below_s: f64) -> Option<WhyOnce> {
    if foreground::leaves().is_some() || foreground::interruptions() > 0 {
        return Some(WhyOnce::Interrupted);
    }
    if let Err(why) = sink::refuse_if_cut_short(end) {
        return Some(WhyOnce::Output(why));
    }
    match end {
        ProgramEnd::Signalled(signal) => Some(WhyOnce::Signalled(signal)),
        ProgramEnd::Exited(_) if wall_s >= below_s => Some(WhyOnce::Long(wall_s, below_s)),
        ProgramEnd::Exited(_) if tasks.at_once > MOST_THREADS => Some(WhyOnce::Threads(tasks.at_once)),
        ProgramEnd::Exited(_) if tasks.processes as f64 * PROCESS_S > PROCESSES_TIMES * wall_s + PROCESSES_S => {
            Some(WhyOnce::Processes(tasks.processes))
        }
        ProgramEnd::Exited(_) if first.read_terminal => Some(WhyOnce::Terminal),
        ProgramEnd::Exited(_) => first.input.is_kept().err().map(WhyOnce::Input),
    }
}

/// The threads of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Tasks {
    /// The most that lived at the same time.
    at_once: usize,
    /// Their processes.
    processes: usize,
}

impl Tasks {
    fn of(threads: &[ThreadInfo]) -> Self {
        let processes: BTreeSet<u32> = threads.iter().map(|thread| thread.pid).collect();
        Tasks { at_once: most_at_once(threads), processes: processes.len() }
    }
}

/// The most of `threads` that lived at the same time.
fn most_at_once(threads: &[ThreadInfo]) -> usize {
    let mut ends: Vec<f64> = threads.iter().map(|thread| thread.end_s).collect();
    let mut starts: Vec<f64> = threads.iter().map(|thread| thread.start_s).collect();
    ends.sort_unstable_by(f64::total_cmp);
    starts.sort_unstable_by(f64::total_cmp);
    let living = |(begun, start): (usize, &f64)| begun + 1 - ends.partition_point(|end| end <= start).min(begun + 1);
    starts.iter().enumerate().map(living).max().unwrap_or(0)
}

/// Notes that the program ran once, for the report.
fn note_once(evidence: &mut Evidence, has_windows: bool, why: &WhyOnce) {
    let effect = match has_windows {
        true => "counts are estimated from the windows of that run",
        false => "times are known, counts are not",
    };
    evidence.warnings.push(Warning::new(
        "not-run-again",
        format!("the program was not run again to count it: {why}"),
        effect,
        "--once counts in windows from the start of one run, --passes both in a second one",
    ));
    if !has_windows {
        evidence.no_counts = Some(format!("the program was not run again to count it: {why}"));
    }
}

/// Takes the counts of the second run, in the place of those of windows.
fn take_second(mut counted: Counted, setting: Setting<'_>, machine: &Machine, evidence: &mut Evidence) {
    if let Some(reason) = &counted.ended_before {
        let first_s = evidence.timed.as_ref().map_or(0.0, |timed| timed.cpu_s);
        counted.evidence.missing = Missing::Executions;
        let share = if first_s > 0.0 { 1.0 - counted.evidence.cpu_s / first_s } else { 0.0 };
        counted.evidence.uncounted_share = counted.evidence.uncounted_share.max(share.clamp(0.0, 1.0));
        let until_then = "counts are those of the program until then; its effects did not come twice";
        counted.evidence.warnings.push(ended_early(&reason.to_string(), until_then));
    }
    evidence.take_counted(counted, machine, setting.processes());
}

fn ended_early(reason: &str, effect: &str) -> Warning {
    Warning::new(
        "second-run-ended",
        format!("the second run was ended before {reason}"),
        effect,
        "--passes both makes such calls twice; --once counts in windows of one run",
    )
}

/// Whether a second run that was ended had not used a good part of the first one's CPU time.
fn is_beginning_only(counted: &Counted, evidence: &Evidence) -> bool {
    let first_s = evidence.timed.as_ref().map_or(0.0, |timed| timed.cpu_s);
    counted.evidence.cpu_s < LEAST_PART * first_s
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::*;

    #[test]
    fn a_program_is_run_again_only_if_that_gives_the_same() {
        let why = |end, read_terminal, wall_s| {
            let first = FirstInput { input: Input::Other, read_terminal };
            why_once(end, &first, (wall_s, Tasks::default()), 60.0).map(|why| why.to_string())
        };
        assert_eq!(why(ProgramEnd::Exited(0), false, 2.0), None);
        assert_eq!(why(ProgramEnd::Exited(3), false, 2.0), None);
        assert!(why(ProgramEnd::Exited(0), true, 2.0).unwrap().contains("terminal"));
        assert!(why(ProgramEnd::Exited(0), false, 60.0).unwrap().contains("--repeat-below"));
        assert!(why(ProgramEnd::Signalled(11), false, 2.0).unwrap().contains("signal 11"));
        let first = FirstInput { input: Input::Other, read_terminal: false };
        let of = |at_once, processes| {
            let why = why_once(ProgramEnd::Exited(0), &first, (2.0, Tasks { at_once, processes }), 60.0);
            why.map(|why| why.to_string())
        };
        assert!(of(4000, 1).unwrap().contains("4000 threads at a time"));
        assert!(of(1, 1500).unwrap().contains("started 1500 processes"));
        assert_eq!(of(100, 100), None);
    }

    #[test]
    fn threads_that_live_one_after_another_are_not_many() {
        let thread = |start_s, end_s| ThreadInfo {
            ordinal: 0,
            pid: 1,
            tid: 1,
            name: None,
            start_s,
            end_s,
            cpu_s: 0.0,
            allowed_cpus: None,
        };
        let in_turn: Vec<ThreadInfo> = (0..100).map(|n| thread(f64::from(n), f64::from(n) + 1.0)).collect();
        assert_eq!((most_at_once(&in_turn), most_at_once(&[])), (1, 0));
        let together: Vec<ThreadInfo> = (0..100).map(|n| thread(f64::from(n), 100.0)).collect();
        assert_eq!(most_at_once(&together), 100);
    }
}
