//! Chooses the bursts to replay with each change, and replays them on all CPUs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rprof_profile::Machine;
use rprof_profile::account::{Cause, Changes, WhatIf};
use rprof_profile::evidence::bursts::{Burst, BurstEvidence};
use rprof_profile::evidence::memory::MemoryEvidence;
use rprof_profile::evidence::replayed::{ReplayedBurst, ReplayedEvidence, ReplayedInstruction};

use super::changes::{Outcomes, WORTH, causes};
use super::code::Code;
use super::core::{Core, Outcome};
use super::levels::Levels;
use super::pairs::{self, PAIRS};
use super::parameters::CoreParameters;
use super::x86_64;

/// Instructions that a CPU replays in a second, at least. The budget counts instructions, so that equal bursts give equal results.
const SPEED: f64 = 5e6;
/// Bursts that decide which changes are worth replaying.
const PILOT: usize = 40;

/// How to replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Threads that share the memory's bandwidth.
    pub threads: u32,
    /// Seconds that it may take.
    pub seconds: f64,
    /// CPUs to use.
    pub cpus: usize,
    /// Whether to replay changes, too.
    pub what_ifs: bool,
}

impl Default for Options {
    fn default() -> Options {
        let cpus = thread::available_parallelism().map_or(1, usize::from).min(16);
        Options { threads: 1, seconds: 3.0, cpus, what_ifs: true }
    }
}

/// Everything that replaying needs of a run.
struct Replay<'a> {
    core: CoreParameters,
    code: Code,
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
    let replay = Replay { core, code: Code::new(program, bursts), levels, bursts: &bursts.bursts };

    let mut outcomes = Outcomes::new();
    let mut changes: Vec<Changes> = Vec::new();
    if options.what_ifs {
        let pilot = spread(bursts.bursts.len(), PILOT);
        replay.add(&pilot, None, options.cpus, &mut outcomes);
        changes.extend(worth_trying(outcomes.values()).into_iter().map(Changes::from));
    }
    let budget = SPEED * options.seconds * options.cpus as f64;
    let length = f64::from(super::recorder::MEASURED);
    let pairs = if options.what_ifs { PAIRS } else { 0 };
    let most = (budget / length / (1 + changes.len() + pairs) as f64) as usize;
    let chosen = spread(bursts.bursts.len(), most.max(1));
    replay.add(&chosen, None, options.cpus, &mut outcomes);
    for &change in &changes {
        replay.add(&chosen, Some(change), options.cpus, &mut outcomes);
    }
    for pair in pairs::worth_trying(&changes, &chosen, &outcomes, &replay.code.program) {
        replay.add(&chosen, Some(pair), options.cpus, &mut outcomes);
        changes.push(pair);
    }
    let bursts = chosen.iter().map(|&burst| replay.evidence(burst, &changes, &outcomes)).collect();
    ReplayedEvidence { bursts, what_ifs: changes, assumed }
}

/// At most `most` of `all` numbers, evenly spread.
fn spread(all: usize, most: usize) -> Vec<usize> {
    let count = all.min(most);
    (0..count).map(|n| (2 * n + 1) * all / (2 * count)).collect()
}

/// Changes with causes that take enough of the cycles.
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

impl Replay<'_> {
    /// Adds the outcomes of `bursts` with `changes` that are missing, in any order of work.
    fn add(&self, bursts: &[usize], changes: Option<Changes>, cpus: usize, outcomes: &mut Outcomes) {
        let missing = bursts.iter().copied().filter(|burst| !outcomes.contains_key(&(*burst, changes)));
        let tasks: Vec<usize> = missing.collect();
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = || {
            let mut core = Core::new(&self.core, &self.code, &self.levels, changes);
            while let Some(&burst) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = core.replay(&self.bursts[burst], burst as u64);
                if let Ok(mut done) = done.lock() {
                    done.push(((burst, changes), outcome));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..cpus.clamp(1, tasks.len().max(1)) {
                scope.spawn(work);
            }
        });
        outcomes.extend(done.into_inner().unwrap_or_default());
    }

    fn evidence(&self, burst: usize, what_ifs: &[Changes], outcomes: &Outcomes) -> ReplayedBurst {
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
            at: self.code.program.sites[site as usize],
            executed,
            mispredicted,
            cycles,
            changed: changed.iter().map(|by_site| by_site.get(&site).copied().unwrap_or(0.0)).collect(),
        };
        ReplayedBurst { thread: self.bursts[burst].thread, instructions: instructions.map(instruction).collect() }
    }
}
