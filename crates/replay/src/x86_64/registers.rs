//! Registers that an instruction reads and writes, as the core model numbers them.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, RflagsBits};

use crate::op::{CARRY, FLAGS, MASKS, NONE, VECTORS, X87};

/// Registers of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    pub address: [u8; 2],
    pub data: [u8; 5],
    pub writes: [u8; 4],
}

impl Uses {
    const NOTHING: Uses = Uses { address: [NONE; 2], data: [NONE; 5], writes: [NONE; 4] };
}

/// The uses of `instruction`; `clears` if its result does not depend on its inputs. `top` is the place of ST(0).
pub(super) fn uses(instruction: &Instruction, info: &InstructionInfo, clears: bool, top: i32) -> Uses {
    let mut uses = Uses::NOTHING;
    let by_stack_engine = moves_stack_pointer(instruction);
    for used in info.used_registers() {
        let Some(register) = number(used.register(), top) else { continue };
        let explicit = operand(instruction, info, used.register(), is_read);
        if register == 4 && by_stack_engine && !explicit {
            // Renaming follows the stack pointer; instructions wait only for its last explicit change.
            if is_read(used.access()) {
                add(&mut uses.address, register);
            }
            continue;
        }
        let access = used.access();
        let partial = used.register().is_gpr8() || used.register().is_gpr16();
        if is_write(access) {
            add(&mut uses.writes, register);
        }
        let merges = is_write(access) && (partial || conditional(access));
        if clears {
            continue;
        }
        let in_address = is_read(access) && forms_address(instruction, info, used.register());
        if in_address {
            add(&mut uses.address, register);
        }
        if merges || (is_read(access) && (!in_address || explicit)) {
            add(&mut uses.data, register);
        }
    }
    if !clears {
        keep_upper_part(instruction, &mut uses, top);
    }
    let bits = [(RflagsBits::CF, CARRY), (RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF | RflagsBits::PF, FLAGS)];
    for (bits, register) in bits {
        if instruction.rflags_read() & bits != 0 {
            add(&mut uses.data, register);
        }
        if instruction.rflags_modified() & bits != 0 {
            add(&mut uses.writes, register);
        }
    }
    uses
}

/// Legacy conversions and roots of one lane keep the rest of their target: the processor waits for it.
fn keep_upper_part(instruction: &Instruction, uses: &mut Uses, top: i32) {
    use Mnemonic::*;
    let keeps = matches!(
        instruction.mnemonic(),
        Cvtsi2sd | Cvtsi2ss | Cvtss2sd | Cvtsd2ss | Sqrtsd | Sqrtss | Rcpss | Rsqrtss | Roundsd | Roundss
    );
    if let (true, Some(target)) = (keeps, number(instruction.op0_register(), top)) {
        add(&mut uses.data, target);
    }
}

fn moves_stack_pointer(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Push | Pop | Call | Ret)
}

fn forms_address(instruction: &Instruction, info: &InstructionInfo, register: Register) -> bool {
    let prefetch = instruction.mnemonic() != Mnemonic::Lea
        && info.used_memory().is_empty()
        && (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
    if prefetch {
        return instruction.memory_base() == register || instruction.memory_index() == register;
    }
    instruction.mnemonic() != Mnemonic::Lea
        && info.used_memory().iter().any(|memory| {
            let same = |other: Register| other != Register::None && other.full_register() == register.full_register();
            same(memory.base()) || same(memory.index())
        })
}

fn operand(
    instruction: &Instruction,
    info: &InstructionInfo,
    register: Register,
    uses: impl Fn(OpAccess) -> bool,
) -> bool {
    (0..instruction.op_count()).any(|n| {
        instruction.op_kind(n) == OpKind::Register
            && instruction.op_register(n).full_register() == register.full_register()
            && uses(info.op_access(n))
    })
}

/// The model's number of a register.
pub(super) fn number(register: Register, top: i32) -> Option<u8> {
    let n = register.number() as u8;
    if register.is_gpr() {
        Some(register.full_register().number() as u8)
    } else if register.is_vector_register() {
        Some(VECTORS + n)
    } else if register.is_k() {
        // k0 as a mask means none.
        Some(MASKS + n)
    } else if register.is_mm() {
        Some(X87 + n)
    } else if register.is_st() {
        Some(X87 + (top + n as i32).rem_euclid(8) as u8)
    } else {
        None
    }
}

fn add<const N: usize>(list: &mut [u8; N], register: u8) {
    if list.contains(&register) {
        return;
    }
    if let Some(free) = list.iter_mut().find(|held| **held == NONE) {
        *free = register;
    }
}

fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn conditional(access: OpAccess) -> bool {
    matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

/// Idioms with a result that does not depend on their operands.
pub(super) fn clears(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    let (a, b) = match instruction.op_count() {
        2 => (instruction.op0_register(), instruction.op1_register()),
        3 => (instruction.op1_register(), instruction.op2_register()),
        _ => return false,
    };
    let plain = !instruction.op_mask().is_k() || instruction.zeroing_masking();
    let registers = (0..instruction.op_count()).all(|n| instruction.op_kind(n) == OpKind::Register);
    let same = registers && a == b && a != Register::None && plain && (a.size() >= 4);
    same && matches!(
        instruction.mnemonic(),
        Xor | Sub
            | Xorps
            | Xorpd
            | Pxor
            | Psubb
            | Psubw
            | Psubd
            | Psubq
            | Pcmpeqb
            | Pcmpeqw
            | Pcmpeqd
            | Pcmpgtb
            | Pcmpgtw
            | Pcmpgtd
            | Vxorps
            | Vxorpd
            | Vpxor
            | Vpxord
            | Vpxorq
            | Vpsubb
            | Vpsubw
            | Vpsubd
            | Vpsubq
            | Vpcmpeqb
            | Vpcmpeqw
            | Vpcmpeqd
            | Vpcmpgtb
            | Vpcmpgtw
            | Vpcmpgtd
    )
}
