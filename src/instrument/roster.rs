//! The threads of a counted run: creation order, names, times.

use std::collections::HashMap;
use std::time::Instant;

use nix::unistd::Pid;

use crate::profile::evidence::ThreadInfo;
use crate::target::affinity::allowed_cpus;
use crate::target::proc_status::{read_cpu_seconds, read_name};

/// All threads that the run had, in creation order.
#[derive(Debug)]
pub struct Roster {
    start: Instant,
    threads: Vec<ThreadInfo>,
    alive: HashMap<Pid, u32>,
}

impl Roster {
    /// Starts the clock.
    pub fn new() -> Self {
        Roster { start: Instant::now(), threads: Vec::new(), alive: HashMap::new() }
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

    /// Reads what `/proc` says of a thread that still exists: name, CPU time, affinity.
    pub fn look(&mut self, tid: Pid) {
        let now = self.now_s();
        let Some(thread) = self.alive.get(&tid).and_then(|&i| self.threads.get_mut(i as usize)) else { return };
        thread.end_s = now;
        thread.name = read_name(tid).or(thread.name.take());
        thread.cpu_s = read_cpu_seconds(tid).unwrap_or(thread.cpu_s);
        thread.allowed_cpus = allowed_cpus(tid).or(thread.allowed_cpus);
    }

    /// A thread ended.
    pub fn leave(&mut self, tid: Pid) {
        if let Some(ordinal) = self.alive.remove(&tid) {
            let now = self.now_s();
            self.threads[ordinal as usize].end_s = now;
        }
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
