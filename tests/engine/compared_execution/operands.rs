//! Random operands for one instruction.
//!
//! Free for any use: RAX RCX RDX RSI RDI R8–R13 R15, all vector, mask, MMX and x87 registers. RBX is the middle of the
//! snippet's memory, R14 is 64, RBP counts loops, RSP is the stack.

use iced_x86::{
    Code, Encoder, Instruction, InstructionInfoFactory, OpAccess, OpCodeOperandKind as Kind, OpKind, Register,
};

use super::random::Random;

const FREE: [Register; 12] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R15,
];
const FREE_32: [Register; 6] =
    [Register::EAX, Register::ECX, Register::EDX, Register::ESI, Register::R8D, Register::R15D];
const FREE_16: [Register; 6] = [Register::AX, Register::CX, Register::DX, Register::DI, Register::R9W, Register::R15W];
const FREE_8: [Register; 8] = [
    Register::AL,
    Register::CL,
    Register::DL,
    Register::AH,
    Register::DH,
    Register::SIL,
    Register::R8L,
    Register::R15L,
];
/// Registers that the surrounding code relies on.
const RESERVED: [Register; 4] = [Register::RBX, Register::R14, Register::RBP, Register::RSP];

/// Memory that RIP-relative operands point to.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Value of RBX.
    pub middle: u64,
}

/// An instruction with this code; `None` if the random choice cannot be encoded, or would fault or write a reserved register.
pub fn instruction(code: Code, random: &mut Random, memory: Memory) -> Option<Instruction> {
    let info = code.op_code();
    let mut i = Instruction::default();
    i.set_code(code);
    let mut in_memory = false;
    let mut immediates = 0;
    for (n, &kind) in info.op_kinds().iter().enumerate() {
        let n = n as u32;
        if let Some(register) = register(kind, random, &mut in_memory, indexes_bits(code)) {
            i.set_op_kind(n, OpKind::Register);
            i.set_op_register(n, register);
        } else if let Some(immediate) = immediate(kind) {
            if immediates == 1 {
                i.set_op_kind(n, OpKind::Immediate8_2nd);
                i.set_immediate8_2nd(random.next() as u8);
            } else {
                i.set_op_kind(n, immediate);
                set_immediate(&mut i, kind, immediate, random);
            }
            immediates += 1;
        } else {
            i.set_op_kind(n, OpKind::Memory);
            address(&mut i, random, memory);
        }
    }
    if info.can_use_op_mask_register() && (info.require_op_mask_register() || random.one_in(2)) {
        i.set_op_mask(Register::K1 + random.below(7) as u32);
        i.set_zeroing_masking(info.can_use_zeroing_masking() && !in_memory_first(&i) && random.one_in(2));
    }
    if in_memory {
        i.set_is_broadcast(info.can_broadcast() && random.one_in(2));
        i.set_has_lock_prefix(info.can_use_lock_prefix() && in_memory_first(&i) && random.one_in(3));
    } else if info.can_suppress_all_exceptions() && random.one_in(3) {
        i.set_suppress_all_exceptions(true);
    }
    allowed(&i).then_some(i)
}

/// A gather or scatter with the indices of vector register 7, each a byte.
pub fn gather(code: Code, random: &mut Random) -> Option<Instruction> {
    let info = code.op_code();
    let mut i = Instruction::default();
    i.set_code(code);
    for (n, &kind) in info.op_kinds().iter().enumerate() {
        let n = n as u32;
        let index = match kind {
            Kind::mem_vsib32x | Kind::mem_vsib64x => Some(Register::XMM7),
            Kind::mem_vsib32y | Kind::mem_vsib64y => Some(Register::YMM7),
            Kind::mem_vsib32z | Kind::mem_vsib64z => Some(Register::ZMM7),
            _ => None,
        };
        if let Some(index) = index {
            i.set_op_kind(n, OpKind::Memory);
            i.set_memory_base(Register::RBX);
            i.set_memory_index(index);
            i.set_memory_index_scale(1 << random.below(2));
            i.set_memory_displacement64((random.below(8) * 8).wrapping_sub(512));
            i.set_memory_displ_size(1);
        } else {
            // The mask of the older form is register 6; the result must be another one.
            let number = if n == 2 { 6 } else { random.below(6) as u32 };
            let first = match kind {
                Kind::xmm_reg | Kind::xmm_vvvv => Register::XMM0,
                Kind::ymm_reg | Kind::ymm_vvvv => Register::YMM0,
                Kind::zmm_reg => Register::ZMM0,
                _ => return None,
            };
            i.set_op_kind(n, OpKind::Register);
            i.set_op_register(n, first + number);
        }
    }
    if info.can_use_op_mask_register() {
        i.set_op_mask(Register::K1);
    }
    allowed(&i).then_some(i)
}

/// Whether a gather's or scatter's indices are 64 bits wide.
pub fn has_quadword_indices(code: Code) -> bool {
    let kinds = code.op_code().op_kinds();
    kinds.iter().any(|k| matches!(k, Kind::mem_vsib64x | Kind::mem_vsib64y | Kind::mem_vsib64z))
}

