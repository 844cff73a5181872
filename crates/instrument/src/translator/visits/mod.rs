//! Visits to a running program: it executes natively, and for short windows its threads come into the code cache, are counted,
//! and go out again.
//!
//! ```text
//!  native ─▶ catch (all threads stopped) ─▶ refresh (text as it is now) ─▶ enter ─▶ window ─▶ leave ─▶ native
//! ```
//!
//! The text stays executable: a SIGKILL of rprof between windows changes nothing for the program, and an omission of the
//! translator costs the rest of one thread's window. Translations stay in the program's address space between windows.

mod catch;
mod enter;
mod leave;
mod refresh;
mod tracers;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::Counted;
use crate::tally::Tally;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::version::Version;
use crate::translator::counts::extra_work::Added;
use crate::translator::relayout::hot_code::PlacingSettings;
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::sampling::bursts::Bursts;
use crate::translator::tracer::polling::poll_s;
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::watched_calls::CallRecorder;
use rprof_profile::evidence::bursts::BurstSink;
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::memory::AccessSink;
use rprof_profile::evidence::windows::{Window, WindowThread, folded};
use rprof_tracee::clock::{monotonic_ns, own_cpu_time};
use rprof_tracee::proc_status::{read_cpu_seconds, read_status};
use rprof_tracee::thread::resumed_so_far;
use rprof_tracee::wait::Event;
use rprof_tracee::wake_up::Ticks;

use tracers::Tracers;

/// Time from the first visit to the first relayout of hot code, and from one to the next: visits are short, and their speed
/// should soon be that of long runs.
const FIRST_RELAYOUT: Duration = Duration::from_millis(1);
const NEXT_RELAYOUT: Duration = Duration::from_millis(60);
/// Longest window of the sink of accesses: one that fills a large cache may take longer, and ends there.
const LONGEST_OF_SINK: Duration = Duration::from_millis(30);
/// If other work keeps the threads off the CPUs, a window may take this many times its length.
const MOST_TIMES_LONGER: u32 = 8;
/// Interval between looks whether it is over.
const LOOK_AT_SINK: Duration = Duration::from_millis(1);
/// More notices that a phase was long enough than the sink waits for.
const MOST_NOTICES: u32 = 100;

/// If there are twice as many windows, pairs of them are merged: memory does not grow with time.
const LEAST_WINDOWS: usize = 128;

/// A process of which a visit could take nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The process.
    pub pid: Pid,
    /// Why, as a clause.
    pub why: String,
}

/// The end of a process that a visit saw, and that no other part of rprof will see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// The process.
    pub pid: Pid,
    /// Its status as `waitpid` gives it.
    pub status: i32,
    /// CPU seconds of it and of those that it waited for.
    pub cpu_s: f64,
}

/// The cost of one visit and the work that it met.
#[derive(Debug, Default)]
pub struct Visit {
    /// Seconds that the threads were stopped at its beginning and its end.
    pub stopped_s: f64,
    /// Seconds between these.
    pub lasted_s: f64,
    /// CPU seconds that the busiest thread used in the window.
    pub busy_s: f64,
    /// CPU seconds in which threads waited for translations.
    pub waited_s: f64,
    /// Cycles that counting added.
    pub extra_cycles: f64,
    /// CPU seconds of rprof's own beside the stops, if they are taken from the program: its threads, or other ranks, have all CPUs.
    pub taken_s: f64,
    /// Addresses were recorded.
    pub with_addresses: bool,
    /// Processes that ended during the visit.
    pub ended: Vec<Ended>,
    /// Processes that could not be followed.
    pub refused: Vec<Refused>,
    /// Whether anything was counted.
    pub counted: bool,
}

