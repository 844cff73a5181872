//! The threads of a counted run: creation order, names, times.

use std::collections::HashMap;
use std::time::Instant;

use nix::unistd::Pid;

use rprof_profile::evidence::ThreadInfo;
use rprof_profile::run::Warning;
use rprof_tracee::affinity::allowed_cpus;
use rprof_tracee::proc_status::{read_cpu_seconds, read_name};

/// Number of ended threads that are counted separately: with separate counts for all threads that come and go, memory would grow
/// with time.
const APART: u32 = 1024;

/// All threads that the run had, in creation order.
#[derive(Debug)]
pub struct Roster {
    start: Instant,
    threads: Vec<ThreadInfo>,
    alive: HashMap<Pid, u32>,
    /// Numbers of ended threads with separate counts, and with merged ones.
    apart: u32,
    together: u32,
    /// The first of the merged threads, to which the counts of all of them are added.
    shared: Option<u32>,
    /// CPU seconds of all that have ended.
    ended_cpu_s: f64,
}

impl Roster {
    /// Starts the clock.
    pub fn new() -> Self {
        Roster {
            start: Instant::now(),
            threads: Vec::new(),
            alive: HashMap::new(),
            apart: 0,
            together: 0,
            shared: None,
            ended_cpu_s: 0.0,
        }
    }

    /// Seconds since the start of the run.
    pub fn now_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Enters a new thread `tid` of process `pid`; returns its ordinal.
    pub fn enter(&mut self, pid: Pid, tid: Pid) -> u32 {
        let ordinal = self.threads.len() as u32;
        self.threads.push(ThreadInfo {
            ordinal,
            pid: pid.as_raw() as u32,
            tid: tid.as_raw() as u32,
            name: None,
            start_s: self.now_s(),
            end_s: self.now_s(),
            cpu_s: 0.0,
            allowed_cpus: None,
        });
        self.alive.insert(tid, ordinal);
        ordinal
    }

    /// A thread that was entered before is followed again.
    pub fn enter_again(&mut self, tid: Pid, ordinal: u32) {
        self.alive.insert(tid, ordinal);
    }

    /// Reads the name, CPU time and affinity of a thread that still exists from `/proc`.
    pub fn look(&mut self, tid: Pid) {
        let now = self.now_s();
        let Some(thread) = self.alive.get(&tid).and_then(|&i| self.threads.get_mut(i as usize)) else { return };
        thread.end_s = now;
        thread.name = read_name(tid).or(thread.name.take());
        thread.cpu_s = read_cpu_seconds(tid).unwrap_or(thread.cpu_s);
        thread.allowed_cpus = allowed_cpus(tid).or(thread.allowed_cpus);
    }

    /// CPU seconds of a thread at the last look.
    pub fn cpu_s(&self, ordinal: u32) -> f64 {
        self.threads.get(ordinal as usize).map_or(0.0, |thread| thread.cpu_s)
    }

    /// A thread ended.
    pub fn leave(&mut self, tid: Pid) {
        if let Some(ordinal) = self.alive.remove(&tid) {
            let now = self.now_s();
            self.threads[ordinal as usize].end_s = now;
        }
    }

    /// The ordinal under which to keep the counts of the thread `ordinal`, which ends: its own, or a shared one. After the first
    /// thousand, a thread keeps its own if it used a thousandth of the CPU time of all that ended so far.
    pub fn charge(&mut self, ordinal: u32) -> u32 {
        let cpu_s = self.cpu_s(ordinal);
        self.ended_cpu_s += cpu_s;
        if self.apart < APART || (cpu_s > 0.0 && cpu_s * f64::from(APART) >= self.ended_cpu_s) {
            self.apart += 1;
            return ordinal;
        }
        self.together += 1;
        *self.shared.get_or_insert(ordinal)
    }

    /// The warning about threads with merged counts.
    pub fn doubt(&self) -> Option<Warning> {
        (self.together > 0).then(|| {
            Warning::new(
                "threads-together",
                format!(
                    "{} threads and processes ended while they were counted; the counts of {} with little CPU time are \
                     merged",
                    self.apart + self.together,
                    self.together
                ),
                "sums are exact; teams and load balance of the functions that these executed count them as one thread",
                "profile a part of the run, if that matters",
            )
        })
    }

    /// A thread has executed a program and has its process's id now.
    pub fn rename(&mut self, former: Pid, tid: Pid) {
        if let Some(ordinal) = self.alive.remove(&former) {
            self.threads[ordinal as usize].tid = tid.as_raw() as u32;
            self.alive.insert(tid, ordinal);
        }
    }

    /// Ends the run: (all threads, their CPU seconds together).
    pub fn finish(self) -> (Vec<ThreadInfo>, f64) {
        let cpu_s = self.threads.iter().map(|t| t.cpu_s).sum();
        (self.threads, cpu_s)
    }
}

impl Default for Roster {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_end_those_that_did_little_share_a_place() {
        let mut roster = Roster::new();
        let mut ended = |cpu_s| {
            let ordinal = roster.enter(Pid::from_raw(1), Pid::from_raw(2));
            roster.threads[ordinal as usize].cpu_s = cpu_s;
            let charged = roster.charge(ordinal);
            (ordinal, charged, roster.doubt().is_some())
        };
        for _ in 0..APART {
            let (ordinal, charged, told) = ended(0.01);
            assert!(charged == ordinal && !told);
        }
        let (first, charged, told) = ended(0.001);
        assert!(charged == first && told, "the place that is shared is that of the first");
        assert_eq!(ended(0.001).1, first);
        let (worker, charged, _) = ended(5.0);
        assert_eq!(charged, worker, "one that did much, however late");
        assert_eq!(ended(0.0).1, first);
    }
}
