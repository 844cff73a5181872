//! Joins the evidence of the passes into the facts of functions and loops.
//!
//! ```text
//!  samples ──▶ leaf function, loop, line ──▶ time, interval, threads, waiting ─┐
//!  blocks  ──▶ instructions × executions ──▶ FLOPs, mix, accesses, chains ─────┼─▶ Function facts ─▶ Profile
//!  sites   ──▶ traffic per instruction ────▶ bytes, misses ────────────────────┤
//!  bursts  ──▶ replayed cycles by cause ───▶ account of time ──────────────────┤
//!  calls   ──▶ sites, looks at blocked threads ▶ kernel time by call, waiting by reason
//!  readings▶ function at both ends ────────▶ hardware counters beside them ─────┤
//!                          certified ones ──▶ what no pass has measured ────────┘
//! ```
//!
//! Modules of different passes are the same if their identity (build id, else path) is; threads if their ordinal is;
//! code made at run time if its symbol is.

mod account;
mod address_spaces;
mod assemble;
mod attributed;
mod attribution;
mod blas;
mod blocks;
mod certified;
mod chains;
mod clocks;
mod code_map;
mod counts;
mod data;
mod disassembly;
mod facts;
mod flow;
mod groups;
mod hardware;
mod host_clocks;
mod intervals;
pub mod late;
mod lookers;
mod loop_carried;
mod loops;
mod modules;
mod mpi;
pub mod needed;
mod partners;
mod peers;
mod placed;
mod prefetch;
mod regions;
pub mod resolver;
mod sampled;
mod shown_names;
mod source_lines;
mod stacks;
mod static_code;
mod system;
mod tally;
mod time;
pub mod time_use;
mod timeline;
mod traffic;
pub mod uneven;
mod waiting;
mod warnings;
pub mod windows;

use std::collections::HashMap;

use rprof_profile::evidence::ThreadInfo;
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::counters::CounterEvidence;
use rprof_profile::evidence::memory::{MemoryEvidence, Traffic};
use rprof_profile::evidence::replayed::ReplayedEvidence;
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::run::{Pass as RunPass, RELEASED_CODE, Thread};
use rprof_profile::{Machine, Profile, ProfileSample, Run};

use assemble::Joined;
use attributed::{Activity, AttributedSample};
use blocks::ExecutedBlocks;
use code_map::CodeMap;
use hardware::Hardware;
use modules::Modules;
use sampled::Sampled;
use shown_names::ShownNames;
use stacks::StackTable;

pub use account::usual_clock;
pub use resolver::Resolver;
pub use warnings::COUNTERS_DISAGREE;

/// The inputs of the join.
#[derive(Debug, Default)]
pub struct Evidence<'a> {
    /// Of the timed pass.
    pub timed: Option<&'a TimedEvidence>,
    /// Of the counted pass.
    pub counted: Option<&'a CountedEvidence>,
    /// Of the memory model, indexed like `counted`.
    pub memory: Option<&'a MemoryEvidence>,
    /// Of the core model, which replayed bursts of the counted pass.
    pub replayed: Option<&'a ReplayedEvidence>,
    /// Of the hardware counters in the timed pass.
    pub counters: Option<&'a CounterEvidence>,
    /// Why there is no usable counted pass (it failed, or ended differently), if there is none.
    pub counted_missing: Option<String>,
}

