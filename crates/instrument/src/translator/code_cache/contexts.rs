//! The contexts of a program image's threads: one each, reached through the GS base.

use std::sync::atomic::Ordering;

use crate::translator::code_cache::call_record::ROOM;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::shared::Shared;
use rprof_tracee::address::Address;

/// A request that a thread waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The exit or stub that it waits at.
    pub site: u32,
    /// The address that it wants to continue at.
    pub target: Address,
}

/// Why a thread gets no context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoContext {
    /// The program has as many threads as an image has contexts at most.
    #[error("it has too many threads at once")]
    TooManyThreads,
    /// The limit on the program's address space left room for fewer contexts.
    #[error("finding room for the counters of one more thread failed")]
    NoRoom,
}

/// All contexts of one image.
#[derive(Debug)]
pub struct Contexts {
    shared: Shared,
    free: Vec<u32>,
    next: u32,
}

impl Contexts {
    /// Takes over a fresh mapping.
    pub fn new(shared: Shared) -> Self {
        Contexts { shared, free: Vec::new(), next: 0 }
    }

    /// Their address in the program, and their size in bytes.
    pub fn mapping(&self) -> (Address, u64) {
        (self.shared.base, self.shared.size())
    }

    /// A context of zeros.
    ///
    /// # Errors
    /// All are taken.
    pub fn take(&mut self) -> Result<u32, NoContext> {
        let all = self.count();
        let context = match self.free.pop() {
            Some(context) => context,
            None if self.next < all => {
                self.next += 1;
                self.next - 1
            }
            None if u64::from(all) == layout::CONTEXTS => return Err(NoContext::TooManyThreads),
            None => return Err(NoContext::NoRoom),
        };
        let base = self.base(context);
        self.set(context, layout::SIGNAL_MASK_POINTER, base.get() + u64::from(layout::SIGNAL_MASK));
        self.set(context, layout::CALL_CURSOR, base.get() + u64::from(layout::CALL_RING));
        self.set(context, layout::CALLS_LEFT, ROOM);
        Ok(context)
    }

    /// How many there are, taken or not.
    pub fn count(&self) -> u32 {
        (self.shared.size() / layout::CONTEXT) as u32
    }

    /// Gives a context back; its counters are zero from now on.
    pub fn give_back(&mut self, context: u32) {
        self.shared.clear(u64::from(context) * layout::CONTEXT, layout::CONTEXT);
        self.free.push(context);
    }

    /// The program's address of a context: its thread's GS base.
    pub fn base(&self, context: u32) -> Address {
        self.shared.base + u64::from(context) * layout::CONTEXT
    }

    fn word(&self, context: u32, offset: u32) -> &std::sync::atomic::AtomicU64 {
        self.shared.word(u64::from(context) * layout::CONTEXT + u64::from(offset))
    }

    /// Reads a word of a context.
    pub fn get(&self, context: u32, offset: u32) -> u64 {
        self.word(context, offset).load(Ordering::Acquire)
    }

    /// Writes a word of a context.
    pub fn set(&self, context: u32, offset: u32, value: u64) {
        self.word(context, offset).store(value, Ordering::Release);
    }

    /// The request that the thread of a context waits on, if any.
    pub fn request(&self, context: u32) -> Option<Request> {
        (self.get(context, layout::REQUEST) != 0).then(|| self.last_request(context))
    }

    /// The last request of the thread of a context.
    pub fn last_request(&self, context: u32) -> Request {
        let site = self.get(context, layout::SITE) as u32;
        Request { site, target: Address::new(self.get(context, layout::TARGET)) }
    }

    /// Answers the thread of a context with the address to continue at; 0: it is stopped and needs no answer.
    pub fn respond(&self, context: u32, destination: u64) {
        self.set(context, layout::REQUEST, 0);
        self.set(context, layout::RESPONSE, destination);
    }

    /// Reads bytes of a context.
    pub fn read(&self, context: u32, offset: u32, buffer: &mut [u8]) -> std::io::Result<()> {
        self.shared.read(u64::from(context) * layout::CONTEXT + u64::from(offset), buffer)
    }

    /// Moves the memory from `offset` of a context on into a huge page.
    pub fn gather(&self, context: u32, offset: u64) {
        self.shared.gather(u64::from(context) * layout::CONTEXT + offset);
    }

    /// Adds to a counter of a stopped thread.
    pub fn adjust(&self, context: u32, slot: u32, by: i64) {
        let offset = layout::counter(slot);
        self.set(context, offset, self.get(context, offset).wrapping_add(by as u64));
    }

    /// Updates `values`, those of the first counters, to the present ones, and calls `each` with (slot, difference) for those
    /// that have changed. The thread does not run.
    pub fn changed(&self, context: u32, values: &mut [u64], mut each: impl FnMut(u32, u64)) {
        let first = u64::from(context) * layout::CONTEXT + u64::from(layout::COUNTERS);
        let words = self.shared.words(first, values.len());
        for (slot, (word, before)) in words.iter().zip(values).enumerate() {
            let now = word.load(Ordering::Relaxed);
            if now != *before {
                each(slot as u32, now.wrapping_sub(*before));
                *before = now;
            }
        }
    }

    /// Calls `each` with (slot, value) for counters below `slots` that are not zero.
    pub fn counters(&self, context: u32, slots: u32, mut each: impl FnMut(u32, u64)) -> std::io::Result<()> {
        let first = u64::from(context) * layout::CONTEXT + u64::from(layout::COUNTERS);
        let last = first + u64::from(slots) * 8;
        let mut at = first;
        let mut buffer = vec![0; 1 << 16];
        while let Some((start, end)) = self.shared.data(at, last) {
            at = start.max(first);
            while at < end {
                let size = (end - at).min(buffer.len() as u64) as usize;
                self.shared.read(at, &mut buffer[..size])?;
                for (i, word) in buffer[..size].chunks_exact(8).enumerate() {
                    let value =
                        u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]);
                    if value != 0 {
                        each(((at - first) / 8) as u32 + i as u32, value);
                    }
                }
                at += size as u64;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_at_once_than_there_are_contexts_are_refused() {
        // SAFETY: a constant name; the descriptor returned is ours.
        let memfd = unsafe { std::os::fd::FromRawFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0)) };
        let size = layout::CONTEXT * layout::CONTEXTS;
        std::fs::File::from(std::os::fd::OwnedFd::try_clone(&memfd).unwrap()).set_len(size).unwrap();
        let mut contexts = Contexts::new(Shared::map(memfd, size, Address::new(0)).unwrap());
        for context in 0..layout::CONTEXTS as u32 {
            assert_eq!(contexts.take().unwrap(), context);
        }
        assert_eq!(contexts.take(), Err(NoContext::TooManyThreads));
        // One that ends makes room for another.
        contexts.give_back(7);
        assert_eq!(contexts.take().unwrap(), 7);
    }
}
