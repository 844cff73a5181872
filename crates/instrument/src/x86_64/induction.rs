//! Finds the register that counts a loop's iterations by itself.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

use super::decode::Step;
use super::emit::Gpr;
use super::rewrite::gpr;

/// A 64-bit register that every execution of a block changes once, by a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Induction {
    /// The register.
    pub register: Gpr,
    /// The constant; not 0.
    pub step: i64,
    /// The step (index in the block) that changes it.
    pub at: usize,
}

/// The first induction register of a block that is a loop.
pub fn induction(steps: &[Step], factory: &mut InstructionInfoFactory) -> Option<Induction> {
    let candidates = steps.iter().enumerate().filter_map(|(at, s)| {
        let (register, step) = increment(&s.instruction)?;
        Some(Induction { register, step, at })
    });
    let candidates: Vec<Induction> = candidates.collect();
    candidates.into_iter().find(|c| {
        let others = steps.iter().enumerate().filter(|(i, _)| *i != c.at);
        !others.into_iter().any(|(_, s)| writes(&s.instruction, c.register, factory))
    })
}

/// (register, constant) of `add`, `sub`, `inc`, `dec` on a whole register other than RSP.
fn increment(instruction: &Instruction) -> Option<(Gpr, i64)> {
    if instruction.op0_kind() != OpKind::Register || !instruction.op0_register().is_gpr64() {
        return None;
    }
    let register = gpr(instruction.op0_register()).filter(|r| r.0 != 4)?;
    let immediate = || match instruction.op_kind(1) {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1) as i64),
        _ => None,
    };
    let step = match instruction.mnemonic() {
        Mnemonic::Add => immediate()?,
        Mnemonic::Sub => immediate()?.checked_neg()?,
        Mnemonic::Inc => 1,
        Mnemonic::Dec => -1,
        _ => return None,
    };
    (step != 0).then_some((register, step))
}

fn writes(instruction: &Instruction, register: Gpr, factory: &mut InstructionInfoFactory) -> bool {
    factory.info(instruction).used_registers().iter().any(|used| {
        gpr(used.register()) == Some(register) && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64::decode::decode;
    use rprof_tracee::address::Address;

    fn found(bytes: &[u8]) -> Option<(u8, i64, usize)> {
        let block = decode(Address::new(0x1000), bytes)?;
        induction(&block.steps, &mut InstructionInfoFactory::new()).map(|i| (i.register.0, i.step, i.at))
    }

    #[test]
    fn the_register_is_changed_once_by_a_constant() {
        // addsd xmm0, [rax]; add rax, 8; cmp rax, rdx; jne
        let dot = [0xf2, 0x0f, 0x58, 0x00, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xd0, 0x75, 0xf3];
        assert_eq!(found(&dot), Some((0, 8, 1)));
        // sub rcx, 1; jne
        assert_eq!(found(&[0x48, 0x83, 0xe9, 0x01, 0x75, 0xfa]), Some((1, -1, 0)));
        // add rax, 8; add rax, rbx; jne
        assert_eq!(found(&[0x48, 0x83, 0xc0, 0x08, 0x48, 0x01, 0xd8, 0x75, 0xf7]), None);
        // add eax, 8 wraps at 32 bits
        assert_eq!(found(&[0x83, 0xc0, 0x08, 0x75, 0xfb]), None);
    }
}
