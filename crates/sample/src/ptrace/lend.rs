//! Lends processes to a visit, which traces them itself, and takes them back.
//!
//! A thread leaves in a stop: what it stopped for, signals and job control included, reaches it as if it had not been
//! traced. One that a stop would harm (its system call would end) or that does not stop in time stays, and so do threads
//! that end.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::recorder::Observation;
use crate::survivors::is_alive;
use crate::thread_files::Activity;
use crate::unwind::StackTop;
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::proc_status::{
    children_of, is_traced_by_us, read_auxiliary_vector, read_blocking_call, read_cpu_seconds, threads_of,
};
use rprof_tracee::restarts::is_ended_by_stops;
use rprof_tracee::thread::{Running, Stopped};

use super::loan::{Left, Loan};
use super::observer::Observer;
use super::wait::{Waited, wait};

/// How long threads may take to stop.
const PATIENCE: Duration = Duration::from_millis(20);

impl Observer {
    /// Lets the threads of `pids` go; returns how long that stopped the program.
    pub fn lend(&mut self, pids: &[Pid]) -> Duration {
        for pid in pids {
            self.loans.owed.remove(&(pid.as_raw() as u32));
            self.loans.programs.insert(pid.as_raw() as u32, read_auxiliary_vector(*pid));
        }
        self.loans.left = None;
        let since = Instant::now();
        // Threads that have stopped by now, for a sample or for what else.
        while let Waited::Event(event, reaped) = wait(false) {
            self.handle(event, reaped);
        }
        let mut leaving = Vec::new();
        for (tid, tracee) in self.tracees.iter_mut() {
            let is_lent = self.loans.programs.contains_key(&tracee.pid);
            let is_stoppable = || !read_blocking_call(Pid::from_raw(tid as i32)).is_some_and(is_ended_by_stops);
            if is_lent && tracee.activity() != Activity::Other && is_stoppable() {
                leaving.push(tid);
            }
        }
        let asked = Instant::now();
        for tid in leaving {
            if let Some(tracee) = self.tracees.get(tid)
                && tracee.running.as_ref().is_some_and(|running| running.interrupt().is_ok())
            {
                tracee.loan = Loan::Asked;
            }
        }
        self.loans.is_lending = true;
        while self.tracees.iter_mut().any(|(_, tracee)| tracee.loan == Loan::Asked) && asked.elapsed() < PATIENCE {
            match self.wait() {
                Waited::Event(event, reaped) => self.handle(event, reaped),
                Waited::Nothing => {}
                Waited::Nobody => break,
            }
        }
        self.loans.is_lending = false;
        self.loans.left.map_or(Duration::ZERO, |left| left - since)
    }

    /// Whether a thread that has stopped is to be let go: also one that stops late, or began meanwhile.
    pub(super) fn is_to_go(&mut self, tid: u32) -> bool {
        let Some(tracee) = self.tracees.get(tid) else { return false };
        self.loans.programs.contains_key(&tracee.pid)
    }

    /// Ceases to trace a stopped thread; the signal (0: none) is delivered first.
    pub(super) fn let_go(&mut self, thread: Stopped, signal: i32) {
        let tid = thread.tid();
        // If it is gone, nothing is left to do.
        let _ = thread.detach(signal);
        self.loans.left = Some(Instant::now());
        // It may end before it is traced again.
        let cpu_s = self.note_cpu(tid.as_raw() as u32);
        if let Some(tracee) = self.tracees.get(tid.as_raw() as u32) {
            tracee.running = None;
            tracee.blocked_ns = None;
            tracee.loan = Loan::Away(Left { at_ns: monotonic_ns(), cpu_s });
        }
    }

    /// Traces all threads of the processes again that were lent, and what they made meanwhile.
    pub fn take_back(&mut self) {
        let lent = std::mem::take(&mut self.loans.programs);
        while let Waited::Event(event, reaped) = wait(false) {
            self.handle(event, reaped);
        }
        self.loans.owed.extend(lent);
        self.take_owed();
    }

    /// Traces what could not be taken back before.
    pub fn take_owed(&mut self) {
        for (pid, program) in std::mem::take(&mut self.loans.owed) {
            self.take(pid, program);
        }
    }

    /// Traces all threads of a process that executed `program` when it was seen last, and its new children.
    fn take(&mut self, pid: u32, program: Vec<u8>) {
        let process = Pid::from_raw(pid as i32);
        let mut living = threads_of(process);
        let ids: HashSet<u32> = living.iter().map(|tid| tid.as_raw() as u32).collect();
        let gone: Vec<u32> =
            self.tracees.of(pid).filter(|(tid, t)| t.is_away() && !ids.contains(tid)).map(|t| t.0).collect();
        gone.into_iter().for_each(|tid| self.gone(tid));
        // The first thread shows whether the others are those of another program.
        living.sort_unstable_by_key(|tid| *tid != process);
        let mut is_owed = false;
        for tid in living {
            // Another thread of the process may have this id since: one that called execve takes over the leader's.
            if !(self.tracees.hold(tid.as_raw() as u32) && is_traced_by_us(tid)) {
                match Running::observe(tid) {
                    Ok(running) => self.taken(running, tid),
                    // A process that ends for it may wait for us.
                    Err(error) if error.is_interrupted() => {
                        self.loans.owed.insert(pid, program);
                        return;
                    }
                    Err(_) if is_traced_by_us(tid) => is_owed = true,
                    // It has ended, or another process traces it.
                    Err(_) if self.tracees.get(tid.as_raw() as u32).is_none() || is_alive(tid.as_raw() as u32) => {}
                    Err(_) => self.gone(tid.as_raw() as u32),
                }
            }
            if tid == process
                && self.tracees.hold(pid)
                && !program.is_empty()
                && program != read_auxiliary_vector(process)
            {
                self.executed(pid);
            }
        }
        for child in children_of(process) {
            let id = child.as_raw() as u32;
            if self.tracees.get(id).is_none() {
                self.take(id, program.clone());
            }
        }
        if is_owed {
            self.loans.owed.insert(pid, read_auxiliary_vector(process));
        }
    }

    /// Takes in a thread that we trace again, or for the first time.
    fn taken(&mut self, running: Running, tid: Pid) {
        let id = tid.as_raw() as u32;
        let origin = self.tracees.enter(id);
        self.created(id, origin);
        self.unask(id);
        let Some(tracee) = self.tracees.get(id) else { return };
        tracee.running = Some(running);
        let loan = std::mem::replace(&mut tracee.loan, Loan::None);
        let pid = tracee.pid;
        if let Loan::Away(Left { at_ns, cpu_s: Some(before_s) }) = loan
            && let Some(cpu_s) = read_cpu_seconds(tid)
            && cpu_s > before_s
        {
            // The time that it used meanwhile is that of no place.
            self.recorder.sample(Observation {
                time_ns: at_ns.midpoint(monotonic_ns()),
                pid,
                tid: id,
                period: cpu_s - before_s,
                kernel: true,
                off_cpu: false,
                blocked: None,
                cpu: None,
                ip: None,
                registers: None,
                stack: StackTop::default(),
                chain: &[],
            });
        }
    }
}
