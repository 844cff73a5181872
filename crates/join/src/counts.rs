//! Counts of a function, of each of its loops and of each of its instructions.

use std::collections::{BTreeMap, HashMap};

use super::blocks::{DecodedBlock, ExecutedBlocks, Span};
use super::loops::LoopNest;
use super::tally::{Executions, Tally};
use rprof_isa::x86_64::{block_issue_slots, classify};
use rprof_profile::evidence::blocks::BlockCount;

/// Counts of one function or loop.
#[derive(Debug, Default)]
pub struct Counts {
    /// Sums over its instructions; inner loops of a loop are not included.
    pub tally: Tally,
    /// By thread of the counted evidence: (instructions, FLOPs).
    pub per_thread: BTreeMap<u32, (u64, u64)>,
    /// By instruction.
    pub sites: HashMap<u64, Site>,
    /// Executed instructions with active lanes or iterations that the engine did not count.
    pub uncounted_dynamic: u64,
}

/// One instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Site {
    /// Length in bytes.
    pub length: u8,
    /// Executions by all threads.
    pub executions: u64,
    /// FLOPs by all threads.
    pub flops: u64,
}

/// Counts of a function and its loops.
#[derive(Debug, Default)]
pub struct FunctionCounts {
    /// The function as a whole, loops included, waiting excluded.
    pub whole: Counts,
    /// Its loops, as the nest numbers them; self figures.
    pub loops: Vec<Counts>,
    /// Instructions executed in loops that wait: shown, never work.
    pub waiting_instructions: u64,
}

impl FunctionCounts {
    /// Sums the `spans` of one function.
    pub fn of(spans: &[Span], executed: &ExecutedBlocks, nest: Option<&LoopNest>) -> Self {
        let mut counts = FunctionCounts::default();
        counts.loops.resize_with(nest.map_or(0, |s| s.loops.len()), Counts::default);
        for span in spans {
            counts.add_span(*span, &executed.blocks[span.block as usize], nest);
        }
        counts
    }

    fn add_span(&mut self, span: Span, block: &DecodedBlock, nest: Option<&LoopNest>) {
        let slots = block_issue_slots(&block.instructions);
        let span = span.first as usize..span.last as usize;
        for (instruction, slots) in block.instructions[span.clone()].iter().zip(&slots[span]) {
            let at = instruction.ip();
            let in_loop = nest.and_then(|s| s.loop_at(at));
            if in_loop.zip(nest).is_some_and(|(l, s)| s.loops[l as usize].waits) {
                self.waiting_instructions += block.executions;
                continue;
            }
            let facts = classify(instruction);
            let offset = (at - block.place.offset) as u32;
            let counted = block.count.dynamic.iter().any(|d| d.offset == offset);
            let with_sums = facts.dynamic.map(|_| executions_and_sums(block.count, offset));
            for (thread, count) in with_sums.as_ref().unwrap_or(&block.count.executions) {
                let sums = block.count.dynamic.iter().filter(|d| d.offset == offset && d.thread == *thread);
                let dynamic = (facts.dynamic.is_some() && counted).then(|| sums.map(|d| d.sum).sum());
                let executions = Executions { count: *count, dynamic };
                let missing = if facts.dynamic.is_some() && !counted { *count } else { 0 };
                let of_loop = in_loop.map(|l| &mut self.loops[l as usize]);
                for counts in [Some(&mut self.whole), of_loop].into_iter().flatten() {
                    let flops = counts.tally.add(&facts, *slots, executions);
                    counts.uncounted_dynamic += missing;
                    let thread = counts.per_thread.entry(*thread).or_default();
                    *thread = (thread.0 + count, thread.1 + flops);
                    let site = counts.sites.entry(at).or_default();
                    site.length = facts.length;
                    site.executions += count;
                    site.flops += flops;
                }
            }
        }
    }
}

/// Executions of a block by thread; none for threads that only have a sum at `offset`: an interrupted `rep` continues in another block.
fn executions_and_sums(count: &BlockCount, offset: u32) -> Vec<(u32, u64)> {
    let mut executions = count.executions.clone();
    for sum in count.dynamic.iter().filter(|d| d.offset == offset && d.sum > 0) {
        if executions.iter().all(|(thread, _)| *thread != sum.thread) {
            executions.push((sum.thread, 0));
        }
    }
    executions
}

impl Counts {
    /// Bytes of code that hold 99 % of the executed instructions.
    pub fn code_bytes(&self) -> u64 {
        let mut sites: Vec<&Site> = self.sites.values().collect();
        sites.sort_by_key(|s| std::cmp::Reverse(s.executions));
        let wanted = self.tally.instructions - self.tally.instructions / 100;
        let mut held = 0;
        let mut bytes = 0;
        for site in sites {
            if held >= wanted {
                break;
            }
            held += site.executions;
            bytes += u64::from(site.length);
        }
        bytes
    }

    /// Executions of the instruction at `offset`.
    pub fn executions(&self, offset: u64) -> u64 {
        self.sites.get(&offset).map_or(0, |s| s.executions)
    }
}