/// Visits the processes of one program. All calls must come from one thread, since ptrace knows only that.
pub struct Visitor {
    run: Run,
    /// Numbers of the threads met so far, with the time at which each began.
    ordinals: HashMap<Pid, (u64, u32)>,
    windows: Vec<Window>,
    /// The present window records addresses.
    with_addresses: bool,
    /// CPU seconds that the threads of the present window had used when they came in.
    cpu_before: HashMap<Pid, f64>,
    /// Threads that were asked to stop and have not stopped yet.
    late: HashSet<Pid>,
    /// Processes of the present window with some threads that run natively.
    partly: HashSet<Pid>,
    /// Ends of processes that were not handed out yet.
    ends: Vec<Ended>,
    /// Files of which it is known whether they have restartable sequences.
    sequences: HashMap<String, bool>,
    /// Filters of system calls (seccomp) that the program has from rprof, which works under them.
    inherited_filters: u32,
    /// Ends waits for leave to trace a thread.
    alarm: Ticks,
    /// Processes that trace others.
    tracers: Tracers,
    /// The program is a rank of a job, which has a CPU for each.
    is_rank: bool,
    /// CPU seconds that a stop takes from its thread; `None`: not measured yet.
    stop_s: Option<f64>,
}

impl Visitor {
    /// No process was visited yet.
    pub fn new(sink: Option<Box<dyn AccessSink>>, bursts: Option<Box<dyn BurstSink>>) -> Self {
        crate::translator::program::heap::prepare();
        let sinks = (sink.map(AccessBuffer::new), bursts.map(Bursts::new));
        let placing =
            PlacingSettings { after: FIRST_RELAYOUT, again: NEXT_RELAYOUT, part: 0, ..PlacingSettings::default() };
        let mut run = Run::new(Pid::from_raw(0), sinks, placing, None, true);
        run.recorded.calls = CallRecorder::of_windows(None);
        ticks(&mut run).for_each(Ticks::rest);
        Visitor {
            run,
            ordinals: HashMap::new(),
            windows: Vec::new(),
            with_addresses: false,
            cpu_before: HashMap::new(),
            late: HashSet::new(),
            partly: HashSet::new(),
            ends: Vec::new(),
            sequences: HashMap::new(),
            inherited_filters: 0,
            alarm: Ticks::new(catch::PATIENCE),
            tracers: Tracers::default(),
            is_rank: false,
            stop_s: None,
        }
    }

    /// For a program that this process has started: it has the filters of system calls that this process has, as in a container.
    pub fn of_a_child(mut self) -> Self {
        self.inherited_filters = read_status(Pid::this()).map_or(0, |status| status.filters);
        self
    }

    /// For a program that a launcher started as rank `rank` of `ranks`.
    pub fn of_rank(mut self, (rank, ranks): (u32, u32)) -> Self {
        self.run.recorded.calls = CallRecorder::of_windows(Some((rank, ranks)));
        self.is_rank = true;
        self
    }

    /// Counts the processes `pids` for `length`, or with `addresses` until the sink of accesses has had a window of its own.
    /// Afterwards all their threads run natively.
    pub fn visit(&mut self, pids: &[Pid], length: Duration, addresses: bool) -> Visit {
        let (begun, own) = (Instant::now(), own_cpu_time());
        let mut visit = Visit::default();
        let begin_ns = monotonic_ns();
        self.with_addresses = addresses && self.open_window_of_sink();
        self.cpu_before.clear();
        self.partly.clear();
        for &pid in pids {
            if let Err(why) = self.enter(pid)
                && !catch::has_ended(pid)
            {
                visit.refused.push(Refused { pid, why });
            }
        }
        let entered = Instant::now();
        self.run.recorded.samples.windows.go_on_with(&self.cpu_before);
        ticks(&mut self.run).for_each(Ticks::go_on);
        self.run.polling.polls = 0;
        let (resumed, native_s) = (resumed_so_far(), self.run.evidence.uncounted.native_s());
        if !self.run.program.threads.is_empty() {
            let length = if self.with_addresses { LONGEST_OF_SINK } else { length };
            let latest = entered + MOST_TIMES_LONGER * length;
            let mut until = entered + length;
            while self.serve(until, &mut visit) && until < latest && self.busiest() < length.as_secs_f64() / 2.0 {
                until += length;
            }
        }
        let leaving = Instant::now();
        let stops = resumed_so_far() - resumed;
        let threads = self.leave();
        let native_s = self.run.evidence.uncounted.native_s() - native_s;
        ticks(&mut self.run).for_each(Ticks::rest);
        let end_ns = monotonic_ns();
        visit.stopped_s = (entered - begun).as_secs_f64() + leaving.elapsed().as_secs_f64();
        visit.lasted_s = (leaving - entered).as_secs_f64();
        // The program runs on while the model catches up.
        self.close_window_of_sink();
        visit.ended = std::mem::take(&mut self.ends);
        visit.busy_s = threads.iter().map(|thread| thread.cpu_s).fold(0.0, f64::max);
        let entries = threads.len() as u64;
        let window = Window { stops, native_s, entries, ..self.take_window(begin_ns, end_ns, threads) };
        visit.counted = !window.blocks.is_empty();
        (visit.waited_s, visit.extra_cycles) = (window.waited_s, window.extra_cycles);
        visit.with_addresses = window.addresses;
        let is_crowded = self.is_rank || window.work_s() > (self.run.polling.pin.cpus() as f64 - 0.5) * visit.lasted_s;
        self.windows.push(window);
        self.windows = folded(std::mem::take(&mut self.windows), LEAST_WINDOWS);
        if is_crowded {
            visit.taken_s = ((own_cpu_time() - own).as_secs_f64() - visit.stopped_s).max(0.0);
        }
        visit
    }

