//! Functions of several profiles: those of one name and module are added up.

use std::collections::BTreeMap;

use super::elapsed;
use super::jobs::Arrangement;
use super::lines;
use super::mpi;
use super::sums::{self, both, counters, pages, sum};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::account::Account;
use rprof_profile::data;
use rprof_profile::disassembly::Disassembly;
use rprof_profile::function::{Bytes, CacheMisses, Chain, Flops, Misses, MixEntry, Source, Work};
use rprof_profile::prefetch::Prefetch;
use rprof_profile::system::System;
use rprof_profile::{Function, Profile};

/// Functions of profiles that come one after the other, so that those of all profiles need not be in memory at once.
#[derive(Debug)]
pub struct Functions {
    pub(super) arrangement: Arrangement,
    pub(super) functions: Vec<Function>,
    /// Of each profile: CPU seconds at work, and threads that had some.
    pub(super) work: Vec<(Option<f64>, usize)>,
    /// Threads of all profiles.
    threads: u32,
}

impl Functions {
    /// Of the ranks of a job, none yet.
    pub fn of_ranks() -> Self {
        Self::new(Arrangement::SideBySide)
    }

    pub(super) fn new(arrangement: Arrangement) -> Self {
        Functions { arrangement, functions: Vec::new(), work: Vec::new(), threads: 0 }
    }

    /// Adds the functions of the next profile, which has none left.
    pub fn take(&mut self, profile: &mut Profile) {
        self.work.push(mpi::work(profile));
        let mut functions = std::mem::take(&mut profile.functions);
        functions.iter_mut().for_each(|function| shift(function, self.threads));
        add_all(&mut self.functions, functions, self.arrangement);
        self.threads += profile.run.threads.len() as u32;
    }
}

/// Makes the numbers of its threads, and of those of its loops, greater by `threads`.
fn shift(function: &mut Function, threads: u32) {
    function.per_thread.iter_mut().for_each(|part| part.thread += threads);
    sums::shift(&mut function.counters, threads);
    function.loops.iter_mut().for_each(|part| shift(part, threads));
}

fn add_all(into: &mut Vec<Function>, functions: Vec<Function>, arrangement: Arrangement) {
    let places: BTreeMap<(String, String), usize> =
        into.iter().enumerate().map(|(i, f)| ((f.name.clone(), f.module.clone()), i)).collect();
    for function in functions {
        match places.get(&(function.name.clone(), function.module.clone())) {
            Some(place) => add(&mut into[*place], function, arrangement),
            None => into.push(function),
        }
    }
}

fn add(into: &mut Function, other: Function, arrangement: Arrangement) {
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
    counters(&mut into.counters, other.counters);
    into.work = both(into.work.take(), other.work, add_work);
    into.system = both(into.system.take(), other.system, System::plus);
    into.prefetch = both(into.prefetch, other.prefetch, Prefetch::plus);
    into.account = both(into.account.take(), other.account, Account::plus);
    disassembly(into, other.disassembly);
    lines::add(into, other.lines, other.inlined);
    add_all(&mut into.loops, other.loops, arrangement);
}

/// Instructions stay if all parts have the same ones.
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

/// Sums of each level.
pub fn add_bytes(a: Bytes, b: Bytes) -> Bytes {
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

fn key_of(m: &MixEntry) -> (FpOp, Precision, Width) {
    (m.op, m.precision, m.width)
}
