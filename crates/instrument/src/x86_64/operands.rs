//! The memory operands of an instruction, with everything needed to compute their addresses.

use iced_x86::{Code, Instruction, InstructionInfoFactory, InstructionInfoOptions, OpAccess, Register, UsedMemory};

use rprof_isa::facts::{AccessFact, AccessKind, InstructionFacts};

/// A memory operand: its address and its access.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// Address expression; the index of a gather or scatter is a vector register.
    pub memory: UsedMemory,
    /// Direction, kind and size.
    pub fact: AccessFact,
}

/// Pairs the accesses of `facts` (reads before writes) with their address expressions.
pub fn operands(instruction: &Instruction, facts: &InstructionFacts) -> Vec<Operand> {
    if facts.accesses.is_empty() {
        return Vec::new();
    }
    let mut factory = InstructionInfoFactory::new();
    // A prefetch uses no memory for iced; an instruction that reads one operand, at the same address, does.
    let mut addressed = *instruction;
    if !instruction.is_vsib() && facts.accesses.iter().all(|access| access.kind == AccessKind::Prefetch) {
        addressed.set_code(Code::Mul_rm8);
    }
    let info = factory.info_options(&addressed, InstructionInfoOptions::NO_REGISTER_USAGE);
    let used = info.used_memory();
    if let [fact] = facts.accesses[..]
        && matches!(fact.kind, AccessKind::Gather | AccessKind::Scatter | AccessKind::Prefetch)
    {
        return used.first().map(|&memory| Operand { memory, fact }).into_iter().collect();
    }
    let reads =
        |a: OpAccess| matches!(a, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
    let writes = |a: OpAccess| {
        matches!(a, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
    };
    let order = used.iter().filter(|m| reads(m.access())).chain(used.iter().filter(|m| writes(m.access())));
    order.zip(&facts.accesses).map(|(&memory, &fact)| Operand { memory, fact }).collect()
}

/// The address of `memory`; `value` supplies registers and, for element `i` of a vector index, its (register, i) value.
pub fn address(
    memory: &UsedMemory,
    element: usize,
    mut value: impl FnMut(Register, usize) -> Option<u64>,
) -> Option<u64> {
    memory.virtual_address(element, |register, index, _| value(register, index))
}

/// Whether the amount of work of `instruction` is known only at run time.
pub fn is_dynamic(instruction: &Instruction) -> bool {
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    instruction.has_op_mask()
        || instruction.is_vsib()
        || (repeated && instruction.is_string_instruction())
        || matches!(
            instruction.mnemonic(),
            iced_x86::Mnemonic::Vmaskmovps
                | iced_x86::Mnemonic::Vmaskmovpd
                | iced_x86::Mnemonic::Vpmaskmovd
                | iced_x86::Mnemonic::Vpmaskmovq
                | iced_x86::Mnemonic::Maskmovdqu
                | iced_x86::Mnemonic::Vmaskmovdqu
        )
}
