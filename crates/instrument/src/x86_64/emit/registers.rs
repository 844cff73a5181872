//! Instructions on registers.

use super::{Code, Gpr};

impl Code {
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

    /// `and register, value` (sign-extended)
    pub fn and_small(&mut self, register: Gpr, value: i8) {
        self.raw(&[0x48 | register.0 >> 3, 0x83, 0xe0 | (register.0 & 7), value as u8]);
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

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::super::*;

    #[test]
    fn each_form_is_what_it_says() {
        assert_eq!(text(|c| c.add_small(Gpr(12), 1)), "lea r12,[r12+1]");
        assert_eq!(text(|c| c.add_small(Gpr(5), -2)), "lea rbp,[rbp-2]");
        assert_eq!(text(|c| c.sum(RCX, Gpr(13), RDX, 1)), "lea rcx,[r13+rdx+1]");
        assert_eq!(text(|c| c.copy(Gpr(8), RDX)), "mov r8,rdx");
        assert_eq!(text(|c| c.and_small(Gpr(9), -64)), "and r9,0FFFFFFFFFFFFFFC0h");
        assert_eq!(text(|c| c.not(RCX)), "not rcx");
        assert_eq!(text(|c| c.constant(Gpr(10), 7)), "mov r10d,7");
        assert_eq!(text(|c| c.constant(RCX, -7i64 as u64)), "mov rcx,0FFFFFFFFFFFFFFF9h");
        assert_eq!(text(|c| c.constant(RCX, 0x1234_5678_9abc)), "mov rcx,123456789ABCh");
        assert_eq!(text(|c| c.low_16_to_ecx(RDX)), "movzx ecx,dx");
        assert_eq!(text(|c| c.low_16_to_ecx(Gpr(10))), "movzx ecx,r10w");
        assert_eq!(text(|c| c.add_far(RCX, Gpr(12), 0x1000)), "lea rcx,[r12+1000h]");
        if std::arch::is_x86_feature_detected!("bmi2") {
            assert_eq!(text(|c| c.rotate(Gpr(9), RDX, 6)), "rorx r9,rdx,6");
            assert_eq!(text(|c| c.rotate(Gpr(9), Gpr(9), 6)), "rorx r9,r9,6");
        }
        assert_eq!(text(|c| c.exclusive_or(Gpr(9), RDX)), "xor r9,rdx");
        assert_eq!(text(|c| c.multiply(Gpr(9), 0x61c8_8647)), "imul r9,61C88647h");
        assert_eq!(text(|c| c.multiply(RDX, 7)), "imul rdx,7");
        assert_eq!(text(|c| c.test_constant(Gpr(9), 0xf000)), "test r9d,0F000h");
        assert_eq!(text(|c| c.population(Gpr(9))), "popcnt r9,r9");
        assert_eq!(text(|c| c.population(RCX)), "popcnt rcx,rcx");
        assert_eq!(text(|c| c.mask_to(Gpr(9), 3, 16)), "kmovw r9d,k3");
        assert_eq!(text(|c| c.mask_to(RDX, 3, 64)), "kmovq rdx,k3");
        assert_eq!(text(|c| c.mask_to(RDX, 3, 32)), "kmovd edx,k3");
        assert_eq!(text(|c| c.signs_to(Gpr(9), 12, 4, 8)), "vmovmskps r9d,ymm12");
        assert_eq!(text(|c| c.signs_to(RDX, 3, 8, 2)), "vmovmskpd edx,xmm3");
        assert_eq!(text(|c| c.signs_to(RDX, 9, 1, 16)), "pmovmskb edx,xmm9");
    }
}
