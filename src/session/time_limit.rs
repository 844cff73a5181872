//! Ends a process that takes too long.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::unistd::Pid;

/// A limit that is being watched.
#[derive(Debug)]
pub struct TimeLimit {
    limit: Duration,
    done: Sender<()>,
    guard: JoinHandle<bool>,
}

impl TimeLimit {
    /// Has `process`, a child of ours, end after `limit`.
    pub fn start(process: Pid, limit: Duration) -> TimeLimit {
        let (done, is_done) = mpsc::channel();
        // Its number may be another process's by then; this descriptor is not.
        // SAFETY: plain numbers; the descriptor returned is ours.
        let process = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) as i32;
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
        };
        let guard = std::thread::spawn(move || {
            let is_late = is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if let (true, Some(process)) = (is_late, &process) {
                // SAFETY: no memory is passed.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, 0, 0) };
            }
            is_late
        });
        TimeLimit { limit, done, guard }
    }

    /// Ends the watch: the limit, if the process exceeded it.
    pub fn exceeded(self) -> Option<Duration> {
        drop(self.done);
        self.guard.join().unwrap_or(false).then_some(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_takes_too_long_is_ended() {
        let run = |seconds: &str, limit| {
            let mut child = Command::new("sleep").arg(seconds).spawn().unwrap();
            let limit = TimeLimit::start(Pid::from_raw(child.id() as i32), limit);
            (child.wait().unwrap().signal(), limit.exceeded().is_some())
        };
        assert_eq!(run("100", Duration::from_millis(50)), (Some(libc::SIGKILL), true));
        assert_eq!(run("0", Duration::from_secs(100)), (None, false));
    }
}
