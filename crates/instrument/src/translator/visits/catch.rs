//! Stops all threads of a process that runs natively.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::{Ended, Visitor};
use rprof_tracee::proc_status::{
    Status, is_traced_by_us, read_blocking_call, read_name, read_state, read_status, threads_of,
};
use rprof_tracee::restarts::{is_ended_by_stops, is_interrupted};
use rprof_tracee::thread::{Mode, Running, Stopped, TraceError};
use rprof_tracee::wait::{Event, Stop, wait_for};

/// How long a thread may take to stop: one that waits for a device or for its child of `vfork` cannot.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// Of a process with more threads a window takes this number, first those that are ready to run: to stop all of them would take longer
/// than the window.
const MOST_THREADS: usize = 128;
/// Interval between looks.
const LOOK: Duration = Duration::from_micros(20);

/// Whether no thread of `pid` is left: nothing of it goes uncounted.
pub(super) fn has_ended(pid: Pid) -> bool {
    match read_state(pid) {
        Some('Z' | 'X') => threads_of(pid).iter().all(|tid| *tid == pid),
        state => state.is_none(),
    }
}

/// Why `pid` cannot be traced.
fn refusal(pid: Pid, error: &TraceError) -> String {
    if error.is_interrupted() {
        return "one of its threads was executing another program".into();
    }
    if read_state(pid) == Some('Z') {
        return "its first thread has ended, and the kernel shows no memory of such a process".into();
    }
    let tracer = read_status(pid).map_or(0, |status| status.tracer);
    if tracer != 0 && !is_traced_by_us(pid) {
        let name = read_name(Pid::from_raw(tracer)).unwrap_or_default();
        return format!("process {tracer} ({name}) traces it, and a process can have only one tracer");
    }
    error.to_string()
}

impl Visitor {
    /// Stops the threads of `pid`, also those made meanwhile. Some are not taken and run on: a thread in a system call that a signal is
    /// about to end, or a stop would, one that does not stop in time, and one that the sampler could not let go.
    ///
    /// # Errors
    /// Why the process cannot be visited, as a clause; then none of its threads is stopped.
    pub(super) fn catch(&mut self, pid: Pid) -> Result<Vec<Stopped>, String> {
        self.alarm.go_on();
        let caught = self.catch_all(pid);
        self.alarm.rest();
        caught
    }

    fn catch_all(&mut self, pid: Pid) -> Result<Vec<Stopped>, String> {
        let mut seen: HashSet<Pid> = HashSet::new();
        let mut caught: Vec<Stopped> = Vec::new();
        loop {
            let mut new: Vec<Pid> = threads_of(pid).into_iter().filter(|tid| seen.insert(*tid)).collect();
            self.keep_some(&mut new, caught.len());
            if new.is_empty() {
                break;
            }
            let mut asked = Vec::new();
            for tid in new.into_iter().filter(|tid| !read_blocking_call(*tid).is_some_and(is_ended_by_stops)) {
                match Running::visit(tid).and_then(|running| running.interrupt()) {
                    Ok(()) => asked.push(tid),
                    Err(error) if error.is_gone() || self.late.contains(&tid) || is_traced_by_us(tid) => {}
                    Err(error) => {
                        caught.extend(asked.into_iter().filter_map(|tid| self.await_stop(pid, tid).ok().flatten()));
                        caught.into_iter().for_each(release);
                        return Err(refusal(pid, &error));
                    }
                }
            }
            for tid in asked {
                match self.await_stop(pid, tid) {
                    Ok(stopped) => caught.extend(stopped),
                    Err(why) => {
                        // The others were asked to stop, too.
                        self.late.extend(seen.iter().filter(|t| caught.iter().all(|c| c.tid() != **t)));
                        caught.into_iter().for_each(release);
                        return Err(why);
                    }
                }
            }
        }
        if caught.is_empty() {
            return Err("none of its threads could be stopped".into());
        }
        if threads_of(pid).iter().any(|tid| caught.iter().all(|c| c.tid() != *tid)) {
            self.partly.insert(pid);
            if self.must_have_all(pid) {
                caught.into_iter().for_each(release);
                return Err("it executes `int3`, and one of its threads could not be stopped".into());
            }
        }
        Ok(caught)
    }

