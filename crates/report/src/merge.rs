//! Several ranks or runs as one profile: threads, stacks and samples are put together, functions of one name added up.
//!
//! Work adds up. Ranks of one job ran side by side: their elapsed time is that of the longest. Runs without ranks came one
//! after another: their times add up. Analysis is left to `roofline`.

mod devices;
mod elapsed;
mod functions;
mod hosts;
mod jobs;
mod lines;
mod mpi;
mod regions;
mod sums;

pub use functions::Functions;
pub use hosts::tell_apart as tell_hosts_apart;
pub use jobs::MergeError;

use jobs::Arrangement;
use sums::{both, counters, pages};

use rprof_profile::run::Warning;
use rprof_profile::system::System;
use rprof_profile::{Function, Profile};

/// Puts `profiles` together, the first leading. `partial`: ranks of the job may be missing.
///
/// # Errors
/// They do not belong together.
pub fn merge(mut profiles: Vec<Profile>, partial: bool) -> Result<Profile, MergeError> {
    let (arrangement, missing) = jobs::arrangement(&profiles, partial)?;
    let mut functions = Functions::new(arrangement);
    profiles.iter_mut().for_each(|profile| functions.take(profile));
    put_together(profiles, functions, missing)
}

/// Puts the profiles of ranks together; their functions were taken out in the same order.
///
/// # Errors
/// They do not belong together, or not as their functions were put together.
pub fn merge_ranks(profiles: Vec<Profile>, functions: Functions, partial: bool) -> Result<Profile, MergeError> {
    let (arrangement, missing) = jobs::arrangement(&profiles, partial)?;
    if arrangement != functions.arrangement {
        return Err(MergeError::NoRanks);
    }
    put_together(profiles, functions, missing)
}

/// Puts `profiles` together; their functions were taken out. `missing`: number of missing ranks.
fn put_together(mut profiles: Vec<Profile>, functions: Functions, missing: usize) -> Result<Profile, MergeError> {
    hosts::tell_apart(&mut profiles);
    let arrangement = functions.arrangement;
    let hosts = match arrangement {
        Arrangement::SideBySide => hosts::together(&profiles),
        Arrangement::InTurn => None,
    };
    let uncounted = mpi::leave_uncounted_out(&mut profiles);
    let mut parts = profiles.into_iter();
    let mut whole = parts.next().ok_or(MergeError::Nothing)?;
    whole.functions = functions.functions;
    for part in parts {
        if part.machine.cpu != whole.machine.cpu {
            let warning = Warning::new(
                "machines-differ",
                format!("the profiles come from {} and from {}", whole.machine.cpu, part.machine.cpu),
                "figures of one thread are compared with the ceilings of the first machine",
                "merge profiles of one kind of machine",
            );
            if !whole.run.warnings.iter().any(|known| known.code == warning.code) {
                whole.run.warnings.push(warning);
            }
        }
        append(&mut whole, part, arrangement);
    }
    whole.run.warnings.extend(uncounted);
    if missing > 0 {
        let ranks = whole.run.ranks.len();
        whole.run.warnings.push(Warning::new(
            "ranks-missing",
            match missing {
                1 => format!("1 rank of the job is missing, {ranks} are there"),
                _ => format!("{missing} ranks of the job are missing, {ranks} are there"),
            },
            "sums are those of the ranks that are there, load balance and waiting may be wrong",
            "look whether these ranks ended early",
        ));
    }
    whole.machine = hosts.unwrap_or(whole.machine);
    if arrangement == Arrangement::SideBySide {
        mpi::compare(&mut whole, &functions.work);
        let cores = whole.machine.cores.max(1);
        let cap = |f: &mut Function| f.allowed_cpus = f.allowed_cpus.map(|cpus| cpus.min(cores));
        whole.functions.iter_mut().for_each(cap);
    }
    whole.run.ranks.sort_by_key(|rank| rank.rank);
    whole.functions.sort_by(|a, b| b.cpu_s.unwrap_or(0.0).total_cmp(&a.cpu_s.unwrap_or(0.0)));
    let total: f64 = whole.functions.iter().filter_map(|f| f.cpu_s).sum();
    for function in &mut whole.functions {
        function.share = function.cpu_s.filter(|_| total > 0.0).map(|s| s / total);
    }
    Ok(whole)
}

