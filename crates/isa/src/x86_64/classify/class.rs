//! The filler class of an instruction for the instruction-mix ceilings (A.1.4).

use iced_x86::{FlowControl, Instruction, Mnemonic, Register};

use crate::facts::{AccessKind, InstructionClass, InstructionFacts};

use super::{movement, operands};

/// The class, from the facts found so far and the operands.
pub(super) fn class(instruction: &Instruction, facts: &InstructionFacts) -> InstructionClass {
    let name = instruction.mnemonic();
    if facts.fp_instruction {
        return InstructionClass::Fp;
    }
    if matches!(name, Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Endbr32 | Mnemonic::Reservednop) {
        return InstructionClass::Nop;
    }
    if is_branch(instruction) {
        return InstructionClass::Branch;
    }
    if facts.int_ops > 0 || movement::FP_LOGIC.contains(&name) {
        return InstructionClass::Alu;
    }
    let stores = |kind| matches!(kind, AccessKind::Store | AccessKind::NtStore | AccessKind::Scatter);
    match (facts.accesses.iter().any(|a| !stores(a.kind)), facts.accesses.iter().any(|a| stores(a.kind))) {
        (true, true) => InstructionClass::Other,
        (true, false) => InstructionClass::Load,
        (false, true) => InstructionClass::Store,
        (false, false) if moves_registers(instruction) => InstructionClass::Mov,
        (false, false) => InstructionClass::Other,
    }
}

/// Jump, call or return (not a system call).
pub(super) fn is_branch(instruction: &Instruction) -> bool {
    use FlowControl::*;
    matches!(
        instruction.flow_control(),
        UnconditionalBranch | IndirectBranch | ConditionalBranch | Return | Call | IndirectCall
    ) && instruction.mnemonic() != Mnemonic::Syscall
}

fn moves_registers(instruction: &Instruction) -> bool {
    operands::vector_bytes(instruction) > 0
        || operands::registers(instruction).any(|register| register.is_k() || Register::is_st(register))
        || movement::REGISTER_MOVES.contains(&instruction.mnemonic())
}