    /// CPU seconds that the busiest thread has used in the present window.
    fn busiest(&self) -> f64 {
        self.run.program.threads.keys().map(|tid| self.used_s(*tid)).fold(0.0, f64::max)
    }

    /// CPU seconds that a thread has used in the present window: all that it ever used if it began there.
    fn used_s(&self, tid: Pid) -> f64 {
        read_cpu_seconds(tid).map_or(0.0, |now| self.since_entry_s(tid, now))
    }

    /// The part of a thread's CPU seconds `now_s` that it has used in the present window.
    fn since_entry_s(&self, tid: Pid, now_s: f64) -> f64 {
        (now_s - self.cpu_before.get(&tid).copied().unwrap_or(0.0)).max(0.0)
    }

    /// Serves the threads until `deadline`; false if the window is over before.
    fn serve(&mut self, deadline: Instant, visit: &mut Visit) -> bool {
        loop {
            if self.with_addresses
                && self.run.recorded.samples.drain.as_ref().is_some_and(|drain| drain.wanted() == Version::Plain)
            {
                return false;
            }
            let until = if self.with_addresses { deadline.min(Instant::now() + LOOK_AT_SINK) } else { deadline };
            let event = match self.run.next_event(Some(until)) {
                Ok(None) if until < deadline => continue,
                Ok(Some(event)) => event,
                Ok(None) => return true,
                Err(error) => {
                    self.refuse_all(&error.to_string(), visit);
                    return false;
                }
            };
            match event {
                Event::Ended(tid, status, cpu_s) => self.ended(tid, status, cpu_s),
                Event::Stopped(stopped, stop) => {
                    let tid = stopped.tid();
                    match self.run.stopped(stopped, stop) {
                        Ok(()) | Err(RunError::Gone) => {}
                        Err(error) => {
                            self.run.program.stuck.insert(tid, stop);
                            self.refuse_all(&error.to_string(), visit);
                            return false;
                        }
                    }
                    if self.partly.iter().any(|pid| self.must_have_all(*pid)) {
                        return false;
                    }
                }
            }
        }
    }

    /// Whether a process may be visited only with all its threads: a trap of rprof's in a thread that blocks SIGTRAP resets the action for a
    /// moment, in which an `int3` of a thread that rprof does not trace ends the process.
    fn must_have_all(&self, pid: Pid) -> bool {
        self.run.program.settings.get(&pid).is_some_and(|settings| settings.traps)
    }

    /// A thread ended: with its first thread, or one of a process of which none was taken, the process did.
    fn ended(&mut self, tid: Pid, status: i32, cpu_s: Option<f64>) {
        let is_process = self.run.program.threads.get(&tid).is_none_or(|thread| thread.pid == tid);
        self.run.ended(tid);
        if is_process {
            self.ends.push(Ended { pid: tid, status, cpu_s: cpu_s.unwrap_or(0.0) });
        }
    }