/// Joins `evidence` into a profile without analysis. `run` brings the command and how it ended; passes, threads,
/// quality and the evidence's warnings are added here. Names are cut to a readable length unless `full_names`.
pub fn join(
    evidence: &Evidence,
    mut run: Run,
    machine: Machine,
    resolver: &mut dyn Resolver,
    full_names: bool,
) -> Profile {
    let names = ShownNames::new(full_names);
    let timed_modules = evidence.timed.map_or(&[][..], |t| &t.modules);
    let counted_modules = evidence.counted.map_or(&[][..], |c| &c.modules);
    let created = [evidence.timed.map_or(&[][..], |t| &t.threads), evidence.counted.map_or(&[][..], |c| &c.threads)];
    let mut code = CodeMap::new(Modules::new(timed_modules, counted_modules, created), created, resolver);
    // ExecutedBlocks calls show where functions begin, so the counted pass comes first.
    let executed = evidence.counted.map(|counted| ExecutedBlocks::new(counted, &mut code));
    let sampled = evidence.timed.map(|timed| Sampled::new(timed, &mut code));
    let traffic = evidence.memory.map(|memory| traffic::by_function(memory, &mut code));
    let replayed = evidence.replayed.map(|r| account::by_function(r, &mut code)).unwrap_or_default();
    let hardware = evidence.counters.zip(evidence.timed).map(|(c, timed)| Hardware::new(c, timed, &mut code));
    let mut joined = Joined::new(evidence, &machine, sampled, executed, traffic, &names, &mut code);
    joined.hardware = hardware;
    joined.add_system(&machine, &mut code);
    joined.replayed = replayed;
    let outcome = joined.functions(&mut code);
    run.warnings.extend(evidence.timed.and_then(|timed| placed::warning(timed, &machine)));
    run.warnings.extend(joined.clocks.warning(joined.samples(), &machine));
    let basis = regions::Basis::new(
        evidence,
        joined.sampled.as_ref(),
        joined.executed.as_ref(),
        joined.traffic.as_ref(),
        &names,
    );
    let marked = basis.map(|basis| regions::regions(&basis, &mut code));
    let mut products = evidence.counted.and_then(|counted| {
        let mut blas = blas::blas(counted.blas.as_ref()?, &counted.modules, &mut code);
        blas.at_least = counted.warnings.iter().any(|warning| warning.code == RELEASED_CODE);
        Some(blas)
    });
    let calls = evidence.counted.and_then(|counted| counted.mpi.as_ref());
    let is_counted = evidence.counted.is_some_and(|counted| counted.estimate.is_none());
    let (mut named_mpi, mpi_calls) = match calls.filter(|_| is_counted) {
        Some(calls) => Some(mpi::mpi(calls, &mut code)).unzip(),
        None if is_counted => (None, None),
        None => {
            (mpi::estimated(calls, evidence.counted.is_some(), std::mem::take(&mut joined.in_mpi), &mut code), None)
        }
    };
    if let (Some(named), Some(counted)) = (&mut named_mpi, evidence.counted) {
        named.at_least = counted.warnings.iter().any(|warning| warning.code == RELEASED_CODE);
    }
    if let Some(blas) = &mut products {
        blas.threads = blas::threads(blas, &outcome.functions);
    }
    let mut stacks = StackTable::new(&names);
    let samples = profile_samples(&joined, &mut stacks, &mut code);

    run.passes.extend(passes(evidence, &samples));
    run.threads = threads(evidence);
    run.modules = modules::of_functions(code.modules(), &stacks.frames, &outcome.functions);
    run.quality = outcome.quality;
    run.counters = outcome.counters;
    run.system = joined.system.program.clone();
    run.pages = evidence.memory.and_then(|m| {
        let touched = m.pages.union(m.pages.sites.iter());
        let mut whole = Traffic::default();
        m.sites.iter().for_each(|site| whole.add(&site.traffic));
        traffic::pages(&touched, &whole).ok()
    });
    run.warnings.extend(evidence.timed.iter().flat_map(|t| t.warnings.clone()));
    run.warnings.extend(evidence.counted.iter().flat_map(|c| c.warnings.clone()));
    run.warnings.extend(evidence.counters.iter().flat_map(|c| c.warnings.clone()));
    run.warnings.extend(evidence.memory.iter().flat_map(|m| m.warnings.clone()));
    run.warnings.extend(outcome.warnings);
    run.warnings.extend(marked.iter().flat_map(|m| m.warnings.clone()));
    run.warnings.extend(code.resolver().warnings());
    Profile {
        schema: rprof_profile::SCHEMA.into(),
        model_version: 0,
        run,
        machine,
        frames: stacks.frames,
        stacks: stacks.stacks,
        samples,
        functions: outcome.functions,
        regions: marked.map(|m| m.regions).unwrap_or_default(),
        devices: None,
        trials: None,
        mpi: named_mpi,
        blas: products,
        network: None,
        mpi_calls,
    }
}

