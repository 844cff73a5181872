//! The program's text as the translator reads it.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::io;
use std::rc::Rc;

use crate::translator::code_cache::hash::AddressMap;
use crate::translator::translate::text_ranges::{TextRange, find_text, text_until};
use crate::x86_64::decode::{Decoded, Terminator, decode, steps};
use crate::x86_64::liveness::{Dead, STATUS_FLAGS, live_before, scan};
use rprof_profile::code::CodeRef;
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Bytes read for a block.
const WINDOW: usize = 1024;
/// Depth, in blocks, of the search for instructions that overwrite the flags.
const FLAG_DEPTH: u32 = 3;

/// Bytes of text that are read at once.
const PAGE: u64 = 16 << 10;

/// Cache of the text read so far. Code that changes the mapping of text must clear it.
#[derive(Debug, Default)]
pub struct Pages(AddressMap<u64, Vec<u8>>);

impl Pages {
    /// The bytes from `at` to the end of its cached page; none if the page's beginning cannot be read. Fails if the address space
    /// is gone.
    fn rest(&mut self, memory: &Memory, at: Address) -> io::Result<&[u8]> {
        let base = at.align_down(PAGE);
        let page = match self.0.entry(base.get()) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(place) => {
                let mut bytes = vec![0; PAGE as usize];
                let size = unless_gone(memory.read_some(base, &mut bytes))?;
                bytes.truncate(size);
                place.insert(bytes)
            }
        };
        Ok(page.get((at - base) as usize..).unwrap_or_default())
    }

    /// Reads from `at` on; returns the number of bytes read.
    fn read(&mut self, memory: &Memory, at: Address, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = at + done as u64;
            let there = self.rest(memory, at)?;
            if there.is_empty() {
                // Its page may begin before the mapping does.
                return Ok(done + unless_gone(memory.read_some(at, &mut buffer[done..]))?);
            };
            let size = there.len().min(buffer.len() - done);
            buffer[done..done + size].copy_from_slice(&there[..size]);
            done += size;
        }
        Ok(done)
    }

    /// Text has changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// The result of a read: 0 bytes if the memory cannot be read, an error only if the address space is gone. Then the text must not
/// be treated as if it ended there, because processes that share the translations execute the resulting blocks.
fn unless_gone(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(e) if e.raw_os_error() != Some(libc::ESRCH) => Ok(0),
        result => result,
    }
}

/// The text of a process.
pub struct Source<'a> {
    memory: &'a Memory,
    pages: &'a RefCell<Pages>,
    text: &'a [TextRange],
    decoded: AddressMap<u64, Option<Rc<Decoded>>>,
}

impl<'a> Source<'a> {
    /// Reads from `memory` the pieces of `text` that may be translated.
    pub fn new(memory: &'a Memory, pages: &'a RefCell<Pages>, text: &'a [TextRange]) -> Self {
        Source { memory, pages, text, decoded: AddressMap::default() }
    }

    /// The module and offset of the program's address `at`.
    pub fn code_ref(&self, at: Address) -> Option<CodeRef> {
        find_text(self.text, at).and_then(|t| t.located).map(|l| l.code_ref(at))
    }

    /// The block at `at`; `None` if there is no text, or if its process is gone.
    pub fn block(&mut self, at: Address) -> Option<Rc<Decoded>> {
        if !self.decoded.contains_key(&at.get()) {
            let block = self.read(at).map(Rc::new);
            self.decoded.insert(at.get(), block);
        }
        self.decoded.get(&at.get())?.clone()
    }

    fn read(&self, at: Address) -> Option<Decoded> {
        let room = (text_until(self.text, at, WINDOW as u64)? - at).min(WINDOW as u64) as usize;
        let mut pages = self.pages.borrow_mut();
        if let Some(bytes) = pages.rest(self.memory, at).ok()?.get(..room) {
            return decode(at, bytes);
        }
        let mut bytes = [0; WINDOW];
        let size = pages.read(self.memory, at, &mut bytes[..room]).ok()?;
        decode(at, &bytes[..size])
    }

