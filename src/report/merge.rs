//! Several ranks or runs as one profile: threads, stacks and samples are put together, functions of one name added up.
//!
//! Work adds up. Ranks of one job ran side by side: their elapsed time is that of the longest. Runs without ranks came one
//! after another: their times add up. Analysis is left to `roofline`.

mod devices;
mod elapsed;
mod hosts;
mod jobs;
mod lines;
mod mpi;
mod regions;

pub use hosts::tell_apart as tell_hosts_apart;
pub use jobs::MergeError;

use std::collections::BTreeMap;

use jobs::Arrangement;

use crate::profile::account::Account;
use crate::profile::counters::Counter;
use crate::profile::data;
use crate::profile::disassembly::Disassembly;
use crate::profile::function::{Bytes, CacheMisses, Chain, Flops, Misses, PerThread, Source, Work};
use crate::profile::pages::Pages;
use crate::profile::prefetch::Prefetch;
use crate::profile::run::Warning;
use crate::profile::system::System;
use crate::profile::{Function, Profile};

/// Puts `profiles` together, the first leading. `partial`: ranks of the job may be missing.
///
/// # Errors
/// They do not belong together.
pub fn merge(mut profiles: Vec<Profile>, partial: bool) -> Result<Profile, MergeError> {
    hosts::tell_apart(&mut profiles);
    let (arrangement, missing) = jobs::arrangement(&profiles, partial)?;
    let hosts = match arrangement {
        Arrangement::SideBySide => hosts::together(&profiles),
        Arrangement::InTurn => None,
    };
    let work: Vec<_> = profiles.iter().map(mpi::work).collect();
    let mut parts = profiles.into_iter();
    let mut whole = parts.next().ok_or(MergeError::Nothing)?;
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
        mpi::compare(&mut whole, &work);
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
    counters(&mut whole.run.counters, part.run.counters, threads);
    whole.run.pages = both(whole.run.pages, part.run.pages, |a, b| pages(a, b, arrangement));
    whole.run.system = both(whole.run.system.take(), part.run.system, System::plus);
    whole.run.passes.append(&mut part.run.passes);
    whole.run.threads.append(&mut part.run.threads);
    whole.run.ranks.append(&mut part.run.ranks);
    let new = part.run.warnings.into_iter().filter(|w| !whole.run.warnings.contains(w)).collect::<Vec<_>>();
    whole.run.warnings.extend(new);
    whole.frames.append(&mut part.frames);
    whole.stacks.append(&mut part.stacks);
    whole.samples.append(&mut part.samples);
    add_all(&mut whole.functions, part.functions, threads, arrangement);
    mpi::add(&mut whole.mpi, part.mpi);
    if let Some(part) = part.blas {
        let blas = whole.blas.get_or_insert_default();
        blas.at_least |= part.at_least;
        blas.threads = blas.threads.max(part.threads);
        blas.add(part.products);
    }
    regions::add_all(&mut whole.regions, part.regions, arrangement == Arrangement::SideBySide);
}

fn add_all(into: &mut Vec<Function>, functions: Vec<Function>, threads: u32, arrangement: Arrangement) {
    let places: BTreeMap<(String, String), usize> =
        into.iter().enumerate().map(|(i, f)| ((f.name.clone(), f.module.clone()), i)).collect();
    for mut function in functions {
        function.per_thread.iter_mut().for_each(|t: &mut PerThread| t.thread += threads);
        match places.get(&(function.name.clone(), function.module.clone())) {
            Some(place) => add(&mut into[*place], function, threads, arrangement),
            None => into.push(function),
        }
    }
}