fn profile_samples(joined: &Joined, stacks: &mut StackTable, code: &mut CodeMap) -> Vec<ProfileSample> {
    let Some(sampled) = &joined.sampled else { return Vec::new() };
    let shared: Vec<Option<u32>> = sampled.stacks.iter().map(|calls| stacks.add(calls, code)).collect();
    let sample = |sample: &AttributedSample| ProfileSample {
        t_s: sample.t_s,
        weight_s: sample.weight_s,
        thread: sample.thread,
        stack: shared[sample.stack as usize].or_else(|| Some(stacks.add_function(sample.function, code))),
        waiting: matches!(sample.activity, Activity::Waiting(_)),
    };
    sampled.samples.iter().map(sample).collect()
}

fn passes(evidence: &Evidence, samples: &[ProfileSample]) -> Vec<RunPass> {
    let timed = evidence.timed.map(|timed| RunPass {
        kind: "timed".into(),
        source: timed.source.clone(),
        memory: None,
        wall_s: timed.wall_s,
        cpu_s: timed.cpu_s,
        frequency_hz: timed.source.starts_with("perf:").then_some(timed.frequency_hz),
        samples: Some(samples.len() as u64),
        lost: Some(timed.lost),
        kept_off_share: warnings::kept_off_share(timed),
        clock_source: timed.clock_source,
        delay_s: None,
        uncounted_share: None,
        model_ratios: Vec::new(),
        page_placement: None,
    });
    let counted = evidence.counted.map(|counted| RunPass {
        kind: if counted.estimate.is_some() { "windows" } else { "counted" }.into(),
        source: counted.source.clone(),
        memory: Some(evidence.memory.map_or_else(|| "off".into(), |m| m.mode.clone())),
        wall_s: counted.wall_s,
        cpu_s: counted.cpu_s,
        frequency_hz: None,
        samples: None,
        lost: None,
        kept_off_share: None,
        clock_source: None,
        delay_s: counted.estimate.as_ref().map(|estimate| estimate.delay_s),
        uncounted_share: Some(counted.uncounted_share),
        model_ratios: evidence.memory.map(|m| m.calibration.clone()).unwrap_or_default(),
        page_placement: evidence.memory.map(|m| m.page_placement.clone()).filter(|words| !words.is_empty()),
    });
    timed.into_iter().chain(counted).collect()
}

/// The threads of the timed pass, or of the counted one without a timed pass.
fn thread_infos<'a>(evidence: &Evidence<'a>) -> &'a [ThreadInfo] {
    match (evidence.timed, evidence.counted) {
        (Some(timed), _) => &timed.threads,
        (None, Some(counted)) => &counted.threads,
        (None, None) => &[],
    }
}

fn threads(evidence: &Evidence) -> Vec<Thread> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let thread = |(id, info): (usize, &ThreadInfo)| Thread {
        id: id as u32,
        pid: info.pid,
        tid: info.tid,
        rank: None,
        host: host.clone(),
        cpu_s: info.cpu_s,
    };
    thread_infos(evidence).iter().enumerate().map(thread).collect()
}

/// For each thread of the counted evidence its index in `run.threads`, by ordinal.
fn counted_threads(evidence: &Evidence) -> Vec<u32> {
    let by_ordinal: HashMap<u32, u32> =
        thread_infos(evidence).iter().enumerate().map(|(i, t)| (t.ordinal, i as u32)).collect();
    let Some(counted) = evidence.counted else { return Vec::new() };
    // A thread that only the counted run had keeps an index of its own after the others.
    let mut beyond = thread_infos(evidence).len() as u32;
    let mut index = |t: &ThreadInfo| {
        by_ordinal.get(&t.ordinal).copied().unwrap_or_else(|| {
            beyond += 1;
            beyond - 1
        })
    };
    counted.threads.iter().map(&mut index).collect()
}
