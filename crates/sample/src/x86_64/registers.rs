//! The user registers of a sample, from a perf record or from a stopped tracee, as the unwinder takes them.

use framehop::x86_64::{Reg, UnwindRegsX86_64};

/// The unwinder's registers on this architecture.
pub type Registers = UnwindRegsX86_64;

/// The register of each bit of perf's register mask (`arch/x86/include/uapi/asm/perf_regs.h`), in ascending order.
const PERF_BITS: [(u32, Reg); 16] = [
    (0, Reg::RAX),
    (1, Reg::RBX),
    (2, Reg::RCX),
    (3, Reg::RDX),
    (4, Reg::RSI),
    (5, Reg::RDI),
    (6, Reg::RBP),
    (7, Reg::RSP),
    (16, Reg::R8),
    (17, Reg::R9),
    (18, Reg::R10),
    (19, Reg::R11),
    (20, Reg::R12),
    (21, Reg::R13),
    (22, Reg::R14),
    (23, Reg::R15),
];

/// perf's bit of the instruction pointer.
const PERF_IP: u32 = 8;

/// The mask of registers to ask perf for.
pub fn perf_mask() -> u64 {
    PERF_BITS.iter().fold(1 << PERF_IP, |mask, (bit, _)| mask | 1 << bit)
}

/// Registers from a perf record, which lists those of `mask` by ascending bit. `None` if the record is too short.
pub fn from_perf(mask: u64, values: &[u64]) -> Option<Registers> {
    let value = |bit: u32| {
        let before = (mask & ((1 << bit) - 1)).count_ones() as usize;
        if mask & 1 << bit != 0 { values.get(before).copied() } else { None }
    };
    let mut registers = Registers::new(value(PERF_IP)?, 0, 0);
    for (bit, register) in PERF_BITS {
        registers.set(register, value(bit)?);
    }
    Some(registers)
}

/// Registers of a stopped tracee.
pub fn from_ptrace(r: &libc::user_regs_struct) -> Registers {
    let mut registers = Registers::new(r.rip, r.rsp, r.rbp);
    let others = [
        (Reg::RAX, r.rax),
        (Reg::RBX, r.rbx),
        (Reg::RCX, r.rcx),
        (Reg::RDX, r.rdx),
        (Reg::RSI, r.rsi),
        (Reg::RDI, r.rdi),
        (Reg::R8, r.r8),
        (Reg::R9, r.r9),
        (Reg::R10, r.r10),
        (Reg::R11, r.r11),
        (Reg::R12, r.r12),
        (Reg::R13, r.r13),
        (Reg::R14, r.r14),
        (Reg::R15, r.r15),
    ];
    for (register, value) in others {
        registers.set(register, value);
    }
    registers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_lists_registers_by_ascending_bit() {
        let values: Vec<u64> = (100..117).collect();
        let r = from_perf(perf_mask(), &values).unwrap();
        assert_eq!((r.get(Reg::RBX), r.bp(), r.sp(), r.ip(), r.get(Reg::R8)), (101, 106, 107, 108, 109));
        assert!(from_perf(perf_mask(), &values[..16]).is_none());
    }
}
