//! Copying single instructions into the code cache: rules for memory operands that cannot be copied as they are, loads of a jump's target,
//! addresses of operands, and which general registers an instruction leaves free for that.
//!
//! ```text
//!  [rip + d]  in reach      the same bytes, d adjusted
//!  [rip + d]  out of reach  mov gs:[lent], r; mov r, address; op [r]; mov r, gs:[lent]
//!  gs:[…]                   mov gs:[lent], r; mov r, gs:[program_gs]; lea r, [r + …]; op [r]; mov r, gs:[lent]
//! ```

use iced_x86::{
    Code as Opcode, Encoder, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};

use super::decode::Step;
use super::emit::{Code, Gpr};
use rprof_tracee::address::CacheAddress;

/// Offsets of the slots that the rules use.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// Slot for the value of a lent register.
    pub lent: u32,
    /// The GS base that the program set.
    pub program_gs: u32,
}

/// An instruction as written to the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Address of the instruction itself.
    pub at: CacheAddress,
    /// A register with its value in the slot while it executes.
    pub lent: Option<Gpr>,
}

/// An instruction that no rule covers.
#[derive(Debug, thiserror::Error)]
#[error("cannot translate the instruction at {at:#x}")]
pub struct NoRule {
    /// Its address.
    pub at: u64,
}

/// The hardware number of a general-purpose register.
pub fn gpr(register: Register) -> Option<Gpr> {
    register.is_gpr().then(|| Gpr(register.full_register().number() as u8))
}

/// General-purpose registers that `instruction` reads or writes, bit n for register n.
pub fn used_gprs(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> u16 {
    let info = factory.info(instruction);
    let mut used = 0;
    for register in info.used_registers() {
        if let Some(r) = gpr(register.register()) {
            used |= 1 << r.0;
        }
    }
    for memory in info.used_memory() {
        for register in [memory.base(), memory.index()] {
            if let Some(r) = gpr(register) {
                used |= 1 << r.0;
            }
        }
    }
    used
}

/// How an instruction uses a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Not at all.
    None,
    /// It overwrites the whole register without using the old value.
    Overwrites,
    /// It may use the old value.
    Reads,
}

/// How `instruction` uses general-purpose register `register`.
pub fn use_of(factory: &mut InstructionInfoFactory, instruction: &Instruction, register: Gpr) -> Use {
    // Without shadow stacks, it leaves its destination unchanged.
    if matches!(instruction.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq) {
        return Use::Reads;
    }
    let info = factory.info(instruction);
    let all = |r: Register| r.is_gpr64() || r.is_gpr32();
    let mut found = Use::None;
    for used in info.used_registers().iter().filter(|u| gpr(u.register()) == Some(register)) {
        if used.access() != OpAccess::Write || !all(used.register()) {
            return Use::Reads;
        }
        found = Use::Overwrites;
    }
    let addresses = |m: &UsedMemory| [m.base(), m.index()].into_iter().any(|r| gpr(r) == Some(register));
    if info.used_memory().iter().any(addresses) { Use::Reads } else { found }
}

