//! Which system call a `syscall` instruction makes, as far as the code before it shows, and the names of system calls.

use iced_x86::{Code, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

pub use super::system_call_names::name;

/// A `syscall` instruction.
pub const BYTES: [u8; 2] = [0x0f, 0x05];

/// The number that RAX holds behind `instructions`, which are executed one after the other; `None` if they do not set it to a constant.
///
/// ```text
/// mov eax, 14h          r ← constant
/// xor eax, eax          r ← 0
/// mov eax, edx          r ← what is known of the other
/// anything else         what it writes is not known any more
/// ```
pub fn number<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> Option<u32> {
    let mut factory = InstructionInfoFactory::new();
    let mut known: Vec<(Register, u32)> = Vec::new();
    for instruction in instructions {
        let value = constant(instruction, &known);
        for used in factory.info(instruction).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                known.retain(|(register, _)| *register != used.register().full_register());
            }
        }
        // The instruction does not show which values a call or another system call leaves in registers.
        if instruction.is_call_near() || instruction.is_call_near_indirect() || instruction.code() == Code::Syscall {
            known.clear();
        }
        if let Some(value) = value {
            known.push((instruction.op0_register().full_register(), value));
        }
    }
    known.iter().find(|(register, _)| *register == Register::RAX).map(|(_, value)| *value)
}

/// The value that an instruction assigns to its first operand, if it is a constant of at least 32 bits.
fn constant(instruction: &Instruction, known: &[(Register, u32)]) -> Option<u32> {
    let into = instruction.op0_register();
    if !(into.is_gpr32() || into.is_gpr64()) || instruction.op_count() != 2 {
        return None;
    }
    match instruction.code() {
        Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 => {
            u32::try_from(instruction.immediate(1)).ok()
        }
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32 | Code::Xor_r64_rm64 | Code::Xor_rm64_r64 => {
            (instruction.op1_kind() == OpKind::Register && instruction.op1_register() == into).then_some(0)
        }
        Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Mov_r64_rm64 | Code::Mov_rm64_r64
            if instruction.op1_kind() == OpKind::Register =>
        {
            let from = instruction.op1_register().full_register();
            known.iter().find(|(register, _)| *register == from).map(|(_, value)| *value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn told(bytes: &[u8]) -> Option<u32> {
        let code: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
        assert!(code.iter().all(|i| !i.is_invalid()));
        number(code.iter())
    }

    #[test]
    fn constants_reach_the_call_in_the_ways_that_compilers_write_them() {
        // mov eax, 0x14; syscall
        assert_eq!(told(&[0xb8, 0x14, 0, 0, 0]), Some(0x14));
        // xor eax, eax
        assert_eq!(told(&[0x31, 0xc0]), Some(0));
        // mov edx, 0x3c; xor edi, edi; mov eax, edx
        assert_eq!(told(&[0xba, 0x3c, 0, 0, 0, 0x31, 0xff, 0x89, 0xd0]), Some(0x3c));
        // mov rax, 0x0f
        assert_eq!(told(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0]), Some(15));
    }

    #[test]
    fn what_is_computed_or_handed_over_is_not_known() {
        // mov rax, rdi
        assert_eq!(told(&[0x48, 0x89, 0xf8]), None);
        // mov eax, 1; add eax, ecx
        assert_eq!(told(&[0xb8, 1, 0, 0, 0, 0x01, 0xc8]), None);
        // mov eax, 1; mov al, 2
        assert_eq!(told(&[0xb8, 1, 0, 0, 0, 0xb0, 2]), None);
        // mov eax, 1; syscall
        assert_eq!(told(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05]), None);
    }
}
