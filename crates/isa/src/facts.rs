//! The facts of one instruction that the counts are built from. Architecture-neutral.

use super::operation::{FpOp, Precision, Width};

/// Everything that one execution of an instruction adds to the counts, as far as its text determines it.
///
/// Counts that the text does not determine (the population of a mask register, the repeat count of a string instruction) are named in
/// [`dynamic`](Self::dynamic), and the engine counts its sum over all executions. FLOPs, integer operations and the bytes of
/// `masked` accesses hold with all lanes active: the executed figure is figure × sum / lanes (lanes as `dynamic` states them).
/// With [`Dynamic::Repeat`] they hold for one iteration: the executed figure is figure × sum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstructionFacts {
    /// Encoded length in bytes.
    pub length: u8,
    /// Floating-point work, one entry per (operation, precision, width); empty for anything but arithmetic.
    pub flops: Vec<FlopFact>,
    /// Arithmetic, compare, min/max, convert, round; not moves, loads, logic.
    pub fp_instruction: bool,
    /// Like `fp_instruction` and packed (more than one lane).
    pub simd_instruction: bool,
    /// Integer add, subtract, multiply, shift, compare, logic: operations per execution (lanes for vectors).
    pub int_ops: u32,
    /// The memory operands, in the order read before written.
    pub accesses: Vec<AccessFact>,
    /// Which part of the counts depends on run-time values.
    pub dynamic: Option<Dynamic>,
    /// Its class of filler for the instruction-mix ceilings (A.1.4).
    pub class: InstructionClass,
    /// Issue slots: 1, or 0 for `nop` and for the branch of a macro-fused pair (set by the block pass).
    pub issue_slots: u8,
}

/// FLOPs of one (operation, precision, width) in one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlopFact {
    /// The operation.
    pub op: FpOp,
    /// In which format.
    pub precision: Precision,
    /// Register width it works on.
    pub width: Width,
    /// FLOPs with all lanes active.
    pub flops: u32,
    /// Lanes that a mask can switch off (`flops / lanes` is the figure of one lane); 1 for scalar.
    pub lanes: u32,
}

/// The part of an instruction's counts that only run time determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamic {
    /// Active lanes: population of mask register `k`, over the low `lanes` bits.
    Mask {
        /// Mask register number, 1 to 7.
        k: u8,
        /// How many of its low bits count.
        lanes: u8,
    },
    /// Active lanes of an AVX2 gather or masked move: sign bits of a vector register's lanes.
    VectorMask {
        /// Vector register number.
        register: u8,
        /// Element size in bytes.
        element: u8,
        /// Lanes.
        lanes: u8,
    },
    /// A `rep` string instruction: iterations of one execution.
    Repeat,
}

/// A memory operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessFact {
    /// Direction and kind.
    pub kind: AccessKind,
    /// Bytes with all lanes active; for `rep` of one iteration; 0 for prefetches.
    pub bytes: u32,
    /// Vector register data (else general purpose): decides the load port.
    pub vector: bool,
    /// The bytes follow the active lanes of [`InstructionFacts::dynamic`]; a broadcast or a whole operand does not.
    pub masked: bool,
}

/// Direction and kind of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// Ordinary read.
    Load,
    /// Ordinary write.
    Store,
    /// Non-temporal write.
    NtStore,
    /// Software prefetch.
    Prefetch,
    /// One read per active lane.
    Gather,
    /// One write per active lane.
    Scatter,
}

/// Filler classes of the instruction-mix ceilings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionClass {
    /// Floating-point arithmetic (as in `fp_instruction`).
    Fp,
    /// Register moves, including vector moves, shuffles and `lea`.
    Mov,
    /// Integer arithmetic and logic.
    Alu,
    /// A pure load.
    Load,
    /// A pure store.
    Store,
    /// Jump, call, return.
    Branch,
    /// `nop`, `endbr64`.
    Nop,
    /// Everything else.
    #[default]
    Other,
}
