//! Decodes bytes as the translator does, writes each instruction for another address, decodes that, and compares.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use rprof::instrument::x86_64::decode::{Decoded, Step, Terminator, decode};
use rprof::instrument::x86_64::emit::Code;
use rprof::instrument::x86_64::rewrite::{Slots, copy, uses_gs};
use rprof::tracee::address::{Address, CacheAddress};

/// Where the text of a PIE is said to be.
const TEXT: u64 = 0x5555_5555_4000;
/// Places of text and code cache: within reach of RIP-relative operands, beyond, and beyond the low 2 GB for text in these.
const PLACES: [(u64, u64); 3] = [(TEXT, TEXT - (1 << 30)), (TEXT, 0x1000_0000), (0x40_0000, 0xfc00_0000)];
const SLOTS: Slots = Slots { lent: 0x10, program_gs: 0x90 };

/// Checks the block that `bytes` begin with; returns how many instructions were compared.
pub fn decode_to_encode(bytes: &[u8]) -> Result<usize, String> {
    let mut compared = 0;
    for (text, cache) in PLACES {
        let Some(block) = decode(Address::new(text), bytes) else { return Ok(0) };
        check_block(&block, bytes)?;
        let transfers = usize::from(block.end != Terminator::Next);
        let plain = &block.steps[..block.steps.len() - transfers];
        for step in plain {
            let from = usize::from(step.offset);
            let own = &bytes[from..from + step.instruction.len()];
            check_copy(step, own, cache).map_err(|e| format!("{own:02x?} at cache {cache:#x}: {e}"))?;
        }
        compared = plain.len();
    }
    Ok(compared)
}

/// Instructions lie one behind the other, and the block's bytes are those that were given.
fn check_block(block: &Decoded, bytes: &[u8]) -> Result<(), String> {
    let mut next = 0;
    for step in &block.steps {
        if usize::from(step.offset) != next {
            return Err(format!("a gap before offset {}", step.offset));
        }
        next += step.instruction.len();
    }
    let whole = block.end == Terminator::Trap || next == block.code.len();
    if whole && bytes.starts_with(&block.code) { Ok(()) } else { Err("the block's bytes are others".into()) }
}

fn check_copy(step: &Step, bytes: &[u8], cache: u64) -> Result<(), String> {
    let original = &step.instruction;
    let mut code = Code::new(CacheAddress::new(cache));
    // What no rule covers is refused, and the program with it: that is no wrong result.
    let Ok(written) = copy(&mut code, step, bytes, SLOTS) else { return Ok(()) };
    let decoder = Decoder::with_ip(64, code.bytes(), cache, DecoderOptions::NONE);
    let all: Vec<Instruction> = decoder.into_iter().collect();
    if all.iter().any(Instruction::is_invalid) {
        return Err(format!("not decodable: {:02x?}", code.bytes()));
    }
    let base_instruction = format!("{:?}", original.mnemonic()).ends_with("gsbase");
    if base_instruction {
        return if all.len() == 1 { Ok(()) } else { Err(format!("{} instructions", all.len())) };
    }
    let Some(copied) = all.iter().find(|i| i.ip() == written.at.get()) else {
        return Err("the instruction is not where it is said to be".into());
    };
    same_but_memory(original, copied)?;
    match written.lent {
        None if all.len() != 1 => Err(format!("{} instructions", all.len())),
        None => same_memory(original, copied),
        Some(_) if !uses_gs(original) && !original.is_ip_rel_memory_operand() => {
            Err("a register is lent for nothing".into())
        }
        Some(lent) => through_register(original, copied, &all, lent.0),
    }
}

/// Code, registers, immediates, masks and prefixes.
fn same_but_memory(a: &Instruction, b: &Instruction) -> Result<(), String> {
    let prefixes = |i: &Instruction| {
        (i.has_lock_prefix(), i.has_rep_prefix(), i.has_repne_prefix(), i.op_mask(), i.zeroing_masking())
    };
    let modes = |i: &Instruction| (i.is_broadcast(), i.rounding_control(), i.suppress_all_exceptions());
    if a.code() != b.code() || prefixes(a) != prefixes(b) || modes(a) != modes(b) {
        return Err(format!("{a} became {b}"));
    }
    for n in 0..a.op_count() {
        let same = match (a.op_kind(n), b.op_kind(n)) {
            (OpKind::Memory, OpKind::Memory) => true,
            (OpKind::Register, OpKind::Register) => a.op_register(n) == b.op_register(n),
            (ka, kb) if ka != kb => false,
            (OpKind::Immediate8_2nd, _) => a.immediate8_2nd() == b.immediate8_2nd(),
            (kind, _) if format!("{kind:?}").starts_with("Immediate") => a.immediate(n) == b.immediate(n),
            _ => true,
        };
        if !same {
            return Err(format!("operand {n}: {a} became {b}"));
        }
    }
    Ok(())
}

fn same_memory(a: &Instruction, b: &Instruction) -> Result<(), String> {
    let expression = |i: &Instruction| {
        let parts = (i.memory_base(), i.memory_index(), i.memory_index_scale(), i.memory_displacement64());
        (parts, i.segment_prefix())
    };
    let has = (0..a.op_count()).any(|n| a.op_kind(n) == OpKind::Memory);
    // An operand of the low 2 GB may be told by its address.
    let address = a.memory_displacement64();
    let by_address = a.is_ip_rel_memory_operand()
        && address <= i32::MAX as u64
        && expression(b) == ((Register::None, Register::None, 1, address), a.segment_prefix());
    if !has || by_address || expression(a) == expression(b) { Ok(()) } else { Err(format!("{a} became {b}")) }
}

/// The operand goes through a lent register that the instruction itself does not use; it is saved before and loaded behind.
fn through_register(original: &Instruction, copied: &Instruction, all: &[Instruction], lent: u8) -> Result<(), String> {
    let base = copied.memory_base();
    let rest = |i: &Instruction| (i.memory_index(), i.memory_index_scale(), i.memory_displacement64());
    // A vector index cannot be added to a base beforehand.
    let plain = match original.memory_index().is_vector_register() {
        true => rest(copied) == rest(original),
        false => rest(copied) == (Register::None, 1, 0),
    };
    if base.number() != usize::from(lent) || !plain {
        return Err(format!("{original} became {copied}"));
    }
    let mut factory = iced_x86::InstructionInfoFactory::new();
    let used = factory.info(original).used_registers().iter().any(|r| r.register().full_register() == base);
    if used {
        return Err(format!("{original} uses the lent {base:?}"));
    }
    let in_slot =
        |i: &Instruction| i.segment_prefix() == Register::GS && i.memory_displacement64() == u64::from(SLOTS.lent);
    let (first, last) = (&all[0], &all[all.len() - 1]);
    if !in_slot(first) || !in_slot(last) || first.op1_register() != base || last.op0_register() != base {
        return Err(format!("the lent {base:?} is not saved and loaded"));
    }
    if original.is_ip_rel_memory_operand() && !uses_gs(original) {
        let address = all[1].immediate(1);
        let wanted = original.memory_displacement64();
        let kept = copied.segment_prefix() == original.segment_prefix();
        if address != wanted || !kept {
            return Err(format!("{original}: address {address:#x}"));
        }
    }
    Ok(())
}
