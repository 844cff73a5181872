//! Which ceilings are measured, in the order of their importance, so that the least important ones run out of time first. A ceiling that is
//! left out is null with that reason; a later run measures it.

mod access;
mod arrays;
mod balance;
pub mod bandwidth;
mod branch_and_fault;
pub mod campaign;
pub mod core;
mod irregular;
mod ladder;
mod latency;
mod low_precision;
mod mix;
mod pipes;
mod plateau;
mod smt_and_e_cores;
mod tlb;

use super::error::MachineError;
use super::progress::Progress;
use campaign::Campaign;

/// A group of ceilings that are measured together.
struct Group {
    name: &'static str,
    measure: fn(&mut Campaign) -> Result<(), MachineError>,
    /// When the group is measured.
    when: When,
}

/// When a group is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// In each round, before all others. Without it the model is blind, so the first round measures it even if that exceeds the planned
    /// time.
    First,
    /// In each round. A hypervisor may take seconds to give its memory to this host.
    Essential,
    /// In each round.
    Each,
    /// After the first round: curves, and parameters that have rounds of their own.
    Once,
}

const fn group(name: &'static str, when: When, measure: fn(&mut Campaign) -> Result<(), MachineError>) -> Group {
    Group { name, measure, when }
}

/// The groups, in order. Later ones may look up the values that earlier ones recorded.
const GROUPS: [Group; 19] = [
    group("arithmetic by operation and width", When::First, pipes::throughput),
    group("ladder of in-core ceilings", When::First, ladder::measure),
    group("instruction mixes", When::First, mix::measure),
    group("accesses to L1", When::First, access::measure),
    group("latencies of arithmetic", When::First, latency::measure),
    group("pairs of operations", When::First, pipes::co_issue),
    group("integer and low-precision arithmetic", When::First, low_precision::measure),
    group("restarted chains", When::First, latency::restarted),
    group("bandwidth of each level", When::Essential, bandwidth::levels),
    group("latencies of each level", When::Essential, irregular::latencies),
    group("irregular memory accesses", When::Essential, irregular::measure),
    group("page faults and mispredicted branches", When::Each, branch_and_fault::measure),
    group("streams on small pages", When::Each, bandwidth::on_small_pages),
    group("parameters of the core", When::Once, core::measure),
    group("FLOPs on each element", When::Once, mix::curve),
    group("working sets", When::Once, bandwidth::sweeps),
    group("chains side by side", When::Once, latency::saturation),
    group("reach of the TLB", When::Once, tlb::measure),
    group("hardware threads of one core, slow cores", When::Once, smt_and_e_cores::measure),
];

/// Largest number of rounds: more of them do not improve the values.
const MOST_ROUNDS: usize = 12;

/// Measures all groups, in as many rounds as there is time for.
///
/// # Errors
/// Errors that stop a measurement: a refused mapping, a thread that died. Kernels that this host merely lacks are recorded as null with a
/// reason.
pub fn measure_all(campaign: &mut Campaign, progress: &mut dyn Progress) -> Result<(), MachineError> {
    let first = campaign.first_round();
    for round in 0..first {
        in_round(campaign, progress, round, &|when| when == When::First)?;
    }
    in_round(campaign, progress, first, &|_| true)?;
    plateau::doubts_of(campaign).into_iter().for_each(|w| progress.warn(w));
    repeat(campaign, progress, first + 1)
}

/// Measures only the ceilings that the campaign wants, in as many rounds as there is time for.
///
/// # Errors
/// As [`measure_all`].
pub fn measure_again(campaign: &mut Campaign, progress: &mut dyn Progress) -> Result<(), MachineError> {
    repeat(campaign, progress, 0)
}

/// Runs the rounds from number `first` on, and derives the values that depend on all of them.
fn repeat(campaign: &mut Campaign, progress: &mut dyn Progress, first: usize) -> Result<(), MachineError> {
    for round in first..MOST_ROUNDS {
        if !campaign.has_time_for_a_round() {
            break;
        }
        in_round(campaign, progress, round, &|when| round == 0 || when != When::Once)?;
    }
    balance::derive(campaign);
    mix::fractions(campaign);
    campaign.conclude();
    campaign.take_doubts().into_iter().for_each(|w| progress.warn(w));
    Ok(())
}

/// One round over the groups that are due.
fn in_round(
    campaign: &mut Campaign,
    progress: &mut dyn Progress,
    round: usize,
    is_due: &dyn Fn(When) -> bool,
) -> Result<(), MachineError> {
    campaign.begin_round(round);
    for (done, group) in GROUPS.iter().enumerate().filter(|(_, group)| is_due(group.when)) {
        // Only a measurement of everything is announced.
        let done = if campaign.measures_all() { done } else { done + 1 };
        progress.group(&format!("{}, round {}", group.name, round + 1), done, GROUPS.len());
        campaign.set_essential(matches!(group.when, When::First | When::Essential));
        (group.measure)(campaign)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Keys, class};
    use crate::host::features::Features;
    use crate::host::topology::{Cpu, Identity, Topology};
    use crate::progress::Quiet;
    use crate::suite::campaign::Effort;
    use rprof_profile::machine::{Cache, Ceiling, Missing, Quality};
    use std::time::Duration;

    #[test]
    fn only_what_is_wanted_is_measured_again() {
        let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &[0]);
        let mut campaign = Campaign::new(Features::detect(), topology, 1, 64 << 20, Effort::Quick).expect("one thread");
        let known = |id: &str| Ceiling::reproduced(id, 1.0, "flop/s", 1);
        campaign.resume(vec![known("dp.add.scalar"), known("dp.mul.scalar")], Vec::new());
        campaign.only(Keys::from([("dp.mul.scalar".into(), 1)]), Duration::from_millis(300));
        measure_again(&mut campaign, &mut Quiet::default()).expect("measures");
        let value = |id| campaign.found(id, 1).and_then(|c| c.value).expect("known");
        assert_eq!(value("dp.add.scalar"), 1.0);
        assert!(value("dp.mul.scalar") > 1e6, "measured again");
    }

    /// A server with `cpus` CPUs; from eight CPUs on, two hardware threads a core.
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
                let mut campaign =
                    Campaign::of_plan(Features::detect(), server(cpus), 64 << 30, effort).expect("a plan");
                measure_all(&mut campaign, &mut Quiet::default()).expect("planned");
                let planned_s = campaign.elapsed().as_secs_f64();
                // If there are many CPUs, a later run measures the ceilings that a quick one has no time for.
                let may_be_late = |id: &str| effort == Effort::Quick && class::Class::of(id) == class::Class::Beyond;
                let is_needed = |id: &str| ["dram.read", "lat.dram"].contains(&id) || !may_be_late(id);
                let is_late = |c: &&Ceiling| c.quality == Quality::Missing(Missing::Time) && is_needed(&c.id);
                let late: Vec<String> = campaign.ceilings().iter().filter(is_late).map(|c| c.id.to_string()).collect();
                println!("{} on {cpus} CPUs: {planned_s:.1} s, {} rounds", effort.name(), campaign.round() + 1);
                assert!(planned_s <= limit_s, "{} on {cpus} CPUs: {planned_s} s", effort.name());
                assert!(late.is_empty(), "{} on {cpus} CPUs: {late:?}", effort.name());
                let fewest = if cpus > 64 { 2 } else { fewest };
                assert!(
                    campaign.round() + 1 >= fewest,
                    "{} on {cpus} CPUs: {} rounds",
                    effort.name(),
                    campaign.round() + 1
                );
            }
        }
    }
}
