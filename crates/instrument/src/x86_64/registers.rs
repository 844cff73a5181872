//! Register values of a stopped thread under their `iced-x86` names.

use iced_x86::Register;

use rprof_tracee::thread::Registers;

/// The XSAVE area of a thread in the standard format: vector and mask registers.
#[derive(Debug, Clone)]
pub struct ExtendedState {
    bytes: Vec<u8>,
    offsets: ComponentOffsets,
}

/// Offsets of the components in the standard format (CPUID leaf 0xD); 0 if the CPU has none.
#[derive(Debug, Clone, Copy, Default)]
struct ComponentOffsets {
    ymm_high: usize,
    mask: usize,
    zmm_high: usize,
    zmm_16_to_31: usize,
}

const XSTATE_BV: usize = 512;
const XMM: usize = 160;
/// Larger than any XSAVE area, AMX tiles included.
pub const MAX_AREA: usize = 16 * 1024;

impl ExtendedState {
    /// Takes an area in the form of `PTRACE_GETREGSET`.
    pub fn new(bytes: Vec<u8>) -> Self {
        let offset = |component: u32| std::arch::x86_64::__cpuid_count(0xd, component).ebx as usize;
        let offsets =
            ComponentOffsets { ymm_high: offset(2), mask: offset(5), zmm_high: offset(6), zmm_16_to_31: offset(7) };
        ExtendedState { bytes, offsets }
    }

    /// Value of mask register `number`.
    pub fn mask(&self, number: u8) -> u64 {
        self.component(5, self.offsets.mask, usize::from(number) * 8)
    }

    /// 64-bit word `word` of vector register `number`.
    pub fn vector_word(&self, number: u8, word: u8) -> u64 {
        let (number, word) = (usize::from(number), usize::from(word));
        match (number, word) {
            (16.., _) => self.component(7, self.offsets.zmm_16_to_31, (number - 16) * 64 + word * 8),
            (_, 0 | 1) => self.component(1, XMM, number * 16 + word * 8),
            (_, 2 | 3) => self.component(2, self.offsets.ymm_high, number * 16 + (word - 2) * 8),
            _ => self.component(6, self.offsets.zmm_high, number * 32 + (word - 4) * 8),
        }
    }

    /// Lane `lane` of `element` bytes of vector register `number`, zero-extended.
    pub fn vector_lane(&self, number: u8, element: u8, lane: u8) -> u64 {
        let byte = usize::from(element) * usize::from(lane);
        let word = self.vector_word(number, (byte / 8) as u8) >> (byte % 8 * 8);
        if element >= 8 { word } else { word & ((1 << (u32::from(element) * 8)) - 1) }
    }

    /// A word of a component; components in their initial state are zero.
    fn component(&self, bit: u32, base: usize, offset: usize) -> u64 {
        let word = |at: usize| self.bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        if base == 0 || word(XSTATE_BV) >> bit & 1 == 0 { 0 } else { word(base + offset) }
    }
}

/// Value of a general-purpose register (any part of it), or of a segment base.
pub fn general(registers: &Registers, register: Register) -> Option<u64> {
    use Register as R;
    let full = match register.full_register() {
        R::RAX => registers.rax,
        R::RBX => registers.rbx,
        R::RCX => registers.rcx,
        R::RDX => registers.rdx,
        R::RSI => registers.rsi,
        R::RDI => registers.rdi,
        R::RBP => registers.rbp,
        R::RSP => registers.rsp,
        R::R8 => registers.r8,
        R::R9 => registers.r9,
        R::R10 => registers.r10,
        R::R11 => registers.r11,
        R::R12 => registers.r12,
        R::R13 => registers.r13,
        R::R14 => registers.r14,
        R::R15 => registers.r15,
        R::FS => registers.fs_base,
        R::GS => registers.gs_base,
        R::ES | R::CS | R::SS | R::DS => 0,
        R::RIP => registers.rip,
        _ => return None,
    };
    let value = match register {
        R::AH | R::BH | R::CH | R::DH => full >> 8 & 0xff,
        _ => match register.size() {
            1 => full & 0xff,
            2 if register.is_gpr() => full & 0xffff,
            4 => full & 0xffff_ffff,
            _ => full,
        },
    };
    Some(value)
}
