//! Adds up the engines' counts, by module and offset, and makes evidence of them.

use std::collections::{BTreeMap, HashMap};

use rprof_profile::code::CodeRef;
use rprof_profile::evidence::blocks::{BlockCount, CallCount, DynamicCount};

/// Counts by place, there by code: code written at run time can put several blocks in one place.
#[derive(Debug, Default)]
pub struct Tally {
    blocks: Blocks,
    /// Executions in marked regions, by path instead of by thread.
    marked: Blocks,
}

/// Highest system call number with a count of its own.
pub const HIGHEST_CALL: u32 = 511;

type Blocks = HashMap<CodeRef, Vec<(Vec<u8>, Counts)>>;

#[derive(Debug, Default)]
struct Counts {
    /// By thread, in the order of their first execution.
    executions: Vec<(u32, u64)>,
    /// By (offset, thread).
    dynamic: HashMap<(u32, u32), u64>,
    /// Executions of a `syscall` at its end by number.
    calls: BTreeMap<u32, u64>,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `executions` more of the block `code` at `at`, by `thread`; `dynamic` are run-time sums as (offset, sum), 0 too.
    pub fn add(&mut self, at: CodeRef, code: &[u8], thread: u32, executions: u64, dynamic: &[(u32, u64)]) {
        add(&mut self.blocks, at, code, thread, (executions, dynamic));
    }

    /// The same for executions by threads on `path` through marked regions.
    pub fn add_marked(&mut self, at: CodeRef, code: &[u8], path: u32, executions: u64, dynamic: &[(u32, u64)]) {
        add(&mut self.marked, at, code, path, (executions, dynamic));
    }

    /// The `syscall` at the end of the block `code` at `at` was executed `count` more times with `number` in RAX.
    pub fn add_calls(&mut self, at: CodeRef, code: &[u8], number: u32, count: u64) {
        *counts(&mut self.blocks, at, code).calls.entry(number).or_default() += count;
    }

    /// The counted blocks, in order of their place, without their modules.
    pub fn into_blocks(self) -> Vec<BlockCount> {
        in_order(self.blocks)
    }

    /// Ends the run: all blocks, and those of marked regions, both in order of their place.
    pub fn finish(self) -> (Vec<BlockCount>, Vec<BlockCount>) {
        (in_order(self.blocks), in_order(self.marked))
    }
}

fn add(to: &mut Blocks, at: CodeRef, code: &[u8], thread: u32, (executions, dynamic): (u64, &[(u32, u64)])) {
    let counts = counts(to, at, code);
    match counts.executions.iter_mut().rev().find(|(t, _)| *t == thread) {
        Some((_, n)) => *n += executions,
        None => counts.executions.push((thread, executions)),
    }
    for &(offset, sum) in dynamic {
        *counts.dynamic.entry((offset, thread)).or_default() += sum;
    }
}

fn counts<'a>(of: &'a mut Blocks, at: CodeRef, code: &[u8]) -> &'a mut Counts {
    let here = of.entry(at).or_default();
    let i = here.iter().position(|(known, _)| known == code).unwrap_or_else(|| {
        here.push((code.to_vec(), Counts::default()));
        here.len() - 1
    });
    &mut here[i].1
}

fn in_order(blocks: Blocks) -> Vec<BlockCount> {
    let blocks = blocks.into_iter();
    let mut blocks: Vec<BlockCount> =
        blocks.flat_map(|(at, here)| here.into_iter().map(move |(code, counts)| block(at, code, counts))).collect();
    blocks.sort_unstable_by(|a, b| (a.at, &a.code).cmp(&(b.at, &b.code)));
    blocks
}

fn block(at: CodeRef, code: Vec<u8>, counts: Counts) -> BlockCount {
    let mut dynamic: Vec<DynamicCount> =
        counts.dynamic.into_iter().map(|((offset, thread), sum)| DynamicCount { offset, thread, sum }).collect();
    dynamic.sort_unstable_by_key(|d| (d.offset, d.thread));
    let mut executions = counts.executions;
    executions.retain(|&(_, n)| n > 0);
    executions.sort_unstable();
    let calls = call_counts(counts.calls, executions.iter().map(|(_, n)| n).sum());
    BlockCount { at, code, executions, dynamic, calls }
}

/// Sorts the counts of a `syscall` by number, and corrects them. If a signal comes between the counting of a call and the call
/// itself, the call counts twice; the executions do not. The excess is subtracted from the most frequent number.
fn call_counts(calls: BTreeMap<u32, u64>, executions: u64) -> Vec<CallCount> {
    let mut calls: Vec<CallCount> = calls.into_iter().map(|(number, count)| CallCount { number, count }).collect();
    let excess = calls.iter().map(|c| c.count).sum::<u64>().saturating_sub(executions);
    if let Some(most) = calls.iter_mut().max_by_key(|c| c.count) {
        most.count = most.count.saturating_sub(excess);
    }
    calls
}
