//! Trampolines: the few bytes of code by which compilers pass a nested function, in memory that stays writable, as a rule the stack
//! (GCC's nested functions, internal procedures in Fortran), and by which libffi makes a function of a callback of an interpreter.
//!
//! ```text
//!  endbr64                  in some programs              endbr64
//!  mov r11, function        or mov r11d                   lea r10, [rip − 11]      its own address
//!  mov r10, chain           the frame of the              jmp [rip + 7]            the word behind it
//!  jmp r11                  function around it
//! ```
//!
//! The program writes other values there all the time. So the translation reads them from the program's memory each time, and
//! compares the rest with what it was translated from; if that has changed, it asks for a new translation.

use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Size of the longest form.
const LONGEST: usize = 28;
/// `endbr64`
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `mov r11, imm64`, `mov r11d, imm32`, `mov r10, imm64`
const FUNCTION: [u8; 2] = [0x49, 0xbb];
const SHORT_FUNCTION: [u8; 2] = [0x41, 0xbb];
const CHAIN: [u8; 2] = [0x49, 0xba];
/// `jmp r11`, with one of two prefixes
const JUMPS: [[u8; 3]; 2] = [[0x49, 0xff, 0xe3], [0x41, 0xff, 0xe3]];

/// The other form, of libffi; `nop`s and the function's address follow.
const CLOSURE: [u8; 17] = [
    0xf3, 0x0f, 0x1e, 0xfa, // endbr64
    0x4c, 0x8d, 0x15, 0xf5, 0xff, 0xff, 0xff, // lea r10, [rip - 11]
    0xff, 0x25, 0x07, 0x00, 0x00, 0x00, // jmp [rip + 7]
];
/// Offset of its function's address.
pub(crate) const CLOSURE_FUNCTION: u8 = 24;

/// A trampoline as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trampoline {
    pub(crate) code: Vec<u8>,
    pub(crate) form: Form,
}

/// Which instructions it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Nested(Nested),
    Closure,
}

/// Offsets of the parts of a compiler's trampoline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nested {
    pub(crate) lands: bool,
    /// `mov r11`: (its opcode, its value, whether that has eight bytes)
    pub(crate) function: (u8, u8, bool),
    /// `mov r10`: (its opcode, its value)
    pub(crate) chain: (u8, u8),
    /// `jmp r11`: (its first byte, which of the two)
    pub(crate) jump: (u8, usize),
}

impl Trampoline {
    /// The trampoline at `at`, if there is one.
    pub fn read(memory: &Memory, at: Address) -> Option<Trampoline> {
        let mut bytes = [0; LONGEST];
        let size = memory.read_some(at, &mut bytes).ok()?;
        Self::of(&bytes[..size])
    }

    /// The trampoline that `bytes` begin with.
    fn of(bytes: &[u8]) -> Option<Trampoline> {
        if bytes.starts_with(&CLOSURE) {
            return Some(Trampoline { code: CLOSURE.to_vec(), form: Form::Closure });
        }
        let lands = bytes.starts_with(&LANDING);
        let first = if lands { LANDING.len() } else { 0 };
        let is_at = |at: usize, code: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(code));
        let wide = is_at(first, &FUNCTION);
        if !wide && !is_at(first, &SHORT_FUNCTION) {
            return None;
        }
        let chain = first + if wide { 10 } else { 6 };
        let jump = chain + 10;
        let which = JUMPS.iter().position(|code| is_at(jump, code)).filter(|_| is_at(chain, &CHAIN))?;
        let form = Nested {
            lands,
            function: (first as u8, first as u8 + 2, wide),
            chain: (chain as u8, chain as u8 + 2),
            jump: (jump as u8, which),
        };
        Some(Trampoline { code: bytes[..jump + JUMPS[which].len()].to_vec(), form: Form::Nested(form) })
    }

    /// Whether `other` has the same instructions, with whichever values.
    pub fn is_like(&self, other: &Trampoline) -> bool {
        self.form == other.form
    }
}

impl Form {
    /// The words that must not change: (offset, value).
    pub(crate) fn fixed(self) -> Vec<(u8, u16)> {
        match self {
            Form::Nested(nested) => nested.fixed().collect(),
            Form::Closure => {
                let word = |at: usize| (at as u8, u16::from_le_bytes([CLOSURE[at], CLOSURE[at + 1]]));
                (0..CLOSURE.len() - 1).step_by(2).chain([CLOSURE.len() - 2]).map(word).collect()
            }
        }
    }
}

impl Nested {
    fn fixed(self) -> impl Iterator<Item = (u8, u16)> {
        let word = |at: u8, [low, high]: [u8; 2]| (at, u16::from_le_bytes([low, high]));
        let landing = self.lands.then(|| [word(0, [LANDING[0], LANDING[1]]), word(2, [LANDING[2], LANDING[3]])]);
        let (function, jump) = (if self.function.2 { FUNCTION } else { SHORT_FUNCTION }, JUMPS[self.jump.1]);
        let rest = [
            word(self.function.0, function),
            word(self.chain.0, CHAIN),
            word(self.jump.0, [jump[0], jump[1]]),
            word(self.jump.0 + 1, [jump[1], jump[2]]),
        ];
        landing.into_iter().flatten().chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(lands: bool, wide: bool, prefix: u8) -> Vec<u8> {
        let mut code = if lands { LANDING.to_vec() } else { Vec::new() };
        code.extend(if wide { [0x49, 0xbb].to_vec() } else { [0x41, 0xbb].to_vec() });
        code.extend(vec![1; if wide { 8 } else { 4 }]);
        code.extend([0x49, 0xba, 2, 2, 2, 2, 2, 2, 2, 2, prefix, 0xff, 0xe3]);
        code
    }

    #[test]
    fn the_forms_that_compilers_write_are_known() {
        for (lands, wide, prefix) in [(false, true, 0x49), (true, true, 0x49), (false, false, 0x49), (true, true, 0x41)]
        {
            let code = bytes(lands, wide, prefix);
            let found = Trampoline::of(&[&code[..], &[0x90]].concat()).unwrap();
            assert_eq!(found.code, code);
            for (offset, value) in found.form.fixed() {
                let at = usize::from(offset);
                assert_eq!(code[at..at + 2], value.to_le_bytes());
            }
            assert!(Trampoline::of(&code[..code.len() - 1]).is_none());
            let mut other = code.clone();
            other[if lands { 4 } else { 0 } + 3] = 9;
            assert!(Trampoline::of(&other).unwrap().is_like(&found), "another function");
        }
        assert!(Trampoline::of(&bytes(false, true, 0x48)).is_none());
        let closure = Trampoline::of(&[&CLOSURE[..], &[0x0f]].concat()).unwrap();
        assert_eq!((closure.code.as_slice(), closure.form.fixed().len()), (&CLOSURE[..], 9));
    }
}
