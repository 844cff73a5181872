//! Small questions about the operands of a decoded instruction.

use iced_x86::{CpuidFeature, Instruction, OpKind, Register};

/// The result of [`vector_bytes`] for AMX: a full tile.
pub(super) const TILE_BYTES: u32 = 1024;

/// The register operands, in order.
pub(super) fn registers(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    (0..instruction.op_count())
        .filter(|&n| instruction.op_kind(n) == OpKind::Register)
        .map(|n| instruction.op_register(n))
}

/// Bytes of the widest vector, MMX or tile register operand; 0 without one.
pub(super) fn vector_bytes(instruction: &Instruction) -> u32 {
    registers(instruction)
        .map(|register| {
            if register.is_tmm() {
                TILE_BYTES
            } else if register.is_vector_register() || register.is_mm() {
                register.size() as u32
            } else {
                0
            }
        })
        .max()
        .unwrap_or(0)
}

/// The data passes the vector or x87 registers.
pub(super) fn is_vector_data(instruction: &Instruction) -> bool {
    vector_bytes(instruction) > 0
        || registers(instruction).any(Register::is_st)
        || is_x87(instruction)
        || instruction.is_vsib()
}

/// An x87 instruction.
pub(super) fn is_x87(instruction: &Instruction) -> bool {
    use CpuidFeature::{FPU, FPU287, FPU387};
    instruction.cpuid_features().iter().any(|feature| matches!(feature, FPU | FPU287 | FPU387))
}

/// Number of the instruction's explicit memory operand, if any.
pub(super) fn memory_operand(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|&n| instruction.op_kind(n) == OpKind::Memory)
}

/// Index of a register within its file: 3 for `xmm3`, `zmm3`, `k3`.
pub(super) fn number(register: Register) -> u8 {
    register.number() as u8
}
