//! The program's text as the translator reads it.

use super::hash::AddressMap;
use super::text::{TextRange, find_text};
use crate::instrument::x86_64::decode::End;
use crate::instrument::x86_64::decode::{Decoded, decode};
use crate::instrument::x86_64::liveness::{INC_FLAGS, live_before, scan};
use crate::profile::code::CodeRef;
use crate::target::address::Address;
use crate::target::memory::Memory;

/// Bytes read for a block.
const WINDOW: usize = 1024;
/// How many blocks deep successors are searched for what overwrites the flags.
const FLAG_DEPTH: u32 = 3;

/// The text of a process.
pub struct Source<'a> {
    memory: &'a Memory,
    text: &'a [TextRange],
    decoded: AddressMap<u64, Option<Decoded>>,
}

impl<'a> Source<'a> {
    /// Reads from `memory` where `text` says that it may be translated.
    pub fn new(memory: &'a Memory, text: &'a [TextRange]) -> Self {
        Source { memory, text, decoded: AddressMap::default() }
    }

    /// Where the program's address `at` stands.
    pub fn code_ref(&self, at: Address) -> Option<CodeRef> {
        find_text(self.text, at).and_then(|t| t.located).map(|l| l.code_ref(at))
    }

    /// The block at `at`; `None` where there is no text.
    pub fn block(&mut self, at: Address) -> Option<&Decoded> {
        if !self.decoded.contains_key(&at.get()) {
            let block = self.read(at);
            self.decoded.insert(at.get(), block);
        }
        self.decoded.get(&at.get())?.as_ref()
    }

    fn read(&self, at: Address) -> Option<Decoded> {
        let room = (find_text(self.text, at)?.end - at).min(WINDOW as u64) as usize;
        let mut bytes = [0; WINDOW];
        let size = self.memory.read_some(at, &mut bytes[..room]).ok()?;
        decode(at, &bytes[..size])
    }

    /// The first step of `block` before which a counter may change the flags.
    pub fn counter_position(&mut self, block: &Decoded) -> Option<usize> {
        let dead = |live: &u32| live & INC_FLAGS == 0;
        if let Some(i) = live_before(&block.steps, INC_FLAGS).iter().position(dead) {
            return Some(i);
        }
        let live_out = self.live_out(block, FLAG_DEPTH);
        (live_out != INC_FLAGS).then(|| live_before(&block.steps, live_out).iter().position(dead)).flatten()
    }

    /// Flags of `inc` that may be read behind `block` before they are overwritten.
    fn live_out(&mut self, block: &Decoded, depth: u32) -> u32 {
        if depth == 0 {
            return INC_FLAGS;
        }
        let successors = match block.end {
            End::Next | End::System => [Some(block.next()), None],
            End::Jump(to) | End::Call(to) => [Some(to), None],
            End::Branch(_, to) | End::ShortBranch(to) => [Some(to), Some(block.next())],
            _ => return INC_FLAGS,
        };
        let mut live = 0;
        for successor in successors.into_iter().flatten() {
            live |= self.live_in(successor, depth);
        }
        live
    }

    fn live_in(&mut self, at: Address, depth: u32) -> u32 {
        let Some(block) = self.block(at) else { return INC_FLAGS };
        let (read, open) = scan(&block.steps, INC_FLAGS);
        if open == 0 {
            return read;
        }
        let block = block.clone();
        read | open & self.live_out(&block, depth - 1)
    }
}
