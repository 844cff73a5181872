//! Which ceilings are measured, in the order of their importance: what does not fit the time comes last.
//! What is left out is null with that reason, and measured by a later run.

mod access;
mod arrays;
mod balance;
pub mod bandwidth;
pub mod core;
mod costs;
mod irregular;
pub mod lab;
mod ladder;
mod latency;
mod mix;
mod pipes;
mod plateau;
mod reach;
mod special;
mod subset;

use super::error::MachineError;
use super::progress::Progress;
use lab::{Effort, Lab};

/// Some ceilings that are measured together.
struct Group {
    name: &'static str,
    measure: fn(&mut Lab) -> Result<(), MachineError>,
    /// When.
    when: When,
}

/// When a group is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// In each round, first of all. Without it the model is blind: the first round measures it even where that takes longer than it should.
    First,
    /// In each round. A hypervisor may take seconds to give this host the memory for it.
    Essential,
    /// In each round.
    Each,
    /// Behind the first round: curves, and what has rounds of its own.
    Once,
}

const fn group(name: &'static str, when: When, measure: fn(&mut Lab) -> Result<(), MachineError>) -> Group {
    Group { name, measure, when }
}

/// The groups. Later ones may look up what earlier ones recorded.
const GROUPS: [Group; 18] = [
    group("arithmetic by operation and width", When::First, pipes::throughput),
    group("ladder of in-core ceilings", When::First, ladder::measure),
    group("instruction mixes", When::First, mix::measure),
    group("accesses to L1", When::First, access::measure),
    group("latencies of arithmetic", When::First, latency::measure),
    group("pairs of operations", When::First, pipes::co_issue),
    group("integer and low-precision arithmetic", When::First, special::measure),
    group("restarted chains", When::First, latency::restarted),
    group("bandwidth of each level", When::Essential, bandwidth::levels),
    group("latencies of each level", When::Essential, irregular::latencies),
    group("irregular memory accesses", When::Essential, irregular::measure),
    group("page faults and mispredicted branches", When::Each, costs::measure),
    group("streams on small pages", When::Each, bandwidth::on_small_pages),
    group("parameters of the core", When::Once, core::measure),
    group("working sets", When::Once, bandwidth::sweeps),
    group("chains side by side", When::Once, latency::saturation),
    group("reach of the TLB", When::Once, reach::measure),
    group("hardware threads of one core, slow cores", When::Once, subset::measure),
];

/// Rounds at most: more tell nothing new.
const MOST_ROUNDS: usize = 12;

/// Measures all groups, in as many rounds as there is time for.
///
/// # Errors
/// Whatever stops a measurement: a refused mapping, a thread that died. What is merely absent on this host is
/// recorded as null with a reason.
pub fn measure_all(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), MachineError> {
    // A quick measurement has no time for a second round of everything.
    if lab.effort == Effort::Quick {
        in_round(lab, progress, 0, &|when| when == When::First)?;
    }
    let first = usize::from(lab.effort == Effort::Quick);
    in_round(lab, progress, first, &|_| true)?;
    plateau::doubts_of(lab).into_iter().for_each(|w| progress.warn(w));
    repeat(lab, progress, first + 1)
}

/// Measures only what the lab wants, in as many rounds as there is time for.
///
/// # Errors
/// As [`measure_all`].
pub fn measure_again(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), MachineError> {
    repeat(lab, progress, 0)
}

/// The rounds from number `first` on, and what follows from all of them.
fn repeat(lab: &mut Lab, progress: &mut dyn Progress, first: usize) -> Result<(), MachineError> {
    for round in first..MOST_ROUNDS {
        if !lab.has_time_for_a_round() {
            break;
        }
        in_round(lab, progress, round, &|when| round == 0 || when != When::Once)?;
    }
    balance::derive(lab);
    mix::fractions(lab);
    lab.conclude();
    lab.take_doubts().into_iter().for_each(|w| progress.warn(w));
    Ok(())
}

