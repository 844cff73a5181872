//! Which operands of a fused multiply-add are multiplied, and which one is added: a sum may be split, a product plus something may not.
//!
//! ```text
//!  132   a = a·c + b       VEX.0F38 96 … 9F
//!  213   a = b·a + c                A6 … AF
//!  231   a = b·c + a                B6 … BF
//!  FMA4  a = b·c + d       VEX.0F3A
//! ```

use iced_x86::{Instruction, OpCodeTableKind, OpKind};

use crate::facts::InstructionFacts;
use crate::operation::FpOp;

use super::uses::{Place, place};

/// Places of the factors of a fused multiply-add; none for other instructions, and for factors in memory.
pub(super) fn factors(instruction: &Instruction, facts: &InstructionFacts) -> Vec<Place> {
    if facts.flops.first().is_none_or(|flop| flop.op != FpOp::Fma) {
        return Vec::new();
    }
    let code = instruction.op_code();
    let operands: [u32; 2] = match (code.table(), code.op_code() >> 4) {
        (OpCodeTableKind::T0F38 | OpCodeTableKind::MAP6, 0x9) => [0, 2],
        (OpCodeTableKind::T0F38 | OpCodeTableKind::MAP6, 0xa) => [0, 1],
        (OpCodeTableKind::T0F38 | OpCodeTableKind::MAP6, 0xb) | (OpCodeTableKind::T0F3A, _) => [1, 2],
        _ => return Vec::new(),
    };
    let registers = operands.into_iter().filter(|n| instruction.op_kind(*n) == OpKind::Register);
    registers.filter_map(|n| place(instruction.op_register(n), 0)).collect()
}
