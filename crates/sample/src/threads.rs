//! The threads of the run in the order of their creation, with names, lives and CPU time.

use std::collections::{HashMap, HashSet};

use nix::unistd::Pid;

use rprof_profile::evidence::ThreadInfo;
use rprof_profile::evidence::timed::OnCpu;
use rprof_tracee::affinity::allowed_cpus;

use super::on_cpu::OnCpuLog;

/// Threads by creation; a tid that the kernel used twice is two threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    infos: Vec<ThreadInfo>,
    on_cpu_since: Vec<Option<f64>>,
    alive: HashMap<u32, u32>,
    /// Living worker threads of the kernel, which work for the process that they are part of (io_uring): no threads of the program.
    kernel_workers: HashSet<u32>,
    log: OnCpuLog,
    /// They ran before: their numbers may be those of other threads now.
    are_past: bool,
}

/// The result of [`Threads::finish`].
pub(super) struct Finished {
    /// Threads.
    pub infos: Vec<ThreadInfo>,
    /// Intervals on a CPU, by start.
    pub on_cpu: Vec<OnCpu>,
    /// See [`OnCpuLog::closed_gap`].
    pub closed_gap: Option<f64>,
}

impl Threads {
    /// Threads that ran before, about which the kernel knows nothing.
    pub fn of_the_past() -> Threads {
        Threads { are_past: true, ..Threads::default() }
    }

    /// The index of a live thread; enters the thread if it is new.
    pub fn index(&mut self, pid: u32, tid: u32, now_s: f64) -> u32 {
        if let Some(&index) = self.alive.get(&tid) {
            return index;
        }
        self.start(pid, tid, now_s)
    }

    /// A thread was created. Its name is its creator's until it gets one. Work of a kernel worker is done for the first
    /// thread of its process.
    pub fn start(&mut self, pid: u32, tid: u32, now_s: f64) -> u32 {
        if let Some(&first) = self.alive.get(&pid)
            && pid != tid
            && !self.are_past
            && is_kernel_worker(tid)
        {
            self.kernel_workers.insert(tid);
            self.alive.insert(tid, first);
            return first;
        }
        self.enter(pid, tid, now_s)
    }

    fn enter(&mut self, pid: u32, tid: u32, now_s: f64) -> u32 {
        let ordinal = self.infos.len() as u32;
        let allowed_cpus = if self.are_past { None } else { allowed_cpus(Pid::from_raw(tid as i32)) };
        let name = None;
        self.infos.push(ThreadInfo { ordinal, pid, tid, name, start_s: now_s, end_s: now_s, cpu_s: 0.0, allowed_cpus });
        self.on_cpu_since.push(None);
        self.alive.insert(tid, ordinal);
        ordinal
    }

    /// Sets a thread's name.
    pub fn name(&mut self, index: u32, name: String) {
        self.infos[index as usize].name = Some(name);
    }

    /// A thread ended; returns its index if it was known.
    pub fn end(&mut self, tid: u32, now_s: f64) -> Option<u32> {
        let index = self.alive.remove(&tid)?;
        if self.kernel_workers.remove(&tid) {
            return None;
        }
        self.leave_cpu(index, now_s, false);
        self.infos[index as usize].end_s = now_s;
        Some(index)
    }

    /// Whether `tid` is a worker thread of the kernel.
    pub fn is_kernel_worker(&self, tid: u32) -> bool {
        self.kernel_workers.contains(&tid)
    }

    /// A thread was put on a CPU, or was seen there.
    pub fn enter_cpu(&mut self, index: u32, now_s: f64) {
        self.on_cpu_since[index as usize].get_or_insert(now_s);
    }

    /// A thread left its CPU; `preempted`: for another one, although it could have run on.
    pub fn leave_cpu(&mut self, index: u32, now_s: f64, preempted: bool) {
        let i = index as usize;
        if let Some(start_s) = self.on_cpu_since[i].take() {
            self.infos[i].cpu_s += now_s - start_s;
            self.log.push(OnCpu { thread: index, start_s, end_s: now_s, preempted });
        }
    }

    /// Sets the CPU time of a thread, for a source without context-switch records.
    pub fn set_cpu(&mut self, index: u32, cpu_s: f64) {
        self.infos[index as usize].cpu_s = cpu_s;
    }

    /// (tid, index) of the threads that live.
    pub fn alive(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let own = self.alive.iter().filter(|(tid, _)| !self.kernel_workers.contains(tid));
        own.map(|(tid, index)| (*tid, *index))
    }

    /// The threads so far.
    pub fn infos(&self) -> &[ThreadInfo] {
        &self.infos
    }

    /// Asks the kernel for each living thread's affinity again: run-time libraries bind threads after they made them.
    pub fn refresh_affinity(&mut self) {
        for (tid, index) in self.alive.iter().filter(|(tid, _)| !self.kernel_workers.contains(tid)) {
            if let Some(allowed) = allowed_cpus(Pid::from_raw(*tid as i32)) {
                self.infos[*index as usize].allowed_cpus = Some(allowed);
            }
        }
    }

    /// Ends all threads that still live at `now_s`.
    pub fn finish(mut self, now_s: f64) -> Finished {
        let tids: Vec<u32> = self.alive.keys().copied().collect();
        for tid in tids {
            self.end(tid, now_s);
        }
        let closed_gap = self.log.closed_gap();
        Finished { infos: self.infos, on_cpu: self.log.into_intervals(), closed_gap }
    }
}

/// Whether the living thread `tid` executes nothing but kernel code for its process: a worker of io_uring, or of another part of
/// the kernel that makes such threads (vhost).
fn is_kernel_worker(tid: u32) -> bool {
    /// `PF_IO_WORKER`, and `PF_USER_WORKER` (Linux 6.4).
    const WORKER: u64 = 0x10 | 0x4000;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{tid}/stat")) else { return false };
    // The name, in parentheses, may hold anything; the flags are the seventh field behind it.
    let behind = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    behind.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|f| f & WORKER != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_of_the_kernel_is_no_thread() {
        assert!(!is_kernel_worker(std::process::id()), "this is a program");
        let mut threads = Threads::default();
        threads.start(10, 10, 0.0);
        threads.kernel_workers.insert(11);
        threads.alive.insert(11, 0);
        assert!(threads.is_kernel_worker(11) && !threads.is_kernel_worker(10));
        assert_eq!((threads.index(10, 11, 0.5), threads.alive().count()), (0, 1));
        assert_eq!((threads.end(11, 1.0), threads.end(10, 2.0)), (None, Some(0)));
        assert_eq!(threads.finish(2.0).infos.len(), 1);
    }

    #[test]
    fn cpu_time_is_the_sum_of_intervals_and_a_reused_tid_is_another_thread() {
        let mut threads = Threads::default();
        let first = threads.start(1, 10, 0.0);
        threads.enter_cpu(first, 0.5);
        threads.enter_cpu(first, 0.6);
        threads.leave_cpu(first, 1.0, true);
        threads.leave_cpu(first, 1.5, false);
        threads.enter_cpu(first, 2.0);
        threads.end(10, 2.25);
        let second = threads.index(1, 10, 3.0);
        assert_ne!(first, second);
        let done = threads.finish(4.0);
        assert_eq!(done.infos[0].cpu_s, 0.75);
        assert_eq!((done.infos[0].end_s, done.infos[1].end_s), (2.25, 4.0));
        assert_eq!(done.on_cpu.iter().map(|i| i.preempted).collect::<Vec<_>>(), [true, false]);
    }
}
