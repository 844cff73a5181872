//! The calls of MPI that a thread is in.

use crate::profile::evidence::mpi::Made;
use crate::tracee::mpi::volume::Sides;

/// A call that has not returned, or whose return is not watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// Start of the function.
    pub place: u64,
    /// Stack pointer at its entry: the return address is there.
    pub stack: u64,
    /// Where it returns.
    pub returns_to: u64,
    /// Time stamp counter at its entry.
    pub time: u64,
    /// Executions of the function before, if they are counted.
    pub executed: Option<u64>,
    /// Its site, if it is the program's own call; a call within MPI has none.
    pub site: Option<u32>,
    /// Bytes, as far as they are known.
    pub bytes: Option<u64>,
    /// They wait for the call within MPI that does the work.
    pub is_undecided: bool,
    /// The other ranks.
    pub sides: Sides,
    /// The index of its communicator.
    pub communicator: Option<u32>,
    /// What is read behind a pointer when it returns.
    pub result: Option<Returns>,
}

/// What is known when a call returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returns {
    /// A datatype of so many bytes is at this address.
    Datatype(u64, Option<u64>),
    /// A communicator is at this address, made so from that with this index.
    Communicator(u64, u32, Made),
    /// The number of ranks of a communicator.
    Size(u64, u64),
    /// The own rank in a communicator.
    Rank(u64, u64),
    /// A prepared message of so many bytes.
    Prepared(u64, Option<u64>),
}

/// The calls that one thread is in, outermost first.
#[derive(Debug, Default)]
pub struct OpenCalls(Vec<Open>);

impl OpenCalls {
    /// A function begins with its stack pointer at `stack`: calls that began at or below have ended without a record.
    pub fn enter(&mut self, stack: u64) {
        while self.0.last().is_some_and(|open| open.stack <= stack) {
            self.0.pop();
        }
    }

    /// Adds a call.
    pub fn push(&mut self, open: Open) {
        self.0.push(open);
    }

    /// The program's own call that is going on.
    pub fn outer(&mut self) -> Option<&mut Open> {
        self.0.iter_mut().rev().find(|open| open.site.is_some())
    }

    /// Whether the innermost one is this call, which was recorded and not executed.
    pub fn repeats(&self, place: u64, stack: u64, executed: u64) -> bool {
        self.0.last().is_some_and(|last| (last.place, last.stack, last.executed) == (place, stack, Some(executed)))
    }

    /// A call has returned to `place` with its stack pointer at `stack`.
    pub fn leave(&mut self, place: u64, stack: u64) -> Option<Open> {
        // Calls below have been left by a jump.
        while self.0.last().is_some_and(|open| open.stack + 8 < stack) {
            self.0.pop();
        }
        let is_it = |open: &Open| open.stack + 8 == stack && open.returns_to == place;
        if self.0.last().is_some_and(is_it) { self.0.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(stack: u64, returns_to: u64) -> Open {
        Open {
            place: 0,
            stack,
            returns_to,
            time: 0,
            executed: None,
            site: Some(0),
            bytes: None,
            is_undecided: false,
            sides: Sides::default(),
            communicator: None,
            result: None,
        }
    }

    #[test]
    fn calls_nest_and_are_left() {
        let mut calls = OpenCalls::default();
        calls.enter(0x1000);
        calls.push(open(0x1000, 1));
        calls.enter(0x800);
        calls.push(open(0x800, 2));
        assert_eq!(calls.leave(3, 0x808), None, "another place");
        assert_eq!(calls.leave(2, 0x808).map(|c| c.returns_to), Some(2));
        assert_eq!(calls.leave(1, 0x1008).map(|c| c.returns_to), Some(1));
        assert_eq!(calls.leave(1, 0x1008), None, "once");
    }

    #[test]
    fn a_jump_out_of_calls_ends_them() {
        let mut calls = OpenCalls::default();
        calls.push(open(0x1000, 1));
        calls.push(open(0x800, 2));
        assert_eq!(calls.leave(1, 0x1008).map(|c| c.returns_to), Some(1));
        calls.push(open(0x800, 2));
        calls.enter(0x900);
        assert_eq!(calls.outer(), None);
    }
}
