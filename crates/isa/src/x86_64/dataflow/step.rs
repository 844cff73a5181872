//! The role of an operation on a dependency chain.

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind};

use crate::dependency::ChainStep;
use crate::facts::{InstructionClass, InstructionFacts};

/// The step that an instruction adds between its data inputs and its result; `None` for moves, which renaming (or the load
/// itself) does.
pub(super) fn step(instruction: &Instruction, facts: &InstructionFacts) -> Option<ChainStep> {
    use Mnemonic::*;
    if let Some(flop) = facts.flops.first() {
        return Some(ChainStep::arithmetic(flop.op, flop.precision, flop.width));
    }
    if facts.fp_instruction {
        return Some(ChainStep::Vector);
    }
    match instruction.mnemonic() {
        Mul | Imul | Mulx => return Some(ChainStep::IntegerMultiply),
        Div | Idiv => return Some(ChainStep::IntegerDivide),
        Cmp | Test => return Some(ChainStep::Compare),
        _ if instruction.condition_code() != ConditionCode::None && instruction.op_count() == 2 => {
            return Some(ChainStep::Select);
        }
        Mov | Movbe | Xchg | Push | Pop | Leave => return None,
        Movzx | Movsx | Movsxd if facts.class == InstructionClass::Load => return None,
        _ => {}
    }
    if is_plain_vector_move(instruction) || matches!(facts.class, InstructionClass::Branch | InstructionClass::Nop) {
        return None;
    }
    let vector = (0..instruction.op_count()).filter(|&n| instruction.op_kind(n) == OpKind::Register).any(|n| {
        let register = instruction.op_register(n);
        register.is_vector_register() || register.is_k() || register.is_mm() || register.is_st()
    });
    Some(if vector { ChainStep::Vector } else { ChainStep::Integer })
}

/// A whole-register move, a plain load or a plain store.
fn is_plain_vector_move(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    let merges = instruction.op_mask().is_k() && !instruction.zeroing_masking();
    if merges && instruction.op0_kind() == OpKind::Register {
        return false;
    }
    let memory = (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
    match instruction.mnemonic() {
        Movaps | Movapd | Movups | Movupd | Movdqa | Movdqu | Lddqu | Movntdqa | Movntps | Movntpd | Movntdq
        | Vmovaps | Vmovapd | Vmovups | Vmovupd | Vmovdqa | Vmovdqu | Vlddqu | Vmovntdqa | Vmovntps | Vmovntpd
        | Vmovntdq | Vmovdqa32 | Vmovdqa64 | Vmovdqu8 | Vmovdqu16 | Vmovdqu32 | Vmovdqu64 | Fld | Fst | Fstp | Fxch => {
            true
        }
        Movss | Movsd | Vmovss | Vmovsd | Vmovsh | Movd | Movq | Vmovd | Vmovq | Vbroadcastss | Vbroadcastsd
        | Vbroadcastf128 | Vpbroadcastb | Vpbroadcastw | Vpbroadcastd | Vpbroadcastq | Movddup | Vmovddup | Kmovb
        | Kmovw | Kmovd | Kmovq => memory,
        _ => false,
    }
}
