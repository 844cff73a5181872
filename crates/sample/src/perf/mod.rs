//! The timed pass by `perf_event_open`: one ring buffer per CPU, inherited by everything that the program creates.

mod affordable;
mod attach;
mod blocked;
mod cycle_clock;
mod drain;
mod event;
mod held;
mod markers;
mod open;
mod probe;
mod sample_cost;
mod sampled;
mod setter;

use std::io;
use std::os::fd::AsRawFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use rprof_profile::clock::ClockSource;
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::run::Warning;
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::foreground;
use rprof_tracee::launch::Gated;
use rprof_tracee::proc_status::read_process_cpu_seconds;

use super::modules::MappedFile;
use super::reap::{self, Reaped};
use super::recorder::{Ending, Observation, Recorder};
use super::unwind::StackTop;
use super::weights::Scale;
use super::{Gate, SampleError, SampleOptions, Timed, survivors};

use blocked::Blocked;
use cycle_clock::CycleClock;
use drain::Drain;
use event::{Event, Kind};
use held::Held;
use markers::{Markers, Seen};
use open::{Opened, Terms, Trigger};

use setter::Outlet;

pub(super) use attach::attach;

/// The longest time between two rounds of reading.
const ROUND: Duration = Duration::from_millis(100);

/// The same while libraries are loaded: calls of their markers are recorded from when it is read that they were mapped.
const ROUND_AT_THE_BEGINNING: Duration = Duration::from_millis(1);
const BEGINNING: Duration = Duration::from_millis(50);

/// The same if rprof cannot poll for the program's exit.
const ROUND_WITHOUT_EXIT_DESCRIPTOR: Duration = Duration::from_millis(5);

/// Time between two looks at the threads' affinity.
const AFFINITY_EVERY: Duration = Duration::from_secs(1);

/// An armed sampler that starts when the program does.
pub(super) struct Armed(Opened);

/// Arms the sampler on a child at the gate. The error is the kernel's refusal; the child is as it was.
pub(super) fn arm(child: &Gated, options: &SampleOptions) -> io::Result<Armed> {
    affordable::open(child.pid(), options).map(Armed)
}

impl Armed {
    /// Samples per second of each thread's CPU time.
    pub(super) fn frequency_hz(&self) -> f64 {
        self.0.terms.frequency_hz
    }

    /// See [`Terms::tell_clocks`].
    pub(super) fn tells_clocks(&self) -> bool {
        self.0.terms.tell_clocks()
    }
}

/// Releases the child, and samples until its first process has exited.
pub(super) fn run(child: Gated, armed: Armed, gate: &Gate) -> Result<Timed, SampleError> {
    let Opened { rings, cpus, terms } = armed.0;
    let by_cpu = cpus.into_iter().zip(rings.iter().map(AsRawFd::as_raw_fd)).collect();
    let mut markers = Markers::new(Outlet { rings: by_cpu, terms });
    markers.expected(child.pid(), child.path());
    let held = if markers.want_a_stop() { Held::prepare(child.pid(), child.path()) } else { None };
    let pid = child.release()?;
    if let Some(held) = held {
        held.let_go(&mut markers);
    }
    let (drain, recorder, blocked) = (Drain::new(rings), Recorder::new(), Blocked::new(monotonic_ns()));
    gate.begin();
    let begun = Instant::now();
    let clock = CycleClock::default();
    let mut pass = Pass { drain, recorder, blocked, markers, clock, terms, lost: 0, throttled: false, begun };
    let Some(reaped) = pass.follow(pid, gate)? else {
        let cpu_s = read_process_cpu_seconds(pid).unwrap_or(0.0);
        return Ok(pass.finish_detached(cpu_s));
    };
    let reaped_ns = monotonic_ns();
    let left = survivors::wait_for(|| pass.living_descendants());
    Ok(pass.finish(reaped, reaped_ns, left))
}

struct Pass {
    drain: Drain,
    recorder: Recorder,
    blocked: Blocked,
    markers: Markers,
    /// Fed if the clocks follow from the samples.
    clock: CycleClock,
    terms: Terms,
    lost: u64,
    throttled: bool,
    begun: Instant,
}

