//! The user context of a stopped or blocked thread: registers, and a copy of the top of its stack.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::unwind::StackTop;
use crate::x86_64::registers::{self, Registers};
use rprof_tracee::thread::Stopped;

/// A thread's context; its buffer is kept from one to the next.
#[derive(Debug)]
pub(super) struct Context {
    pub registers: Registers,
    buffer: Vec<u8>,
    length: usize,
}

impl Context {
    /// Room for `stack_bytes` of stack.
    pub fn new(stack_bytes: u32) -> Context {
        Context { registers: Registers::new(0, 0, 0), buffer: vec![0; stack_bytes as usize], length: 0 }
    }

    /// Takes the context of a stopped thread; false if it was killed meanwhile.
    pub fn take(&mut self, thread: &Stopped) -> bool {
        let Ok(r) = thread.registers() else { return false };
        self.take_at(thread.tid(), registers::from_ptrace(&r));
        true
    }

    /// Takes the stack of a thread with known registers.
    pub fn take_at(&mut self, tid: Pid, registers: Registers) {
        self.registers = registers;
        let remote = pages(registers.sp() as usize, self.buffer.len());
        let mut local = [IoSliceMut::new(&mut self.buffer)];
        self.length = process_vm_readv(tid, &mut local, &remote).unwrap_or(0);
    }

    /// The copy.
    pub fn stack(&self) -> StackTop<'_> {
        StackTop { start: self.registers.sp(), bytes: &self.buffer[..self.length] }
    }
}

/// `length` bytes from `start`, cut at page borders: a transfer ends early only between pieces, and the stack may end
/// after any page.
fn pages(start: usize, length: usize) -> Vec<RemoteIoVec> {
    const PAGE: usize = 4096;
    let end = start.saturating_add(length);
    let mut pieces = Vec::with_capacity(length / PAGE + 2);
    let mut base = start;
    while base < end {
        let next = (base / PAGE + 1).saturating_mul(PAGE).min(end);
        pieces.push(RemoteIoVec { base, len: next - base });
        base = next;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_page_borders_and_cover_the_range() {
        let pieces = pages(0x1ff0, 0x1020);
        assert_eq!(
            pieces.iter().map(|p| (p.base, p.len)).collect::<Vec<_>>(),
            [(0x1ff0, 0x10), (0x2000, 0x1000), (0x3000, 0x10)]
        );
        assert!(pages(0x1000, 0).is_empty());
    }

    #[test]
    fn a_stack_is_read_up_to_its_end() {
        let maps = procfs::process::Process::myself().unwrap().maps().unwrap();
        let stack = maps.iter().find(|m| m.pathname == procfs::process::MMapPath::Stack).unwrap();
        let mut context = Context::new(8192);
        context.take_at(Pid::this(), Registers::new(1, stack.address.1 - 100, 0));
        assert_eq!(context.stack().bytes.len(), 100);
    }
}
