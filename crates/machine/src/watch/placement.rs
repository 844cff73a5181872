//! Measures the placement of the CPUs by two short hand-overs of a cache line.

use std::time::Duration;

use crate::harness::{Team, core_to_core};
use rprof_profile::evidence::timed::PlacementSeen;

/// If two threads do not meet within this time, the program keeps them apart, and there is no reading.
const TOGETHER: Duration = Duration::from_micros(300);

/// The placement of the CPUs of `team` now, if at least two threads of this host want to run.
pub(super) fn look(team: &Team, time_ns: u64) -> Option<PlacementSeen> {
    if team.size() < 2 || !others_run() {
        return None;
    }
    let core_to_core = core_to_core::measure(team, TOGETHER).ok().flatten()?;
    Some(PlacementSeen { time_ns, core_to_core })
}

/// Whether at least two threads besides the calling one run or could.
fn others_run() -> bool {
    std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| runnable(&text)).is_none_or(|n| n >= 3)
}

/// The threads that run or could: `0.20 0.18 0.12 1/80 11206`.
fn runnable(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_are_the_fourth_figure() {
        assert_eq!(runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable("0.20 0.18"), None);
    }
}