impl Pass {
    /// Reads the buffers until the first process has exited. `None`: rprof was asked to leave it alone.
    fn follow(&mut self, pid: Pid, gate: &Gate) -> Result<Option<Reaped>, SampleError> {
        let exit = reap::exit_descriptor(pid).ok();
        let pollable = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled: Vec<libc::pollfd> = self.drain.rings().iter().map(|r| pollable(r.as_raw_fd())).collect();
        polled.extend(exit.as_ref().map(|fd| pollable(fd.as_raw_fd())));
        let round = if exit.is_some() { ROUND } else { ROUND_WITHOUT_EXIT_DESCRIPTOR };
        let mut looked = Instant::now();
        loop {
            let round = if self.begun.elapsed() < BEGINNING { ROUND_AT_THE_BEGINNING } else { round };
            let wait_ms = self.blocked.due_in_ms(monotonic_ns()).min(round.as_millis() as i32);
            // SAFETY: `polled` is a live array of the length given.
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, wait_ms) };
            // A hang-up (its thread is gone) would make every further poll return at once.
            polled.iter_mut().filter(|p| p.revents & libc::POLLHUP != 0).for_each(|p| p.fd = -1);
            let ended = gate.try_reap(pid).map_err(|source| SampleError::Wait { pid: pid.as_raw(), source })?;
            self.read(monotonic_ns());
            if let Some(reaped) = ended {
                return Ok(Some(reaped));
            }
            if foreground::leaves().is_some() {
                gate.end();
                return Ok(None);
            }
            self.blocked.look(monotonic_ns(), &mut self.recorder);
            if looked.elapsed() > AFFINITY_EVERY {
                self.recorder.threads.refresh_affinity();
                looked = Instant::now();
            }
        }
    }

    /// Threads of the program that still live, after all that was recorded by now is read.
    fn living_descendants(&mut self) -> Vec<u32> {
        self.read(u64::MAX);
        let tids: Vec<u32> = self.recorder.threads.alive().map(|(tid, _)| tid).collect();
        tids.into_iter().filter(|tid| survivors::is_alive(*tid)).collect()
    }

    fn read(&mut self, now_ns: u64) {
        let Pass { drain, recorder, markers, clock, begun, terms, lost, throttled, .. } = self;
        let tell_clocks = terms.tell_clocks();
        let take = |e: Event| match e.kind {
            Kind::Sample(s) => match markers.look(&s) {
                Seen::Call(mark) => recorder.mark(e.time_ns, s.pid, s.tid, mark),
                Seen::Foreign => {}
                Seen::Sample => {
                    if tell_clocks {
                        clock.sampled(e.time_ns, s.tid, s.cpu, s.period);
                    }
                    record(recorder, e.time_ns, Kind::Sample(s), *terms);
                }
            },
            Kind::Lost { records } => {
                *lost += records;
                clock.interrupted();
                recorder.reread_maps = true;
            }
            Kind::Throttled => {
                *throttled = true;
                clock.interrupted();
            }
            kind => {
                match &kind {
                    Kind::Map { pid, start, file_offset, path, .. } => markers.mapped(*pid, *start, *file_offset, path),
                    Kind::Switch { tid, .. } => clock.switched(*tid),
                    Kind::Fork { parent, pid, .. } if parent != pid => markers.forked(*parent, *pid),
                    Kind::Exec { pid, .. } => {
                        markers.executed(*pid);
                        *begun = Instant::now();
                    }
                    _ => {}
                }
                record(recorder, e.time_ns, kind, *terms)
            }
        };
        drain.round(now_ns, take);
    }

    fn finish(mut self, reaped: Reaped, reaped_ns: u64, left: Vec<u32>) -> Timed {
        self.read(u64::MAX);
        let Terms { trigger, kernel, frequency_hz, .. } = self.terms;
        let end_ns = if left.is_empty() { None } else { Some(monotonic_ns()) };
        let complete = self.lost == 0;
        let scale = match (kernel, trigger) {
            (true, _) if complete => Scale::PerThread,
            (true, _) => Scale::Total(reaped.cpu_s),
            (false, Trigger::CpuClock) => Scale::AsSampled,
            (false, Trigger::Cycles) => Scale::Total(reaped.user_s),
        };
        let mut warnings = self.warnings();
        warnings.extend(survivors::warning(&left));
        // Events of a task that may not be observed end when it executes such a program.
        let lost_sight = left.is_empty() && self.recorder.lost_sight(complete, reaped_ns, reaped.cpu_s);
        if lost_sight {
            warnings.push(Warning::new(
                "not-observed",
                match complete {
                    true => "The kernel stopped the observation when the program started: its file is setuid or not readable.",
                    false => "The records of the program end before it did: its file is setuid or not readable, or records were lost.",
                },
                "Elapsed and CPU time are those of the whole program; no function has a time.",
                "Run rprof as the file's owner, or on a readable copy of the program.",
            ));
        }
        let (end_ns, complete) = if lost_sight { (Some(reaped_ns), false) } else { (end_ns, complete) };
        self.recorder.marks.refused = std::mem::take(&mut self.markers.refused);
        if self.lost > 0 {
            self.recorder.marks.lose(self.lost);
        }
        let clock = self.clock;
        let evidence = self.recorder.finish(Ending {
            source: source(trigger),
            end_ns,
            cpu_s: if complete { None } else { Some(reaped.cpu_s) },
            scale,
            frequency_hz,
            lost: self.lost,
            page_faults: reaped.page_faults,
            blocked_missing: self.blocked.missing(),
            warnings,
        });
        Timed { evidence: with_clocks(evidence, clock), status: reaped.status }
    }

    /// Ends a pass over a process that goes on, and used `cpu_s` meanwhile.
    fn finish_detached(mut self, cpu_s: f64) -> Timed {
        self.read(u64::MAX);
        let Terms { trigger, kernel, frequency_hz, .. } = self.terms;
        let complete = self.lost == 0;
        let warnings = self.warnings();
        self.recorder.marks.refused = std::mem::take(&mut self.markers.refused);
        let clock = self.clock;
        let evidence = self.recorder.finish(Ending {
            source: source(trigger),
            end_ns: Some(monotonic_ns()),
            cpu_s: if complete { None } else { Some(cpu_s) },
            scale: match (kernel, trigger) {
                (true, _) if complete => Scale::PerThread,
                (false, Trigger::CpuClock) => Scale::AsSampled,
                _ => Scale::Total(cpu_s),
            },
            frequency_hz,
            lost: self.lost,
            page_faults: None,
            blocked_missing: self.blocked.missing(),
            warnings,
        });
        Timed { evidence: with_clocks(evidence, clock), status: ExitStatus::default() }
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if !self.terms.kernel {
            warnings.push(Warning::new(
                "kernel-not-sampled",
                "This host does not let rprof sample the kernel.",
                "Time in system calls and page faults is in the program's CPU time but in no function.",
                "Run as root, or set kernel.perf_event_paranoid to 1 or less.",
            ));
        }
        if self.lost > 0 {
            warnings.push(Warning::new(
                "records-lost",
                format!("The kernel lost {} records because they were not read in time.", self.lost),
                "Shares of functions rest on the samples that are left; intervals on a CPU are incomplete.",
                "Sample at a lower rate (-F), or allow larger buffers (kernel.perf_event_mlock_kb).",
            ));
        }
        if self.throttled {
            warnings.push(Warning::new(
                "samples-throttled",
                "The kernel held samples back because taking them took too much time.",
                "Moments of dense sampling are under-represented.",
                "Sample at a lower rate (-F).",
            ));
        }
        warnings
    }
}