/// A register that is not in `used` and not RSP, preferably one without REX prefix.
pub fn free_gpr(used: u16) -> Option<Gpr> {
    [0u8, 1, 2, 3, 6, 7, 5, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().find(|r| used >> r & 1 == 0).map(Gpr)
}

/// Whether the instruction addresses memory through GS; `lea` has an address, but no segment.
pub fn uses_gs(instruction: &Instruction) -> bool {
    instruction.segment_prefix() == Register::GS
        && instruction.mnemonic() != Mnemonic::Lea
        && (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory)
}

/// Appends `step` with the bytes `bytes`, so that it has the same effect in the cache as in its place.
pub fn copy(code: &mut Code, step: &Step, bytes: &[u8], slots: Slots) -> Result<Written, NoRule> {
    let instruction = &step.instruction;
    if uses_gs(instruction) {
        return through_register(code, instruction, slots);
    }
    if let Some(written) = gs_base(code, instruction, slots) {
        return Ok(written);
    }
    if step.displacement == 0 {
        if instruction.is_ip_rel_memory_operand() {
            return through_register(code, instruction, slots); // a 32-bit EIP-relative form
        }
        let at = code.here();
        code.raw(bytes);
        return Ok(Written { at, lent: None });
    }
    let at = code.here();
    let distance = instruction.memory_displacement64().wrapping_sub((at + bytes.len() as u64).get()) as i64;
    let Ok(distance) = i32::try_from(distance) else { return from_afar(code, instruction, slots) };
    let d = usize::from(step.displacement);
    code.raw(&bytes[..d]);
    code.raw(&distance.to_le_bytes());
    code.raw(&bytes[d + 4..]);
    Ok(Written { at, lent: None })
}

/// `rdgsbase`, `wrgsbase`: the program's base is in a slot; rprof uses the register itself.
fn gs_base(code: &mut Code, instruction: &Instruction, slots: Slots) -> Option<Written> {
    let at = code.here();
    let register = gpr(instruction.op0_register());
    match instruction.code() {
        Opcode::Rdgsbase_r64 | Opcode::Rdgsbase_r32 => code.load(register?, slots.program_gs),
        Opcode::Wrgsbase_r64 | Opcode::Wrgsbase_r32 => code.save(slots.program_gs, register?),
        _ => return None,
    }
    Some(Written { at, lent: None })
}

/// `mov to, <the memory operand or register of instruction>`: loads an indirect branch's target.
pub fn load_target(code: &mut Code, to: Register, instruction: &Instruction, slots: Slots) -> Result<(), NoRule> {
    if instruction.op0_kind() == OpKind::Register {
        if let (Some(to), Some(from)) = (gpr(to), gpr(instruction.op0_register())) {
            if from != to {
                code.copy(to, from);
            }
            return Ok(());
        }
        return Err(NoRule { at: instruction.ip() });
    }
    let operand = MemoryOperand::new(
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64() as i64,
        match instruction.memory_displ_size() {
            0 => 0,
            _ if instruction.memory_base().is_gpr32() || instruction.memory_index().is_gpr32() => 4,
            _ => 8,
        },
        false,
        instruction.segment_prefix(),
    );
    let mut load =
        Instruction::with2(Opcode::Mov_r64_rm64, to, operand).map_err(|_| NoRule { at: instruction.ip() })?;
    load.set_ip(instruction.ip());
    if uses_gs(&load) {
        return through_register(code, &load, slots).map(drop);
    }
    if load.is_ip_rel_memory_operand() && !reaches(code.here().get(), load.memory_displacement64()) {
        return from_afar(code, &load, slots).map(drop);
    }
    encode(code, &load)
}

/// `lea to, <memory>`, without its segment and a vector index; false if it cannot be written (relative to EIP).
pub fn load_address(code: &mut Code, to: Gpr, memory: &UsedMemory) -> bool {
    let vector = memory.index().is_vector_register();
    let index = if vector { Register::None } else { memory.index() };
    let displacement = memory.displacement();
    if memory.base() == Register::None && index == Register::None {
        code.constant(to, displacement);
        return true;
    }
    let registers = || [memory.base(), index].into_iter().filter(|r| *r != Register::None);
    // 32-bit addressing wraps around, and so does `lea` with it.
    let (width, displacement) = if registers().all(Register::is_gpr32) {
        (4, i64::from(displacement as u32 as i32))
    } else if registers().all(Register::is_gpr64) {
        (8, displacement as i64)
    } else {
        return false;
    };
    let size = if displacement == 0 { 0 } else { width };
    let scale = if index == Register::None { 1 } else { memory.scale() };
    let operand = MemoryOperand::new(memory.base(), index, scale, displacement, size, false, Register::None);
    let Ok(lea) = Instruction::with2(Opcode::Lea_r64_m, REGISTERS[usize::from(to.0)], operand) else { return false };
    encode(code, &lea).is_ok()
}

/// `vmovdqu [base + offset], vector`: stores a whole vector register.
pub fn store_vector(code: &mut Code, base: Gpr, offset: i64, vector: Register) -> bool {
    let operand =
        MemoryOperand::new(REGISTERS[usize::from(base.0)], Register::None, 1, offset, 8, false, Register::None);
    let high = vector.number() >= 16;
    let opcode = match vector.size() {
        64 => Opcode::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        32 if high => Opcode::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
        16 if high => Opcode::EVEX_Vmovdqu64_xmmm128_k1z_xmm,
        32 => Opcode::VEX_Vmovdqu_ymmm256_ymm,
        _ => Opcode::VEX_Vmovdqu_xmmm128_xmm,
    };
    Instruction::with2(opcode, operand, vector).is_ok_and(|store| encode(code, &store).is_ok())
}

fn reaches(from: u64, to: u64) -> bool {
    let distance = to.wrapping_sub(from) as i64;
    distance.abs() < (1 << 31) - 64
}

/// A RIP-relative operand that a displacement does not reach from the cache: by its address, which the low 2 GB allow.
fn from_afar(code: &mut Code, instruction: &Instruction, slots: Slots) -> Result<Written, NoRule> {
    if instruction.memory_displacement64() > i32::MAX as u64 {
        return through_register(code, instruction, slots);
    }
    let mut absolute = *instruction;
    absolute.set_memory_base(Register::None);
    absolute.set_memory_displ_size(8);
    let at = code.here();
    encode(code, &absolute)?;
    Ok(Written { at, lent: None })
}

fn through_register(code: &mut Code, instruction: &Instruction, slots: Slots) -> Result<Written, NoRule> {
    let no_rule = || NoRule { at: instruction.ip() };
    let mut factory = InstructionInfoFactory::new();
    let lent = free_gpr(used_gprs(&mut factory, instruction)).ok_or_else(no_rule)?;
    let name = REGISTERS[usize::from(lent.0)];
    code.save(slots.lent, lent);
    if uses_gs(instruction) {
        code.load(lent, slots.program_gs);
        add_address(code, name, instruction)?;
    } else {
        code.constant(lent, instruction.memory_displacement64());
    }
    let mut through = *instruction;
    if uses_gs(instruction) {
        through.set_segment_prefix(Register::None);
    }
    through.set_memory_base(name);
    if !instruction.memory_index().is_vector_register() {
        through.set_memory_index(Register::None);
        through.set_memory_index_scale(1);
        through.set_memory_displacement64(0);
        through.set_memory_displ_size(0);
    }
    let at = code.here();
    encode(code, &through)?;
    code.load(lent, slots.lent);
    Ok(Written { at, lent: Some(lent) })
}

/// `lea to, [to + address of the operand without its segment]`; for a gather or scatter, only the base.
fn add_address(code: &mut Code, to: Register, instruction: &Instruction) -> Result<(), NoRule> {
    let no_rule = |_| NoRule { at: instruction.ip() };
    let (base, index, scale) =
        (instruction.memory_base(), instruction.memory_index(), instruction.memory_index_scale());
    let vector = index.is_vector_register();
    let (index, displacement) =
        if vector { (Register::None, 0) } else { (index, instruction.memory_displacement64() as i64) };
    // A 32-bit address wraps around before the base is added.
    if [base, index].iter().any(|r| *r != Register::None && !r.is_gpr64()) {
        return Err(NoRule { at: instruction.ip() });
    }
    let size = if displacement == 0 { 0 } else { 8 };
    let mut add = |base, index, scale, displacement, size| {
        let operand = MemoryOperand::new(base, index, scale, displacement, size, false, Register::None);
        encode(code, &Instruction::with2(Opcode::Lea_r64_m, to, operand).map_err(no_rule)?)
    };
    if index != Register::None {
        add(to, index, scale, displacement, size)?;
        if base != Register::None { add(to, base, 1, 0, 0) } else { Ok(()) }
    } else if base != Register::None {
        // RSP can be a base but no index.
        add(base, to, 1, displacement, size)
    } else {
        add(to, Register::None, 1, displacement, size)
    }
}

fn encode(code: &mut Code, instruction: &Instruction) -> Result<(), NoRule> {
    let mut encoder = Encoder::new(64);
    encoder.encode(instruction, code.here().get()).map_err(|_| NoRule { at: instruction.ip() })?;
    code.raw(&encoder.take_buffer());
    Ok(())
}

const REGISTERS: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64::decode::decode;
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
    use rprof_tracee::address::Address;

    #[test]
    fn only_what_overwrites_all_of_a_register_needs_nothing_of_it() {
        let used = |bytes: &[u8]| {
            let block = decode(Address::new(0x1000), bytes).unwrap();
            use_of(&mut InstructionInfoFactory::new(), &block.steps[0].instruction, Gpr(1))
        };
        for (bytes, expected) in [
            (&[0x89, 0xd8][..], Use::None),                      // mov eax, ebx
            (&[0x89, 0xc1], Use::Overwrites),                    // mov ecx, eax
            (&[0x48, 0x8b, 0x08], Use::Overwrites),              // mov rcx, [rax]
            (&[0x59], Use::Overwrites),                          // pop rcx
            (&[0x48, 0x8b, 0x09], Use::Reads),                   // mov rcx, [rcx]
            (&[0x48, 0x8d, 0x04, 0x08], Use::Reads),             // lea rax, [rax + rcx]
            (&[0xb1, 0x01], Use::Reads),                         // mov cl, 1
            (&[0x0f, 0x44, 0xc8], Use::Reads),                   // cmove ecx, eax
            (&[0x0f, 0xbc, 0xc8], Use::Reads),                   // bsf ecx, eax
            (&[0xd3, 0xe0], Use::Reads),                         // shl eax, cl
            (&[0xf3, 0xa4], Use::Reads),                         // rep movsb
            (&[0xf3, 0x48, 0x0f, 0x1e, 0xc9], Use::Reads),       // rdsspq rcx
            (&[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x01], Use::Reads), // vmovups zmm0, [rcx]
        ] {
            assert_eq!(used(bytes), expected, "{bytes:x?}");
        }
    }

    fn translated(at: u64, bytes: &[u8]) -> String {
        let block = decode(Address::new(0x40_0000), bytes).unwrap();
        let mut code = Code::new(CacheAddress::new(at));
        copy(&mut code, &block.steps[0], bytes, Slots { lent: 0x10, program_gs: 0x90 }).unwrap();
        let mut formatter = IntelFormatter::new();
        let decoded = Decoder::with_ip(64, code.bytes(), at, DecoderOptions::NONE);
        let lines: Vec<String> = decoded
            .into_iter()
            .map(|i| {
                let mut line = String::new();
                formatter.format(&i, &mut line);
                line
            })
            .collect();
        lines.join("; ")
    }

    #[test]
    fn rip_relative_operands_keep_their_address() {
        let load = [0x48, 0x8b, 0x05, 0x00, 0x10, 0x00, 0x00]; // mov rax, [rip+0x1000]
        assert_eq!(translated(0x1000_0000, &load), "mov rax,[401007h]");
        assert_eq!(translated(0x7f00_0000_0000, &load), "mov rax,[401007h]", "it is below 2 GB");
        assert_eq!(translated(0x7f00_0000_0000, &[0x48, 0x8b, 0x05, 0x00, 0x00, 0x00, 0x7f]), "mov rax,[7F400007h]");
        assert_eq!(
            translated(0x7f00_0000_0000, &[0x48, 0x8b, 0x05, 0x00, 0xff, 0xff, 0x7f]),
            "mov gs:[10h],rcx; mov ecx,803FFF07h; mov rax,[rcx]; mov rcx,gs:[10h]"
        );
    }

    #[test]
    fn what_is_told_by_an_address_of_the_low_gigabytes_is_what_it_was() {
        let forms: [(&[u8], &str); 5] = [
            (&[0x48, 0x8d, 0x0d, 0, 0x10, 0, 0], "lea rcx,[401007h]"),
            (&[0xc7, 0x05, 0, 0x10, 0, 0, 5, 0, 0, 0], "mov dword ptr [40100Ah],5"),
            (&[0xff, 0x25, 0, 0x10, 0, 0], "jmp qword ptr [401006h]"),
            (&[0xc5, 0xfd, 0x58, 0x05, 0, 0x10, 0, 0], "vaddpd ymm0,ymm0,[401008h]"),
            (&[0x62, 0xf1, 0xfd, 0x58, 0x58, 0x05, 0, 0x10, 0, 0], "vaddpd zmm0,zmm0,[40100Ah]{1to8}"),
        ];
        for (bytes, expected) in forms {
            let mut decoder = Decoder::with_ip(64, bytes, 0x40_0000, DecoderOptions::NONE);
            let instruction = decoder.decode();
            let mut code = Code::new(CacheAddress::new(0x7f00_0000_0000));
            from_afar(&mut code, &instruction, Slots { lent: 0x10, program_gs: 0x90 }).unwrap();
            let mut line = String::new();
            let written = Decoder::with_ip(64, code.bytes(), 0x7f00_0000_0000, DecoderOptions::NONE).decode();
            IntelFormatter::new().format(&written, &mut line);
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn gs_operands_go_through_the_program_base() {
        let load = [0x65, 0x48, 0x8b, 0x44, 0x8b, 0x08]; // mov rax, gs:[rbx+rcx*4+8]
        let lea = [0x65, 0x48, 0x8d, 0x44, 0x8b, 0x08]; // the same with lea: the segment does not count
        assert_eq!(translated(0x1000_0000, &lea), "lea rax,[rbx+rcx*4+8]");
        assert_eq!(
            translated(0x1000_0000, &load),
            "mov gs:[10h],rdx; mov rdx,gs:[90h]; lea rdx,[rdx+rcx*4+8]; lea rdx,[rdx+rbx]; mov rax,[rdx]; mov rdx,gs:[10h]"
        );
    }

    #[test]
    fn the_address_of_an_operand_is_computed_at_its_width() {
        let address = |bytes: &[u8]| {
            let instruction = Decoder::with_ip(64, bytes, 0x40_0000, DecoderOptions::NONE).decode();
            let mut factory = InstructionInfoFactory::new();
            let mut code = Code::new(CacheAddress::new(0x1000));
            if !load_address(&mut code, Gpr(2), &factory.info(&instruction).used_memory()[0]) {
                return "none".into();
            }
            let mut line = String::new();
            let written = Decoder::with_ip(64, code.bytes(), 0x1000, DecoderOptions::NONE).decode();
            IntelFormatter::new().format(&written, &mut line);
            line
        };
        assert_eq!(address(&[0x48, 0x8b, 0x44, 0x8b, 0xf8]), "lea rdx,[rbx+rcx*4-8]");
        assert_eq!(address(&[0x67, 0x48, 0x8b, 0x44, 0x8b, 0xf8]), "lea rdx,[ebx+ecx*4-8]");
        assert_eq!(address(&[0x67, 0x48, 0x8b, 0x03]), "lea rdx,[ebx]");
    }
}
