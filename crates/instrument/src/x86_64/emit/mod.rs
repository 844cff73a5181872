//! Writes the few instructions that the translator adds. They change no flags unless stated.
//!
//! [`Code`] is the buffer; each file adds the forms of one kind.

mod jumps;
mod memory;
mod registers;
mod slots;

pub use jumps::{Short, is_in_one_line, reached, relative};

use rprof_tracee::address::CacheAddress;

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

    /// Pads with `nop`s so that no four-byte field at these offsets from here crosses a cache line, if possible.
    pub fn pad_for(&mut self, fields: &[u64]) {
        let here = self.here();
        let fits = |padding: &u64| fields.iter().all(|&field| is_in_one_line(here + field + *padding));
        self.nops((0..64).find(fits).unwrap_or_default() as usize);
    }
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
}
