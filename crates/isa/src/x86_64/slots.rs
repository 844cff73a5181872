//! Issue slots of a block: a macro-fused pair takes one, `nop` none.

use iced_x86::{Code, ConditionCode, Instruction, Mnemonic, OpKind};

/// Issue slots of each instruction of a block: 1, 0 for `nop` and for the branch of a macro-fused pair.
///
/// Fusion needs neighbours: the slots of a conditional branch that is first in its block are those of an unfused one.
pub fn block_issue_slots(block: &[Instruction]) -> Vec<u8> {
    let mut slots: Vec<u8> = block.iter().map(|i| u8::from(!is_nop(i))).collect();
    for (at, pair) in block.windows(2).enumerate() {
        if fuses(&pair[0], &pair[1]) {
            slots[at + 1] = 0;
        }
    }
    slots
}

fn is_nop(instruction: &Instruction) -> bool {
    use Mnemonic::{Endbr32, Endbr64, Nop, Reservednop};
    matches!(instruction.mnemonic(), Nop | Endbr64 | Endbr32 | Reservednop)
}

/// Whether the two decode into one operation: `test`, `and` with any condition; `cmp`, `add`, `sub` with those that read
/// neither sign, parity nor overflow alone; `inc`, `dec` with those of them that do not read the carry.
/// Not with a memory destination, nor comparing memory with an immediate (Intel optimisation manual, 3.4.2.2).
fn fuses(first: &Instruction, branch: &Instruction) -> bool {
    use ConditionCode::*;
    if !branch.is_jcc_short_or_near() {
        return false;
    }
    let condition = branch.condition_code();
    let allowed = match first.mnemonic() {
        Mnemonic::Test | Mnemonic::And => true,
        Mnemonic::Cmp | Mnemonic::Add | Mnemonic::Sub => {
            matches!(condition, a | ae | b | be | e | ne | g | ge | l | le)
        }
        Mnemonic::Inc | Mnemonic::Dec => matches!(condition, e | ne | g | ge | l | le),
        _ => false,
    };
    allowed && !unfusable_operands(first)
}

fn unfusable_operands(first: &Instruction) -> bool {
    let has_memory = |n| n < first.op_count() && first.op_kind(n) == OpKind::Memory;
    let compares = matches!(first.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let immediate = first.op_count() == 2 && !matches!(first.op_kind(1), OpKind::Register | OpKind::Memory);
    (has_memory(0) && (!compares || immediate))
        || (first.is_ip_rel_memory_operand() && immediate)
        || first.code() == Code::INVALID
}