fn add(into: &mut Function, other: Function, threads: u32, arrangement: Arrangement) {
    elapsed::add(into, &other, arrangement);
    let weights = (into.cpu_s.unwrap_or(0.0), other.cpu_s.unwrap_or(0.0));
    into.clock_hz = mean((into.clock_hz, other.clock_hz), weights);
    into.cpu_s = sum(into.cpu_s, other.cpu_s);
    into.inclusive_s = sum(into.inclusive_s, other.inclusive_s);
    into.waiting_s = sum(into.waiting_s, other.waiting_s);
    into.kernel_s = sum(into.kernel_s, other.kernel_s);
    into.fault_s = sum(into.fault_s, other.fault_s);
    into.per_thread.extend(other.per_thread);
    into.instructions = sum(into.instructions, other.instructions);
    into.fp_instructions = sum(into.fp_instructions, other.fp_instructions);
    into.simd_instructions = sum(into.simd_instructions, other.simd_instructions);
    into.int_ops = sum(into.int_ops, other.int_ops);
    into.flops = both(into.flops, other.flops, add_flops);
    let moved = |bytes: Option<Bytes>| bytes.and_then(|b| b.dram).unwrap_or(0) as f64;
    let weights = (moved(into.bytes), moved(other.bytes));
    into.data = data::together(std::mem::take(&mut into.data), other.data, weights);
    into.bytes = both(into.bytes, other.bytes, add_bytes);
    into.cache_misses = both(into.cache_misses, other.cache_misses, |a, b| CacheMisses {
        l1: sum(a.l1, b.l1),
        l2: sum(a.l2, b.l2),
        l3: sum(a.l3, b.l3),
    });
    into.misses = both(into.misses, other.misses, |a, b| Misses {
        compulsory: sum(a.compulsory, b.compulsory),
        capacity: sum(a.capacity, b.capacity),
        conflict: sum(a.conflict, b.conflict),
        coherence: sum(a.coherence, b.coherence),
        l1_conflict: sum(a.l1_conflict, b.l1_conflict),
        l2_conflict: sum(a.l2_conflict, b.l2_conflict),
    });
    into.pages = both(into.pages, other.pages, |a, b| pages(a, b, arrangement));
    counters(&mut into.counters, other.counters, threads);
    into.work = both(into.work.take(), other.work, add_work);
    into.system = both(into.system.take(), other.system, System::plus);
    into.prefetch = both(into.prefetch, other.prefetch, Prefetch::plus);
    into.account = both(into.account.take(), other.account, Account::plus);
    disassembly(into, other.disassembly);
    lines::add(into, other.lines, other.inlined);
    add_all(&mut into.loops, other.loops, threads, arrangement);
}

/// Instructions stay where all parts have the same ones.
fn disassembly(into: &mut Function, other: Option<Disassembly>) {
    let Some(own) = into.disassembly.take() else { return };
    into.disassembly = other.and_then(|other| own.plus(&other));
    if into.disassembly.is_none() {
        let reason = "a part of the merge has other instructions there, or does not list them";
        into.source.insert("disassembly".into(), Source::not_measured(reason));
    }
}

/// The weighted mean of both; if one is unknown, the other.
fn mean((a, b): (Option<f64>, Option<f64>), (of_a, of_b): (f64, f64)) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) if of_a + of_b > 0.0 => Some((a * of_a + b * of_b) / (of_a + of_b)),
        _ => a.or(b),
    }
}

/// Ranks have memory of their own; runs of a program are assumed to touch the same pages again.
fn pages(a: Pages, b: Pages, arrangement: Arrangement) -> Pages {
    match arrangement {
        Arrangement::SideBySide => a.beside(b),
        Arrangement::InTurn => a.larger(b),
    }
}

/// Counters of one name add up; a counter missing in one part is unknown for the whole.
fn counters(into: &mut Vec<Counter>, others: Vec<Counter>, threads: u32) {
    let known = |c: &Counter| others.iter().any(|o| o.event == c.event);
    into.iter_mut().filter(|c| !known(c)).for_each(|c| lose(c, "a part of the merge has no such counter"));
    for mut other in others {
        other.per_thread.iter_mut().for_each(|t| t.thread += threads);
        match into.iter_mut().find(|c| c.event == other.event) {
            Some(counter) => add_counter(counter, other),
            None => {
                lose(&mut other, "a part of the merge has no such counter");
                into.push(other);
            }
        }
    }
}

fn lose(counter: &mut Counter, reason: &str) {
    if counter.value.is_some() {
        counter.source = Source::not_measured(reason);
    }
    (counter.value, counter.ratio, counter.raw) = (None, None, None);
}

