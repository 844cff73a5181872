//! The places that an instruction reads and writes, as far as dependencies go.

use iced_x86::{
    Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

/// A place that carries a value from one instruction to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// General-purpose register.
    General(u8),
    /// Vector register.
    Vector(u8),
    /// Mask register.
    Mask(u8),
    /// MMX register.
    Mmx(u8),
    /// x87 register, by its place in the register file (not relative to the top of the stack).
    X87(u8),
    /// The carry flag, for `adc` and its like. Other flags steer jumps, which are predicted.
    Carry,
}

/// Reads and writes of one instruction.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// Places with a value that enters the operation.
    pub data: Vec<Place>,
    /// Places with a value that only forms the address of a load.
    pub address: Vec<Place>,
    /// Places written.
    pub writes: Vec<Place>,
}

/// Follows the x87 stack through a body and lists the uses of each instruction.
pub(super) struct Reader {
    factory: InstructionInfoFactory,
    /// Place in the register file of ST(0).
    top: i32,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader { factory: InstructionInfoFactory::new(), top: 0 }
    }

    /// The change of the x87 stack's depth since the start.
    pub(super) fn x87_drift(&self) -> i32 {
        self.top
    }

    /// The uses of the next instruction of the body.
    pub(super) fn read(&mut self, instruction: &Instruction) -> Uses {
        let growth = instruction.fpu_stack_increment_info().increment();
        if growth < 0 {
            self.top += growth;
        }
        let info = self.factory.info(instruction);
        let mut uses =
            if clears(instruction) { writes_only(info, self.top) } else { uses(instruction, info, self.top) };
        if reads_carry(instruction) {
            uses.data.push(Place::Carry);
        }
        if instruction.rflags_modified() & RflagsBits::CF != 0 {
            uses.writes.push(Place::Carry);
        }
        if growth > 0 {
            self.top += growth;
        }
        if is_call(instruction) {
            uses = Uses { writes: clobbered_by_calls().collect(), ..Uses::default() };
        }
        uses
    }

    /// Places of the two registers that `fxch` swaps.
    pub(super) fn exchanged(&self, instruction: &Instruction) -> Option<(Place, Place)> {
        let other = instruction.op_register(1);
        (instruction.mnemonic() == Mnemonic::Fxch && other.is_st())
            .then(|| (x87(self.top, 0), x87(self.top, other.number() as i32)))
    }
}

fn x87(top: i32, n: i32) -> Place {
    Place::X87((top + n).rem_euclid(8) as u8)
}

/// The place of a register; `None` for those that carry no data chain (stack pointer, instruction pointer, segments).
pub(super) fn place(register: Register, top: i32) -> Option<Place> {
    let number = register.number() as u8;
    if register.is_gpr() {
        let full = register.full_register();
        (full != Register::RSP).then(|| Place::General(full.number() as u8))
    } else if register.is_vector_register() {
        Some(Place::Vector(number))
    } else if register.is_k() {
        Some(Place::Mask(number))
    } else if register.is_mm() {
        Some(Place::Mmx(number))
    } else if register.is_st() {
        Some(x87(top, number as i32))
    } else {
        None
    }
}

fn uses(instruction: &Instruction, info: &InstructionInfo, top: i32) -> Uses {
    let mut uses = Uses::default();
    let loads = info.used_memory().iter().any(|memory| is_read(memory.access()));
    for used in info.used_registers() {
        let register = used.register();
        let Some(place) = place(register, top) else { continue };
        let merges =
            is_partial_write(register) || matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite);
        if is_write(used.access()) {
            uses.writes.push(place);
            if merges {
                uses.data.push(place);
            }
        }
        if is_read(used.access()) {
            let in_address = in_accessed_memory(info, register);
            if in_address && loads {
                uses.address.push(place);
            }
            if !in_address || is_data_operand(instruction, info, register) {
                uses.data.push(place);
            }
        }
    }
    merge_false_dependencies(instruction, &mut uses, top);
    uses
}

/// Legacy conversions and roots of one lane keep the rest of their target: the processor waits for it.
fn merge_false_dependencies(instruction: &Instruction, uses: &mut Uses, top: i32) {
    use Mnemonic::*;
    let keeps = matches!(
        instruction.mnemonic(),
        Cvtsi2sd | Cvtsi2ss | Cvtss2sd | Cvtsd2ss | Sqrtsd | Sqrtss | Rcpss | Rsqrtss | Roundsd | Roundss
    );
    if keeps && let Some(target) = place(instruction.op0_register(), top) {
        uses.data.push(target);
    }
}

fn writes_only(info: &InstructionInfo, top: i32) -> Uses {
    let written = info.used_registers().iter().filter(|used| is_write(used.access()));
    Uses { writes: written.filter_map(|used| place(used.register(), top)).collect(), ..Uses::default() }
}

fn in_accessed_memory(info: &InstructionInfo, register: Register) -> bool {
    let accessed = info.used_memory().iter().filter(|memory| memory.access() != OpAccess::NoMemAccess);
    accessed.into_iter().any(|memory| memory.base() == register || memory.index() == register)
}

/// An explicit register operand that is read.
fn is_data_operand(instruction: &Instruction, info: &InstructionInfo, register: Register) -> bool {
    (0..instruction.op_count()).any(|n| {
        instruction.op_kind(n) == OpKind::Register
            && instruction.op_register(n).full_register() == register.full_register()
            && is_read(info.op_access(n))
    })
}

fn is_partial_write(register: Register) -> bool {
    register.is_gpr8() || register.is_gpr16()
}

/// Idioms with a result that does not depend on their operands: the processor breaks the dependency.
pub(super) fn clears(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    let (a, b) = match instruction.op_count() {
        2 => (instruction.op0_register(), instruction.op1_register()),
        3 => (instruction.op1_register(), instruction.op2_register()),
        _ => return false,
    };
    let plain = !instruction.op_mask().is_k() || instruction.zeroing_masking();
    let same = a == b && a != Register::None && plain;
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
            | Pcmpeqq
            | Pcmpgtb
            | Pcmpgtw
            | Pcmpgtd
            | Pcmpgtq
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
            | Vpcmpeqq
            | Vpcmpgtb
            | Vpcmpgtw
            | Vpcmpgtd
            | Vpcmpgtq
    )
}

fn reads_carry(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Adc | Mnemonic::Sbb | Mnemonic::Adcx | Mnemonic::Rcl | Mnemonic::Rcr)
}

pub(super) fn is_call(instruction: &Instruction) -> bool {
    instruction.is_call_near()
        || instruction.is_call_near_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
}

/// General registers that the System V ABI lets a callee change.
pub const GENERAL_CHANGED_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Places that the System V ABI lets a callee change.
fn clobbered_by_calls() -> impl Iterator<Item = Place> {
    let general = GENERAL_CHANGED_BY_CALLS.into_iter().map(|register| Place::General(register.number() as u8));
    let vector = (0..32).map(Place::Vector);
    let rest = (0..8).flat_map(|n| [Place::Mask(n), Place::Mmx(n), Place::X87(n)]);
    general.chain(vector).chain(rest).chain([Place::Carry])
}

pub(super) fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

pub(super) fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}