fn append(whole: &mut Profile, mut part: Profile, arrangement: Arrangement) {
    devices::add(whole, &mut part, arrangement == Arrangement::SideBySide);
    let threads = whole.run.threads.len() as u32;
    let (frames, stacks) = (whole.frames.len() as u32, whole.stacks.len() as u32);
    part.run.threads.iter_mut().for_each(|t| t.id += threads);
    sums::shift(&mut part.run.counters, threads);
    for stack in &mut part.stacks {
        stack.frame += frames;
        stack.parent = stack.parent.map(|p| p + stacks);
    }
    for sample in &mut part.samples {
        sample.thread += threads;
        sample.stack = sample.stack.map(|s| s + stacks);
    }
    whole.run.exit_status = whole.run.exit_status.max(part.run.exit_status);
    whole.run.signal = whole.run.signal.or(part.run.signal);
    whole.run.quality = both(whole.run.quality, part.run.quality, f64::min);
    counters(&mut whole.run.counters, part.run.counters);
    whole.run.pages = both(whole.run.pages, part.run.pages, |a, b| pages(a, b, arrangement));
    whole.run.system = both(whole.run.system.take(), part.run.system, System::plus);
    whole.run.passes.append(&mut part.run.passes);
    whole.run.threads.append(&mut part.run.threads);
    for module in part.run.modules {
        if !whole.run.modules.contains(&module) {
            whole.run.modules.push(module);
        }
    }
    whole.run.ranks.append(&mut part.run.ranks);
    let new = part.run.warnings.into_iter().filter(|w| !whole.run.warnings.contains(w)).collect::<Vec<_>>();
    whole.run.warnings.extend(new);
    whole.frames.append(&mut part.frames);
    whole.stacks.append(&mut part.stacks);
    whole.samples.append(&mut part.samples);
    mpi::add(&mut whole.mpi, part.mpi);
    if let Some(part) = part.blas {
        let blas = whole.blas.get_or_insert_default();
        blas.at_least |= part.at_least;
        blas.threads = blas.threads.max(part.threads);
        blas.add(part.products);
    }
    regions::add_all(&mut whole.regions, part.regions, arrangement == Arrangement::SideBySide);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::SCHEMA;
    use rprof_profile::function::{Chain, Flops, PerThread, Work};
    use rprof_profile::run::Thread;

    fn profile(time_s: f64, flops: Option<u64>) -> Profile {
        let total = |t| Flops { total: t, dp: t, ..Flops::default() };
        let function = Function {
            name: "f".into(),
            module: "m".into(),
            time_s: Some(time_s),
            cpu_s: Some(time_s),
            flops: flops.map(total),
            concurrency: vec![1.0],
            team: Some(1),
            ..Function::default()
        };
        Profile { schema: SCHEMA.into(), model_version: 1, functions: vec![function], ..Profile::default() }
    }

    fn rank(n: u32, mut profile: Profile) -> Profile {
        profile.run.threads.push(Thread { id: 0, pid: 1, tid: 1, rank: Some(n), host: String::new(), cpu_s: 1.0 });
        profile
    }

    #[test]
    fn runs_come_one_after_another() {
        let merged = merge(vec![profile(1.0, Some(10)), profile(3.0, Some(5))], false).unwrap();
        let f = &merged.functions[0];
        assert_eq!((f.time_s, f.cpu_s, f.team, f.share), (Some(4.0), Some(4.0), Some(1), Some(1.0)));
        assert_eq!((f.flops.unwrap().total, &f.concurrency[..]), (15, &[1.0][..]));
        let mut wide = profile(3.0, Some(5));
        wide.functions[0].concurrency = vec![0.0, 1.0];
        assert_eq!(merge(vec![profile(1.0, None), wide], false).unwrap().functions[0].concurrency, [0.25, 0.75]);
    }

    #[test]
    fn ranks_ran_side_by_side() {
        let merged = merge(vec![rank(0, profile(1.0, Some(10))), rank(1, profile(3.0, Some(5)))], false).unwrap();
        let f = &merged.functions[0];
        assert_eq!((f.time_s, f.cpu_s, f.team, f.share), (Some(3.0), Some(4.0), Some(2), Some(1.0)));
        assert_eq!(f.flops.unwrap().total, 15);
        assert_eq!(f.concurrency, [2.0 / 3.0, 1.0 / 3.0], "two ranks are two at work, until one is done");
    }

    #[test]
    fn threads_of_a_later_ranks_own_functions_and_loops_have_their_new_numbers() {
        let part = |n: u32| {
            let per_thread = || vec![PerThread { thread: 0, ..PerThread::default() }];
            let own = Function { name: format!("of_{n}"), per_thread: per_thread(), ..Function::default() };
            let mut part = rank(n, profile(1.0, None));
            part.functions
                .push(Function { loops: vec![Function { per_thread: per_thread(), ..Function::default() }], ..own });
            part
        };
        let merged = merge(vec![part(0), part(1), part(2)], false).unwrap();
        let last = merged.functions.iter().find(|f| f.name == "of_2").unwrap();
        assert_eq!((last.per_thread[0].thread, last.loops[0].per_thread[0].thread), (2, 2));
    }

    #[test]
    fn the_clock_of_both_runs_is_their_mean_by_time() {
        let at = |hz: Option<f64>, seconds: f64| {
            let mut part = profile(seconds, None);
            part.functions[0].clock_hz = hz;
            part
        };
        let merged = merge(vec![at(Some(2e9), 1.0), at(Some(4e9), 3.0), at(None, 4.0)], false).unwrap();
        assert_eq!(merged.functions[0].clock_hz, Some(3.5e9));
    }

    #[test]
    fn the_same_loop_of_two_parts_is_one_loop() {
        let with_loop = |header, iterations| {
            let mut part = profile(1.0, None);
            let chains = vec![Chain { header, iterations, entries: 1, ..Chain::default() }];
            part.functions[0].work = Some(Work { chains, ..Work::default() });
            part
        };
        let merged = merge(vec![with_loop(8, 100), with_loop(8, 20), with_loop(16, 3)], false).unwrap();
        let chains = merged.functions.into_iter().next().unwrap().work.unwrap().chains;
        let loops: Vec<_> = chains.iter().map(|c| (c.header, c.iterations, c.entries)).collect();
        assert_eq!(loops, [(8, 120, 2), (16, 3, 1)]);
    }

    #[test]
    fn what_one_part_did_not_measure_stays_unknown() {
        assert_eq!(merge(vec![profile(1.0, Some(10)), profile(1.0, None)], false).unwrap().functions[0].flops, None);
        assert_eq!(merge(vec![], false), Err(MergeError::Nothing));
    }
}
