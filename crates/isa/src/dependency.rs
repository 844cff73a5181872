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
    Fp { op: FpOp, precision: Precision, width: Width },
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
