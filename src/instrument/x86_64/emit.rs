//! Writes the few instructions that the translator adds. They change no flags.

use super::liveness::Dead;
use crate::tracee::address::CacheAddress;

/// A general-purpose register by number (0 RAX … 15 R15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpr(pub u8);

/// RAX
pub const RAX: Gpr = Gpr(0);
/// RCX
pub const RCX: Gpr = Gpr(1);
/// RDX
pub const RDX: Gpr = Gpr(2);
/// RSP
pub const RSP: Gpr = Gpr(4);
/// RSI
pub const RSI: Gpr = Gpr(6);
/// RDI
pub const RDI: Gpr = Gpr(7);
/// The fifth argument.
pub const R8: Gpr = Gpr(8);
/// The sixth argument.
pub const R9: Gpr = Gpr(9);
/// R10
pub const R10: Gpr = Gpr(10);

/// `push [rsp]`
pub const PUSH_TOP: [u8; 3] = [0xff, 0x34, 0x24];

/// Code being written for a known place.
#[derive(Debug)]
pub struct Code {
    base: CacheAddress,
    bytes: Vec<u8>,
}

impl Code {
    /// Code for the address `base`.
    pub fn new(base: CacheAddress) -> Self {
        Code { base, bytes: Vec::with_capacity(1024) }
    }

    /// Address of the next byte.
    pub fn here(&self) -> CacheAddress {
        self.base + self.bytes.len() as u64
    }

