//! Descendants that outlive the program's first process: waited for a moment, then left running natively.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use rprof_profile::run::Warning;
use rprof_tracee::proc_status::read_state;

/// How long descendants may take to end after the first process.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `living` finds no process or the grace is over; returns those that are left.
pub(super) fn wait_for(mut living: impl FnMut() -> Vec<u32>) -> Vec<u32> {
    let deadline = Instant::now() + GRACE;
    loop {
        let left = living();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The thread exists and is no zombie.
pub(super) fn is_alive(tid: u32) -> bool {
    read_state(Pid::from_raw(tid as i32)).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The warning about threads that are left.
pub(super) fn warning(left: &[u32]) -> Option<Warning> {
    if left.is_empty() {
        return None;
    }
    Some(Warning::new(
        "descendants-left-running",
        format!("{} of the program's threads, in processes that outlive it, were left running.", left.len()),
        "Their work after the program's end is not included.",
        "Profile a process that waits for its children if their time matters.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_alive() {
        assert!(is_alive(std::process::id()));
    }
}
