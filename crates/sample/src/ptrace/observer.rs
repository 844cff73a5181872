//! The tracing thread: follows every thread of the program, stops the running ones at each tick, and samples them.
//!
//! ```text
//!  tick:  every thread ─ running? ─▶ PTRACE_INTERRUPT ─▶ (stop) ─▶ registers, stack copy ─▶ PTRACE_CONT ─▶ unwind
//!                      └ blocked? ─▶ /proc/…/syscall, stack copy ─▶ unwind
//! ```
//!
//! A thread that had no CPU when the tick was due (it waited for one) is recorded as off the CPU: the places at which the
//! scheduler takes threads off are no fair sample of the places at which they compute. The sampler asks all threads of a tick
//! to stop before it waits for the first, so their samples belong to one moment and carry the same time. Signals and job
//! control pass through untouched.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::reap::Reaped;
use crate::recorder::{Observation, Recorder};
use crate::survivors::is_alive;
use crate::unwind::StackTop;
use rprof_tracee::proc_status::{read_cpu_seconds, read_name};
use rprof_tracee::restarts::keep_call;
use rprof_tracee::thread::{Mode, Running, Stopped};
use rprof_tracee::wait::{Event, Stop};

use super::loan::{Loan, Loans};
use super::pace::Pace;
use super::tracees::{Asked, Origin, Tracees};
use super::tracer_cpu::TracerCpus;
use super::wait::{Waited, wait};
use crate::context::Context;
use crate::thread_files::Activity;
use rprof_tracee::clock::{monotonic_ns, own_cpu_time};

/// Time between two samples of a blocked thread.
const BLOCKED_EVERY_NS: u64 = 20_000_000;

/// How long a tick may stay open.
const STUCK_NS: u64 = 100_000_000;

/// Time for which the thread polls for stops without giving the CPU away: a stop takes less than waking up does.
const EAGER: Duration = Duration::from_micros(30);

/// The state of the tracing thread.
pub(super) struct Observer {
    first: u32,
    pub(super) tracees: Tracees,
    /// The processes lent to a visit.
    pub(super) loans: Loans,
    pub recorder: Recorder,
    context: Context,
    pub pace: Pace,
    /// The tick that still waits for stops, and its cost so far.
    open_tick: Option<Tick>,
    next_tick_ns: u64,
    ended: Option<Reaped>,
    tracer_cpus: TracerCpus,
    /// CPU seconds of the first process before it executed the program.
    before_exec_s: f64,
}

#[derive(Debug)]
struct Tick {
    started_cpu_s: f64,
    stopped_s: f64,
    asked: usize,
    awaited: usize,
    displaced: bool,
}

impl Observer {
    /// For a program; this thread has seized `first`, its first process.
    pub fn new(first: Pid, pace: Pace, stack_bytes: u32) -> Observer {
        let mut recorder = Recorder::new();
        recorder.reread_maps = true;
        let mut tracees = Tracees::default();
        tracees.enter(first.as_raw() as u32);
        Observer {
            first: first.as_raw() as u32,
            tracees,
            loans: Loans::default(),
            recorder,
            context: Context::new(stack_bytes),
            next_tick_ns: monotonic_ns(),
            pace,
            open_tick: None,
            ended: None,
            tracer_cpus: TracerCpus::new(),
            before_exec_s: read_cpu_seconds(first).unwrap_or(0.0),
        }
    }

    /// How the first process ended, once it has, and the CPU seconds since it executed the program.
    pub fn ended(&self) -> Option<(Reaped, f64)> {
        self.ended.map(|r| (r, (r.cpu_s - self.before_exec_s).max(0.0)))
    }

    /// Threads that still live.
    pub fn living(&self) -> Vec<u32> {
        self.tracees.tids().into_iter().filter(|tid| is_alive(*tid)).collect()
    }

    /// Lets all threads go for good.
    pub fn leave(&mut self) {
        let mut pids: Vec<Pid> = self.tracees.iter_mut().map(|(_, t)| Pid::from_raw(t.pid as i32)).collect();
        pids.sort_unstable();
        pids.dedup();
        self.lend(&pids);
    }

    /// Handles the events so far, waiting for them until a signal comes; makes a tick if it is due. Returns the time to the
    /// next one if it set that anew, `None` as long as the old time holds. False in `.1`: no thread is traced any more.
    pub fn step(&mut self) -> (Option<Duration>, bool) {
        match self.wait() {
            Waited::Nobody => return (None, false),
            Waited::Event(event, reaped) => self.handle(event, reaped),
            Waited::Nothing => {}
        }
        if monotonic_ns() < self.next_tick_ns || self.open_tick.is_some() && !self.tick_is_stuck() {
            return (None, true);
        }
        self.take_owed();
        self.tick();
        let period = self.pace.next();
        self.next_tick_ns = monotonic_ns() + period.as_nanos() as u64;
        (Some(period), true)
    }