    /// Address of the first byte.
    pub fn base(&self) -> CacheAddress {
        self.base
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether `at` is one of its addresses.
    pub fn holds(&self, at: CacheAddress) -> bool {
        at >= self.base && at < self.here()
    }

    /// Whether it has no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Four bytes of data.
    pub fn word(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// The four bytes at `at`, if they were written here.
    pub fn word_at(&self, at: CacheAddress) -> Option<u32> {
        let i = at.get().checked_sub(self.base.get())? as usize;
        self.bytes.get(i..i + 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Overwrites four bytes at `at`, which was written before.
    pub fn set_word(&mut self, at: CacheAddress, value: u32) {
        let i = (at - self.base) as usize;
        self.bytes[i..i + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// `nop`s up to a multiple of `align`.
    pub fn align(&mut self, align: u64) {
        let missing = (align - self.here().get() % align) % align;
        self.nops(missing as usize);
    }

    /// `count` bytes of `nop`.
    pub fn nops(&mut self, count: usize) {
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        ];
        let mut left = count;
        while left > 0 {
            let piece = left.min(NOPS.len());
            self.raw(NOPS[piece - 1]);
            left -= piece;
        }
    }

    /// Pads so that a rel32 after `opcode` more bytes does not cross a cache line.
    pub fn align_patch(&mut self, opcode: u64) {
        let line = (self.here().get() + opcode) % 64;
        if line > 60 {
            self.nops((64 - line) as usize);
        }
    }

    /// Pads with `nop`s so that no four-byte field at these offsets from here crosses a cache line, if possible.
    pub fn pad_for(&mut self, fields: &[u64]) {
        let here = self.here();
        let fits = |padding: &u64| fields.iter().all(|&field| is_in_one_line(here + field + *padding));
        self.nops((0..64).find(fits).unwrap_or_default() as usize);
    }

    fn gs(&mut self, opcode: u8, register: u8, offset: u32) {
        // gs; REX.W + R; opcode; [disp32]
        self.raw(&[0x65, 0x48 | (register >> 3) << 2, opcode, (register & 7) << 3 | 4, 0x25]);
        self.word(offset);
    }

    /// `mov gs:[offset], register`
    pub fn save(&mut self, offset: u32, register: Gpr) {
        self.gs(0x89, register.0, offset);
    }

    /// `mov register, gs:[offset]`
    pub fn load(&mut self, register: Gpr, offset: u32) {
        self.gs(0x8b, register.0, offset);
    }

    /// `add qword gs:[offset], 1` where `dead` permits it, otherwise `inc qword gs:[offset]`, which takes one more
    /// micro-operation on Intel. Unlike the others, these change flags.
    pub fn increment(&mut self, offset: u32, dead: Dead) {
        if dead == Dead::All {
            self.gs(0x83, 0, offset);
            self.raw(&[1]);
        } else {
            self.gs(0xff, 0, offset);
        }
    }

    /// `mov qword gs:[offset], value` (sign-extended)
    pub fn store(&mut self, offset: u32, value: u32) {
        self.gs(0xc7, 0, offset);
        self.word(value);
    }

    /// `jmp gs:[offset]`
    pub fn jump_through(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x24, 0x25]);
        self.word(offset);
    }

    /// `lea register, [register + add]`, −128 ≤ add < 128
    pub fn add_small(&mut self, register: Gpr, add: i8) {
        self.add_to(register, register, add);
    }

    /// `lea to, [from + add]`
    pub fn add_to(&mut self, to: Gpr, from: Gpr, add: i8) {
        let (t, f) = (to.0, from.0);
        self.raw(&[0x48 | (t >> 3) << 2 | f >> 3, 0x8d, 0x40 | (t & 7) << 3 | (f & 7)]);
        if f & 7 == 4 {
            self.raw(&[0x24]);
        }
        self.raw(&[add as u8]);
    }

    /// `lea to, [a + b + add]`; `b` is not RSP
    pub fn sum(&mut self, to: Gpr, a: Gpr, b: Gpr, add: i8) {
        let rex = 0x48 | (to.0 >> 3) << 2 | (b.0 >> 3) << 1 | a.0 >> 3;
        self.raw(&[rex, 0x8d, 0x44 | (to.0 & 7) << 3, (b.0 & 7) << 3 | (a.0 & 7), add as u8]);
    }

    /// `mov to, from`
    pub fn copy(&mut self, to: Gpr, from: Gpr) {
        self.raw(&[0x48 | (from.0 >> 3) << 2 | to.0 >> 3, 0x89, 0xc0 | (from.0 & 7) << 3 | (to.0 & 7)]);
    }

    /// `not register`
    pub fn not(&mut self, register: Gpr) {
        self.raw(&[0x48 | register.0 >> 3, 0xf7, 0xd0 | (register.0 & 7)]);
    }

    /// `mov register, value` in the shortest form
    pub fn constant(&mut self, register: Gpr, value: u64) {
        let (high, low) = (register.0 >> 3, register.0 & 7);
        if let Ok(value) = u32::try_from(value) {
            if high == 1 {
                self.raw(&[0x41]);
            }
            self.raw(&[0xb8 | low]);
            self.word(value);
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.raw(&[0x48 | high, 0xc7, 0xc0 | low]);
            self.word(value as u32);
        } else {
            self.raw(&[0x48 | high, 0xb8 | low]);
            self.raw(&value.to_le_bytes());
        }
    }

    /// `movzx ecx, word register`
    pub fn low_16_to_ecx(&mut self, register: Gpr) {
        if register.0 >= 8 {
            self.raw(&[0x41]);
        }
        self.raw(&[0x0f, 0xb7, 0xc8 | (register.0 & 7)]);
    }

    /// `movzx ecx, byte register`; RAX to RBX, R8 to R15
    pub fn low_8_to_ecx(&mut self, register: Gpr) {
        if register.0 >= 8 {
            self.raw(&[0x41]);
        }
        self.raw(&[0x0f, 0xb6, 0xc8 | (register.0 & 7)]);
    }

    /// `movzx register, byte [register + table]`, table below 2 GB; registers below R8
    pub fn look_up_byte(&mut self, register: Gpr, table: u32) {
        self.raw(&[0x0f, 0xb6, 0x80 | register.0 << 3 | register.0]);
        self.word(table);
    }

    /// `jmp [rcx*8 + table]`, table below 2 GB
    pub fn jump_table(&mut self, table: u32) {
        self.raw(&[0xff, 0x24, 0xcd]);
        self.word(table);
    }

    /// `mov ecx, [at]`, below 2 GB
    pub fn load_ecx_absolute(&mut self, at: u32) {
        self.raw(&[0x8b, 0x0c, 0x25]);
        self.word(at);
    }

    /// `jrcxz` to an address that [`land`](Self::land) sets
    pub fn jump_if_rcx_zero(&mut self) -> Short {
        self.raw(&[0xe3, 0]);
        Short(self.bytes.len() - 1)
    }

    /// `jecxz` to an address that [`land`](Self::land) sets
    pub fn jump_if_ecx_zero(&mut self) -> Short {
        self.raw(&[0x67, 0xe3, 0]);
        Short(self.bytes.len() - 1)
    }

    /// `jmp short` to an address that [`land`](Self::land) sets
    pub fn jump_short(&mut self) -> Short {
        self.raw(&[0xeb, 0]);
        Short(self.bytes.len() - 1)
    }

    /// Sets the target of a short jump to this place.
    pub fn land(&mut self, jump: Short) {
        let distance = self.bytes.len() - jump.0 - 1;
        assert!(distance < 128, "short jump too far");
        self.bytes[jump.0] = distance as u8;
    }

    /// `jmp rel32`; returns the address of the rel32, which never crosses a cache line
    pub fn jump(&mut self, to: CacheAddress) -> CacheAddress {
        self.align_patch(1);
        self.raw(&[0xe9]);
        self.relative(to)
    }

    /// `jcc rel32` with condition code `condition`; returns the address of the rel32, which never crosses a cache line
    pub fn jump_if(&mut self, condition: u8, to: CacheAddress) -> CacheAddress {
        self.align_patch(2);
        self.raw(&[0x0f, 0x80 | condition]);
        self.relative(to)
    }

    /// Four bytes: the distance from their end to `to`; returns their address.
    pub fn relative(&mut self, to: CacheAddress) -> CacheAddress {
        let at = self.here();
        self.word(relative(at, to));
        at
    }

    /// Reserves the rel32 of a jump that is filled in later; returns its address.
    pub fn relative_later(&mut self) -> CacheAddress {
        let at = self.here();
        self.word(0);
        at
    }

    /// `jmp [rip]` and the address: to anywhere
    pub fn jump_far(&mut self, to: u64) {
        self.raw(&[0xff, 0x25, 0, 0, 0, 0]);
        self.raw(&to.to_le_bytes());
    }

    /// The rel32 at `from` that reaches `to`, if necessary through a far jump at the end of this code.
    pub fn reach(&mut self, from: CacheAddress, to: CacheAddress) -> u32 {
        if from.get().abs_diff(to.get()) < (1 << 31) - 64 {
            return relative(from, to);
        }
        self.align(16);
        let jump = self.here();
        self.jump_far(to.get());
        relative(from, jump)
    }

    /// `push [rip + …]`: pushes the word at `at`
    pub fn push_word_at(&mut self, at: CacheAddress) {
        self.raw(&[0xff, 0x35]);
        self.relative(at);
    }

    /// `push [rcx*8 + table]`; `ret`: to the address in the table
    pub fn return_table(&mut self, table: u32) {
        self.raw(&[0xff, 0x34, 0xcd]);
        self.word(table);
        self.raw(&[0xc3]);
    }

    /// `mov rcx, [rcx*8 + table]`; `mov [rsp], rcx`; `ret`: the same, but the address replaces the word on top of the stack.
    pub fn return_by_top(&mut self, table: u32) {
        self.raw(&[0x48, 0x8b, 0x0c, 0xcd]);
        self.word(table);
        self.store_at(RSP, 0, RCX);
        self.raw(&[0xc3]);
    }

    /// `jmp rel32` that never changes: it may cross a cache line.
    pub fn jump_for_good(&mut self, to: CacheAddress) {
        self.raw(&[0xe9]);
        self.relative(to);
    }

    /// `push [rsp]`
    pub fn push_top(&mut self) {
        self.raw(&PUSH_TOP);
    }

    /// `call rel32`; returns the address of the rel32
    pub fn call(&mut self, to: CacheAddress) -> CacheAddress {
        self.raw(&[0xe8]);
        self.relative(to)
    }

    /// `push value` (sign-extended)
    pub fn push_constant(&mut self, value: u32) {
        self.raw(&[0x68]);
        self.word(value);
    }

    /// `call [rcx*8 + table]`
    pub fn call_table(&mut self, table: u32) {
        self.raw(&[0xff, 0x14, 0xcd]);
        self.word(table);
    }

    /// `pop register` (below R8)
    pub fn pop(&mut self, register: Gpr) {
        self.raw(&[0x58 | register.0]);
    }

    /// `lea rsp, [rsp + bytes]`
    pub fn drop_stack(&mut self, bytes: u32) {
        self.raw(&[0x48, 0x8d, 0xa4, 0x24]);
        self.word(bytes);
    }
}

/// Forms that change flags or that only probes need.
impl Code {
    fn at_base(&mut self, rex: u8, opcode: u8, register: u8, base: Gpr, offset: i8) {
        // [base + disp8], with a SIB byte for RSP and R12; without disp8 for 0, but for RBP and R13
        let short = offset == 0 && base.0 & 7 != 5;
        let mode = if short { 0 } else { 0x40 };
        self.raw(&[rex | (register >> 3) << 2 | base.0 >> 3, opcode, mode | (register & 7) << 3 | (base.0 & 7)]);
        if base.0 & 7 == 4 {
            self.raw(&[0x24]);
        }
        if !short {
            self.raw(&[offset as u8]);
        }
    }

    /// `mov [base + offset], register`
    pub fn store_at(&mut self, base: Gpr, offset: i8, register: Gpr) {
        self.at_base(0x48, 0x89, register.0, base, offset);
    }

    /// `mov [base + offset], register`, with 32 bits of offset
    pub fn store_far_at(&mut self, base: Gpr, offset: i32, register: Gpr) {
        self.raw(&[0x48 | (register.0 >> 3) << 2 | base.0 >> 3, 0x89, 0x80 | (register.0 & 7) << 3 | (base.0 & 7)]);
        if base.0 & 7 == 4 {
            self.raw(&[0x24]);
        }
        self.word(offset as u32);
    }

    /// `mov register, [base + offset]`
    pub fn load_at(&mut self, register: Gpr, base: Gpr, offset: i8) {
        self.at_base(0x48, 0x8b, register.0, base, offset);
    }

    /// `mov register, [base]`, of 32 bits
    pub fn load_low_at(&mut self, register: Gpr, base: Gpr) {
        self.at_base(0x40, 0x8b, register.0, base, 0);
    }

    /// `movzx register, byte [base]`
    pub fn load_byte_at(&mut self, register: Gpr, base: Gpr) {
        // Other bases need a SIB byte or a displacement.
        debug_assert!(base.0 & 7 != 4 && base.0 & 7 != 5);
        let rex = 0x40 | (register.0 >> 3) << 2 | base.0 >> 3;
        self.raw(&[rex, 0x0f, 0xb6, (register.0 & 7) << 3 | (base.0 & 7)]);
    }

    /// `mov dword [base + offset], register`
    pub fn store_low_at(&mut self, base: Gpr, offset: i8, register: Gpr) {
        self.at_base(0x40, 0x89, register.0, base, offset);
    }

    /// `mov dword [base + offset], value`
    pub fn store_constant_at(&mut self, base: Gpr, offset: i8, value: u32) {
        self.at_base(0x40, 0xc7, 0, base, offset);
        self.word(value);
    }

    /// `lea to, [from + add]`
    pub fn add_far(&mut self, to: Gpr, from: Gpr, add: u32) {
        let (t, f) = (to.0, from.0);
        self.raw(&[0x48 | (t >> 3) << 2 | f >> 3, 0x8d, 0x80 | (t & 7) << 3 | (f & 7)]);
        if f & 7 == 4 {
            self.raw(&[0x24]);
        }
        self.word(add);
    }

    /// `rorx to, from, count`, or without BMI2 `mov to, from; ror to, count`
    pub fn rotate(&mut self, to: Gpr, from: Gpr, count: u8) {
        if std::arch::is_x86_feature_detected!("bmi2") {
            let extended = (1 ^ to.0 >> 3) << 7 | 0x40 | (1 ^ from.0 >> 3) << 5 | 3;
            self.raw(&[0xc4, extended, 0xfb, 0xf0, 0xc0 | (to.0 & 7) << 3 | (from.0 & 7), count]);
        } else {
            self.copy(to, from);
            self.raw(&[0x48 | to.0 >> 3, 0xc1, 0xc8 | (to.0 & 7), count]);
        }
    }

    /// `xor to, from`
    pub fn exclusive_or(&mut self, to: Gpr, from: Gpr) {
        self.raw(&[0x48 | (from.0 >> 3) << 2 | to.0 >> 3, 0x31, 0xc0 | (from.0 & 7) << 3 | (to.0 & 7)]);
    }

    /// `imul register, register, factor`, of 64 bits.
    ///
    /// # Panics
    /// If the factor has its sign bit.
    pub fn multiply(&mut self, register: Gpr, factor: u32) {
        assert!(factor >> 31 == 0, "{factor:#x} would be extended with ones");
        let both = register.0 >> 3 << 2 | register.0 >> 3;
        self.raw(&[0x48 | both, 0x69, 0xc0 | (register.0 & 7) << 3 | (register.0 & 7)]);
        self.raw(&factor.to_le_bytes());
    }

    /// `test gs:[offset], register`
    pub fn test_slot(&mut self, offset: u32, register: Gpr) {
        self.gs(0x85, register.0, offset);
    }

    /// `test dword gs:[offset], value`
    pub fn test_slot_constant(&mut self, offset: u32, value: u32) {
        self.raw(&[0x65, 0xf7, 0x04, 0x25]);
        self.word(offset);
        self.word(value);
    }

    /// `and register, value` (sign-extended)
    pub fn and_small(&mut self, register: Gpr, value: i8) {
        self.raw(&[0x48 | register.0 >> 3, 0x83, 0xe0 | (register.0 & 7), value as u8]);
    }

    /// `cmp register, gs:[index*8 + offset]`
    pub fn compare_indexed(&mut self, register: Gpr, index: Gpr, offset: u32) {
        self.gs_indexed(0x3b, register, index, offset);
    }

    /// `mov register, gs:[index × 8 + offset]`
    pub fn load_indexed(&mut self, register: Gpr, index: Gpr, offset: u32) {
        self.gs_indexed(0x8b, register, index, offset);
    }

    /// `mov gs:[index*8 + offset], register`
    pub fn save_indexed(&mut self, index: Gpr, offset: u32, register: Gpr) {
        self.gs_indexed(0x89, register, index, offset);
    }

    fn gs_indexed(&mut self, opcode: u8, register: Gpr, index: Gpr, offset: u32) {
        let rex = 0x48 | (register.0 >> 3) << 2 | (index.0 >> 3) << 1;
        self.raw(&[0x65, rex, opcode, (register.0 & 7) << 3 | 4, 0xc5 | (index.0 & 7) << 3]);
        self.word(offset);
    }

    /// `mov to, fs:[0]`: the thread's FS base, as the ABI has it
    pub fn thread_base(&mut self, to: Gpr) {
        self.raw(&[0x64, 0x48 | (to.0 >> 3) << 2, 0x8b, (to.0 & 7) << 3 | 4, 0x25, 0, 0, 0, 0]);
    }

    /// `test register32, value`
    pub fn test_constant(&mut self, register: Gpr, value: u32) {
        self.raw(&[0x40 | register.0 >> 3, 0xf7, 0xc0 | (register.0 & 7)]);
        self.word(value);
    }

    /// `test register (low byte), value`
    pub fn test_byte(&mut self, register: Gpr, value: u8) {
        self.raw(&[0x40 | register.0 >> 3, 0xf6, 0xc0 | (register.0 & 7), value]);
    }

    /// `lahf; seto al`
    pub fn flags_to_ax(&mut self) {
        self.raw(&[0x9f, 0x0f, 0x90, 0xc0]);
    }

    /// `add al, 127; sahf`
    pub fn flags_from_ax(&mut self) {
        self.raw(&[0x04, 0x7f, 0x9e]);
    }

    /// `popcnt register, register`
    pub fn population(&mut self, register: Gpr) {
        let (high, low) = (register.0 >> 3, register.0 & 7);
        self.raw(&[0xf3, 0x48 | high << 2 | high, 0x0f, 0xb8, 0xc0 | low << 3 | low]);
    }

    /// `add register, gs:[offset]`
    pub fn add_slot(&mut self, register: Gpr, offset: u32) {
        self.gs(0x03, register.0, offset);
    }

    /// `setae byte gs:[offset]`: keeps the carry
    pub fn save_carry(&mut self, offset: u32) {
        self.raw(&[0x65, 0x0f, 0x93, 0x04, 0x25]);
        self.word(offset);
    }

    /// `cmp byte gs:[offset], 1`: the carry as [`save_carry`](Self::save_carry) kept it, the other flags lost
    pub fn carry_again(&mut self, offset: u32) {
        self.raw(&[0x65, 0x80, 0x3c, 0x25]);
        self.word(offset);
        self.raw(&[1]);
    }

    /// `movzx register32, word gs:[offset]`
    pub fn load_word(&mut self, register: Gpr, offset: u32) {
        self.raw(&[0x65, 0x40 | (register.0 >> 3) << 2, 0x0f, 0xb7, (register.0 & 7) << 3 | 4, 0x25]);
        self.word(offset);
    }

    /// `kmov to, k` of the low 16, 32 or 64 bits
    pub fn mask_to(&mut self, to: Gpr, k: u8, bits: u8) {
        let high = (1 ^ to.0 >> 3) << 7 | 0x60;
        let modrm = 0xc0 | (to.0 & 7) << 3 | k;
        match bits {
            64 => self.raw(&[0xc4, high | 1, 0xfb, 0x93, modrm]), // VEX.L0.F2.0F.W1 93
            32 => self.raw(&[0xc4, high | 1, 0x7b, 0x93, modrm]), // VEX.L0.F2.0F.W0 93
            _ => self.raw(&[0xc4, high | 1, 0x78, 0x93, modrm]),  // VEX.L0.0F.W0 93
        }
    }

    /// The sign bits of a vector register's elements: `vmovmskps`, `vmovmskpd`, `pmovmskb`
    pub fn signs_to(&mut self, to: Gpr, vector: u8, element: u8, lanes: u8) {
        let modrm = 0xc0 | (to.0 & 7) << 3 | (vector & 7);
        if element == 1 {
            self.raw(&[0x66, 0x40 | (to.0 >> 3) << 2 | vector >> 3, 0x0f, 0xd7, modrm]);
            return;
        }
        let wide = u8::from(u32::from(element) * u32::from(lanes) > 16) << 2;
        let prefix = u8::from(element == 8);
        let high = (1 ^ to.0 >> 3) << 7 | 0x40 | (1 ^ vector >> 3) << 5 | 1;
        self.raw(&[0xc4, high, 0x78 | wide | prefix, 0x50, modrm]);
    }
}

/// A short jump whose distance is not set yet.
#[derive(Debug)]
#[must_use]
pub struct Short(usize);

/// Whether the four bytes at `at` are in one cache line, so that they can be exchanged in one piece.
pub fn is_in_one_line(at: CacheAddress) -> bool {
    at.get() % 64 <= 60
}

/// The address that the rel32 at `at` reaches.
pub fn reached(at: CacheAddress, relative: u32) -> CacheAddress {
    CacheAddress::new((at + 4).get().wrapping_add_signed(i64::from(relative as i32)))
}

/// The rel32 at `at` that reaches `to`.
pub fn relative(at: CacheAddress, to: CacheAddress) -> u32 {
    (to - (at + 4)) as u32
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

    pub fn text(write: impl FnOnce(&mut Code)) -> String {
        let mut code = Code::new(CacheAddress::new(0x1000));
        write(&mut code);
        let mut formatter = IntelFormatter::new();
        let mut lines = Vec::new();
        for instruction in Decoder::with_ip(64, code.bytes(), 0x1000, DecoderOptions::NONE).iter() {
            let mut line = String::new();
            formatter.format(&instruction, &mut line);
            lines.push(line);
        }
        lines.join("; ")
    }

    #[test]
    fn each_form_is_what_it_says() {
        assert_eq!(text(|c| c.save(0x18, Gpr(9))), "mov gs:[18h],r9");
        assert_eq!(text(|c| c.load(RDX, 0x18)), "mov rdx,gs:[18h]");
        assert_eq!(text(|c| c.increment(0x1000, Dead::AllButCarry)), "inc qword ptr gs:[1000h]");
        assert_eq!(text(|c| c.increment(0x1000, Dead::All)), "add qword ptr gs:[1000h],1");
        assert_eq!(text(|c| c.store(0x40, 1)), "mov qword ptr gs:[40h],1");
        assert_eq!(text(|c| c.jump_through(0x58)), "jmp qword ptr gs:[58h]");
        assert_eq!(text(|c| c.add_small(Gpr(12), 1)), "lea r12,[r12+1]");
        assert_eq!(text(|c| c.add_small(Gpr(5), -2)), "lea rbp,[rbp-2]");
        assert_eq!(text(|c| c.sum(RCX, Gpr(13), RDX, 1)), "lea rcx,[r13+rdx+1]");
        assert_eq!(text(|c| c.copy(Gpr(8), RDX)), "mov r8,rdx");
        assert_eq!(text(|c| c.test_slot_constant(0x1f8, 1)), "test dword ptr gs:[1F8h],1");
        assert_eq!(text(|c| c.and_small(Gpr(9), -64)), "and r9,0FFFFFFFFFFFFFFC0h");
        assert_eq!(text(|c| c.compare_indexed(Gpr(10), Gpr(9), 0x200)), "cmp r10,gs:[r9*8+200h]");
        assert_eq!(text(|c| c.save_indexed(RCX, 0x200, Gpr(12))), "mov gs:[rcx*8+200h],r12");
        assert_eq!(text(|c| c.thread_base(Gpr(11))), "mov r11,fs:[0]");
        assert_eq!(text(|c| c.not(RCX)), "not rcx");
        assert_eq!(text(|c| c.constant(Gpr(10), 7)), "mov r10d,7");
        assert_eq!(text(|c| c.constant(RCX, -7i64 as u64)), "mov rcx,0FFFFFFFFFFFFFFF9h");
        assert_eq!(text(|c| c.constant(RCX, 0x1234_5678_9abc)), "mov rcx,123456789ABCh");
        assert_eq!(text(|c| c.low_16_to_ecx(RDX)), "movzx ecx,dx");
        assert_eq!(text(|c| c.low_16_to_ecx(Gpr(10))), "movzx ecx,r10w");
        assert_eq!(text(|c| c.look_up_byte(RCX, 0x7000_0000)), "movzx ecx,byte ptr [rcx+70000000h]");
        assert_eq!(text(|c| c.jump_table(0x7000_0000)), "jmp qword ptr [rcx*8+70000000h]");
        assert_eq!(text(|c| c.load_ecx_absolute(0x7000_0000)), "mov ecx,[70000000h]");
        assert_eq!(text(|c| c.return_table(0x7000_0000)), "push qword ptr [rcx*8+70000000h]; ret");
        let by_top = "mov rcx,[rcx*8+70000000h]; mov [rsp],rcx; ret";
        assert_eq!(text(|c| c.return_by_top(0x7000_0000)), by_top);
        assert_eq!(text(|c| c.push_top()), "push qword ptr [rsp]");
        assert_eq!(text(|c| c.jump_for_good(CacheAddress::new(0x2000))), "jmp 0000000000002000h");
        assert_eq!(text(|c| c.push_constant(0x40_1000)), "push 401000h");
        assert_eq!(text(|c| c.call_table(0x7000_0000)), "call qword ptr [rcx*8+70000000h]");
        assert_eq!(text(|c| _ = c.call(CacheAddress::new(0x2000))), "call 0000000000002000h");
        assert_eq!(text(|c| c.drop_stack(16)), "lea rsp,[rsp+10h]");
        assert_eq!(text(|c| c.store_at(Gpr(12), 16, RDX)), "mov [r12+10h],rdx");
        assert_eq!(text(|c| c.load_at(RCX, RSP, -8)), "mov rcx,[rsp-8]");
        assert_eq!(text(|c| c.load_at(RCX, RSP, 0)), "mov rcx,[rsp]");
        assert_eq!(text(|c| c.load_at(RCX, Gpr(13), 0)), "mov rcx,[r13]");
        assert_eq!(text(|c| c.store_low_at(RDX, 12, Gpr(9))), "mov [rdx+0Ch],r9d");
        assert_eq!(text(|c| c.load_low_at(RDX, Gpr(8))), "mov edx,[r8]");
        assert_eq!(text(|c| c.load_byte_at(RDX, RDI)), "movzx edx,byte ptr [rdi]");
        assert_eq!(text(|c| c.load_byte_at(RDX, Gpr(8))), "movzx edx,byte ptr [r8]");
        assert_eq!(text(|c| c.store_constant_at(Gpr(13), 8, 7)), "mov dword ptr [r13+8],7");
        assert_eq!(text(|c| c.add_far(RCX, Gpr(12), 0x1000)), "lea rcx,[r12+1000h]");
        if std::arch::is_x86_feature_detected!("bmi2") {
            assert_eq!(text(|c| c.rotate(Gpr(9), RDX, 6)), "rorx r9,rdx,6");
            assert_eq!(text(|c| c.rotate(Gpr(9), Gpr(9), 6)), "rorx r9,r9,6");
        }
        assert_eq!(text(|c| c.exclusive_or(Gpr(9), RDX)), "xor r9,rdx");
        assert_eq!(text(|c| c.multiply(Gpr(9), 0x61c8_8647)), "imul r9,61C88647h");
        assert_eq!(text(|c| c.multiply(RDX, 7)), "imul rdx,7");
        assert_eq!(text(|c| c.test_slot(0x38, Gpr(9))), "test gs:[38h],r9");
        assert_eq!(text(|c| c.test_constant(Gpr(9), 0xf000)), "test r9d,0F000h");
        assert_eq!(text(|c| c.load_word(Gpr(9), 0x12)), "movzx r9d,word ptr gs:[12h]");
        assert_eq!(text(|c| c.population(Gpr(9))), "popcnt r9,r9");
        assert_eq!(text(|c| c.population(RCX)), "popcnt rcx,rcx");
        assert_eq!(text(|c| c.add_slot(Gpr(9), 0x1000)), "add r9,gs:[1000h]");
        assert_eq!(text(|c| c.save_carry(0x38)), "setae gs:[38h]");
        assert_eq!(text(|c| c.carry_again(0x38)), "cmp byte ptr gs:[38h],1");
        assert_eq!(text(|c| c.mask_to(Gpr(9), 3, 16)), "kmovw r9d,k3");
        assert_eq!(text(|c| c.mask_to(RDX, 3, 64)), "kmovq rdx,k3");
        assert_eq!(text(|c| c.mask_to(RDX, 3, 32)), "kmovd edx,k3");
        assert_eq!(text(|c| c.signs_to(Gpr(9), 12, 4, 8)), "vmovmskps r9d,ymm12");
        assert_eq!(text(|c| c.signs_to(RDX, 3, 8, 2)), "vmovmskpd edx,xmm3");
        assert_eq!(text(|c| c.signs_to(RDX, 9, 1, 16)), "pmovmskb edx,xmm9");
        assert_eq!(text(|c| c.push_word_at(CacheAddress::new(0x2000))), "push qword ptr [2000h]");
    }

    #[test]
    fn patchable_jumps_stay_in_a_cache_line() {
        for skip in 0..64 {
            let mut code = Code::new(CacheAddress::new(0x1000));
            code.nops(skip);
            let at = code.jump_if(5, CacheAddress::new(0x4000));
            assert!(at.get() % 64 <= 60, "{skip}");
        }
    }
}