    fn refuse_all(&self, why: &str, visit: &mut Visit) {
        let mut groups: Vec<Pid> = self.run.program.threads.values().map(|t| t.pid).collect();
        groups.sort_unstable();
        groups.dedup();
        visit.refused.extend(groups.into_iter().map(|pid| Refused { pid, why: why.to_owned() }));
    }

    /// Makes the sink of accesses begin a window; false if there is none.
    fn open_window_of_sink(&mut self) -> bool {
        let Some(drain) = &mut self.run.recorded.samples.drain else { return false };
        // The start of the program, which it would look at first, is over.
        for _ in 0..MOST_NOTICES {
            match drain.wanted() {
                Version::Opening | Version::Plain => drain.end_phase(),
                _ => return true,
            }
        }
        false
    }

    /// Makes the sink of accesses end its window.
    fn close_window_of_sink(&mut self) {
        let Some(drain) = &mut self.run.recorded.samples.drain else { return };
        drain.catch_up();
        for _ in 0..MOST_NOTICES {
            if drain.wanted() == Version::Plain {
                return;
            }
            drain.end_phase();
        }
    }

    /// The counts of the window that has just ended.
    fn take_window(&mut self, begin_ns: u64, end_ns: u64, threads: Vec<WindowThread>) -> Window {
        let (mut tally, mut added) = (Tally::new(), Added::default());
        let mut seen = Vec::new();
        let mut finish = |cache: &mut CodeCache, drain: &mut Option<AccessBuffer>| {
            added.add(cache.added());
            cache.finish(&mut tally, drain);
        };
        for address_space in self.run.program.address_spaces.values() {
            let cache = &address_space.image.cache;
            if !seen.contains(&cache.as_ptr()) {
                seen.push(cache.as_ptr());
                finish(&mut cache.borrow_mut(), &mut self.run.recorded.samples.drain);
            }
        }
        while let Some(cache) = self.run.evidence.finished.pop_front() {
            finish(&mut cache.borrow_mut(), &mut self.run.recorded.samples.drain);
        }
        Window {
            spans: vec![(begin_ns, end_ns)],
            waited_s: self.run.polling.polls as f64 * poll_s(),
            extra_cycles: added.cycles,
            first_copies: added.first_copies(),
            addresses: self.with_addresses,
            threads,
            blocks: tally.into_blocks(),
            calls: self.run.recorded.calls.end_window(),
            ..Window::default()
        }
    }

    /// Sends all threads out without counting anything more.
    pub fn abandon(&mut self) {
        self.leave();
    }

    /// Ends the visits: the windows, and with them the evidence of the sinks, which has the counts of the windows
    /// alone.
    pub fn finish(self) -> (Counted, Vec<Window>) {
        let Visitor { mut run, mut windows, stop_s, .. } = self;
        if let Some(stop_s) = stop_s {
            windows.iter_mut().for_each(|window| window.price_stops(stop_s));
        }
        let mut evidence = CountedEvidence {
            source: "windows".into(),
            wall_s: windows.iter().map(|w| w.seconds()).sum(),
            warnings: std::mem::take(&mut run.evidence.warnings),
            ..CountedEvidence::default()
        };
        evidence.modules = std::mem::take(&mut *run.program.modules.lock()).finish();
        (evidence.blocks, _) = std::mem::take(&mut run.evidence.tally).finish();
        let (threads, _) = std::mem::take(&mut run.evidence.roster).finish();
        evidence.threads = threads;
        evidence.denormals = Some(run.evidence.denormals);
        (evidence.mpi, _) = std::mem::take(&mut run.recorded.calls).finish();
        evidence.cpu_s = windows.iter().flat_map(|w| &w.threads).map(|t| t.cpu_s).sum();
        let memory = run.recorded.samples.drain.map(AccessBuffer::finish);
        let bursts = run.recorded.samples.bursts.map(Bursts::finish);
        (Counted { status: 0, evidence, memory, bursts, ended_before: None, changed_files: false }, windows)
    }
}

/// The timers of a run. They rest between windows: there they would only take the program's CPU time.
fn ticks(run: &mut Run) -> impl Iterator<Item = &mut Ticks> {
    std::iter::once(&mut run.looks.ticks).chain(&mut run.recorded.samples.windows.ticks)
}
