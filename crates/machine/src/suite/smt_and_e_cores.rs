//! Ceilings of CPUs that differ from the first ones: two hardware threads that share a core, the slow cores of a hybrid host. A bench of
//! their own measures them, and they are recorded beside the others with a prefix.

use std::time::Duration;

use super::{bandwidth, ladder, mix, pipes};
use crate::error::MachineError;
use crate::estimate::Keys;
use crate::host::topology::Cpu;
use crate::suite::campaign::{Campaign, Effort, Label};
use rprof_profile::machine::CeilingId;

/// The ceilings that are recorded for them.
const WANTED: [&str; 9] =
    ["dp.tlp", "dp.ilp", "dp.simd", "dp.fma", "issue", "l1.read", "l2.read", "l3.read", "dram.read"];

/// Rounds over them.
const ROUNDS: usize = 3;

/// Time for one kind of subset.
const BUDGET: Duration = Duration::from_millis(600);

/// `smt.*`: both hardware threads of one core. `slow.*`: the slow cores of a hybrid host, one of them and all.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    let siblings = siblings(&campaign.topology.cpus);
    let slow = slow(&campaign.topology.cpus);
    on(campaign, "smt", &siblings, &[siblings.len()], "each CPU of this host is a core of its own")?;
    on(campaign, "slow", &slow, &[1, slow.len()], "the cores of this host are of one kind")
}

/// The CPUs of the first core that has several.
fn siblings(cpus: &[Cpu]) -> Vec<Cpu> {
    let of = |cpu: &Cpu| cpus.iter().filter(|c| c.core == cpu.core).copied().collect::<Vec<_>>();
    cpus.iter().map(of).find(|all| all.len() > 1).unwrap_or_default()
}

/// The CPUs of the slowest kind if there are several kinds.
fn slow(cpus: &[Cpu]) -> Vec<Cpu> {
    let capacity = |pick: fn(std::slice::Iter<'_, Cpu>) -> Option<&Cpu>| pick(cpus.iter()).map(|c| c.capacity);
    let (least, most) = (capacity(|c| c.min_by_key(|c| c.capacity)), capacity(|c| c.max_by_key(|c| c.capacity)));
    if least == most { Vec::new() } else { cpus.iter().filter(|c| Some(c.capacity) == least).copied().collect() }
}

/// Measures [`WANTED`] on `cpus` at the thread counts `counts`; `reason` explains why there may be no such CPUs.
fn on(campaign: &mut Campaign, prefix: &str, cpus: &[Cpu], counts: &[usize], reason: &str) -> Result<(), MachineError> {
    let label = |id: &str, threads: usize| Label::new(format!("{prefix}.{id}"), unit(id), threads);
    let all: Vec<(&str, usize)> = WANTED.iter().flat_map(|id| counts.iter().map(move |n| (*id, (*n).max(1)))).collect();
    if !all.iter().any(|(id, threads)| campaign.wants(&label(id, *threads))) {
        return Ok(());
    }
    let first = label("dp.fma", counts.first().copied().unwrap_or(1).max(1));
    if cpus.is_empty() {
        campaign.missing(first, reason);
        return Ok(());
    }
    if campaign.is_left_out(&first) {
        return Ok(());
    }
    if campaign.out_of_time() {
        all.iter().for_each(|(id, threads)| campaign.too_late(label(id, *threads)));
        return Ok(());
    }
    if campaign.watch().plan(BUDGET.as_secs_f64()) {
        return Ok(());
    }
    let mut topology = campaign.topology.clone();
    topology.cpus = cpus.to_vec();
    let mut bench = Campaign::new(campaign.features, topology, cpus.len(), campaign.memory, Effort::Quick)?;
    let wanted: Keys =
        counts.iter().flat_map(|n| measured(&bench).into_iter().map(|id| (CeilingId::from(id), *n))).collect();
    bench.only(wanted, BUDGET);
    for round in 0..ROUNDS {
        bench.begin_round(round);
        pipes::throughput(&mut bench)?;
        ladder::measure(&mut bench)?;
        mix::measure(&mut bench)?;
        bandwidth::levels(&mut bench)?;
    }
    for (id, threads) in all {
        match bench.found(id, threads).cloned() {
            Some(found) => campaign.take_over(label(id, threads), found),
            None => campaign.too_late(label(id, threads)),
        }
    }
    Ok(())
}

/// The ids that have to be measured for [`WANTED`].
fn measured(bench: &Campaign) -> Vec<String> {
    let widest = bench.features.widest().name();
    let core = ["dp.tlp".into(), "dp.add.scalar".into(), "issue".into(), format!("dp.add.{widest}")];
    let rest = [format!("dp.fma.{widest}"), "dp.balance.addmul".into()];
    let levels = ["l1", "l2", "l3", "dram"].map(|level| format!("{level}.read"));
    core.into_iter().chain(rest).chain(levels).collect()
}

fn unit(id: &str) -> &'static str {
    match id {
        "issue" => "instr/s",
        _ if id.starts_with("dp.") => "flop/s",
        _ => "byte/s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_that_share_a_core_have_ceilings_of_their_own() {
        let cpus = crate::host::limits::Limits::read().cpus;
        if cpus.len() < 2 {
            println!(
                "SKIPPED: cpus: two_cpus_that_share_a_core_have_ceilings_of_their_own: this process may use one CPU"
            );
            return;
        }
        let (mut topology, _) = crate::host::topology::Topology::detect("/sys".as_ref(), &cpus[..2]);
        topology.cpus.iter_mut().enumerate().for_each(|(n, c)| (c.core, c.capacity) = ((0, 0), 1024 >> n));
        let features = crate::host::features::Features::detect();
        let mut campaign = Campaign::new(features, topology, 2, 64 << 20, Effort::Full).expect("a bench");
        measure(&mut campaign).expect("measured");
        for (id, threads) in [("smt.dp.fma", 2), ("smt.l1.read", 2), ("slow.dp.tlp", 1), ("slow.issue", 1)] {
            let found = campaign.ceilings().iter().find(|c| c.is(id, threads));
            let told = |c: &rprof_profile::Ceiling| c.value.is_some_and(|v| v > 0.0) || c.reason.is_some();
            assert!(found.is_some_and(told), "{id} at {threads}: {found:?}");
        }
        // Too little memory for DRAM is said of it as of all others.
        let dram = campaign.ceilings().iter().find(|c| c.id == "smt.dram.read").expect("an entry");
        assert!(dram.value.is_none() && dram.reason.is_some(), "{dram:?}");
    }

    fn cpu(id: usize, core: usize, capacity: u32) -> Cpu {
        Cpu { id, core: (0, core), node: 0, capacity }
    }

    #[test]
    fn hardware_threads_and_slow_cores_are_told_apart() {
        let ids = |cpus: Vec<Cpu>| cpus.iter().map(|c| c.id).collect::<Vec<_>>();
        let hybrid = [cpu(0, 0, 1024), cpu(1, 0, 1024), cpu(2, 4, 1024), cpu(3, 8, 512), cpu(4, 9, 512)];
        assert_eq!(ids(siblings(&hybrid)), [0, 1]);
        assert_eq!(ids(slow(&hybrid)), [3, 4]);
        let plain = [cpu(0, 0, 1024), cpu(1, 1, 1024)];
        assert!(siblings(&plain).is_empty() && slow(&plain).is_empty());
    }
}
