//! Dependency cycles of loop bodies, symbolically: the operations on them, without their latencies.

use serde::{Deserialize, Serialize};

use super::operation::{FpOp, Precision, Width};

/// One dependency cycle: the operations on it in `distance` iterations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cycle {
    /// Operations on the cycle, in order.
    pub steps: Vec<ChainStep>,
    /// Iterations that one turn of the cycle spans.
    pub distance: u32,
}

/// One operation on a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChainStep {
    /// FP arithmetic.
    Fp {
        op: FpOp,
        precision: Precision,
        width: Width,
        /// Of a fused multiply-add on a loop-carried cycle: the value before it is multiplied, not only added to.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_factor: bool,
    },
    /// Other vector or FP register operation (shuffle, logic, convert, min/max).
    Vector,
    /// Integer operation: 1 cycle.
    Integer,
    /// Integer compare or test: its result is flags.
    Compare,
    /// Conditional move: the choice between two values.
    Select,
    /// Integer multiply: 3 cycles.
    IntegerMultiply,
    /// Integer divide.
    IntegerDivide,
    /// Load-to-use through an address register: latency of the level that serves it (pointer chasing).
    Load,
    /// Store forwarded to a later load of the same address.
    Forward,
}

impl ChainStep {
    /// FP arithmetic of a value that is added to, or multiplied with what is no sum.
    pub const fn arithmetic(op: FpOp, precision: Precision, width: Width) -> ChainStep {
        ChainStep::Fp { op, precision, width, is_factor: false }
    }

    /// The step with the value before it as a factor, if it is a fused multiply-add.
    pub fn of_factor(self) -> ChainStep {
        match self {
            ChainStep::Fp { op: FpOp::Fma, precision, width, .. } => {
                ChainStep::Fp { op: FpOp::Fma, precision, width, is_factor: true }
            }
            other => other,
        }
    }
}

/// Integer operations on the path of a sum, unrolled ones included.
const LONGEST_SUM: usize = 2;

impl Cycle {
    /// Whether the cycle goes through the address of a load.
    pub fn is_chase(&self) -> bool {
        self.steps.contains(&ChainStep::Load)
    }

    /// Whether each value needs the one before for more than a sum, so that partial results cannot replace it.
    ///
    /// A sum (product, minimum) goes through one kind of operation. Multiplies and adds in turn (fused ones that multiply the value,
    /// too), divisions and multiplied integers are recurrences, and so are long integer paths (generators of random numbers), and values
    /// that a conditional move chooses from results of the one before. A compare and a conditional move alone are a minimum or maximum.
    pub fn is_recurrence(&self) -> bool {
        let has = |wanted: &[FpOp]| {
            self.steps.iter().any(|step| matches!(step, ChainStep::Fp { op, .. } if wanted.contains(op)))
        };
        let scales = self.steps.iter().any(|step| matches!(step, ChainStep::Fp { is_factor: true, .. }));
        let integers = self.steps.iter().filter(|step| **step == ChainStep::Integer).count();
        let multiplied = self.steps.iter().any(|s| matches!(s, ChainStep::IntegerMultiply | ChainStep::IntegerDivide));
        scales
            || has(&[FpOp::Div, FpOp::Sqrt])
            || has(&[FpOp::Mul]) && has(&[FpOp::Add, FpOp::Fma])
            || multiplied && self.steps.len() > 1
            || integers > LONGEST_SUM
            || integers > 0 && self.steps.contains(&ChainStep::Select)
    }

    /// Whether it counts iterations: one integer operation.
    pub fn is_counter(&self) -> bool {
        self.steps == [ChainStep::Integer]
    }
}

/// Whether a loop with these cycles has a recurrence, or stores each value of a cycle (`stored`): it has no partial results, and a
/// vector iteration is as long as a scalar one. Chases are not looked at.
pub fn are_serial(cycles: &[Cycle], stored: bool) -> bool {
    let others = cycles.iter().filter(|cycle| !cycle.is_chase());
    others.into_iter().any(|cycle| stored && !cycle.is_counter() || cycle.is_recurrence())
}

/// How the address of an access in a loop comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressOrigin {
    /// From arithmetic in registers.
    Computed,
    /// From values that were loaded from addresses which do not depend on it: an index list, an array of pointers.
    Indexed,
    /// From the value that the access before brought: a list, a tree, a search.
    Chased,
}

/// The dependencies of one loop body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BodyDependencies {
    /// Loop-carried cycles, each the slowest under one assumption about latencies; the slowest one is among them.
    pub cycles: Vec<Cycle>,
    /// The longest chain of FP operations within one iteration that no loop-carried cycle holds: it starts anew each time.
    pub restarted: Option<Cycle>,
    /// FP arithmetic instructions in one iteration.
    pub fp_instructions: u32,
    /// Each iteration stores a value of a loop-carried cycle to a place of its own: all of them are results.
    pub stored: bool,
}
