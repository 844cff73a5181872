//! Blocks of the counted pass and how often they were executed.

use serde::{Deserialize, Serialize};

use std::collections::HashMap;

use crate::code::CodeRef;

/// A straight run of instructions and how often it was executed from its first to its last instruction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockCount {
    /// Its first instruction.
    pub at: CodeRef,
    /// The program's own bytes of the block.
    pub code: Vec<u8>,
    /// (index into `threads`, executions), threads without executions left out.
    pub executions: Vec<(u32, u64)>,
    /// Run-time sums for instructions with counts that their text does not determine; a sum of 0 is listed, a missing one was not
    /// counted.
    pub dynamic: Vec<DynamicCount>,
    /// If it ends in a `syscall` with a number that its text does not show: how often it called each number.
    pub calls: Vec<CallCount>,
}

/// Executions of a `syscall` with one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCount {
    /// Its number.
    pub number: u32,
    /// Executions, of all threads.
    pub count: u64,
}

/// A run-time sum of one instruction in one thread: active lanes, or `rep` iterations, over all executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicCount {
    /// Byte offset of the instruction in the block.
    pub offset: u32,
    /// Index into `threads`.
    pub thread: u32,
    /// Sum over all executions.
    pub sum: u64,
}

/// Counts of the same blocks added up, in order of their place.
pub fn merged<'b>(blocks: impl Iterator<Item = &'b BlockCount>) -> Vec<BlockCount> {
    let mut by_code: HashMap<(CodeRef, &[u8]), BlockCount> = HashMap::new();
    for block in blocks {
        let sum = by_code.entry((block.at, &block.code)).or_insert_with(|| BlockCount {
            at: block.at,
            code: block.code.clone(),
            executions: Vec::new(),
            dynamic: Vec::new(),
            calls: Vec::new(),
        });
        for &(thread, n) in &block.executions {
            match sum.executions.iter_mut().find(|e| e.0 == thread) {
                Some(known) => known.1 += n,
                None => sum.executions.push((thread, n)),
            }
        }
        for more in &block.dynamic {
            match sum.dynamic.iter_mut().find(|d| (d.offset, d.thread) == (more.offset, more.thread)) {
                Some(known) => known.sum += more.sum,
                None => sum.dynamic.push(*more),
            }
        }
        for more in &block.calls {
            match sum.calls.iter_mut().find(|c| c.number == more.number) {
                Some(known) => known.count += more.count,
                None => sum.calls.push(*more),
            }
        }
    }
    let mut blocks: Vec<BlockCount> = by_code.into_values().collect();
    blocks.sort_unstable_by(|a, b| (a.at, &a.code).cmp(&(b.at, &b.code)));
    blocks
}
