//! The part of an instruction's counts that only run time determines.

use iced_x86::{Instruction, Mnemonic};

use crate::facts::{AccessFact, AccessKind, Dynamic};

use super::{movement, operands};

/// The dynamic part; marks the accesses with bytes that follow the active lanes.
///
/// `lanes`: lanes of the instruction's own work, if it has any. Without work, the lanes are those of the memory operand;
/// without either, nothing depends on the mask.
pub(super) fn dynamic(instruction: &Instruction, lanes: Option<u32>, accesses: &mut [AccessFact]) -> Option<Dynamic> {
    if instruction.is_string_instruction() {
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        return repeated.then_some(Dynamic::Repeat);
    }
    if instruction.is_vsib() {
        return gather(instruction, accesses);
    }
    if let Some(&(_, element)) = movement::SIGN_MASKED.iter().find(|(name, _)| *name == instruction.mnemonic()) {
        accesses.iter_mut().for_each(|access| access.masked = true);
        // maskmovdqu [rdi], data, mask; vmaskmovps data, mask, [m] and [m], mask, data
        let register = instruction.op_register(if element == 1 { 2 } else { 1 });
        let lanes = register.size() as u8 / element;
        return Some(Dynamic::VectorMask { register: operands::number(register), element, lanes });
    }
    let mask = instruction.op_mask();
    if !mask.is_k() {
        return None;
    }
    let in_memory = masked_memory_lanes(instruction);
    let lanes = lanes.or(in_memory)?;
    if in_memory == Some(lanes) {
        accesses.iter_mut().filter(|access| access.bytes > 0).for_each(|access| access.masked = true);
    }
    Some(Dynamic::Mask { k: operands::number(mask), lanes: lanes as u8 })
}

/// Lanes of a memory operand that the mask divides; `None` without such an operand.
fn masked_memory_lanes(instruction: &Instruction) -> Option<u32> {
    let operand = operands::memory_operand(instruction)?;
    let name = instruction.mnemonic();
    let whole = instruction.is_broadcast()
        || movement::READS_WHOLE_OPERAND.contains(&name)
        || movement::PREFETCHES.contains(&name)
        || (operand == 2 && movement::SHIFTS_BY_COUNT.contains(&name));
    let size = instruction.memory_size();
    (!whole && size.size() > 0).then(|| size.element_count() as u32)
}

/// Gathers and scatters: the mask register, or the sign bits of the AVX2 mask operand.
fn gather(instruction: &Instruction, accesses: &mut [AccessFact]) -> Option<Dynamic> {
    if accesses.iter().all(|access| access.kind == AccessKind::Prefetch) {
        return None;
    }
    accesses.iter_mut().for_each(|access| access.masked = true);
    let (lanes, element) = gather_lanes(instruction);
    let mask = instruction.op_mask();
    if mask.is_k() {
        return Some(Dynamic::Mask { k: operands::number(mask), lanes: lanes as u8 });
    }
    let register = instruction.op_register(2);
    let vector = instruction.op_count() == 3 && register.is_vector_register();
    vector.then(|| Dynamic::VectorMask {
        register: operands::number(register),
        element: element as u8,
        lanes: lanes as u8,
    })
}

/// (lanes, bytes of an element): as many as both the data and the index register hold.
pub(super) fn gather_lanes(instruction: &Instruction) -> (u32, u32) {
    let element = instruction.memory_size().size() as u32;
    let element = if element > 0 { element } else { double_word_or_quad(instruction.mnemonic()) };
    let index = if instruction.is_vsib32() { 4 } else { 8 };
    let indices = instruction.memory_index().size() as u32 / index;
    let data = operands::vector_bytes(instruction) / element;
    // Prefetches have no data register, and the data of a mask form is as wide as the AVX2 mask.
    (if data == 0 { indices } else { indices.min(data) }, element)
}

/// KNC states no element size.
fn double_word_or_quad(name: Mnemonic) -> u32 {
    use Mnemonic::{Vgatherdpd, Vpgatherdq, Vpscatterdq, Vscatterdpd};
    if matches!(name, Vgatherdpd | Vpgatherdq | Vpscatterdq | Vscatterdpd) { 8 } else { 4 }
}
