//! Loops with their narrow operations moved to the widest vectors.

use crate::op::{Op, kind};
use crate::parameters::CoreParameters;
use rprof_isa::facts::AccessKind;
use rprof_profile::evidence::bursts::{Burst, BurstAccess, Found};

use super::{Core, TO_ISSUE};

/// The widest useful vectors, as forms count them: 0 for scalars, 1 for 128 bits, 2 for 256, 3 for 512.
pub(super) fn widest(core: &CoreParameters) -> usize {
    match core.vector_bits {
        512.. => 3,
        256.. => 2,
        128.. => 1,
        _ => 0,
    }
}

impl Core<'_> {
    /// Brings the lines that an iteration misses if another iteration does its work.
    pub(super) fn touch(&mut self, ops: &[Op], accesses: &[BurstAccess], number: u32) {
        for (n, access) in accesses.iter().enumerate().filter(|(_, access)| access.found != Found::L1) {
            let Some(op) = ops.iter().find(|op| op.offset == access.access.offset) else { continue };
            let writes = matches!(access.access.kind, AccessKind::Store | AccessKind::Scatter);
            let place = (op.site, number + n as u32, self.generation);
            self.memory.access(
                access,
                place,
                self.dispatched.0 + TO_ISSUE,
                self.core.l1[op.data_width as usize],
                writes,
            );
        }
    }

    /// By block: number of consecutive executions that one would replace if the loop's narrow arithmetic used the widest vectors. In
    /// floating point the widest operations decide it, in a loop of integers the smallest elements that it accesses. Sums are split into
    /// partial results; a loop with a recurrence stays as it is.
    pub(super) fn lanes(&self, burst: &Burst) -> Vec<u32> {
        let bits = self.core.vector_bits;
        let program = &self.code.program;
        let loops = |n: u32| program.block(n).1.last().is_some_and(|last| last.is(kind::BACKWARD));
        let widest = |op: &Op| match op.form % 4 {
            0 => 64,
            1 => 128,
            2 => 256,
            _ => 512,
        };
        let arithmetic = |n: u32| program.block(n).1.iter().filter(|op| op.is(kind::ARITHMETIC)).map(widest).max();
        let mut elements: Vec<u32> = vec![u32::MAX; program.blocks.len()];
        for (step, next) in burst.steps.iter().zip(burst.steps.iter().skip(1)) {
            for access in &burst.accesses[step.first_access as usize..next.first_access as usize] {
                let element = &mut elements[step.block as usize];
                *element = (*element).min(8 * access.access.bytes.max(1));
            }
        }
        let of = |n: u32| match arithmetic(n) {
            // An iteration of vectors takes as long as one of scalars, and there is nothing to do at once.
            _ if !loops(n) || program.block(n).0.is_serial => 1,
            Some(has) => (bits / has).max(1),
            None => (bits / elements[n as usize]).max(1),
        };
        (0..program.blocks.len() as u32).map(of).collect()
    }
}
