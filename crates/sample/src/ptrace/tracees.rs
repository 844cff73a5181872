//! The threads being watched.

use std::collections::HashMap;

use nix::unistd::Pid;

use rprof_tracee::proc_status::read_status;
use rprof_tracee::thread::Running;

use crate::thread_files::{Activity, ThreadFiles};

use super::loan::Loan;

/// A thread being watched.
#[derive(Debug)]
pub(super) struct Tracee {
    /// Its process.
    pub pid: u32,
    /// It runs as far as ptrace is concerned; `None` while we cannot ask it to stop.
    pub running: Option<Running>,
    /// Whether it is lent, and its state on the way.
    pub loan: Loan,
    /// It was asked to stop for a sample.
    pub asked: Option<Asked>,
    /// When it was last seen blocked.
    pub blocked_ns: Option<u64>,
    files: ThreadFiles,
}

/// The facts known when a thread was asked to stop; times in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// When the tick was due.
    pub due_ns: u64,
    /// When it was asked.
    pub at_ns: u64,
    /// See [`ThreadFiles::queued_ns`].
    pub queued_ns: Option<u64>,
}

impl Asked {
    /// How long the thread waited for a CPU since then, now that `queued_ns` is on its account.
    pub fn waited_ns(&self, queued_ns: Option<u64>) -> u64 {
        match (self.queued_ns, queued_ns) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => 0,
        }
    }

    /// The thread was on a CPU when the tick was due. The kernel accounts a wait when it ends, so a wait that began before the
    /// tick is longer than the time since. A shorter one began when we woke up on the thread's CPU.
    pub fn was_on_cpu(&self, now_ns: u64, queued_ns: Option<u64>) -> bool {
        self.waited_ns(queued_ns) <= now_ns.saturating_sub(self.due_ns)
    }
}

/// Threads by tid.
#[derive(Debug, Default)]
pub(super) struct Tracees {
    threads: HashMap<u32, Tracee>,
}

/// The origin of a new thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// Its process.
    pub pid: u32,
    /// The process that made it: its own for a thread, the parent for a process.
    pub parent: u32,
}

impl Tracees {
    /// Enters a thread that its creator reports; `None` if it was known, or if it has ended already: of two threads' events the
    /// kernel may report the later one first.
    pub fn announced(&mut self, tid: u32) -> Option<Origin> {
        read_status(Pid::from_raw(tid as i32)).ok().and_then(|_| self.enter(tid))
    }

    /// Enters a thread; `None` if it was known.
    pub fn enter(&mut self, tid: u32) -> Option<Origin> {
        if self.threads.contains_key(&tid) {
            return None;
        }
        let status = read_status(Pid::from_raw(tid as i32)).unwrap_or_default();
        let pid = if status.tgid > 0 { status.tgid as u32 } else { tid };
        let parent = if pid == tid { status.ppid as u32 } else { pid };
        let files = ThreadFiles::open(pid, tid);
        let loan = Loan::None;
        self.threads.insert(tid, Tracee { pid, running: None, loan, asked: None, blocked_ns: None, files });
        Some(Origin { pid, parent })
    }

    /// A known thread.
    pub fn get(&mut self, tid: u32) -> Option<&mut Tracee> {
        self.threads.get_mut(&tid)
    }

    /// A thread is gone.
    pub fn remove(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Thread `tid` of `pid` executed a program: all others of its process are gone, and its files are new.
    pub fn execed(&mut self, tid: u32) -> Vec<u32> {
        let Some(pid) = self.threads.get(&tid).map(|t| t.pid) else { return Vec::new() };
        let others: Vec<u32> =
            self.threads.iter().filter(|(other, t)| t.pid == pid && **other != tid).map(|(other, _)| *other).collect();
        others.iter().for_each(|other| self.remove(*other));
        if let Some(tracee) = self.threads.get_mut(&tid) {
            tracee.files = ThreadFiles::open(pid, tid);
        }
        others
    }

    /// All threads.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Tracee)> {
        self.threads.iter_mut().map(|(tid, t)| (*tid, t))
    }

    /// Those of one process.
    pub fn of(&mut self, pid: u32) -> impl Iterator<Item = (u32, &mut Tracee)> {
        self.iter_mut().filter(move |(_, tracee)| tracee.pid == pid)
    }

    /// Whether we trace that thread.
    pub fn hold(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|tracee| !tracee.is_away())
    }

    /// Their ids.
    pub fn tids(&self) -> Vec<u32> {
        self.threads.keys().copied().collect()
    }
}

impl Tracee {
    /// Its activity.
    pub fn activity(&self) -> Activity {
        if self.running.is_some() { self.files.activity() } else { Activity::Other }
    }

    /// It is lent.
    pub fn is_away(&self) -> bool {
        matches!(self.loan, Loan::Away(_))
    }

    /// The `/proc` files about it.
    pub fn files(&self) -> &ThreadFiles {
        &self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_began_before_the_tick_is_told_from_one_that_we_caused() {
        let asked = Asked { due_ns: 1000, at_ns: 1010, queued_ns: Some(500) };
        assert!(asked.was_on_cpu(1100, Some(500)), "it did not wait");
        assert!(asked.was_on_cpu(1100, Some(580)), "it waited 80 ns of the 100 since the tick");
        assert!(!asked.was_on_cpu(1100, Some(700)), "it waited since 900");
        assert!(asked.was_on_cpu(1100, None), "unknown");
    }
}
