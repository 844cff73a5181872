//! Address comparisons that change RCX and either no flag or flags that can be restored.

use super::emit::{Code, Gpr, RCX, RSP};
use super::quick::has_quick_loop;
use rprof_tracee::address::CacheAddress;

/// First byte of the code of [`Code::unless_top_is`].
pub const PUSHFQ: u8 = 0x9c;

/// A comparison of a register or a word with an address.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// Address of four bytes of it, and the value that makes it fail for every address if written there.
    pub tag: (CacheAddress, u32),
    /// The rel32 of the jump for a different address.
    pub other: CacheAddress,
}

/// Whether [`Code::rcx_that_differed`] can recover the address that was compared with `value`.
pub fn can_undo(value: u64) -> bool {
    // The recovery adds the subtracted value again.
    Parts::of(value).lower != i32::MIN
}

/// The summand that turns the lower half of an equal user-space address into zero, and the resulting upper half.
struct Parts {
    lower: i32,
    upper: u32,
}

impl Parts {
    fn of(value: u64) -> Parts {
        let lower = (value as i32).wrapping_neg();
        Parts { lower, upper: (value.wrapping_add(lower as u64) >> 32) as u32 }
    }
}

/// How to swap the halves of RCX without changing flags: `rorx` with BMI2, otherwise `bswap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swap {
    Halves,
    Bytes,
}

impl Swap {
    fn of_this_cpu() -> Swap {
        if std::arch::is_x86_feature_detected!("bmi2") { Swap::Halves } else { Swap::Bytes }
    }

    /// The upper half after the swap.
    fn swapped(self, upper: u32) -> u32 {
        if self == Swap::Halves { upper } else { upper.swap_bytes() }
    }
}

impl Code {
    /// Writes a comparison that falls through if `register`, not RCX, is `value`, with RCX changed. If `loop` costs no more
    /// than another branch, all other values take the branch: a branch that is never taken needs no entry in the branch target
    /// buffer.
    ///
    /// ```text
    ///  lea rcx, [register − value + 1]; loop other; nop (in it: other: jmp …)
    ///  lea rcx, [register − value]; jrcxz equal; jmp …; equal:
    /// ```
    pub fn unless_equal(&mut self, register: Gpr, value: u64) -> Comparison {
        self.compare(register, value, has_quick_loop())
    }

    /// The same for RCX, without another register, and an address of the program.
    ///
    /// ```text
    ///  lea rcx, [rcx − lower half]; rorx rcx, rcx, 32; lea rcx, [rcx − what the upper half is then + 1]; loop other; …
    /// ```
    pub fn unless_rcx_is(&mut self, value: u64) -> Comparison {
        self.compare_rcx(value, has_quick_loop(), Swap::of_this_cpu())
    }

    /// Writes a comparison that pops the word on top of the stack and falls through if that word is `value`, an address of the
    /// program; RCX and the status flags change. If the words differ, it pops nothing, and [`flags_back`](Self::flags_back)
    /// restores the flags. Writes below the stack pointer.
    ///
    /// ```text
    ///  pushfq; cmp qword [rsp + 8], value; jne other; lea rsp, [rsp + 16]
    ///  pushfq; mov rcx, value; cmp [rsp + 8], rcx; jne other; lea rsp, [rsp + 16]
    /// ```
    pub fn unless_top_is(&mut self, value: u64) -> Comparison {
        self.raw(&[PUSHFQ]);
        let tag = if let Ok(value) = i32::try_from(value) {
            self.raw(&[0x48, 0x81, 0x7c, 0x24, 8]);
            self.word(value as u32);
            // Sign-extended to 64 bits, this is a kernel address.
            (self.here() - 4, i32::MIN as u32)
        } else {
            self.raw(&[0x48, 0xb9]);
            self.raw(&value.to_le_bytes());
            let upper = self.here() - 4;
            self.raw(&[0x48, 0x39, 0x4c, 0x24, 8]);
            // No program has an address with such an upper half.
            (upper, 0x5a5a_0000)
        };
        self.raw(&[0x0f, 0x85]); // jne
        let other = self.relative(self.here());
        self.add_small(RSP, 16);
        Comparison { tag, other }
    }

    /// Restores the flags at the target of [`unless_top_is`](Self::unless_top_is) if the words differ: `popfq`.
    pub fn flags_back(&mut self) {
        self.raw(&[0x9d]);
    }

    /// Sets `to` to the value of RCX that [differed](Self::unless_rcx_is) from `value`, if that is [possible](can_undo).
    pub fn rcx_that_differed(&mut self, to: Gpr, value: u64) {
        self.undo_comparison(to, value, Swap::of_this_cpu());
    }

    fn undo_comparison(&mut self, to: Gpr, value: u64, swap: Swap) {
        let Parts { lower, upper } = Parts::of(value);
        if upper != 0 {
            let upper = swap.swapped(upper);
            if upper > i32::MAX as u32 {
                self.add_far(RCX, RCX, i32::MAX as u32);
                self.add_small(RCX, 1);
            }
            self.add_far(RCX, RCX, upper & i32::MAX as u32);
            self.swap_rcx(swap);
        }
        self.add_far(to, RCX, lower.wrapping_neg() as u32);
    }

