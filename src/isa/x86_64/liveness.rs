//! Which flags and general-purpose registers are still needed at each point of a block.
//!
//! Everything errs towards "needed": flags that an instruction leaves undefined are not taken as overwritten, nor those of a
//! shift by a count that may be 0, and what runs elsewhere (callees, the kernel) is taken to need everything.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind, Register, RflagsBits};

/// The arithmetic flags.
pub const ARITHMETIC_FLAGS: u32 =
    RflagsBits::CF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;

/// What is needed at a point of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Arithmetic flags, as [`RflagsBits`].
    pub flags: u32,
    /// General-purpose registers: bit n is the register numbered n (0 `rax` … 15 `r15`).
    pub general: u16,
}

impl Live {
    /// Everything is needed: what holds where a block leads to unknown code.
    pub const ALL: Live = Live { flags: ARITHMETIC_FLAGS, general: u16::MAX };

    /// What the System V ABI lets a caller or callee rely on where a function is entered or left: all registers, no flags.
    pub const AT_CALL_OR_RETURN: Live = Live { flags: 0, general: u16::MAX };

    /// Needed by either of two successors.
    pub fn or(self, other: Live) -> Live {
        Live { flags: self.flags | other.flags, general: self.general | other.general }
    }

    /// `register` may be overwritten here.
    pub fn is_dead(self, register: Register) -> bool {
        register.is_gpr() && self.general & bit(register) == 0
    }
}

/// What is needed before each instruction of a block, and as the last entry behind it, given what its successors need.
pub fn live_points(block: &[Instruction], behind: Live) -> Vec<Live> {
    let mut factory = InstructionInfoFactory::new();
    let mut live = behind;
    let mut points = Vec::with_capacity(block.len() + 1);
    points.push(live);
    for instruction in block.iter().rev() {
        live = before(instruction, live, &mut factory);
        points.push(live);
    }
    points.reverse();
    points
}

fn before(instruction: &Instruction, behind: Live, factory: &mut InstructionInfoFactory) -> Live {
    if leaves_to_unknown_code(instruction) {
        return Live::ALL;
    }
    let overwritten = if may_leave_flags(instruction) { 0 } else { flags_overwritten(instruction) };
    let mut live = Live { flags: behind.flags & !overwritten | instruction.rflags_read() & ARITHMETIC_FLAGS, ..behind };
    let info = factory.info(instruction);
    for used in info.used_registers().iter().filter(|used| used.register().is_gpr()) {
        let whole = used.register().is_gpr32() || used.register().is_gpr64();
        if used.access() == OpAccess::Write && whole {
            live.general &= !bit(used.register());
        }
    }
    for used in info.used_registers().iter().filter(|used| used.register().is_gpr()) {
        let whole = used.register().is_gpr32() || used.register().is_gpr64();
        if used.access() != OpAccess::Write || !whole {
            live.general |= bit(used.register());
        }
    }
    live
}

fn flags_overwritten(instruction: &Instruction) -> u32 {
    instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set()
}

/// Shifts by `cl` and repeated string instructions change no flag when their count is 0.
fn may_leave_flags(instruction: &Instruction) -> bool {
    let by_count = (0..instruction.op_count())
        .any(|n| instruction.op_kind(n) == OpKind::Register && instruction.op_register(n) == Register::CL);
    (by_count && instruction.rflags_undefined() != 0)
        || (instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix()))
}

/// Calls, system calls, interrupts and jumps to unknown places.
fn leaves_to_unknown_code(instruction: &Instruction) -> bool {
    use iced_x86::FlowControl::*;
    matches!(
        instruction.flow_control(),
        Call | IndirectCall | IndirectBranch | Interrupt | XbeginXabortXend | Exception
    ) || instruction.mnemonic() == iced_x86::Mnemonic::Syscall
}

fn bit(register: Register) -> u16 {
    1 << register.full_register().number()
}