fn add_counter(into: &mut Counter, other: Counter) {
    if into.value.is_some() && other.value.is_none() {
        into.source = other.source.clone();
    }
    let error = |c: &Counter| c.value.zip(c.source.error).map_or(0.0, |(v, e)| v * e);
    let absolute = error(into).hypot(error(&other));
    into.value = sum(into.value, other.value);
    into.counted = sum(into.counted, other.counted);
    into.ratio = into.value.zip(into.counted).filter(|(_, c)| *c > 0.0).map(|(v, c)| v / c);
    into.raw = sum(into.raw, other.raw);
    into.background = sum(into.background, other.background);
    into.running_share = both(into.running_share, other.running_share, f64::min);
    into.unattributed = both(into.unattributed, other.unattributed, f64::max);
    into.balance = both(into.balance, other.balance, f64::min);
    into.certified &= other.certified;
    into.source.error = into.value.filter(|v| *v > 0.0 && absolute > 0.0).map(|v| absolute / v);
    into.per_thread.extend(other.per_thread);
}

/// Both, or nothing: a part that was not measured makes the whole unknown, not smaller.
fn both<T>(a: Option<T>, b: Option<T>, f: impl FnOnce(T, T) -> T) -> Option<T> {
    a.zip(b).map(|(a, b)| f(a, b))
}

fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    both(a, b, |a, b| a + b)
}

fn add_flops(a: Flops, b: Flops) -> Flops {
    let (mut s, x, y) = (a, b.by_op, b.by_width);
    s.total += b.total;
    s.dp += b.dp;
    s.sp += b.sp;
    s.hp += b.hp;
    s.bf16 += b.bf16;
    s.x87 += b.x87;
    s.by_op.add += x.add;
    s.by_op.mul += x.mul;
    s.by_op.fma += x.fma;
    s.by_op.div += x.div;
    s.by_op.sqrt += x.sqrt;
    s.by_op.other += x.other;
    s.by_width.scalar += y.scalar;
    s.by_width.w128 += y.w128;
    s.by_width.w256 += y.w256;
    s.by_width.w512 += y.w512;
    s.missing_parts = a.missing_parts.or(b.missing_parts);
    s
}

fn add_bytes(a: Bytes, b: Bytes) -> Bytes {
    Bytes {
        l1: sum(a.l1, b.l1),
        l2: sum(a.l2, b.l2),
        l3: sum(a.l3, b.l3),
        dram: sum(a.dram, b.dram),
        dram_read: sum(a.dram_read, b.dram_read),
        dram_write: sum(a.dram_write, b.dram_write),
    }
}

fn add_work(mut a: Work, b: Work) -> Work {
    for entry in b.mix {
        let same = |m: &&mut _| key_of(m) == key_of(&entry);
        match a.mix.iter_mut().find(same) {
            Some(m) => {
                m.instructions += entry.instructions;
                m.flops += entry.flops;
            }
            None => a.mix.push(entry),
        }
    }
    for (class, count) in b.classes {
        match a.classes.iter_mut().find(|(c, _)| *c == class) {
            Some((_, n)) => *n += count,
            None => a.classes.push((class, count)),
        }
    }
    for entry in b.accesses {
        match a.accesses.iter_mut().find(|e| (e.kind, e.bytes, e.vector) == (entry.kind, entry.bytes, entry.vector)) {
            Some(e) => e.count += entry.count,
            None => a.accesses.push(entry),
        }
    }
    let instructions = |w: f64, slots: u64| w * slots as f64;
    let covered = instructions(a.chain_coverage, a.issue_slots) + instructions(b.chain_coverage, b.issue_slots);
    a.issue_slots += b.issue_slots;
    a.calls = both(a.calls, b.calls, |a, b| a + b);
    a.chain_coverage = if a.issue_slots > 0 { covered / a.issue_slots as f64 } else { 0.0 };
    a.code_bytes = a.code_bytes.max(b.code_bytes);
    for chain in b.chains {
        // Chains of one loop count as side by side, so the same chain of another part must not stay a second one.
        let same = |c: &&mut Chain| {
            (c.header, c.restart_every, &c.cycles) == (chain.header, chain.restart_every, &chain.cycles)
        };
        match a.chains.iter_mut().find(same) {
            Some(c) => {
                c.iterations += chain.iterations;
                c.entries += chain.entries;
            }
            None => a.chains.push(chain),
        }
    }
    a.traffic = both(a.traffic, b.traffic, |mut sum, more| {
        sum.add(&more);
        sum
    });
    a
}

fn key_of(
    m: &crate::profile::function::MixEntry,
) -> (crate::isa::operation::FpOp, crate::isa::operation::Precision, crate::isa::operation::Width) {
    (m.op, m.precision, m.width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SCHEMA;
    use crate::profile::run::Thread;

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