    fn compare(&mut self, register: Gpr, value: u64, quick_loop: bool) -> Comparison {
        let tag = self.compare_to_rcx(register, value, quick_loop.into());
        Comparison { tag, other: self.unless_rcx_says_so(quick_loop) }
    }

    fn compare_rcx(&mut self, value: u64, quick_loop: bool, swap: Swap) -> Comparison {
        let Parts { lower, upper } = Parts::of(value);
        let equal = u32::from(quick_loop);
        let never = if upper == 0 {
            self.add_far(RCX, RCX, (lower as u32).wrapping_add(equal));
            1 + equal
        } else {
            self.add_far(RCX, RCX, lower as u32);
            self.swap_rcx(swap);
            let upper = swap.swapped(upper);
            if upper > i32::MAX as u32 {
                self.add_far(RCX, RCX, i32::MIN as u32);
            }
            self.add_far(RCX, RCX, (upper & i32::MAX as u32).wrapping_neg().wrapping_add(equal));
            // No program has an address with such an upper half.
            equal.wrapping_sub(i32::MAX as u32)
        };
        let tag = (self.here() - 4, never);
        Comparison { tag, other: self.unless_rcx_says_so(quick_loop) }
    }

    fn swap_rcx(&mut self, swap: Swap) {
        match swap {
            Swap::Halves => self.rotate(RCX, RCX, 32),
            Swap::Bytes => self.raw(&[0x48, 0x0f, 0xc9]),
        }
    }

    /// Writes a branch that falls through if RCX is 1 (with `loop`) or 0; returns the rel32 for other values.
    fn unless_rcx_says_so(&mut self, quick_loop: bool) -> CacheAddress {
        if quick_loop {
            self.raw(&[0xe2, 3]); // loop
            self.raw(&[0x0f, 0x1f, 0x84, 0xe9]); // nop [rcx + rbp*8 + …]; its last five bytes: jmp …
            return self.relative(self.here());
        }
        let equal = self.jump_if_rcx_zero();
        self.raw(&[0xe9]);
        let other = self.relative(self.here());
        self.land(equal);
        other
    }

