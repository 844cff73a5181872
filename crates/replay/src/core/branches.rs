//! The ends of blocks: taken jumps, wrong predictions, and branches that became choices.

use crate::hammocks::Hammock;
use crate::op::{NONE, Op, kind};
use rprof_profile::evidence::bursts::{Burst, Prediction};

use super::graph::Node;
use super::{Cause, Core, Ready};

/// Code that is executed always, since its branch became a choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    hammock: Hammock,
    /// The condition.
    condition: Ready,
}

impl Core<'_> {
    /// The branch at the end of `burst`'s block number `step`.
    pub(super) fn ending(&mut self, last: &Op, taken: bool, branch: Prediction, burst: &Burst, step: usize) {
        let block = burst.steps[step].block;
        let hammock = self.change.branchless.then(|| self.code.hammocks.behind(block)).flatten();
        if let Some(hammock) = hammock {
            let choice = Choice { hammock, condition: self.result };
            if taken {
                self.execute_for_nothing(last, choice);
            } else {
                self.choice = Some(choice);
            }
            return;
        }
        if taken {
            if last.is(kind::BACKWARD) {
                self.iteration += 1;
            }
            self.front_end.taken(self.core, last);
        }
        if branch != Prediction::Right && !self.change.perfect_prediction {
            let resolved = self.result;
            self.wrong_path(burst, step, self.dispatched.0, resolved.time);
            let refill = match branch {
                Prediction::WrongTarget => self.core.indirect_refill,
                _ => self.core.refill,
            };
            let restarts = resolved.time + refill;
            self.front_end.restart(restarts);
            self.refilling = Some((resolved.node, restarts));
        }
    }

    /// The code that the branch jumped over. Its cycles belong to the branch.
    fn execute_for_nothing(&mut self, branch: &Op, choice: Choice) {
        let (_, ops) = self.code.program.block(choice.hammock.block);
        for op in &ops[..choice.hammock.instructions as usize] {
            self.instruction(&Op { site: branch.site, ..*op }, &[], 0);
        }
        self.choose(ops, choice);
    }

    /// Ends the current choice if its code ends behind instruction `n` of the block with the instructions `ops`.
    #[inline]
    pub(super) fn behind(&mut self, ops: &[Op], n: usize) {
        if let Some(choice) = self.choice.filter(|choice| choice.hammock.instructions as usize == n + 1) {
            self.choice = None;
            self.choose(ops, choice);
        }
    }

    /// Makes the registers that the code of a choice wrote wait for its condition, too.
    fn choose(&mut self, ops: &[Op], choice: Choice) {
        let time = choice.condition.time + 1;
        let node = self.push(Node::plain(time, choice.condition.node, Cause::Chain));
        for op in &ops[..choice.hammock.instructions as usize] {
            for &register in op.writes.iter().take_while(|&&register| register != NONE) {
                let held = &mut self.registers[register as usize];
                if time > held.time {
                    (held.time, held.node) = (time, node);
                }
            }
        }
    }
}