/// Whether it can be encoded and leaves the reserved registers alone.
fn allowed(i: &Instruction) -> bool {
    let writes = |access| {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
    };
    let mut factory = InstructionInfoFactory::new();
    // Complex products of FP16 fault if they overwrite a factor.
    let number = |n: u32| (i.op_kind(n) == OpKind::Register).then(|| i.op_register(n).full_register());
    let overwrites = (1..i.op_count()).any(|n| number(n) == number(0));
    if i.op_code().requires_unique_dest_reg_num() && overwrites {
        return false;
    }
    let harmless =
        |r: &iced_x86::UsedRegister| !writes(r.access()) || !RESERVED.contains(&r.register().full_register());
    factory.info(i).used_registers().iter().all(harmless) && Encoder::new(64).encode(i, 0x40_0000).is_ok()
}

fn in_memory_first(i: &Instruction) -> bool {
    i.op_kind(0) == OpKind::Memory
}

/// `bt` and its kin: a register operand addresses bits far away from a memory operand.
fn indexes_bits(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(code.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
}

fn register(kind: Kind, random: &mut Random, in_memory: &mut bool, only: bool) -> Option<Register> {
    use Kind as K;
    let vector = |first: Register, random: &mut Random| first + random.below(16) as u32;
    let may = matches!(
        kind,
        K::r8_or_mem
            | K::r16_or_mem
            | K::r32_or_mem
            | K::r64_or_mem
            | K::mm_or_mem
            | K::xmm_or_mem
            | K::ymm_or_mem
            | K::zmm_or_mem
            | K::k_or_mem
    );
    if kind == K::mem || may && !only && random.one_in(2) {
        *in_memory = true;
        return None;
    }
    Some(match kind {
        K::r8_or_mem | K::r8_reg | K::r8_opcode => random.of(&FREE_8),
        K::r16_or_mem | K::r16_reg | K::r16_rm | K::r16_opcode => random.of(&FREE_16),
        K::r32_or_mem | K::r32_reg | K::r32_rm | K::r32_opcode | K::r32_vvvv => random.of(&FREE_32),
        K::r64_or_mem | K::r64_reg | K::r64_rm | K::r64_opcode | K::r64_vvvv => random.of(&FREE),
        K::seg_reg => random.of(&[Register::DS, Register::FS, Register::GS]),
        K::k_or_mem | K::k_reg | K::k_rm | K::k_vvvv => Register::K0 + random.below(8) as u32,
        K::mm_or_mem | K::mm_reg | K::mm_rm => Register::MM0 + random.below(8) as u32,
        K::xmm_or_mem | K::xmm_reg | K::xmm_rm | K::xmm_vvvv | K::xmm_is4 => vector(Register::XMM0, random),
        K::ymm_or_mem | K::ymm_reg | K::ymm_rm | K::ymm_vvvv | K::ymm_is4 => vector(Register::YMM0, random),
        K::zmm_or_mem | K::zmm_reg | K::zmm_rm | K::zmm_vvvv => Register::ZMM0 + random.below(32) as u32,
        K::al => Register::AL,
        K::cl => Register::CL,
        K::ax => Register::AX,
        K::dx => Register::DX,
        K::eax => Register::EAX,
        K::rax => Register::RAX,
        K::st0 => Register::ST0,
        K::sti_opcode => Register::ST0 + random.below(8) as u32,
        _ => return None,
    })
}

fn immediate(kind: Kind) -> Option<OpKind> {
    use Kind as K;
    Some(match kind {
        K::imm8 | K::imm8_const_1 => OpKind::Immediate8,
        K::imm8sex16 => OpKind::Immediate8to16,
        K::imm8sex32 => OpKind::Immediate8to32,
        K::imm8sex64 => OpKind::Immediate8to64,
        K::imm16 => OpKind::Immediate16,
        K::imm32 => OpKind::Immediate32,
        K::imm32sex64 => OpKind::Immediate32to64,
        K::imm64 => OpKind::Immediate64,
        _ => return None,
    })
}

fn set_immediate(i: &mut Instruction, kind: Kind, immediate: OpKind, random: &mut Random) {
    let value = random.next();
    match immediate {
        OpKind::Immediate8 => i.set_immediate8(if kind == Kind::imm8_const_1 { 1 } else { value as u8 }),
        OpKind::Immediate8to16 => i.set_immediate8to16((value as i8).into()),
        OpKind::Immediate8to32 => i.set_immediate8to32((value as i8).into()),
        OpKind::Immediate8to64 => i.set_immediate8to64((value as i8).into()),
        OpKind::Immediate16 => i.set_immediate16(value as u16),
        OpKind::Immediate32 => i.set_immediate32(value as u32),
        OpKind::Immediate32to64 => i.set_immediate32to64((value as i32).into()),
        _ => i.set_immediate64(value),
    }
}

/// An address within the snippet's memory, on a boundary of 64 bytes.
fn address(i: &mut Instruction, random: &mut Random, memory: Memory) {
    let displacement = (random.below(16) * 64).wrapping_sub(512);
    match random.below(8) {
        0 => {
            i.set_memory_base(Register::RIP);
            i.set_memory_displacement64(memory.middle.wrapping_add(displacement));
            i.set_memory_displ_size(8);
            return;
        }
        1 => {
            // The program's GS base is the middle of the first snippet's memory.
            i.set_segment_prefix(Register::GS);
            i.set_memory_base(Register::R14);
        }
        2..5 => {
            i.set_memory_base(Register::RBX);
            i.set_memory_index(Register::R14);
            i.set_memory_index_scale(1 << random.below(4));
        }
        _ => i.set_memory_base(Register::RBX),
    }
    i.set_memory_displacement64(displacement);
    i.set_memory_displ_size(1);
}
