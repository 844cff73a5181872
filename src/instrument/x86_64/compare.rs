//! Comparisons of addresses that change RCX and no flag.

use super::emit::{Code, Gpr, RCX};
use super::quick::has_quick_loop;
use crate::target::address::CacheAddress;

/// A comparison of a register with an address.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// Four bytes of it, and what makes it fail for every address if it stands there instead.
    pub tag: (CacheAddress, u32),
    /// The rel32 that leads on where they differ.
    pub other: CacheAddress,
}

/// Whether [`Code::unless_rcx_is`] can compare with `value`.
pub fn rcx_compares_with(value: u64) -> bool {
    let Parts { lower, upper } = Parts::of(value);
    // What is subtracted is added again; the kernel's addresses do not matter.
    let fits = value >> 47 == 0 && lower != i32::MIN;
    fits && (upper == 0 || std::arch::is_x86_feature_detected!("bmi2"))
}

/// What is added to an address so that equal ones have a lower half of zero, and their upper half then.
struct Parts {
    lower: i32,
    upper: u64,
}

impl Parts {
    fn of(value: u64) -> Parts {
        let lower = (value as i32).wrapping_neg();
        Parts { lower, upper: value.wrapping_add(lower as u64) >> 32 }
    }
}

impl Code {
    /// Goes on behind it if `register`, not RCX, is `value`, with RCX changed. Where a `loop` costs no more than another
    /// branch, the way for all other values is the taken one: a branch that is never taken needs no place among those that
    /// the processor predicts.
    ///
    /// ```text
    ///  lea rcx, [register − value + 1]; loop other; nop (in it: other: jmp …)
    ///  lea rcx, [register − value]; jrcxz equal; jmp …; equal:
    /// ```
    pub fn unless_equal(&mut self, register: Gpr, value: u64) -> Comparison {
        self.compare(register, value, has_quick_loop())
    }

    /// The same of RCX, which no other register is needed for ([`rcx_compares_with`]). Returns the rel32 that leads on where
    /// they differ; there [`rcx_that_differed`](Self::rcx_that_differed) tells what it was.
    ///
    /// ```text
    ///  lea rcx, [rcx − lower half]; rorx rcx, rcx, 32; lea rcx, [rcx − what the upper half is then + 1]; loop other; …
    /// ```
    pub fn unless_rcx_is(&mut self, value: u64) -> CacheAddress {
        self.compare_rcx(value, has_quick_loop())
    }

    /// `to` becomes what RCX was that was not `value`.
    pub fn rcx_that_differed(&mut self, to: Gpr, value: u64) {
        let Parts { lower, upper } = Parts::of(value);
        if upper == 0 {
            self.add_far(to, RCX, lower.wrapping_neg() as u32);
            return;
        }
        self.add_far(RCX, RCX, upper as u32);
        self.rotate(RCX, RCX, 32);
        self.add_far(to, RCX, lower.wrapping_neg() as u32);
    }

    fn compare(&mut self, register: Gpr, value: u64, quick_loop: bool) -> Comparison {
        let tag = self.compare_to_rcx(register, value, quick_loop.into());
        Comparison { tag, other: self.unless_rcx_says_so(quick_loop) }
    }

    fn compare_rcx(&mut self, value: u64, quick_loop: bool) -> CacheAddress {
        let Parts { lower, upper } = Parts::of(value);
        let equal = u32::from(quick_loop);
        if upper == 0 {
            self.add_far(RCX, RCX, (lower as u32).wrapping_add(equal));
        } else {
            self.add_far(RCX, RCX, lower as u32);
            self.rotate(RCX, RCX, 32);
            self.add_far(RCX, RCX, (upper as u32).wrapping_neg().wrapping_add(equal));
        }
        self.unless_rcx_says_so(quick_loop)
    }

    /// Goes on behind it if RCX is 1 (with `loop`) or 0; returns the rel32 that leads on otherwise.
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

    /// RCX becomes `equal` if `register` is `value`: `lea rcx, [register − value + equal]`, or in two instructions.
    /// Returns where four bytes of it stand, and what makes it fail for every address if it stands there instead.
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
        if rcx_compares_with(0x7fff_0000_1000) {
            let rcx = text(|c| _ = c.compare_rcx(0x7fff_0000_1000, true));
            let halves = "lea rcx,[rcx-1000h]; rorx rcx,rcx,20h; lea rcx,[rcx-7FFEh]; loop ";
            assert!(rcx.starts_with(halves), "{rcx}");
        }
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

    /// Executes what is written as a function of its first argument.
    fn executed(write: impl FnOnce(&mut Code), argument: u64) -> u64 {
        let (size, all) = (4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping; what is written to it keeps to the calling convention and only touches registers.
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
        let near = |at: u64| [at, at ^ 1, at ^ 1 << 31, at ^ 1 << 32, at ^ 1 << 46, at.rotate_left(32)];
        for (value, quick_loop) in ADDRESSES.into_iter().flat_map(|a| [(a, false), (a, true)]) {
            for at in ADDRESSES.into_iter().flat_map(near) {
                let by_rcx = |code: &mut Code| {
                    code.copy(RCX, RDI);
                    let other = code.compare_rcx(value, quick_loop);
                    code.constant(RAX, EQUAL);
                    code.raw(&[0xc3]);
                    code.set_word(other, relative(other, code.here()));
                    code.rcx_that_differed(RAX, value);
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
                if rcx_compares_with(value) {
                    assert_eq!(executed(by_rcx, at), expected, "RCX = {at:#x} and {value:#x}");
                }
            }
        }
    }
}
