//! The oracle: executes the program one instruction at a time under ptrace and counts each. Slow (about 20 µs an
//! instruction) and free of assumptions; the translator's counts are compared with it.

mod records;
mod thread;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::fair_wait::FairWait;
use super::merge::merge_adjacent;
use super::roster::Roster;
use super::start::start_traced;
use super::{CountError, Counted, CountingEngine};
use records::{RunCounts, Space};
use rprof_profile::evidence::bursts::BurstSink;
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::memory::AccessSink;
use rprof_tracee::jit_places;
use rprof_tracee::launch::Gated;
use rprof_tracee::proc_status::read_status;
use rprof_tracee::thread::{Mode, Stopped, TraceError};
use rprof_tracee::wait::{Event, Stop, wait_any, wait_for};
use thread::{Flow, Thread};

/// How long descendants are still counted after the program's end before they are released.
const GRACE: Duration = Duration::from_secs(1);

/// The single-step engine.
#[derive(Debug, Default)]
pub struct SingleStep {}

impl SingleStep {
    /// The engine has no settings.
    pub fn new() -> Self {
        Self::default()
    }
}

/// One run.
struct Run {
    threads: HashMap<Pid, Thread>,
    /// By process.
    spaces: HashMap<Pid, Space>,
    run_counts: RunCounts,
    roster: Roster,
    sink: Option<Box<dyn AccessSink>>,
    turns: FairWait,
}

impl CountingEngine for SingleStep {
    fn run(
        &mut self,
        child: Gated,
        sink: Option<Box<dyn AccessSink>>,
        bursts: Option<Box<dyn BurstSink>>,
    ) -> Result<Counted, CountError> {
        let first = start_traced(child)?;
        let mut run = Run {
            threads: HashMap::new(),
            spaces: HashMap::new(),
            run_counts: RunCounts::default(),
            roster: Roster::new(),
            sink,
            turns: FairWait::default(),
        };
        let status = run.follow(first)?;
        let bursts = bursts.map(BurstSink::finish);
        Ok(Counted { bursts, ..run.finish(status) })
    }
}

impl Run {
    /// Runs until the first process has ended, and its descendants have ended or were released.
    fn follow(&mut self, first: Pid) -> Result<i32, CountError> {
        let mut status = None;
        let mut deadline: Option<Instant> = None;
        loop {
            let event = match deadline {
                None => self.turns.look(self.threads.keys()).or_else(|| wait_any(true)),
                Some(deadline) if Instant::now() < deadline => match self.turns.look(self.threads.keys()) {
                    None if self.threads.is_empty() => break,
                    None => {
                        std::thread::sleep(Duration::from_micros(50));
                        continue;
                    }
                    some => some,
                },
                Some(_) => {
                    self.release_all();
                    break;
                }
            };
            match event {
                None => break,
                Some(Event::Ended(tid, ended, _)) => {
                    self.ended(tid);
                    if tid == first {
                        status = Some(ended);
                        deadline = Some(Instant::now() + GRACE);
                    }
                }
                Some(Event::Stopped(stopped, stop)) => match self.stopped(stopped, stop) {
                    Err(error) if !error.is_gone() => return Err(error.into()),
                    _ => {}
                },
            }
        }
        status.ok_or_else(|| CountError::Unsupported("its end was not seen".into()))
    }

    fn ended(&mut self, tid: Pid) {
        self.roster.leave(tid);
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        if let Some(space) = self.spaces.get_mut(&thread.process) {
            thread.complete_final(space);
        }
        if !self.threads.values().any(|t| t.process == thread.process)
            && let Some(space) = self.spaces.remove(&thread.process)
        {
            space.harvest(&mut self.run_counts.tally);
        }
    }

    fn stopped(&mut self, stopped: Stopped, stop: Stop) -> Result<(), TraceError> {
        let tid = stopped.tid();
        if !self.threads.contains_key(&tid) {
            self.enter(tid);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let Some(space) = self.spaces.get_mut(&thread.process) else { return Ok(()) };
        let signal = match stop {
            Stop::Signal(signal) => match thread.signal(&stopped, signal, space)? {
                Flow::Step => 0,
                Flow::Deliver => signal,
            },
            Stop::Group(signal) if signal != libc::SIGTRAP => {
                stopped.listen()?;
                return Ok(());
            }
            Stop::Exec => {
                thread.complete_final(space);
                let former = Pid::from_raw(stopped.event_message()? as i32);
                return self.on_exec(stopped, former);
            }
            Stop::Exit => {
                self.roster.look(tid);
                jit_places::look_a_last_time(thread.process.as_raw() as u32);
                stopped.resume(Mode::Continue, None)?;
                return Ok(());
            }
            Stop::Group(_) | Stop::NewTask | Stop::Syscall | Stop::Other => 0,
        };
        // A signal without a handler does not keep the step from executing an instruction. The kernel reports the entry to a
        // handler as such, and then rprof counts nothing.
        if !thread.in_call() {
            thread.prepare(&stopped, space, &mut self.run_counts, &mut self.sink)?;
        }
        stopped.resume_raw(Mode::Step, signal)?;
        Ok(())
    }

    /// Enters a new task: a thread of a known process, or a new process.
    fn enter(&mut self, tid: Pid) {
        let process = read_status(tid).map_or(tid, |s| Pid::from_raw(s.tgid));
        self.spaces.entry(process).or_insert_with(|| Space::new(process));
        let ordinal = self.roster.enter(process, tid);
        self.threads.insert(tid, Thread::new(process, ordinal));
    }

    /// The process has a new program; its other threads are gone.
    fn on_exec(&mut self, stopped: Stopped, former: Pid) -> Result<(), TraceError> {
        let tid = stopped.tid();
        if former != tid
            && let Some(mut thread) = self.threads.remove(&former)
        {
            if let Some(space) = self.spaces.get_mut(&tid) {
                thread.complete_final(space);
            }
            self.roster.leave(tid);
            self.roster.rename(former, tid);
            self.threads.insert(tid, thread);
        }
        if let Some(space) = self.spaces.insert(tid, Space::new(tid)) {
            space.harvest(&mut self.run_counts.tally);
        }
        stopped.resume(Mode::Step, None)?;
        Ok(())
    }

    /// Lets every remaining task run on natively.
    fn release_all(&mut self) {
        for (&tid, thread) in &self.threads {
            let _ = thread.running(tid).interrupt();
        }
        for (tid, _) in self.threads.drain() {
            if let Some(Event::Stopped(stopped, stop)) = wait_for(tid, true) {
                let signal = if let Stop::Signal(s) = stop { s } else { 0 };
                let _ = stopped.detach(if signal == libc::SIGTRAP { 0 } else { signal });
            }
        }
    }

    fn finish(mut self, status: i32) -> Counted {
        let mut evidence =
            CountedEvidence { source: "single-step".into(), wall_s: self.roster.now_s(), ..CountedEvidence::default() };
        for (_, space) in self.spaces.drain() {
            space.harvest(&mut self.run_counts.tally);
        }
        evidence.modules = self.run_counts.modules.finish();
        evidence.blocks = merge_adjacent(self.run_counts.tally.finish().0);
        (evidence.threads, evidence.cpu_s) = self.roster.finish();
        let memory = self.sink.map(|sink| sink.finish(&self.run_counts.sites));
        Counted { status, evidence, memory, bursts: None, ended_before: None, changed_files: false }
    }
}
