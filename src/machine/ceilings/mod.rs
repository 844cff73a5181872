//! Which ceilings are measured, in the order of their importance: what does not fit the time comes last.

mod access;
mod arrays;
mod balance;
mod bandwidth;
mod costs;
mod irregular;
mod ladder;
mod latency;
mod mix;
mod pipes;
mod special;

use super::error::MachineError;
use super::lab::Lab;
use super::progress::Progress;

type Group = (&'static str, fn(&mut Lab) -> Result<(), MachineError>);

/// The groups. Later ones may look up what earlier ones recorded.
const GROUPS: [Group; 12] = [
    ("arithmetic by operation and width", pipes::throughput),
    ("pairs of operations", pipes::co_issue),
    ("ladder of in-core ceilings", ladder::measure),
    ("latencies of arithmetic", latency::measure),
    ("accesses to L1", access::measure),
    ("instruction mixes", mix::measure),
    ("bandwidth of each level", bandwidth::levels),
    ("memory latencies", irregular::latencies),
    ("restarted chains", latency::restarted),
    ("irregular memory accesses", irregular::measure),
    ("page faults and mispredicted branches", costs::measure),
    ("integer and low-precision arithmetic", special::measure),
];

/// Measures all groups.
///
/// # Errors
/// Whatever stops a measurement: a refused mapping, a thread that died. What is merely absent on this host is
/// recorded as null with a reason.
pub fn measure_all(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), MachineError> {
    for (done, (name, measure)) in GROUPS.iter().enumerate() {
        progress.group(name, done, GROUPS.len());
        measure(lab)?;
    }
    balance::derive(lab);
    Ok(())
}

/// Re-measures the groups of the core (`memory` = false) or of the memory system.
///
/// # Errors
/// As [`measure_all`].
pub fn measure_part(lab: &mut Lab, memory: bool, progress: &mut dyn Progress) -> Result<(), MachineError> {
    let of_memory = |name: &str| name.contains("bandwidth") || name.contains("memory");
    let part: Vec<&Group> = GROUPS.iter().filter(|(name, _)| of_memory(name) == memory).collect();
    for (done, (name, measure)) in part.iter().enumerate() {
        progress.group(name, done, part.len());
        measure(lab)?;
    }
    Ok(())
}
