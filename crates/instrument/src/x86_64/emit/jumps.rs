//! Jumps, calls and returns.

use super::{Code, RCX, RSP};
use rprof_tracee::address::CacheAddress;

impl Code {
    /// Pads so that a rel32 after `opcode` more bytes does not cross a cache line.
    pub fn align_patch(&mut self, opcode: u64) {
        let line = (self.here().get() + opcode) % 64;
        if line > 60 {
            self.nops((64 - line) as usize);
        }
    }

    /// `jmp gs:[offset]`
    pub fn jump_through(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x24, 0x25]);
        self.word(offset);
    }

    /// `jmp gs:[rcx*8 + table]`
    pub fn jump_table(&mut self, table: u32) {
        self.raw(&[0x65, 0xff, 0x24, 0xcd]);
        self.word(table);
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

    /// `push gs:[rcx*8 + table]`; `ret`: to the address in the table
    pub fn return_table(&mut self, table: u32) {
        self.raw(&[0x65, 0xff, 0x34, 0xcd]);
        self.word(table);
        self.raw(&[0xc3]);
    }

    /// `mov rcx, gs:[rcx*8 + table]`; `mov [rsp], rcx`; `ret`: the same, but the address replaces the word on top of the stack.
    pub fn return_by_top(&mut self, table: u32) {
        self.load_indexed(RCX, RCX, table);
        self.store_at(RSP, 0, RCX);
        self.raw(&[0xc3]);
    }

    /// `jmp rel32` that never changes: it may cross a cache line.
    pub fn jump_for_good(&mut self, to: CacheAddress) {
        self.raw(&[0xe9]);
        self.relative(to);
    }

    /// `call rel32`; returns the address of the rel32
    pub fn call(&mut self, to: CacheAddress) -> CacheAddress {
        self.raw(&[0xe8]);
        self.relative(to)
    }

    /// `call gs:[rcx*8 + table]`
    pub fn call_table(&mut self, table: u32) {
        self.raw(&[0x65, 0xff, 0x14, 0xcd]);
        self.word(table);
    }
}

/// A short jump without its distance yet.
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
mod tests {
    use super::super::tests::text;
    use super::super::*;
    use super::*;

    #[test]
    fn each_form_is_what_it_says() {
        assert_eq!(text(|c| c.jump_through(0x58)), "jmp qword ptr gs:[58h]");
        assert_eq!(text(|c| c.jump_table(0x7000_0000)), "jmp qword ptr gs:[rcx*8+70000000h]");
        assert_eq!(text(|c| c.return_table(0x7000_0000)), "push qword ptr gs:[rcx*8+70000000h]; ret");
        let by_top = "mov rcx,gs:[rcx*8+70000000h]; mov [rsp],rcx; ret";
        assert_eq!(text(|c| c.return_by_top(0x7000_0000)), by_top);
        assert_eq!(text(|c| c.jump_for_good(CacheAddress::new(0x2000))), "jmp 0000000000002000h");
        assert_eq!(text(|c| c.call_table(0x7000_0000)), "call qword ptr gs:[rcx*8+70000000h]");
        assert_eq!(text(|c| _ = c.call(CacheAddress::new(0x2000))), "call 0000000000002000h");
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
