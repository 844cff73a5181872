//! The two passes over a program: their inputs and results.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::Process;

use crate::device::{Injection, injection};
use crate::instrument::{self, Counted, CountingEngine};
use crate::machine::host::topology;
use crate::machine::watch::{Seen, Watch, Watched};
use crate::memory::{CacheModel, Geometry, PageColoring};
use crate::profile::Machine;
use crate::profile::clock::ClockSource;
use crate::profile::evidence::bursts::BurstSink;
use crate::profile::evidence::counters::CounterEvidence;
use crate::profile::evidence::memory::AccessSink;
use crate::profile::evidence::timed::{PlacementSeen, TimedEvidence};
use crate::profile::run::Warning;
use crate::profile::trial::Trials;
use crate::replay::Recorder;
use crate::sample::{self, Gate, SampleError, SampleOptions, Timed};
use crate::tracee::foreground::Foreground;
use crate::tracee::launch::{Gated, LaunchError, Program, Streams, spawn_gated, spawn_gated_with};
use crate::tracee::wait::wait_for_status;

use super::error::stream;
use super::hardware::{Armed, Hardware};
use super::input::Input;
use super::options::{Budget, Engine, Memory, RunOptions};
use super::single::{self, Sinks, Span, Visited};
use super::terminal::TerminalWatch;
use super::time_limit::TimeLimit;
use super::trials::{self, Tried};
use super::{SessionError, launcher, sink};

/// The results of the timed pass besides its evidence.
#[derive(Debug)]
pub struct TimedPass {
    /// The sampler's result.
    pub timed: Timed,
    /// The counts of the hardware counters.
    pub counters: CounterEvidence,
    /// It read the terminal: the counted pass will not see that input.
    pub read_terminal: bool,
    /// Changes tried in copies, where the user asked for that.
    pub trials: Option<Trials>,
}

/// Runs the program natively under the sampler, with these `variables` in its environment. This number of bytes of its input is kept for
/// another run; `None`: there will be none.
pub fn timed(
    program: &Program,
    variables: &[(OsString, OsString)],
    input: &mut Input,
    keep: Option<u64>,
    options: &RunOptions,
    hardware: Option<&Hardware>,
) -> Result<TimedPass, SessionError> {
    // Counters would count the copies, too.
    let hardware = hardware.filter(|_| !options.tries);
    let stdin = input.first(keep).map_err(stream("standard input"))?;
    let child = spawn_gated_with(program, variables, Streams { stdin, ..Streams::default() }).map_err(launch)?;
    let pid = child.pid();
    let (sampler, counters) = armed(child, "timed", &sampling(options), hardware)?;
    let gate = Gate::default();
    let trials = options.tries.then(|| trials::start(pid, gate.clone(), trials::budget(options)));
    let terminal = matches!(input, Input::Terminal).then(|| TerminalWatch::start(pid));
    let watched = watched(&sampler);
    let watch = Watch::start(watched);
    let result = sampler.run_beside(&gate);
    gate.end();
    let tried = trials.map(|thread| thread.join().unwrap_or_else(|_| Tried::failed()));
    let seen = watch.map(Watch::finish).unwrap_or_default();
    let counters = counters.map(Armed::finish).unwrap_or_default();
    let read_terminal = terminal.is_some_and(TerminalWatch::finish);
    let mut timed = result.map_err(failed("timed"))?;
    add_seen(&mut timed.evidence, watched, seen);
    let trials = tried.map(|tried| {
        tried.take_out(&mut timed.evidence);
        tried.named(timed.evidence.cpu_s)
    });
    Ok(TimedPass { timed, counters, read_terminal, trials })
}

/// Arms sampler and counters on a child at the gate. The sampler first: while it takes its sample the counters' timer expires, too,
/// and needs no interrupt of its own.
fn armed(
    child: Gated,
    pass: &'static str,
    options: &SampleOptions,
    hardware: Option<&Hardware>,
) -> Result<(sample::Armed, Option<Armed>), SessionError> {
    let pid = child.pid();
    let sampler = sample::arm(child, options).map_err(failed(pass))?;
    let counters = hardware.map(|h| h.arm(pid, sampler.frequency_hz()));
    Ok((sampler, counters))
}

/// The things that rprof watches beside `sampler`.
fn watched(sampler: &sample::Armed) -> Watched {
    Watched::beside(sampler.tells_clocks(), topology::is_guest())
}

/// Adds the watch's readings to the evidence.
fn add_seen(evidence: &mut TimedEvidence, watched: Watched, seen: Seen) {
    evidence.placements = seen.placements;
    if watched.clock {
        evidence.clock_source = (!seen.clocks.is_empty()).then_some(ClockSource::Probes);
        evidence.clocks = seen.clocks;
    }
}

/// How a pass is sampled.
pub fn sampling(options: &RunOptions) -> SampleOptions {
    SampleOptions { frequency_hz: options.frequency_hz.map(f64::from), ..SampleOptions::default() }
}

fn failed(pass: &'static str) -> impl Fn(SampleError) -> SessionError {
    move |e| SessionError::Pass { pass, reason: e.to_string() }
}