/// One round over the groups that are due.
fn in_round(
    lab: &mut Lab,
    progress: &mut dyn Progress,
    round: usize,
    is_due: &dyn Fn(When) -> bool,
) -> Result<(), MachineError> {
    lab.begin_round(round);
    for (done, group) in GROUPS.iter().enumerate().filter(|(_, group)| is_due(group.when)) {
        // Only a measurement of everything is announced.
        let done = if lab.measures_all() { done } else { done + 1 };
        progress.group(&format!("{}, round {}", group.name, round + 1), done, GROUPS.len());
        measure(lab, group)?;
    }
    Ok(())
}

fn measure(lab: &mut Lab, group: &Group) -> Result<(), MachineError> {
    lab.set_essential(matches!(group.when, When::First | When::Essential));
    (group.measure)(lab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::estimate::{Keys, class};
    use crate::machine::host::features::Features;
    use crate::machine::host::topology::{Cpu, Identity, Topology};
    use crate::machine::progress::Quiet;
    use crate::profile::machine::{Cache, Ceiling, Missing, Quality};
    use std::time::Duration;

    #[test]
    fn only_what_is_wanted_is_measured_again() {
        let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &[0]);
        let mut lab = Lab::new(Features::detect(), topology, 1, 64 << 20, Effort::Quick).expect("one thread");
        let known = |id: &str| Ceiling::reproduced(id, 1.0, "flop/s", 1);
        lab.resume(vec![known("dp.add.scalar"), known("dp.mul.scalar")], Vec::new());
        lab.only(Keys::from([("dp.mul.scalar".into(), 1)]), Duration::from_millis(300));
        measure_again(&mut lab, &mut Quiet::default()).expect("measures");
        let value = |id| lab.found(id, 1).and_then(|c| c.value).expect("known");
        assert_eq!(value("dp.add.scalar"), 1.0);
        assert!(value("dp.mul.scalar") > 1e6, "measured again");
    }

    /// A server of so many CPUs with two hardware threads a core from eight CPUs on.
    fn server(cpus: usize) -> Topology {
        let siblings = if cpus < 8 { 1 } else { 2 };
        let cpu = |id| Cpu { id, core: (0, id / siblings), node: 0, capacity: 1024 };
        let cache =
            |level, mib_in_16: u64, shared_by| Cache { level, size: mib_in_16 << 16, ways: 16, line: 64, shared_by };
        Topology {
            cpu: "test".into(),
            cpus: (0..cpus).map(cpu).collect(),
            caches: vec![cache(1, 1, siblings as u32), cache(2, 32, siblings as u32), cache(3, 256 * 16, cpus as u32)],
            l1i_bytes: 32 << 10,
            l1i_way_bytes: 4096,
            llc_total: 256 << 20,
            nodes: vec![0],
        }
    }

    #[test]
    fn a_measurement_is_complete_in_its_time_on_one_to_128_cpus() {
        for (effort, limit_s, fewest) in [(Effort::Full, 30.0, 3), (Effort::Quick, 3.0, 2)] {
            for cpus in [1, 2, 16, 64, 128] {
                let mut lab = Lab::of_plan(Features::detect(), server(cpus), 64 << 30, effort).expect("a plan");
                measure_all(&mut lab, &mut Quiet::default()).expect("planned");
                let planned_s = lab.elapsed().as_secs_f64();
                // A later run measures what a quick one does not come to where there are many CPUs.
                let may_be_late = |id: &str| effort == Effort::Quick && class::Class::of(id) == class::Class::Beyond;
                let is_needed = |id: &str| ["dram.read", "lat.dram"].contains(&id) || !may_be_late(id);
                let is_late = |c: &&Ceiling| c.quality == Quality::Missing(Missing::Time) && is_needed(&c.id);
                let late: Vec<String> = lab.ceilings().iter().filter(is_late).map(|c| c.id.to_string()).collect();
                println!("{} on {cpus} CPUs: {planned_s:.1} s, {} rounds", effort.name(), lab.round() + 1);
                assert!(planned_s <= limit_s, "{} on {cpus} CPUs: {planned_s} s", effort.name());
                assert!(late.is_empty(), "{} on {cpus} CPUs: {late:?}", effort.name());
                let fewest = if cpus > 64 { 2 } else { fewest };
                assert!(lab.round() + 1 >= fewest, "{} on {cpus} CPUs: {} rounds", effort.name(), lab.round() + 1);
            }
        }
    }
}
