//! The memory operands, explicit and implicit (stack, string), as accesses.

use iced_x86::{Instruction, InstructionInfoFactory, InstructionInfoOptions, MemorySize, OpAccess};

use crate::facts::{AccessFact, AccessKind};

use super::{dynamic, movement, operands};

/// Accesses of one execution (of one iteration, with `rep`), reads before writes.
pub(super) fn accesses(instruction: &Instruction) -> Vec<AccessFact> {
    let name = instruction.mnemonic();
    if movement::NO_DATA.contains(&name) {
        return Vec::new();
    }
    let vector = operands::is_vector_data(instruction);
    if movement::PREFETCHES.contains(&name) {
        let access = AccessFact { kind: AccessKind::Prefetch, bytes: 0, vector, masked: false };
        return if operands::memory_operand(instruction).is_some() { vec![access] } else { Vec::new() };
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    let used = info.used_memory();
    if instruction.is_vsib() {
        let (lanes, element) = dynamic::gather_lanes(instruction);
        let writes = instruction.op0_kind() == iced_x86::OpKind::Memory;
        let kind = if writes { AccessKind::Scatter } else { AccessKind::Gather };
        return vec![AccessFact { kind, bytes: lanes * element, vector, masked: false }];
    }
    let store = if movement::NON_TEMPORAL_STORES.contains(&name) { AccessKind::NtStore } else { AccessKind::Store };
    // For a repeated string instruction the usage has an unknown size; the operand has the size of one iteration.
    let of_operand = instruction.is_string_instruction().then(|| instruction.memory_size());
    let entry = |kind, size| AccessFact { kind, bytes: bytes(of_operand.unwrap_or(size)), vector, masked: false };
    let reads =
        used.iter().filter(|memory| reads(memory.access())).map(|memory| entry(AccessKind::Load, memory.memory_size()));
    let writes = used.iter().filter(|memory| writes(memory.access())).map(|memory| entry(store, memory.memory_size()));
    reads.chain(writes).collect()
}

/// Bytes of an operand; sizes that depend on the processor's state (`xsave`) are 0.
fn bytes(size: MemorySize) -> u32 {
    if size == MemorySize::Tile { operands::TILE_BYTES } else { size.size() as u32 }
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}