    /// A step of `block` before which a counter may change flags, and the dead flags there: the first step at which all are dead,
    /// or all but the carry. `returns_to` is the known target of a return at its end.
    pub fn counter_position(&mut self, block: &Decoded, returns_to: Option<Address>) -> Option<(usize, Dead)> {
        let place = |live_out: u32| {
            let live = live_before(&block.steps, live_out);
            let first = |dead: Dead| live.iter().position(|&live| Dead::where_needed(live) == dead).map(|i| (i, dead));
            first(Dead::All).or_else(|| first(Dead::AllButCarry))
        };
        place(STATUS_FLAGS).or_else(|| {
            let live_out = match (block.end, returns_to) {
                (Terminator::Return(_), Some(to)) => self.live_in(to, STATUS_FLAGS, FLAG_DEPTH),
                _ => self.live_out(block, STATUS_FLAGS, FLAG_DEPTH),
            };
            (live_out != STATUS_FLAGS).then(|| place(live_out)).flatten()
        })
    }

    /// The flags that are dead at `at`.
    pub fn dead_at(&mut self, at: Address) -> Dead {
        Dead::where_needed(self.live_in(at, STATUS_FLAGS, FLAG_DEPTH))
    }

    /// The dead flags before each step of `block`.
    pub fn dead_flags(&mut self, block: &Decoded) -> Vec<Dead> {
        let live_out = self.live_out(block, STATUS_FLAGS, FLAG_DEPTH);
        live_before(&block.steps, live_out).into_iter().map(Dead::where_needed).collect()
    }

    /// Of `flags`, those that may be read behind `block` before they are overwritten.
    fn live_out(&mut self, block: &Decoded, flags: u32, depth: u32) -> u32 {
        if depth == 0 {
            return flags;
        }
        let successors = match block.end {
            Terminator::Next | Terminator::System => [Some(block.next()), None],
            Terminator::Jump(to) | Terminator::Call(to) => [Some(to), None],
            Terminator::Branch(_, to) | Terminator::ShortBranch(to) => [Some(to), Some(block.next())],
            _ => return flags,
        };
        let mut live = 0;
        for successor in successors.into_iter().flatten() {
            live |= self.live_in(successor, flags, depth);
        }
        live
    }

    fn live_in(&mut self, at: Address, flags: u32, depth: u32) -> u32 {
        if !self.decoded.contains_key(&at.get())
            && let Some(read) = self.scan_text(at, flags)
        {
            return read;
        }
        let Some(block) = self.block(at) else { return flags };
        let (read, open) = scan(block.steps.iter().map(|s| s.instruction), flags);
        if open == 0 {
            return read;
        }
        read | open & self.live_out(&block, flags, depth - 1)
    }

    /// As [`scan`], of text that is decoded no further than it has to be; `None` if its first block leaves flags undecided.
    fn scan_text(&self, at: Address, flags: u32) -> Option<u32> {
        let room = (find_text(self.text, at)?.end - at) as usize;
        let mut pages = self.pages.borrow_mut();
        let bytes = pages.rest(self.memory, at).ok()?;
        let (read, open) = scan(steps(at, &bytes[..room.min(bytes.len())]), flags);
        (open == 0).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;
    use crate::translator::translate::text_ranges::Treatment;
    use rprof_tracee::maps::read_maps;

    #[test]
    fn text_of_a_process_that_is_gone_does_not_end_where_reading_it_does() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        let big = |m: &rprof_tracee::maps::Mapping| m.executable && m.is_file() && m.end - m.start > 4 * PAGE;
        // It may not have executed its program yet.
        let found = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            read_maps(pid).unwrap().into_iter().find(|m| big(m) && m.path.contains("libc"))
        });
        let (memory, mapping) = (Memory::open(pid).unwrap(), found.unwrap());
        let (start, end) = (mapping.start, mapping.end);
        let text = [TextRange { start, end, treatment: Treatment::Translate, located: None }];
        let pages = RefCell::<Pages>::default();
        // The cached page ends three bytes on.
        let at = (start + 2 * PAGE).align_down(PAGE) - 3;
        assert!(Source::new(&memory, &pages, &text).block(at - PAGE / 2).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        let mut source = Source::new(&memory, &pages, &text);
        assert!(source.block(at - PAGE / 2).is_some(), "it was read before");
        assert!(source.block(at).is_none(), "it is not three bytes long");
        assert_eq!(source.live_in(at, STATUS_FLAGS, FLAG_DEPTH), STATUS_FLAGS, "nothing is known of it");
    }
}
