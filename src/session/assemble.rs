//! From evidence to an analysed profile.

use std::path::Path;

use crate::join::{self, join};
use crate::machine;
use crate::profile::machine::Machine;
use crate::profile::prefetch::Affinity;
use crate::profile::run::Rank;
use crate::profile::{Profile, Run};
use crate::roofline;
use crate::symbols::Symbols;
use crate::tracee::boot::boot_id;

use super::end::ProgramEnd;
use super::evidence::Evidence;
use super::gpu;
use super::launcher::LaunchedRank;
use super::options::RunOptions;
use super::rank_calls;

/// Joins the evidence, names the functions and adds the analysis. `end`: `None` if the program runs on. `rank`: with the name of its job.
pub fn profile(
    options: &RunOptions,
    end: Option<ProgramEnd>,
    rank: Option<(&LaunchedRank, Option<String>)>,
    machine: Machine,
    evidence: Evidence,
) -> Profile {
    let (exit_status, signal) = match end {
        Some(ProgramEnd::Exited(status)) => (Some(status), None),
        Some(ProgramEnd::Signalled(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let run = Run {
        command: options.program.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        exit_status,
        signal,
        denormals: evidence.counted.as_ref().and_then(|counted| counted.denormals),
        warnings: evidence.warnings.clone(),
        ..Run::default()
    };
    let devices = gpu::devices(&evidence.gpu);
    let trials = evidence.trials.clone();
    let joined = inputs(&evidence);
    let mut symbols = Symbols::default();
    let mut profile = join(&joined, run, machine, &mut symbols, options.full_names);
    if let Some((rank, job)) = rank {
        profile.run.threads.iter_mut().for_each(|thread| thread.rank = Some(rank.rank));
        profile.run.ranks = vec![rank_of(&profile, rank, job)];
        rank_calls::of_rank(&mut profile, rank);
    }
    profile.devices = devices;
    profile.trials = trials;
    profile.run.affinity = Some(affinity());
    analyse(&mut profile, options);
    profile
}

/// The evidence as the join takes it.
fn inputs(evidence: &Evidence) -> join::Evidence<'_> {
    join::Evidence {
        timed: evidence.timed.as_ref(),
        counted: evidence.counted.as_ref(),
        memory: evidence.memory.as_ref(),
        replayed: evidence.replayed.as_ref(),
        counters: evidence.counters.as_ref(),
        counted_missing: evidence.no_counts.clone(),
    }
}

/// The share of the program's CPU time that the evidence so far explains.
pub fn explained_share(options: &RunOptions, machine: &Machine, evidence: &Evidence) -> f64 {
    let mut profile = provisional(options, machine, evidence);
    analyse(&mut profile, options);
    roofline::explained::explained_share(&profile)
}

/// A profile of the evidence so far, without analysis.
pub fn provisional(options: &RunOptions, machine: &Machine, evidence: &Evidence) -> Profile {
    let mut symbols = Symbols::default();
    join(&inputs(evidence), Run::default(), machine.clone(), &mut symbols, options.full_names)
}

/// This rank's entry in its own profile.
fn rank_of(profile: &Profile, rank: &LaunchedRank, job: Option<String>) -> Rank {
    let pass = profile.run.passes.first();
    Rank {
        rank: rank.rank,
        ranks: rank.ranks,
        job,
        host: profile.run.threads.first().map(|thread| thread.host.clone()).unwrap_or_default(),
        boot: boot_id(),
        wall_s: pass.map(|pass| pass.wall_s),
        cpu_s: pass.map(|pass| pass.cpu_s),
        exit_status: profile.run.exit_status,
    }
}

/// The known facts about memory placement: no pass looks at the nodes of pages.
fn affinity() -> Affinity {
    let nodes = machine::topology(Path::new("/sys")).nodes.len().max(1) as u32;
    let reason = match nodes {
        1 => "the host has one NUMA node",
        _ => "no pass looks at the nodes on which pages lie",
    };
    Affinity { nodes, remote_share: None, reason: Some(reason.into()) }
}

/// Adds the analysis, or makes it anew.
pub fn analyse(profile: &mut Profile, options: &RunOptions) {
    roofline::analyse_with(profile, roofline::Options { imbalance: options.imbalance });
}
