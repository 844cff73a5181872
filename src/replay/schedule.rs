//! Which bursts are replayed with which changes, on all CPUs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::profile::Machine;
use crate::profile::account::{Cause, WhatIf};
use crate::profile::evidence::bursts::{Burst, BurstEvidence};
use crate::profile::evidence::memory::MemoryEvidence;
use crate::profile::evidence::replayed::{ReplayedBurst, ReplayedEvidence, ReplayedInstruction};

use super::core::{Core, Outcome};
use super::levels::Levels;
use super::op::Program;
use super::parameters::CoreParameters;
use super::paths::Paths;
use super::x86_64;

/// Instructions that a CPU replays in a second, at least. The budget is kept by counting, so that equal bursts give equal results.
const SPEED: f64 = 5e6;
/// Bursts that tell which changes are worth replaying.
const PILOT: usize = 40;
/// A change is worth it if its causes take this share of all cycles.
const WORTH: f64 = 0.05;

/// How to replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Threads that share the memory's bandwidth.
    pub threads: u32,
    /// Seconds that it may take.
    pub seconds: f64,
    /// CPUs to use.
    pub cpus: usize,
}

impl Default for Options {
    fn default() -> Options {
        let cpus = thread::available_parallelism().map_or(1, usize::from).min(16);
        Options { threads: 1, seconds: 3.0, cpus }
    }
}

/// Everything that replaying needs of a run.
struct Replay<'a> {
    core: CoreParameters,
    program: Program,
    paths: Paths,
    levels: Levels,
    bursts: &'a [Burst],
}

/// Replays `bursts` on the core of `machine`. Deterministic: the same evidence and options give the same result.
pub fn replay(
    bursts: &BurstEvidence,
    memory: Option<&MemoryEvidence>,
    machine: &Machine,
    options: Options,
) -> ReplayedEvidence {
    let (core, assumed) = CoreParameters::new(machine, options.threads);
    let program = x86_64::program(&bursts.blocks, core.renames_additions);
    let levels = Levels::new(&program, bursts, memory);
    let paths = Paths::new(&program, bursts);
    let replay = Replay { core, program, paths, levels, bursts: &bursts.bursts };

    let pilot: Vec<(usize, Option<WhatIf>)> =
        spread(bursts.bursts.len(), PILOT).into_iter().map(|burst| (burst, None)).collect();
    let mut outcomes = replay.all(&pilot, options.cpus);
    let what_ifs = worth_trying(outcomes.values());
    let budget = SPEED * options.seconds * options.cpus as f64;
    let length = f64::from(super::recorder::MEASURED);
    let most = (budget / length / (1 + what_ifs.len()) as f64) as usize;
    let chosen = spread(bursts.bursts.len(), most.max(1));
    let changes = || std::iter::once(None).chain(what_ifs.iter().copied().map(Some));
    let tasks = changes().flat_map(|change| chosen.iter().map(move |&burst| (burst, change)));
    let tasks: Vec<_> = tasks.filter(|task| !outcomes.contains_key(task)).collect();
    outcomes.extend(replay.all(&tasks, options.cpus));
    let bursts = chosen.iter().map(|&burst| replay.evidence(burst, &what_ifs, &outcomes)).collect();
    ReplayedEvidence { bursts, what_ifs, assumed }
}

/// At most `most` of `all` numbers, evenly spread.
fn spread(all: usize, most: usize) -> Vec<usize> {
    let count = all.min(most);
    (0..count).map(|n| (2 * n + 1) * all / (2 * count)).collect()
}

/// Changes whose causes take enough of the cycles.
fn worth_trying<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<WhatIf> {
    let mut sums = [0.0; Cause::ALL.len()];
    for (_, _, _, cycles) in outcomes.flat_map(|outcome| &outcome.instructions) {
        sums.iter_mut().zip(cycles).for_each(|(sum, &own)| *sum += f64::from(own));
    }
    let all: f64 = sums.iter().sum();
    let share = |causes: &[Cause]| causes.iter().map(|&cause| sums[cause as usize]).sum::<f64>() / all.max(1.0);
    let is_worth = |change: &WhatIf| share(causes(*change)) >= WORTH;
    WhatIf::ALL.into_iter().filter(is_worth).collect()
}

/// What a change can remove.
fn causes(change: WhatIf) -> &'static [Cause] {
    use Cause::*;
    match change {
        WhatIf::PerfectPrediction => &[Mispredict],
        WhatIf::IndependentIterations => &[Chain, Forwarding],
        WhatIf::AllLanes => &[Ports, Chain, Base],
        WhatIf::HitsInL1 => &[L2, L3, DramLatency, DramBandwidth],
        WhatIf::HitsInL2 => &[L3, DramLatency, DramBandwidth],
        WhatIf::UnitStride => &[L2, L3, DramLatency],
        WhatIf::Fused => &[Ports, Chain, Base],
        WhatIf::NoTlbMisses => &[Tlb],
        WhatIf::NoForwarding => &[Forwarding],
        WhatIf::PerfectFrontEnd => &[FrontEnd],
        WhatIf::NoDivider => &[Ports],
    }
}

type Task = (usize, Option<WhatIf>);

impl Replay<'_> {
    /// The outcomes of `tasks`, in any order of work.
    fn all(&self, tasks: &[Task], cpus: usize) -> BTreeMap<Task, Outcome> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(BTreeMap::new());
        let work = || {
            let mut core: Option<(Option<WhatIf>, Core)> = None;
            while let Some(&(burst, change)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                if core.as_ref().is_none_or(|(held, _)| *held != change) {
                    core = Some((change, Core::new(&self.core, (&self.program, &self.paths), &self.levels, change)));
                }
                let Some((_, core)) = &mut core else { continue };
                let outcome = core.replay(&self.bursts[burst], burst as u64);
                if let Ok(mut done) = done.lock() {
                    done.insert((burst, change), outcome);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..cpus.clamp(1, tasks.len().max(1)) {
                scope.spawn(work);
            }
        });
        done.into_inner().unwrap_or_default()
    }

    fn evidence(&self, burst: usize, what_ifs: &[WhatIf], outcomes: &BTreeMap<Task, Outcome>) -> ReplayedBurst {
        let changed: Vec<BTreeMap<u32, f32>> = what_ifs
            .iter()
            .map(|&change| {
                let outcome = outcomes.get(&(burst, Some(change)));
                let instructions = outcome.iter().flat_map(|outcome| &outcome.instructions);
                instructions.map(|(site, _, _, cycles)| (*site, cycles.iter().sum())).collect()
            })
            .collect();
        let base = outcomes.get(&(burst, None));
        let instructions = base.iter().flat_map(|outcome| &outcome.instructions);
        let instruction = |&(site, executed, mispredicted, cycles): &(u32, u32, u32, _)| ReplayedInstruction {
            at: self.program.sites[site as usize],
            executed,
            mispredicted,
            cycles,
            changed: changed.iter().map(|by_site| by_site.get(&site).copied().unwrap_or(0.0)).collect(),
        };
        ReplayedBurst { thread: self.bursts[burst].thread, instructions: instructions.map(instruction).collect() }
    }
}