/// The results of a single pass.
#[derive(Debug)]
pub struct SinglePass {
    /// The samples, and the counters.
    pub native: TimedPass,
    /// The counts of its windows, or why there are none.
    pub visited: Result<Visited, String>,
}

/// How a program is counted in windows while it runs.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    /// By how much they may slow it down.
    pub budget: Budget,
    /// When they may come.
    pub span: Span,
    /// Its rank and how many there are, if a launcher started it.
    pub launched: Option<(u32, u32)>,
    /// This number of bytes of its input is kept for another run; `None`: there will be none.
    pub keep: Option<u64>,
}

/// Runs the program once: natively under the sampler, and counted in `windows`. `again`: it repeats a run, and has these streams in the
/// place of descriptors that the program inherits.
pub fn single(
    program: &Program,
    variables: &[(OsString, OsString)],
    input: &mut Input,
    options: &RunOptions,
    hardware: Option<&Hardware>,
    machine: &Machine,
    (windows, again): (Windows, Option<Further>),
) -> Result<SinglePass, SessionError> {
    let streams = match again {
        None => Streams { stdin: input.first(windows.keep).map_err(stream("standard input"))?, ..Streams::default() },
        Some(further) => Streams { further, ..second_streams(input)? },
    };
    let child = spawn_gated_with(program, variables, streams).map_err(launch)?;
    let pid = child.pid();
    let sampling = SampleOptions { most_share: single::sampler_share(windows.budget.share), ..sampling(options) };
    let (sampler, counters) = armed(child, "single", &sampling, hardware)?;
    let gate = Gate::default();
    let visits = single::start(
        single::Program::Child { pid, launched: windows.launched },
        gate.clone(),
        sinks(options, machine),
        windows.budget,
        windows.span,
    );
    let is_terminal = matches!(input, Input::Terminal);
    let terminal = windows.keep.filter(|_| is_terminal).map(|_| TerminalWatch::start(pid));
    let watched = watched(&sampler);
    let watch = Watch::start(watched);
    let result = sampler.run_beside(&gate);
    gate.end();
    let seen = watch.map(Watch::finish).unwrap_or_default();
    let counters = counters.map(Armed::finish).unwrap_or_default();
    let visited = visited(visits.join());
    let read_terminal = terminal.is_some_and(TerminalWatch::finish);
    let mut timed = result.map_err(failed("single"))?;
    add_seen(&mut timed.evidence, watched, seen);
    Ok(SinglePass { native: TimedPass { timed, counters, read_terminal, trials: None }, visited })
}

/// The sinks of visits.
pub fn sinks(options: &RunOptions, machine: &Machine) -> Sinks {
    let model = cache_model(options.memory, machine, &[]);
    let accesses = model.map(|model| Box::new(model.begun_midway()) as Box<dyn AccessSink>);
    let bursts = accesses.is_some().then(|| Box::new(Recorder::new(machine)) as Box<dyn BurstSink>);
    Sinks { accesses, bursts }
}

/// The result of the thread of visits, or why there is none.
pub fn visited(joined: thread::Result<Visited>) -> Result<Visited, String> {
    joined.map_err(|_| "a defect of rprof ended the windows".into())
}

/// Streams in the place of descriptors that a program inherits, by their number.
pub type Further = Vec<(RawFd, OwnedFd)>;

/// A first run that a counted one repeats without an effect that would come twice.
#[derive(Debug)]
pub struct Repeated {
    /// When the first run began.
    pub since: SystemTime,
    /// The longest time that the second one may take.
    pub limit: Duration,
    /// Streams in the place of descriptors that the program inherits.
    pub inherited: Further,
}

/// Runs the program under the counting engine with our streams.
pub fn counted(program: &Program, options: &RunOptions, machine: &Machine) -> Result<Counted, SessionError> {
    count(program, Streams::default(), None, options, (machine, &[]))
}

/// Runs the program again under the counting engine, with the replayed `input` of the first run, and its output sunk. `seen`: the CPUs'
/// placement in the first run. `repeated`: it may have no effect twice.
pub fn counted_again(
    program: &Program,
    input: &mut Input,
    repeated: Option<Repeated>,
    options: &RunOptions,
    (machine, seen): (&Machine, &[PlacementSeen]),
) -> Result<Counted, SessionError> {
    let mut streams = second_streams(input)?;
    let limits = repeated.map(|Repeated { since, limit, inherited }| {
        streams.further = inherited;
        (since, limit)
    });
    count(program, streams, limits, options, (machine, seen))
}

