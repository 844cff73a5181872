//! The form of a record in a thread's ring.

use crate::instrument::translator::code_cache::layout;

/// Words of a record.
pub const WORDS: usize = 18;
/// Bytes of a record.
pub const BYTES: u32 = 8 * WORDS as u32;
/// Words of the stack in it: the return address, and arguments.
pub const STACK_WORDS: u8 = 8;
/// Records that a ring has room for.
pub const ROOM: u64 = layout::MPI_RING_SIZE as u64 / BYTES as u64 - 1;

/// In the place of a counter's value.
pub const NOT_COUNTED: u64 = u64::MAX;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The start of the block that wrote it.
    pub place: u64,
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub registers: [u64; 6],
    /// rsp.
    pub stack: u64,
    /// The words there; behind a call they are not noted.
    pub on_stack: [u64; STACK_WORDS as usize],
    /// Time stamp counter.
    pub time: u64,
    /// The counter of the block, if it has one.
    pub executed: Option<u64>,
}

impl Record {
    /// Reads the records in `bytes`, whose length is a multiple of [`BYTES`].
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
        bytes.chunks_exact(BYTES as usize).map(|bytes| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            let mut record = Record {
                place: words[0],
                registers: [0; 6],
                stack: words[7],
                on_stack: [0; 8],
                time: words[16],
                executed: Some(words[17]).filter(|n| *n != NOT_COUNTED),
            };
            record.registers.copy_from_slice(&words[1..7]);
            record.on_stack.copy_from_slice(&words[8..16]);
            record
        })
    }

    /// The arguments of a call, as far as they are noted: those in registers, then those on the stack.
    pub fn arguments(&self) -> [u64; 13] {
        let mut arguments = [0; 13];
        arguments[..6].copy_from_slice(&self.registers);
        arguments[6..].copy_from_slice(&self.on_stack[1..]);
        arguments
    }

    /// The return address of a call.
    pub fn return_address(&self) -> u64 {
        self.on_stack[0]
    }
}
