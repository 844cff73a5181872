//! Instructions for a given code: with registers, with memory, and with a mask.

use iced_x86::{Code, Decoder, Encoder, Instruction, OpCodeOperandKind as Kind, OpKind, Register};

/// One instruction of a code.
pub struct Form {
    pub instruction: Instruction,
    /// Its mask register.
    pub mask: Option<u8>,
}

/// The forms that a code has: its register-or-memory operand as either, and each of them masked if it can be.
pub fn forms(code: Code) -> Vec<Form> {
    let mut forms = Vec::new();
    for memory in [false, true] {
        let Some(instruction) = instruction(code, memory) else { continue };
        let needs_mask = code.op_code().require_op_mask_register();
        if !needs_mask {
            forms.push(Form { instruction: settled(instruction), mask: None });
        }
        if code.op_code().can_use_op_mask_register() {
            let mut masked = instruction;
            masked.set_op_mask(Register::K3);
            forms.push(Form { instruction: settled(masked), mask: Some(3) });
        }
    }
    forms
}

/// The instruction as the decoder gives it back. Codes that the decoder never yields (`fstcw` is `wait` and `fnstcw`) stay.
fn settled(instruction: Instruction) -> Instruction {
    let code = instruction.code();
    let bits = if code.op_code().mode64() { 64 } else { 32 };
    let mut encoder = Encoder::new(bits);
    if encoder.encode(&instruction, 0x1000).is_err() {
        return instruction;
    }
    let bytes = encoder.take_buffer();
    let decoded = Decoder::with_ip(bits, &bytes, 0x1000, code.op_code().decoder_option()).decode();
    if decoded.code() == code { decoded } else { instruction }
}

fn instruction(code: Code, memory: bool) -> Option<Instruction> {
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    let kinds = code.op_code().op_kinds();
    let either = |kind: &Kind| format!("{kind:?}").contains("_or_mem");
    if memory && !kinds.iter().any(either) {
        return None;
    }
    for (n, &kind) in kinds.iter().enumerate() {
        operand(&mut instruction, n as u32, kind, memory)?;
    }
    Some(instruction)
}

fn operand(instruction: &mut Instruction, n: u32, kind: Kind, memory: bool) -> Option<()> {
    let name = format!("{kind:?}");
    if (memory && name.contains("_or_mem"))
        || matches!(kind, Kind::mem | Kind::sibmem | Kind::mem_offs)
        || name.starts_with("mem_")
    {
        instruction.set_op_kind(n, OpKind::Memory);
        instruction.set_memory_base(Register::RAX);
        instruction.set_memory_displ_size(1);
        instruction.set_memory_displacement64(0x40);
        if let Some(index) = vsib_index(&name) {
            instruction.set_memory_index(index);
        } else if kind == Kind::sibmem {
            instruction.set_memory_index(Register::RCX);
        }
        return Some(());
    }
    if name.starts_with("imm") {
        instruction.set_op_kind(n, OpKind::Immediate8);
        instruction.set_immediate8(0xff);
        return Some(());
    }
    if name.starts_with("br") {
        instruction.set_op_kind(n, OpKind::NearBranch64);
        instruction.set_near_branch64(0x1000);
        return Some(());
    }
    if kind == Kind::seg_rDI {
        instruction.set_op_kind(n, OpKind::MemorySegRDI);
        return Some(());
    }
    instruction.set_op_kind(n, OpKind::Register);
    instruction.set_op_register(n, register(&name, n)?);
    Some(())
}

/// A register of the operand's file, another for each operand.
fn register(kind: &str, n: u32) -> Option<Register> {
    let aligned = if kind.contains("p3") { 4 } else { n + 1 };
    let file = kind.split('_').next()?;
    Some(match file {
        "xmm" | "xmmp3" => Register::XMM0 + aligned,
        "ymm" => Register::YMM0 + aligned,
        "zmm" | "zmmp3" => Register::ZMM0 + aligned,
        "tmm" => Register::TMM0 + aligned,
        "mm" => Register::MM0 + aligned,
        "k" => Register::K0 + aligned,
        "kp1" => Register::K2,
        "st0" => Register::ST0,
        "sti" => Register::ST1,
        "r8" | "al" => Register::AL,
        "r16" | "ax" => Register::AX,
        "r32" | "eax" => Register::EAX,
        "r64" | "rax" => Register::RAX,
        _ => return None,
    })
}

fn vsib_index(kind: &str) -> Option<Register> {
    let vsib = kind.contains("vsib");
    vsib.then(|| match kind.chars().last() {
        Some('x') => Register::XMM9,
        Some('y') => Register::YMM9,
        _ => Register::ZMM9,
    })
}
