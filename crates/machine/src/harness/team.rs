//! Measuring threads, each pinned to one CPU, that live as long as the measurement.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::MachineError;

type Job = Arc<dyn Fn(usize) + Send + Sync>;

/// The threads. Rank r is always the same thread on the same CPU, so that first touch and use coincide.
pub struct Team {
    cpus: Vec<usize>,
    workers: Vec<Worker>,
    finished: Receiver<usize>,
}

struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Team {
    /// One thread for each of `cpus`, pinned.
    ///
    /// # Errors
    /// [`MachineError::Thread`] if a thread cannot be started or pinned.
    pub fn new(cpus: &[usize]) -> Result<Self, MachineError> {
        let (done, finished) = channel();
        let (ready, pinned) = channel();
        let mut workers = Vec::new();
        for (rank, &cpu) in cpus.iter().enumerate() {
            let (jobs, inbox) = channel::<Job>();
            let (done, ready) = (done.clone(), ready.clone());
            let body = move || {
                if ready.send((cpu, pin(cpu))).is_err() {
                    return;
                }
                for job in inbox {
                    job(rank);
                    drop(job);
                    if done.send(rank).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("rprof-measure-{cpu}")).spawn(body);
            let thread = thread.map_err(|e| MachineError::Thread { cpu, reason: e.to_string() })?;
            workers.push(Worker { jobs: Some(jobs), thread: Some(thread) });
        }
        for _ in cpus {
            if let Ok((cpu, Err(error))) = pinned.recv() {
                return Err(MachineError::Thread { cpu, reason: format!("cannot be pinned: {error}") });
            }
        }
        Ok(Team { cpus: cpus.to_vec(), workers, finished })
    }

    /// How many threads there are.
    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Runs `job(rank)` on the first `threads` threads and waits for all of them.
    ///
    /// # Errors
    /// [`MachineError::Thread`] if a thread has died.
    pub fn run(&self, threads: usize, job: Job) -> Result<(), MachineError> {
        self.run_on(0..threads, job)
    }

    /// Runs `job(rank)` on the threads with these numbers, as far as they exist, and waits for all of them.
    ///
    /// # Errors
    /// [`MachineError::Thread`] if a thread has died.
    pub fn run_on(&self, ranks: Range<usize>, job: Job) -> Result<(), MachineError> {
        let ranks = ranks.start..ranks.end.min(self.workers.len());
        let dead = |rank: usize| MachineError::Thread { cpu: self.cpus[rank], reason: "has ended".into() };
        for rank in ranks.clone() {
            self.workers[rank].jobs.as_ref().ok_or_else(|| dead(rank))?.send(job.clone()).map_err(|_| dead(rank))?;
        }
        for rank in ranks {
            self.finished.recv().map_err(|_| dead(rank))?;
        }
        Ok(())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.jobs = None;
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A worker that panicked has nothing left to hand over.
                let _ = thread.join();
            }
        }
    }
}

fn pin(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_rank_runs_once() {
        let cpus = crate::host::limits::Limits::read().cpus;
        let team = Team::new(&cpus).expect("threads on the CPUs of this process");
        let sum = Arc::new(AtomicUsize::new(0));
        let shared = sum.clone();
        team.run(cpus.len(), Arc::new(move |rank| _ = shared.fetch_add(rank + 1, Ordering::SeqCst))).expect("runs");
        assert_eq!(sum.load(Ordering::SeqCst), cpus.len() * (cpus.len() + 1) / 2);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        assert!(matches!(Team::new(&[1000]), Err(MachineError::Thread { cpu: 1000, .. })));
    }
}
