//! Folded stacks: `main;solve;triad 123456`, weights in microseconds of CPU time.

use rprof_profile::Profile;

use super::stacks;

/// One line per stack, ordered.
pub fn text(profile: &Profile) -> String {
    let lines =
        stacks::work(profile).into_iter().map(|(names, seconds)| (names.join(";"), (seconds * 1e6).round() as u64));
    lines.filter(|(_, n)| *n > 0).map(|(names, n)| format!("{names} {n}\n")).collect()
}
