//! Assumptions about latencies, only to choose which cycles are worth reporting. The model weighs them with measured ones.

use crate::dependency::ChainStep;
use crate::operation::FpOp;

/// Cycles that each step is taken to last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assumption {
    add: f64,
    multiply: f64,
    vector: f64,
    integer: f64,
    load: f64,
    forward: f64,
}

/// A typical core first; then one with fast additions, distant data, free store forwarding, slow shuffles.
pub(super) const ASSUMPTIONS: [Assumption; 5] = [
    TYPICAL,
    Assumption { add: 2.0, multiply: 3.0, ..TYPICAL },
    Assumption { load: 200.0, ..TYPICAL },
    Assumption { forward: 0.0, load: 3.0, ..TYPICAL },
    Assumption { vector: 3.0, integer: 1.0, ..TYPICAL },
];

/// A typical core.
pub(super) const TYPICAL: Assumption =
    Assumption { add: 3.5, multiply: 4.0, vector: 1.5, integer: 1.0, load: 5.0, forward: 5.0 };

impl Assumption {
    /// Cycles of a step.
    pub(super) fn of(&self, step: ChainStep) -> f64 {
        match step {
            ChainStep::Fp { op, .. } => match op {
                FpOp::Add => self.add,
                FpOp::Mul | FpOp::Fma => self.multiply,
                FpOp::Div => 13.0,
                FpOp::Sqrt => 18.0,
                FpOp::Other => 5.0,
            },
            ChainStep::Vector => self.vector,
            ChainStep::Integer | ChainStep::Compare | ChainStep::Select => self.integer,
            ChainStep::IntegerMultiply => 3.0,
            ChainStep::IntegerDivide => 12.0,
            ChainStep::Load => self.load,
            ChainStep::Forward => self.forward,
        }
    }
}
