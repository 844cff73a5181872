//! The form of records in a thread's ring.
//!
//! ```text
//!  call:    place, rdi, rsi, rdx, rcx, r8, r9, rsp, time, executions, return address, further words: arguments on the stack, or what is
//!           behind pointers
//!  return:  place, rsp, time
//!  socket:  SOCKET, number, rdi, rsi, rdx, r10, kind, result
//! ```

use crate::translator::code_cache::layout;

/// Words of a call without further ones.
pub const CALL: usize = 11;
/// Words of a return.
pub const RETURN: usize = 3;
/// Most further words that are noted.
pub const MOST_FURTHER: u8 = 7;
/// Records that a ring has room for, whatever they are.
pub const ROOM: u64 = (layout::CALL_RING_SIZE as usize / (8 * (CALL + MOST_FURTHER as usize))) as u64 - 1;
/// Instead of the place, in the record of a system call: no code is there.
pub const SOCKET: u64 = 1;
/// Words of a system call.
pub const SOCKET_CALL: usize = 8;
/// In the place of the number of executions.
pub const NOT_COUNTED: u64 = u64::MAX;

/// Offset of a call's words in its record: arguments in registers, stack pointer, time, executions, return address.
pub const ARGUMENTS: i8 = 8;
/// See [`ARGUMENTS`].
pub const STACK: i8 = 56;
/// See [`ARGUMENTS`].
pub const TIME: i8 = 64;
/// See [`ARGUMENTS`].
pub const EXECUTED: i8 = 72;
/// See [`ARGUMENTS`]; further words follow.
pub const RETURNS_TO: i8 = 80;
/// Offset of a return's stack pointer.
pub const RETURN_STACK: i8 = 8;
/// Offset of a return's time.
pub const RETURN_TIME: i8 = 16;

/// A record of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRecord {
    /// Start of the function.
    pub place: u64,
    /// Its arguments in registers, then the further words.
    pub arguments: [u64; 6 + MOST_FURTHER as usize],
    /// rsp; the return address is there.
    pub stack: u64,
    /// Time stamp counter.
    pub time: u64,
    /// Executions of the function's first block before, if they are counted.
    pub executed: Option<u64>,
    /// Its return address.
    pub returns_to: u64,
}

/// A record of a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnRecord {
    /// The address it returned to.
    pub place: u64,
    /// rsp.
    pub stack: u64,
    /// Time stamp counter.
    pub time: u64,
}

/// A record of a system call that concerns descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketRecord {
    /// Its number.
    pub number: i64,
    /// rdi, rsi, rdx, r10.
    pub arguments: [u64; 4],
    /// The kind of the descriptor in rdi at the call, as in the table of descriptors; 0: not looked up.
    pub kind: u8,
    /// rax after it.
    pub result: i64,
}

/// The words of a ring.
pub struct Words<'r>(&'r [u8]);

impl<'r> Words<'r> {
    /// The records in `bytes`, the first one first.
    pub fn new(bytes: &'r [u8]) -> Self {
        Words(bytes)
    }

    /// The place of the next record; `None`: there is none.
    pub fn place(&self) -> Option<u64> {
        self.word(0)
    }

    fn word(&self, i: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.0.get(8 * i..)?.first_chunk()?))
    }

    fn skip(&mut self, words: usize) {
        self.0 = self.0.get(8 * words..).unwrap_or_default();
    }

    /// The next record, of a call with `further` more words.
    pub fn call(&mut self, further: u8) -> Option<CallRecord> {
        let further = usize::from(further.min(MOST_FURTHER));
        let mut record = CallRecord {
            place: self.word(0)?,
            arguments: [0; 6 + MOST_FURTHER as usize],
            stack: self.word(7)?,
            time: self.word(8)?,
            executed: self.word(9).filter(|n| *n != NOT_COUNTED),
            returns_to: self.word(10)?,
        };
        for i in 0..6 {
            record.arguments[i] = self.word(1 + i)?;
        }
        for i in 0..further {
            record.arguments[6 + i] = self.word(CALL + i)?;
        }
        self.skip(CALL + further);
        Some(record)
    }

    /// The next record, which is of a return.
    pub fn returned(&mut self) -> Option<ReturnRecord> {
        let record = ReturnRecord { place: self.word(0)?, stack: self.word(1)?, time: self.word(2)? };
        self.skip(RETURN);
        Some(record)
    }

    /// The next record, which is of a system call.
    pub fn socket(&mut self) -> Option<SocketRecord> {
        let arguments = [self.word(2)?, self.word(3)?, self.word(4)?, self.word(5)?];
        let (number, kind, result) = (self.word(1)? as i64, self.word(6)? as u8, self.word(7)? as i64);
        self.skip(SOCKET_CALL);
        Some(SocketRecord { number, arguments, kind, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_one_another() {
        let words: Vec<u8> = (1..=CALL as u64 + 2 + RETURN as u64).flat_map(u64::to_le_bytes).collect();
        let mut ring = Words::new(&words);
        let call = ring.call(2).unwrap();
        assert_eq!((call.place, call.stack, call.time, call.executed, call.returns_to), (1, 8, 9, Some(10), 11));
        assert_eq!(call.arguments[..9], [2, 3, 4, 5, 6, 7, 12, 13, 0]);
        assert_eq!(ring.returned(), Some(ReturnRecord { place: 14, stack: 15, time: 16 }));
        assert_eq!((ring.place(), ring.returned()), (None, None));
    }
}