/// The evidence with the clocks that follow from its samples, if there are any.
fn with_clocks(evidence: TimedEvidence, clock: CycleClock) -> TimedEvidence {
    let clocks = clock.finish();
    let clock_source = (!clocks.is_empty()).then_some(ClockSource::SampledCycles);
    TimedEvidence { clocks, clock_source, ..evidence }
}

fn source(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Cycles => "perf:cycles",
        Trigger::CpuClock => "perf:cpu-clock",
    }
}

fn record(recorder: &mut Recorder, time_ns: u64, kind: Kind, terms: Terms) {
    match kind {
        Kind::Map { pid, start, length, file_offset, path, inode, build_id } => {
            recorder.map(time_ns, MappedFile { pid, start, file_offset, path: &path, inode, build_id }, length);
        }
        Kind::Fork { parent, parent_tid, pid, tid } => recorder.fork(time_ns, parent, parent_tid, pid, tid),
        Kind::Exit { tid } => recorder.exit(time_ns, tid),
        Kind::Name { pid, tid, name } => recorder.name(time_ns, pid, tid, name),
        Kind::Exec { pid, tid, name } => {
            recorder.exec(time_ns, pid, tid);
            recorder.enter_cpu(time_ns, pid, tid);
            recorder.name(time_ns, pid, tid, name);
        }
        Kind::Switch { pid, tid, on: true, .. } => recorder.enter_cpu(time_ns, pid, tid),
        Kind::Switch { pid, tid, on: false, preempted } => recorder.leave_cpu(time_ns, pid, tid, preempted),
        Kind::Sample(s) => {
            let nanoseconds = terms.trigger == Trigger::CpuClock;
            recorder.sample(Observation {
                time_ns,
                pid: s.pid,
                tid: s.tid,
                period: s.period as f64 * if nanoseconds { 1e-9 } else { 1.0 },
                kernel: s.kernel,
                off_cpu: false,
                blocked: None,
                cpu: s.cpu,
                ip: s.registers.map(|r| r.ip()).or(s.chain.first().copied()),
                registers: s.registers,
                stack: StackTop { start: s.registers.map_or(0, |r| r.sp()), bytes: &s.stack },
                chain: s.chain.get(1..).unwrap_or_default(),
            });
        }
        Kind::Lost { .. } | Kind::Throttled => {}
    }
}
