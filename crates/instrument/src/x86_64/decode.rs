//! Decodes a basic block: the straight run of instructions from an address to the first transfer of control.

use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use rprof_tracee::address::Address;

/// Longest block, in instructions; a longer run is cut and falls through.
const MAX_INSTRUCTIONS: usize = 200;
/// Longest block, in bytes.
pub const MAX_BYTES: usize = 2048;
/// Longest instruction, in bytes.
pub const LONGEST: usize = 15;

/// An instruction of a block.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Decoded.
    pub instruction: Instruction,
    /// Its first byte in the block.
    pub offset: u16,
    /// Offset of a RIP-relative operand's disp32 in the instruction; 0: it has none.
    pub displacement: u8,
}

/// How a block ends. Addresses are the program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminator {
    /// Cut: continues at the next instruction.
    Next,
    /// `jmp`
    Jump(Address),
    /// `jcc`: (condition code, taken)
    Branch(u8, Address),
    /// `loop`, `jrcxz`: a short form that cannot be stretched
    ShortBranch(Address),
    /// `call`
    Call(Address),
    /// `ret`, and how many bytes it drops
    Return(u32),
    /// `jmp` through a register or memory
    JumpIndirect,
    /// `call` through a register or memory
    CallIndirect,
    /// `syscall`
    System,
    /// `xbegin`: its abort target
    Transaction(Address),
    /// An instruction that traps, copied unchanged (`int3`, `ud2`, `hlt`, unknown ones).
    Trap,
    /// 16- or 32-bit code, far transfers, loads of GS: cannot be followed.
    Far,
}

/// A basic block as the program has it.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// Its first instruction.
    pub start: Address,
    /// Its instructions, the last one's effect being `end` (except for `Next`).
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: Terminator,
    /// Its bytes.
    pub code: Vec<u8>,
}

impl Decoded {
    /// The address behind it.
    pub fn next(&self) -> Address {
        self.start + self.code.len() as u64
    }

    /// Whether it ends in a branch to its own beginning.
    pub fn repeats(&self) -> bool {
        matches!(self.end, Terminator::Branch(_, to) if to == self.start)
    }
}

/// Whether `bytes` can be the beginning of an instruction. iced also reads the operands of opcodes that are invalid in 64-bit
/// code.
fn may_go_on(bytes: &[u8]) -> bool {
    let with = |filler: u8| {
        let mut longest = [filler; LONGEST];
        longest[..bytes.len()].copy_from_slice(bytes);
        !Decoder::new(64, &longest, DecoderOptions::NONE).decode().is_invalid()
    };
    bytes.len() < LONGEST && [0x00, 0x90, 0xc0, 0xff].into_iter().any(with)
}

/// Decodes the block at `start` from the bytes there, `None` if they end before its first instruction does.
pub fn decode(start: Address, bytes: &[u8]) -> Option<Decoded> {
    if bytes.is_empty() {
        return None;
    }
    let mut decoder = Decoder::with_ip(64, bytes, start.get(), DecoderOptions::NONE);
    let mut block = Decoded { start, steps: Vec::with_capacity(16), end: Terminator::Next, code: Vec::new() };
    let mut length = 0;
    let mut instruction = Instruction::default();
    while block.steps.len() < MAX_INSTRUCTIONS && decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let offset = length as u16;
        if instruction.is_invalid() {
            // At the end of the bytes, it may only be cut off; alone, it is an instruction that the CPU will refuse.
            if block.steps.is_empty() {
                if decoder.last_error() == DecoderError::NoMoreBytes && may_go_on(bytes) {
                    return None;
                }
                block.steps.push(Step { instruction, offset, displacement: 0 });
                length = bytes.len().min(LONGEST);
                block.end = Terminator::Trap;
            }
            break;
        }
        let displacement = if instruction.is_ip_rel_memory_operand() {
            decoder.get_constant_offsets(&instruction).displacement_offset() as u8
        } else {
            0
        };
        block.steps.push(Step { instruction, offset, displacement });
        length += instruction.len();
        if let Some(end) = end(&instruction) {
            block.end = end;
            break;
        }
    }
    block.code = bytes[..length].to_vec();
    Some(block)
}

/// The instructions of the block at `start` except the one that ends it, decoded on demand.
pub fn steps(start: Address, bytes: &[u8]) -> impl Iterator<Item = Instruction> {
    let decoder = Decoder::with_ip(64, bytes, start.get(), DecoderOptions::NONE);
    decoder.into_iter().take(MAX_INSTRUCTIONS).take_while(|i| !i.is_invalid() && end(i).is_none())
}