    /// Waits for an event or a signal; for an event that we asked for at first without giving the CPU away.
    pub(super) fn wait(&self) -> Waited {
        if self.open_tick.is_some() || self.loans.is_lending {
            let deadline = Instant::now() + EAGER;
            while Instant::now() < deadline {
                match wait(false) {
                    Waited::Nothing => std::hint::spin_loop(),
                    other => return other,
                }
            }
        }
        wait(true)
    }

    /// A thread that was asked may have blocked uninterruptibly before it could stop.
    fn tick_is_stuck(&self) -> bool {
        monotonic_ns().saturating_sub(self.next_tick_ns) > STUCK_NS
    }

    fn tick(&mut self) {
        let started_cpu_s = own_cpu_time().as_secs_f64();
        let now = monotonic_ns();
        let mut asked = 0;
        for (tid, tracee) in self.tracees.iter_mut() {
            let activity = tracee.activity();
            if activity != Activity::Blocked {
                tracee.blocked_ns = None;
            }
            match (activity, &tracee.running) {
                (Activity::Running, Some(running)) if tracee.asked.is_none() => {
                    let queued_ns = tracee.files().queued_ns();
                    if running.interrupt().is_ok() {
                        tracee.asked = Some(Asked { due_ns: self.next_tick_ns, at_ns: monotonic_ns(), queued_ns });
                        asked += 1;
                    }
                }
                (Activity::Blocked, Some(_)) => {
                    let since = *tracee.blocked_ns.get_or_insert(now);
                    if now - since >= BLOCKED_EVERY_NS {
                        tracee.blocked_ns = Some(now);
                        let blocked = tracee.files().where_blocked();
                        let registers = blocked.map(|b| b.registers);
                        if let Some(registers) = registers {
                            self.context.take_at(Pid::from_raw(tid as i32), registers);
                        }
                        self.recorder.sample(Observation {
                            time_ns: now,
                            pid: tracee.pid,
                            tid,
                            period: (now - since) as f64 * 1e-9,
                            kernel: true,
                            off_cpu: true,
                            blocked: blocked.map(|b| b.in_call(tracee.pid)),
                            cpu: None,
                            ip: registers.map(|r| r.ip()),
                            registers,
                            stack: if registers.is_some() { self.context.stack() } else { StackTop::default() },
                            chain: &[],
                        });
                    }
                }
                _ => {}
            }
        }
        self.open_tick = Some(Tick { started_cpu_s, stopped_s: 0.0, asked, awaited: asked, displaced: false });
        self.close_tick();
    }

    /// Ends the open tick if it waits for no thread any more.
    fn close_tick(&mut self) {
        let Some(tick) = self.open_tick.take_if(|t| t.awaited == 0) else { return };
        let own_s = own_cpu_time().as_secs_f64() - tick.started_cpu_s;
        // With a CPU to spare only the stops cost the program time.
        let cost_s = tick.stopped_s + if tick.asked >= self.tracer_cpus.cpus { own_s } else { 0.0 };
        self.tracer_cpus.change(tick.displaced);
        if tick.asked > 0 {
            self.pace.paid(cost_s, tick.asked);
        }
    }

    pub(super) fn handle(&mut self, event: Event, reaped: Reaped) {
        match event {
            Event::Ended(tid, ..) => self.end(tid.as_raw() as u32, reaped),
            Event::Stopped(thread, stop) => self.stopped(thread, stop),
        }
    }

    fn end(&mut self, tid: u32, reaped: Reaped) {
        self.gone(tid);
        if tid == self.first {
            self.ended = Some(reaped);
        }
    }

    /// The first process has ended, as another part of rprof saw.
    pub fn ended_elsewhere(&mut self, reaped: Reaped) {
        self.end(self.first, reaped);
    }

    /// A thread exists no more.
    pub(super) fn gone(&mut self, tid: u32) {
        self.recorder.exit(monotonic_ns(), tid);
        self.unask(tid);
        self.tracees.remove(tid);
    }

    /// A thread will not answer the tick that asked it.
    pub(super) fn unask(&mut self, tid: u32) {
        if self.tracees.get(tid).and_then(|t| t.asked.take()).is_some() {
            self.answered(0.0);
        }
    }

    /// A thread that a tick awaited has answered, or will not any more.
    fn answered(&mut self, stopped_s: f64) {
        if let Some(tick) = &mut self.open_tick {
            tick.stopped_s += stopped_s;
            tick.awaited = tick.awaited.saturating_sub(1);
        }
        self.close_tick();
    }