    /// RCX becomes `equal` if `register` is `value`: `lea rcx, [register − value + equal]`, or in two instructions. Returns the
    /// address of four bytes of it, and the value that makes it fail for every address if written there.
    fn compare_to_rcx(&mut self, register: Gpr, value: u64, equal: u8) -> (CacheAddress, u32) {
        if let Ok(value) = i32::try_from(value) {
            self.add_far(RCX, register, value.wrapping_neg().wrapping_add(i32::from(equal)) as u32);
            return (self.here() - 4, 1 + u32::from(equal));
        }
        self.raw(&[0x48, 0xb9]);
        self.raw(&value.wrapping_neg().to_le_bytes());
        let upper = self.here() - 4;
        self.sum(RCX, RCX, register, equal as i8);
        (upper, 0x5a5a_0000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::emit::tests::text;
    use super::super::emit::{RAX, RDI, RDX, relative};
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    const ADDRESSES: [u64; 10] = [
        0x40_1000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        0x5555_8000_0000,
        0x7fff_0000_1000,
        0x7f66_7fff_ffff,
        0x7fff_ffff_f000,
        0xffff_ffff_ff60_0000,
    ];
    const EQUAL: u64 = 0x0e0a_1e0a_1e0a_1e0a;

    #[test]
    fn the_encodings_are_those_of_the_instructions() {
        let near = text(|c| _ = c.compare(RDX, 0x1000, false));
        assert_eq!(near, "lea rcx,[rdx-1000h]; jrcxz 000000000000100Eh; jmp 000000000000100Ah");
        let near = text(|c| _ = c.compare(RDX, 0x1000, true));
        assert_eq!(near, "lea rcx,[rdx-0FFFh]; loop 000000000000100Ch; nop [rcx+rbp*8-4]");
        let far = text(|c| _ = c.compare_to_rcx(RDX, 0x7fff_0000_1000, 1));
        assert_eq!(far, "mov rcx,0FFFF8000FFFFF000h; lea rcx,[rcx+rdx+1]");
        let by_bytes = text(|c| _ = c.compare_rcx(0x7fff_0000_1000, true, Swap::Bytes));
        let expected = "lea rcx,[rcx-1000h]; bswap rcx; lea rcx,[rcx-80000000h]; lea rcx,[rcx-7F7EFFFFh]; loop ";
        assert!(by_bytes.starts_with(expected), "{by_bytes}");
    }

    #[test]
    fn a_comparison_that_fails_jumps_into_the_middle_of_a_nop() {
        for value in [0x40_1000, 0x7fff_0000_1000] {
            let mut code = Code::new(CacheAddress::new(0x1000));
            let Comparison { other, .. } = code.compare(RDX, value, true);
            assert_eq!(other + 4, code.here());
            code.set_word(other, relative(other, CacheAddress::new(0x2000)));
            let looped = Decoder::with_ip(64, code.bytes(), 0x1000, DecoderOptions::NONE)
                .iter()
                .nth(if value < 1 << 31 { 1 } else { 2 });
            let there = looped.unwrap().near_branch_target();
            let hidden =
                Decoder::with_ip(64, &code.bytes()[(there - 0x1000) as usize..], there, DecoderOptions::NONE).decode();
            assert_eq!((hidden.near_branch_target(), hidden.len()), (0x2000, 5), "{value:#x}");
        }
    }

    #[test]
    fn a_word_on_the_stack_is_taken_away_if_it_is_the_address_and_else_flags_come_back() {
        let low = text(|c| _ = c.unless_top_is(0x40_1000));
        assert_eq!(low, "pushfq; cmp qword ptr [rsp+8],401000h; jne 000000000000100Ch; lea rsp,[rsp+10h]");
        let high = text(|c| _ = c.unless_top_is(0x7fff_0000_1000));
        let expected = "pushfq; mov rcx,7FFF00001000h; cmp [rsp+8],rcx; jne 0000000000001012h; lea rsp,[rsp+10h]";
        assert_eq!(high, expected);
        let words = ADDRESSES.into_iter().flat_map(|at| [at, at ^ 1, at ^ 1 << 31, at ^ 1 << 32, at ^ 1 << 46]);
        for (value, at) in ADDRESSES.into_iter().flat_map(|v| words.clone().map(move |at| (v, at))) {
            if value >> 47 != 0 {
                continue;
            }
            let compared = |closed: bool| {
                move |code: &mut Code| {
                    code.raw(&[0x57, 0xf9]); // push rdi; stc
                    let Comparison { tag: (tag, never), other } = code.unless_top_is(value);
                    if closed {
                        code.set_word(tag, never);
                    }
                    code.constant(RAX, EQUAL);
                    code.raw(&[0xc3]);
                    code.set_word(other, relative(other, code.here()));
                    code.flags_back();
                    code.raw(&[0x58, 0x48, 0x83, 0xd0, 0x00, 0xc3]); // pop rax; adc rax, 0; ret
                }
            };
            let expected = if at == value { EQUAL } else { at.wrapping_add(1) };
            assert_eq!(executed(compared(false), at), expected, "{at:#x} and {value:#x}");
            assert_eq!(executed(compared(true), at), at.wrapping_add(1), "{at:#x} and {value:#x}, closed");
        }
    }

    /// Executes the written code as a function of its first argument.
    fn executed(write: impl FnOnce(&mut Code), argument: u64) -> u64 {
        let (size, all) = (4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping; the code written to it keeps to the calling convention and only touches registers.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), size, all, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let mut code = Code::new(CacheAddress::new(at as u64));
            write(&mut code);
            std::ptr::copy_nonoverlapping(code.bytes().as_ptr(), at.cast(), code.len());
            let function: extern "sysv64" fn(u64) -> u64 = std::mem::transmute(at);
            let result = function(argument);
            libc::munmap(at, size);
            result
        }
    }

    #[test]
    fn comparisons_tell_equal_from_other_addresses_and_these_are_not_lost() {
        let all = [(false, Swap::Bytes), (true, Swap::of_this_cpu()), (true, Swap::Bytes)];
        let near = |at: u64| [at, at ^ 1, at ^ 1 << 31, at ^ 1 << 32, at ^ 1 << 46, at.rotate_left(32)];
        for (value, (quick_loop, swap)) in ADDRESSES.into_iter().flat_map(|a| all.map(|how| (a, how))) {
            for at in ADDRESSES.into_iter().flat_map(near) {
                let by_rcx = |code: &mut Code| {
                    code.copy(RCX, RDI);
                    let other = code.compare_rcx(value, quick_loop, swap).other;
                    code.constant(RAX, EQUAL);
                    code.raw(&[0xc3]);
                    code.set_word(other, relative(other, code.here()));
                    if can_undo(value) {
                        code.undo_comparison(RAX, value, swap);
                    } else {
                        code.copy(RAX, RDI);
                    }
                    code.raw(&[0xc3]);
                };
                let by_register = |code: &mut Code| {
                    let Comparison { other, .. } = code.compare(RDI, value, quick_loop);
                    code.constant(RAX, EQUAL);
                    code.raw(&[0xc3]);
                    code.set_word(other, relative(other, code.here()));
                    code.copy(RAX, RDI);
                    code.raw(&[0xc3]);
                };
                let expected = if at == value { EQUAL } else { at };
                assert_eq!(executed(by_register, at), expected, "{at:#x} and {value:#x}");
                if value >> 47 == 0 {
                    assert_eq!(executed(by_rcx, at), expected, "RCX = {at:#x} and {value:#x}, {swap:?}");
                }
            }
        }
    }
}
