//! From registers and a copy of the stack's top to return addresses.
//!
//! ```text
//!  registers + stack copy ─▶ framehop (CFI, else frame pointer) ─┐
//!  kernel's frame-pointer chain ─────────────────────────────────┴─▶ splice ─▶ leaf, call, call, …
//! ```
//!
//! CFI finds the caller of a leaf without a frame pointer, which a frame-pointer chain skips. The chain, in its turn, goes on
//! beyond the end of the stack copy.

use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Unwinder as _, UnwinderNative};
use std::sync::Arc;

use super::x86_64::registers::Registers;

/// The deepest stack that is kept; frames below it are dropped.
pub(super) const DEEPEST_STACK: usize = 512;

/// The unwind tables of one process.
pub(super) type Tables = UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>;

/// Rules found so far, shared by all processes.
pub(super) type Rules = CacheNative<MayAllocateDuringUnwind>;

/// The top of a thread's stack.
#[derive(Clone, Copy, Default)]
pub(super) struct StackTop<'a> {
    /// Address of the first byte.
    pub start: u64,
    /// Bytes from there upwards.
    pub bytes: &'a [u8],
}

/// Addresses of a stack.
pub(super) struct Unwound {
    pub addresses: Vec<u64>,
    /// Its callers are beyond the copy of the stack's top, and no chain leads to them.
    pub is_cut: bool,
}

impl StackTop<'_> {
    /// Whether `address` is beyond the copy, in what may still be this stack.
    fn is_beyond(&self, address: u64) -> bool {
        /// A stack is seldom larger.
        const LARGEST: u64 = 64 << 20;
        let end = self.start.saturating_add(self.bytes.len() as u64);
        !self.bytes.is_empty() && (end.saturating_sub(7)..end.saturating_add(LARGEST)).contains(&address)
    }

    fn word(&self, address: u64) -> Result<u64, ()> {
        let offset = usize::try_from(address.checked_sub(self.start).ok_or(())?).map_err(|_| ())?;
        let bytes = self.bytes.get(offset..).and_then(|b| b.first_chunk()).ok_or(())?;
        Ok(u64::from_le_bytes(*bytes))
    }
}

/// Addresses of the stack, leaf first: the instruction itself, then for each caller an address inside its call.
/// `chain` holds return addresses found by the kernel through frame pointers, the leaf left out.
pub(super) fn unwind(tables: &Tables, rules: &mut Rules, r: Registers, stack: StackTop, chain: &[u64]) -> Unwound {
    let mut found = Vec::with_capacity(16);
    let mut beyond = false;
    let mut read = |address| {
        beyond |= stack.is_beyond(address);
        stack.word(address)
    };
    let mut frames = tables.iter_frames(r.ip(), r, rules, &mut read);
    let complete = loop {
        match frames.next() {
            Ok(Some(FrameAddress::InstructionPointer(ip))) => found.push(ip),
            Ok(Some(FrameAddress::ReturnAddress(to))) => found.push(to.get() - 1),
            Ok(None) => break true,
            Err(_) => break false,
        }
        if found.len() >= DEEPEST_STACK {
            break true;
        }
    };
    let (unwound, chained) = (found.len(), !complete);
    if chained {
        splice(&mut found, chain);
    }
    let is_cut = chained && beyond && found.len() == unwound;
    Unwound { addresses: found, is_cut }
}

/// Addresses of the stack from the frame-pointer chain alone.
pub(super) fn from_chain(ip: u64, chain: &[u64]) -> Vec<u64> {
    let mut found = vec![ip];
    splice(&mut found, chain);
    found
}

/// Goes on with the part of `chain` that lies below the last frame found; with all of it if only the leaf was found.
fn splice(found: &mut Vec<u64>, chain: &[u64]) {
    let last = found.last().copied().unwrap_or_default();
    let below = match chain.iter().position(|to| to.wrapping_sub(1) == last) {
        Some(at) => &chain[at + 1..],
        None if found.len() <= 1 => chain,
        None => return,
    };
    found.extend(below.iter().take(DEEPEST_STACK - found.len()).map(|to| to.wrapping_sub(1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_continues_what_the_tables_began() {
        let mut found = vec![0x10, 0x1f, 0x2f];
        splice(&mut found, &[0x30, 0x40, 0x50]);
        assert_eq!(found, [0x10, 0x1f, 0x2f, 0x3f, 0x4f]);
        let mut found = vec![0x10, 0x1f, 0x99];
        splice(&mut found, &[0x30, 0x40]);
        assert_eq!(found, [0x10, 0x1f, 0x99], "chains that do not meet are not joined");
        assert_eq!(from_chain(0x10, &[0x20]), [0x10, 0x1f]);
    }

    #[test]
    fn without_tables_frame_pointers_are_followed() {
        let stack: Vec<u8> = [0x2000u64, 0x411, 0, 0, 0, 0, 0, 0x421].iter().flat_map(|w| w.to_le_bytes()).collect();
        let top = StackTop { start: 0x1000, bytes: &stack };
        let found = unwind(&Tables::new(), &mut Rules::new(), Registers::new(0x400, 0x1000, 0x1000), top, &[]);
        assert_eq!(found.addresses, [0x400, 0x410]);
    }

    #[test]
    fn callers_beyond_the_copy_are_told() {
        // The frame pointer of the caller is beyond the 64 bytes that were copied.
        let stack: Vec<u8> = [0x9000u64, 0x411, 0, 0, 0, 0, 0, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
        let top = StackTop { start: 0x1000, bytes: &stack };
        let cut = |chain: &[u64]| {
            let found = unwind(&Tables::new(), &mut Rules::new(), Registers::new(0x400, 0x1000, 0x1000), top, chain);
            (found.addresses, found.is_cut)
        };
        assert_eq!(cut(&[]), (vec![0x400, 0x410], true));
        assert_eq!(cut(&[0x411, 0x421]), (vec![0x400, 0x410, 0x420], false), "the kernel's chain goes on");
    }
}
