//! Descendants that outlive the program's first process: waited for a moment, then left running natively.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::profile::run::Warning;

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
    let status = std::fs::read_to_string(Path::new("/proc").join(tid.to_string()).join("stat"));
    status.is_ok_and(|s| !matches!(state(&s), Some('Z' | 'X')))
}

/// The state letter of a `/proc/…/stat` line, which follows the name in parentheses.
pub(super) fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
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
    fn names_with_parentheses_do_not_hide_the_state() {
        assert_eq!(state("12 (a) R (b)) S 1 2"), Some('S'));
        assert!(is_alive(std::process::id()));
        assert_eq!(state(""), None);
    }
}
