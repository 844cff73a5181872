//! The operands with recorded addresses, and the forms of their records.

use crate::translator::code_cache::version::Version;
use rprof_isa::facts::AccessKind;
use rprof_profile::code::CodeRef;

/// The operand of an instruction that a buffer entry refers to.
#[derive(Debug, Clone, Copy)]
pub struct ProbeSite {
    /// The instruction.
    pub at: CodeRef,
    /// Its offset in its block.
    pub offset: u16,
    /// The block's version.
    pub version: Version,
    /// The block's counter.
    pub slot: u32,
    /// The amount that one execution adds to that counter.
    pub scale: i64,
    /// The counter of its run-time sum.
    pub sum: Option<u32>,
    /// Direction and kind.
    pub kind: AccessKind,
    /// Bytes with all lanes active; of one iteration.
    pub bytes: u32,
    /// The form of its records.
    pub shape: Shape,
}

/// The form of an operand's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Address.
    Plain,
    /// Address and active lanes.
    Masked {
        /// Lanes.
        lanes: u8,
    },
    /// Address and iterations.
    Repeated {
        /// It compares: the number of iterations is known only behind it.
        may_end_early: bool,
    },
    /// Base and active lanes, then 64 bytes of indices.
    Indexed {
        /// Lanes.
        lanes: u8,
        /// Bytes of an index.
        index: u8,
        /// Factor.
        scale: u8,
    },
}

impl ProbeSite {
    /// Accesses and bytes of `executions` with this run-time sum.
    pub fn accesses(&self, executions: u64, sum: u64) -> (u64, u64) {
        let bytes = u64::from(self.bytes);
        match self.shape {
            Shape::Plain => (executions, executions * bytes),
            Shape::Masked { lanes } => (executions, sum * bytes / u64::from(lanes)),
            Shape::Repeated { .. } => (executions, sum * bytes),
            Shape::Indexed { lanes, .. } => (sum, sum * bytes / u64::from(lanes.max(1))),
        }
    }
}