fn end(instruction: &Instruction) -> Option<Terminator> {
    let near = || Address::new(instruction.near_branch_target());
    if loads_gs(instruction) {
        return Some(Terminator::Far);
    }
    let is_near = matches!(instruction.op0_kind(), OpKind::NearBranch64);
    Some(match instruction.flow_control() {
        FlowControl::Next => return None,
        FlowControl::UnconditionalBranch if is_near => Terminator::Jump(near()),
        FlowControl::ConditionalBranch if is_near => match instruction.is_jcc_short_or_near() {
            true => Terminator::Branch(instruction.condition_code() as u8, near()),
            false => Terminator::ShortBranch(near()),
        },
        FlowControl::Call if instruction.code() == Code::Syscall => Terminator::System,
        FlowControl::Call if is_near => Terminator::Call(near()),
        FlowControl::Return if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            Terminator::Return(if instruction.op_count() > 0 { instruction.immediate(0) as u32 } else { 0 })
        }
        FlowControl::IndirectBranch if instruction.code() == Code::Jmp_rm64 => Terminator::JumpIndirect,
        FlowControl::IndirectCall if instruction.code() == Code::Call_rm64 => Terminator::CallIndirect,
        FlowControl::XbeginXabortXend if is_near => Terminator::Transaction(near()),
        FlowControl::XbeginXabortXend => return None,
        // A 32-bit system call.
        FlowControl::Interrupt if instruction.code() == Code::Int_imm8 && instruction.immediate8() == 0x80 => {
            Terminator::Far
        }
        FlowControl::Interrupt | FlowControl::Exception => Terminator::Trap,
        _ => Terminator::Far,
    })
}

/// Whether it loads the selector of GS; rprof uses its base.
fn loads_gs(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Pop => {
            instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::GS
        }
        Mnemonic::Lgs => true,
        _ => false,
    }
}

/// The condition code as encoded in the opcode.
pub fn condition(code: u8) -> u8 {
    use iced_x86::ConditionCode as C;
    const ORDER: [C; 16] =
        [C::o, C::no, C::b, C::ae, C::e, C::ne, C::be, C::a, C::s, C::ns, C::p, C::np, C::l, C::ge, C::le, C::g];
    ORDER.iter().position(|&c| c as u8 == code).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_control_is_transferred() {
        let at = Address::new(0x1000);
        let end = |bytes: &[u8]| decode(at, bytes).map(|b| (b.steps.len(), b.end, b.code.len()));
        assert_eq!(end(&[0x90, 0xeb, 0x02, 0xcc]), Some((2, Terminator::Jump(Address::new(0x1005)), 3)));
        assert_eq!(end(&[0x0f, 0x05, 0x90]), Some((1, Terminator::System, 2)));
        assert_eq!(end(&[0xc2, 0x08, 0x00]), Some((1, Terminator::Return(8), 3)));
        assert_eq!(end(&[0xff, 0xe0]), Some((1, Terminator::JumpIndirect, 2)));
        assert_eq!(end(&[0xe3, 0x10]), Some((1, Terminator::ShortBranch(Address::new(0x1012)), 2)));
        assert_eq!(end(&[0x90, 0x06, 0x06]), Some((1, Terminator::Next, 1)));
        assert_eq!(end(&[0x06]), Some((1, Terminator::Trap, 1)));
        assert_eq!(end(&[0x90, 0x8e, 0xe8]), Some((2, Terminator::Far, 3))); // mov gs, eax
        assert_eq!(end(&[0x0f, 0xa9]), Some((1, Terminator::Far, 2))); // pop gs
        assert_eq!(end(&[0x8c, 0xe8, 0xc3]), Some((2, Terminator::Return(0), 3))); // mov eax, gs; ret
        assert_eq!(end(&[0xcd, 0x80]), Some((1, Terminator::Far, 2)));
        assert_eq!(end(&[0xcd, 0x03]), Some((1, Terminator::Trap, 2)));
        assert_eq!(end(&[]), None);
        assert_eq!(end(&[0x05, 0, 0]), None, "add eax, imm32 is longer");
        assert_eq!(end(&[0x90, 0x05, 0, 0]), Some((1, Terminator::Next, 1)));
        assert_eq!(end(&[0x66; 20]), Some((1, Terminator::Trap, 15)));
        let Some((_, Terminator::Branch(code, _), _)) = end(&[0x75, 0x10]) else { panic!("jne is a branch") };
        assert_eq!(condition(code), 5);
    }
}