    fn stopped(&mut self, thread: Stopped, stop: Stop) {
        let tid = thread.tid().as_raw() as u32;
        let origin = self.tracees.enter(tid);
        self.created(tid, origin);
        match stop {
            Stop::Group(libc::SIGTRAP) => return self.sample(thread),
            Stop::Group(_) => {
                self.unask(tid);
                if self.is_to_go(tid) {
                    return self.let_go(thread, 0);
                }
                return self.resumed(tid, thread.listen().ok());
            }
            Stop::Signal(signal) => return self.go_on(thread, signal),
            Stop::NewTask => {
                if let Ok(new) = thread.event_message() {
                    let origin = self.tracees.announced(new as u32);
                    self.created(new as u32, origin);
                }
            }
            Stop::Exec => self.executed(tid),
            Stop::Exit => {
                let now = monotonic_ns();
                self.unask(tid);
                self.note_cpu(tid);
                self.recorder.exit(now, tid);
                // Otherwise its end would not be seen.
                return self.resumed(tid, thread.resume(Mode::Continue, None).ok());
            }
            Stop::Syscall | Stop::Other => {}
        }
        self.go_on(thread, 0);
    }

    /// Lets a thread run on, traced unless it is to go; the signal (0: none) is delivered first.
    fn go_on(&mut self, thread: Stopped, signal: i32) {
        let tid = thread.tid().as_raw() as u32;
        if self.is_to_go(tid) {
            return self.let_go(thread, signal);
        }
        self.resumed(tid, thread.resume_raw(Mode::Continue, signal).ok());
    }

    /// A stop that was asked for; or a new thread's first one, or the end of a group stop.
    fn sample(&mut self, thread: Stopped) {
        let tid = thread.tid().as_raw() as u32;
        let Some(tracee) = self.tracees.get(tid) else { return };
        let (pid, asked) = (tracee.pid, tracee.asked.take());
        let taken = asked.is_some() && self.context.take(&thread);
        keep_call(&thread);
        self.go_on(thread, 0);
        let now = monotonic_ns();
        let (Some(asked), Some(tracee)) = (asked, self.tracees.get(tid)) else { return };
        let queued_ns = tracee.files().queued_ns();
        let on_cpu = asked.was_on_cpu(now, queued_ns);
        let late_ns = asked.at_ns.saturating_sub(asked.due_ns);
        let displaced = on_cpu && self.tracer_cpus.displaced(late_ns, asked.waited_ns(queued_ns));
        if let Some(tick) = &mut self.open_tick {
            tick.displaced |= displaced;
        }
        if taken && !displaced {
            self.recorder.sample(Observation {
                time_ns: asked.due_ns,
                pid,
                tid,
                period: self.pace.period_s(),
                kernel: false,
                off_cpu: !on_cpu,
                blocked: None,
                cpu: None,
                ip: Some(self.context.registers.ip()),
                registers: Some(self.context.registers),
                stack: self.context.stack(),
                chain: &[],
            });
        }
        let stopped_ns = now.saturating_sub(asked.at_ns).saturating_sub(asked.waited_ns(queued_ns));
        self.answered(stopped_ns as f64 * 1e-9);
    }

    fn resumed(&mut self, tid: u32, running: Option<Running>) {
        if let Some(tracee) = self.tracees.get(tid) {
            tracee.running = running;
            tracee.loan = Loan::None;
        }
    }

    /// Records a thread that was not known before.
    pub(super) fn created(&mut self, tid: u32, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.recorder.fork(monotonic_ns(), origin.parent, origin.parent, origin.pid, tid);
        }
    }

    pub(super) fn executed(&mut self, tid: u32) {
        let now = monotonic_ns();
        for other in self.tracees.execed(tid) {
            self.recorder.exit(now, other);
        }
        let Some(tracee) = self.tracees.get(tid) else { return };
        let pid = tracee.pid;
        self.recorder.exec(now, pid, tid);
        if let Some(name) = read_name(Pid::from_raw(tid as i32)) {
            self.recorder.name(now, pid, tid, name);
        }
    }

    /// Takes note of the CPU seconds that a thread has used, and returns them.
    pub fn note_cpu(&mut self, tid: u32) -> Option<f64> {
        let cpu_s = read_cpu_seconds(Pid::from_raw(tid as i32))?;
        let before_s = if tid == self.first { self.before_exec_s } else { 0.0 };
        if let Some(tracee) = self.tracees.get(tid) {
            let index = self.recorder.threads.index(tracee.pid, tid, 0.0);
            self.recorder.threads.set_cpu(index, (cpu_s - before_s).max(0.0));
        }
        Some(cpu_s)
    }
}
