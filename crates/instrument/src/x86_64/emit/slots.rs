//! Instructions on the thread's slots: memory at GS.

use super::super::liveness::Dead;
use super::{Code, Gpr};

impl Code {
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

    /// `add qword gs:[offset], 1` if `dead` permits it, otherwise `inc qword gs:[offset]`, which takes one more
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
}

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::super::*;
    use super::*;

    #[test]
    fn each_form_is_what_it_says() {
        assert_eq!(text(|c| c.save(0x18, Gpr(9))), "mov gs:[18h],r9");
        assert_eq!(text(|c| c.load(RDX, 0x18)), "mov rdx,gs:[18h]");
        assert_eq!(text(|c| c.increment(0x1000, Dead::AllButCarry)), "inc qword ptr gs:[1000h]");
        assert_eq!(text(|c| c.increment(0x1000, Dead::All)), "add qword ptr gs:[1000h],1");
        assert_eq!(text(|c| c.store(0x40, 1)), "mov qword ptr gs:[40h],1");
        assert_eq!(text(|c| c.test_slot_constant(0x1f8, 1)), "test dword ptr gs:[1F8h],1");
        assert_eq!(text(|c| c.compare_indexed(Gpr(10), Gpr(9), 0x200)), "cmp r10,gs:[r9*8+200h]");
        assert_eq!(text(|c| c.save_indexed(RCX, 0x200, Gpr(12))), "mov gs:[rcx*8+200h],r12");
        assert_eq!(text(|c| c.test_slot(0x38, Gpr(9))), "test gs:[38h],r9");
        assert_eq!(text(|c| c.load_word(Gpr(9), 0x12)), "movzx r9d,word ptr gs:[12h]");
        assert_eq!(text(|c| c.add_slot(Gpr(9), 0x1000)), "add r9,gs:[1000h]");
        assert_eq!(text(|c| c.save_carry(0x38)), "setae gs:[38h]");
        assert_eq!(text(|c| c.carry_again(0x38)), "cmp byte ptr gs:[38h],1");
    }
}