    /// Leaves as many of `threads` as a window takes beside the `taken`, those first that are ready to run; others at each window.
    fn keep_some(&mut self, threads: &mut Vec<Pid>, taken: usize) {
        let most = MOST_THREADS.saturating_sub(taken);
        if threads.len() <= most {
            return;
        }
        let from = self.windows.len() * MOST_THREADS % threads.len();
        threads.rotate_left(from);
        threads.sort_by_key(|tid| read_state(*tid) != Some('R'));
        threads.truncate(most);
    }

    /// Waits until a thread of `pid` that was asked to has stopped. `None`: it runs on, or is gone.
    fn await_stop(&mut self, pid: Pid, tid: Pid) -> Result<Option<Stopped>, String> {
        let since = Instant::now();
        loop {
            match wait_for(tid, false) {
                None if since.elapsed() > PATIENCE => {
                    // It may have been resumed for a signal that went to another thread.
                    let _ = Running::resumed(tid).interrupt();
                    self.late.insert(tid);
                    return Ok(None);
                }
                None => std::thread::sleep(LOOK),
                Some(Event::Stopped(stopped, Stop::Group(libc::SIGTRAP))) => {
                    let status = read_status(tid);
                    if status.as_ref().is_ok_and(Status::has_fault_pending) {
                        // It is reported next, or the thread's end if it is gone.
                        let _ = stopped.resume(Mode::Continue, None);
                        continue;
                    }
                    let in_call = stopped.registers().is_ok_and(|r| is_interrupted(&r));
                    if in_call && status.is_ok_and(|s| s.is_about_to_be_signalled()) {
                        release(stopped);
                        return Ok(None);
                    }
                    return Ok(Some(stopped));
                }
                Some(Event::Stopped(stopped, Stop::Group(_))) => {
                    release(stopped);
                    return Err("job control has stopped it".into());
                }
                Some(Event::Stopped(stopped, Stop::Signal(signal))) => {
                    if signal == libc::SIGTRAP {
                        self.run.program.note_trap(pid);
                    }
                    // It stops at the start of its handler. If it is gone, its end comes next.
                    let _ = Running::resumed(tid).interrupt();
                    let _ = stopped.resume_raw(Mode::Continue, signal);
                }
                Some(Event::Stopped(stopped, _)) => {
                    release(stopped);
                    return Ok(None);
                }
                Some(event @ Event::Ended(..)) => {
                    self.run.program.backlog.push_back(event);
                    return Ok(None);
                }
            }
        }
    }

    /// Lets go of threads that stopped too late to be taken; returns those that have ended instead: no other part of rprof will see
    /// their end. Call it every few milliseconds while [`is_owed`](Self::is_owed).
    pub fn settle(&mut self) -> Vec<Ended> {
        let late: Vec<Pid> = self.late.iter().copied().collect();
        for tid in late {
            match wait_for(tid, false) {
                None if Errno::last() != Errno::ECHILD && read_status(tid).is_ok_and(|s| s.tracer != 0) => continue,
                Some(Event::Stopped(stopped, Stop::Signal(signal))) => drop(stopped.detach(signal)),
                Some(Event::Stopped(stopped, _)) => release(stopped),
                Some(Event::Ended(tid, status, cpu_s)) => self.ended(tid, status, cpu_s),
                None => {}
            }
            self.late.remove(&tid);
        }
        std::mem::take(&mut self.ends)
    }

    /// Whether threads that were asked to stop have not stopped yet.
    pub fn is_owed(&self) -> bool {
        !self.late.is_empty()
    }
}

/// Lets a thread run on untraced.
pub(super) fn release(stopped: Stopped) {
    // If it is gone, nothing is left to do.
    let _ = stopped.detach(0);
}
