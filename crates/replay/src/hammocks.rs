//! Short code that a branch jumps over: a compiler could always execute it and select the results by the condition.

use std::collections::HashMap;

use rprof_profile::evidence::bursts::{BurstEvidence, Prediction};

use super::op::{Op, Program, kind};

/// Most instructions that are worth executing for nothing.
const LONGEST: usize = 8;
/// A branch that is predicted wrongly less often is left as it is.
const WRONG: f64 = 0.03;

/// The code behind a branch that ends at the branch's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hammock {
    /// The block that begins with it.
    pub block: u32,
    /// Its instructions at the beginning of that block.
    pub instructions: u32,
}

/// The hammocks of branches that are often predicted wrongly.
#[derive(Debug, Clone, Default)]
pub struct Hammocks {
    by_block: Vec<Option<Hammock>>,
}

impl Hammocks {
    /// Those of the branches at the ends of `program`'s blocks.
    pub fn new(program: &Program, bursts: &BurstEvidence) -> Hammocks {
        let mut starts: HashMap<u64, u32> = HashMap::new();
        for (n, block) in program.blocks.iter().enumerate() {
            starts.entry(block.start).or_insert(n as u32);
        }
        let mut counts = vec![(0u32, 0u32); program.blocks.len()];
        for step in bursts.bursts.iter().flat_map(|burst| &burst.steps) {
            let count = &mut counts[step.block as usize];
            count.0 += 1;
            count.1 += u32::from(step.branch != Prediction::Right);
        }
        let often = |n: usize| f64::from(counts[n].1) > WRONG * f64::from(counts[n].0);
        let of = |n: usize| hammock(program, &starts, n as u32).filter(|_| often(n));
        Hammocks { by_block: (0..program.blocks.len()).map(of).collect() }
    }

    /// The one behind the branch that ends `block`.
    pub fn behind(&self, block: u32) -> Option<Hammock> {
        self.by_block.get(block as usize).copied().flatten()
    }
}

fn hammock(program: &Program, starts: &HashMap<u64, u32>, n: u32) -> Option<Hammock> {
    let (block, ops) = program.block(n);
    let conditional = ops.last()?.is(kind::CONDITIONAL);
    if !conditional || block.target <= block.end {
        return None;
    }
    let behind = *starts.get(&block.end)?;
    let (over, ops) = program.block(behind);
    let inside = |op: &&Op| over.start + u64::from(op.offset) < block.target;
    let inside: Vec<&Op> = ops.iter().take_while(inside).collect();
    let last = inside.last()?;
    let ends = over.start + u64::from(last.offset) + u64::from(last.length) == block.target;
    let plain = inside.iter().all(|op| !op.is(kind::STORE | kind::BRANCH | kind::STRING));
    let fits = ends && plain && inside.len() <= LONGEST;
    fits.then_some(Hammock { block: behind, instructions: inside.len() as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64;
    use rprof_profile::CodeRef;
    use rprof_profile::evidence::bursts::{Burst, BurstStep, TracedBlock};

    fn block(start: u64, code: &[u8]) -> TracedBlock {
        TracedBlock { at: CodeRef { module: 0, offset: start }, start, code: code.to_vec() }
    }

    #[test]
    fn an_addition_that_a_branch_jumps_over_is_one() {
        // cmp eax, 5; jl +2 │ add ecx, eax; │ inc edx; ret
        let over = block(0x1005, &[0x01, 0xc1, 0xff, 0xc2, 0xc3]);
        let blocks = [block(0x1000, &[0x83, 0xf8, 0x05, 0x7c, 0x02]), over, block(0x1007, &[0xff, 0xc2, 0xc3])];
        let program = x86_64::program(&blocks, false);
        let step = |block, branch| BurstStep { block, first_access: 0, branch };
        let often = |wrong: Prediction| BurstEvidence {
            bursts: vec![Burst { steps: vec![step(0, wrong), step(1, Prediction::Right)], ..Burst::default() }],
            ..BurstEvidence::default()
        };
        let hammocks = Hammocks::new(&program, &often(Prediction::WrongDirection));
        assert_eq!(hammocks.behind(0), Some(Hammock { block: 1, instructions: 1 }));
        assert_eq!(hammocks.behind(1), None);
        assert_eq!(Hammocks::new(&program, &often(Prediction::Right)).behind(0), None, "it is predicted");
    }
}