fn count(
    program: &Program,
    streams: Streams,
    limits: Option<(SystemTime, Duration)>,
    options: &RunOptions,
    (machine, seen): (&Machine, &[PlacementSeen]),
) -> Result<Counted, SessionError> {
    let child = spawn_gated(program, streams).map_err(launch)?;
    let _foreground = Foreground::hold(child.pid()).map_err(stream("signals"))?;
    let sink = access_sink(options.memory, machine, seen);
    // Bursts need the memory model's levels.
    let bursts = sink.is_some().then(|| Box::new(Recorder::new(machine)) as Box<dyn BurstSink>);
    let mut engine: Box<dyn CountingEngine> = match options.engine {
        Engine::Translator => {
            let repeats = limits.map(|(since, _)| since);
            Box::new(instrument::translator::Translator { repeats, ..Default::default() })
        }
        Engine::SingleStep => Box::new(instrument::single_step::SingleStep::default()),
    };
    let limit = limits.map(|(_, limit)| TimeLimit::start(child.pid(), limit));
    let counted = engine
        .run(child, sink, bursts)
        .map_err(|e| SessionError::Pass { pass: "counted", reason: format!("{e}; {}", e.hint()) });
    match limit.and_then(TimeLimit::exceeded) {
        Some(limit) => Err(SessionError::Pass {
            pass: "counted",
            reason: format!("it took longer than {:.0} s, and was ended", limit.as_secs_f64()),
        }),
        None => counted,
    }
}

/// Runs the program natively with the collector of `injection` in it, the `replay`ed input, and its output sunk; returns its wait status.
/// After `limit` it is ended, with all processes that have the collector.
pub fn native(
    program: &Program,
    injection: &Injection,
    replay: &mut Input,
    limit: Duration,
) -> Result<i32, SessionError> {
    let child = spawn_gated_with(program, injection.variables(), second_streams(replay)?).map_err(launch)?;
    let _foreground = Foreground::hold(child.pid()).map_err(stream("signals"))?;
    let pid = child.release().map_err(launch)?;
    let failed = |reason: String| SessionError::Pass { pass: "native", reason };
    let (done, is_done) = mpsc::channel::<()>();
    let folder = injection.folder().to_owned();
    let guard = thread::spawn(move || {
        let is_late = is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if is_late {
            end_all(pid, &folder);
        }
        is_late
    });
    let status = wait_for_status(pid).ok_or_else(|| failed("the program's end was not seen".into()));
    drop(done);
    match guard.join() {
        Ok(true) => {
            Err(failed(format!("it took longer than {} s with its kernels counted, and was ended", limit.as_secs())))
        }
        _ => status,
    }
}

/// Ends `pid` and all processes that have `folder` in their environment.
fn end_all(pid: Pid, folder: &Path) {
    let is_one = |process: &Process| {
        let environment = process.environ().unwrap_or_default();
        process.pid == pid.as_raw()
            || environment.get(OsStr::new(injection::LOGS)).is_some_and(|at| at == folder.as_os_str())
    };
    for process in procfs::process::all_processes().into_iter().flatten().flatten().filter(is_one) {
        // It may be gone by now.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
}

/// Streams of a second run: the replayed `input`, output sunk.
pub fn second_streams(input: &mut Input) -> Result<Streams, SessionError> {
    Ok(Streams {
        stdin: Some(input.second().map_err(stream("standard input"))?),
        stdout: Some(sink::like(std::io::stdout().as_fd()).map_err(stream("standard output"))?),
        stderr: Some(sink::like(std::io::stderr().as_fd()).map_err(stream("standard error"))?),
        further: Vec::new(),
    })
}

fn access_sink(memory: Memory, machine: &Machine, seen: &[PlacementSeen]) -> Option<Box<dyn AccessSink>> {
    Some(Box::new(cache_model(memory, machine, seen)?))
}

/// `seen`: the CPUs' placement in an earlier run.
fn cache_model(memory: Memory, machine: &Machine, seen: &[PlacementSeen]) -> Option<CacheModel> {
    if memory == Memory::Off {
        return None;
    }
    let (geometry, mut warnings) = Geometry::of_host(&machine.caches, machine.cores);
    let mut noted = |(geometry, warning): (Geometry, Option<Warning>)| {
        warnings.extend(warning);
        geometry
    };
    let mut geometry = noted(geometry.as_measured(machine));
    if let Some(cpus) = sharing(machine, seen) {
        geometry = noted(geometry.shared_by(cpus));
    }
    if let Some(ranks) = launcher::ranks_of_this_host() {
        geometry = noted(geometry.divided_among(ranks, topology::online_cpus()));
    }
    let placement = PageColoring::of_host();
    let model = match memory {
        Memory::Exact => CacheModel::exact(geometry, placement, warnings),
        Memory::Off | Memory::Sampled => CacheModel::sampled(geometry, placement, warnings),
    };
    Some(model.of_host_processes())
}

/// How many CPUs shared a last-level cache for most of the time, as far as that was seen.
fn sharing(machine: &Machine, seen: &[PlacementSeen]) -> Option<u32> {
    let memory_s = machine.value("lat.dram", 1)?;
    let mut looks: Vec<u32> = seen.iter().filter_map(|look| look.core_to_core.sharing(memory_s)).collect();
    looks.sort_unstable();
    looks.get(looks.len() / 2).copied()
}

/// A failed start as an error of the session.
pub fn launch(e: LaunchError) -> SessionError {
    match e {
        LaunchError::Exec { path, source } => SessionError::CannotExecute { path, reason: source.to_string() },
        other => SessionError::Pass { pass: "first", reason: other.to_string() },
    }
}
