//! Instructions on other memory: through registers, in tables, on the stack.

use super::{Code, Gpr, PUSH_TOP};
use rprof_tracee::address::CacheAddress;

impl Code {
    /// `movzx register, byte gs:[register + table]`; registers below R8
    pub fn look_up_byte(&mut self, register: Gpr, table: u32) {
        self.raw(&[0x65, 0x0f, 0xb6, 0x80 | register.0 << 3 | register.0]);
        self.word(table);
    }

    /// `push [rip + …]`: pushes the word at `at`
    pub fn push_word_at(&mut self, at: CacheAddress) {
        self.raw(&[0xff, 0x35]);
        self.relative(at);
    }

    /// `push [rsp]`
    pub fn push_top(&mut self) {
        self.raw(&PUSH_TOP);
    }

    /// `push value` (sign-extended)
    pub fn push_constant(&mut self, value: u32) {
        self.raw(&[0x68]);
        self.word(value);
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

    /// `mov to, fs:[0]`: the thread's FS base, as the ABI has it
    pub fn thread_base(&mut self, to: Gpr) {
        self.raw(&[0x64, 0x48 | (to.0 >> 3) << 2, 0x8b, (to.0 & 7) << 3 | 4, 0x25, 0, 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::super::*;
    use super::*;

    #[test]
    fn each_form_is_what_it_says() {
        assert_eq!(text(|c| c.thread_base(Gpr(11))), "mov r11,fs:[0]");
        assert_eq!(text(|c| c.look_up_byte(RCX, 0x7000_0000)), "movzx ecx,byte ptr gs:[rcx+70000000h]");
        assert_eq!(text(|c| c.push_top()), "push qword ptr [rsp]");
        assert_eq!(text(|c| c.push_constant(0x40_1000)), "push 401000h");
        assert_eq!(text(|c| c.drop_stack(16)), "lea rsp,[rsp+10h]");
        assert_eq!(text(|c| c.store_at(Gpr(12), 16, RDX)), "mov [r12+10h],rdx");
        assert_eq!(text(|c| c.load_at(RCX, RSP, -8)), "mov rcx,[rsp-8]");
        assert_eq!(text(|c| c.load_at(RCX, RSP, 0)), "mov rcx,[rsp]");
        assert_eq!(text(|c| c.load_at(RCX, Gpr(13), 0)), "mov rcx,[r13]");
        assert_eq!(text(|c| c.load_low_at(RDX, Gpr(8))), "mov edx,[r8]");
        assert_eq!(text(|c| c.load_byte_at(RDX, RDI)), "movzx edx,byte ptr [rdi]");
        assert_eq!(text(|c| c.load_byte_at(RDX, Gpr(8))), "movzx edx,byte ptr [r8]");
        assert_eq!(text(|c| c.store_low_at(RDX, 12, Gpr(9))), "mov [rdx+0Ch],r9d");
        assert_eq!(text(|c| c.store_constant_at(Gpr(13), 8, 7)), "mov dword ptr [r13+8],7");
        assert_eq!(text(|c| c.push_word_at(CacheAddress::new(0x2000))), "push qword ptr [2000h]");
    }
}
